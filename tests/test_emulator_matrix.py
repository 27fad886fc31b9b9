"""mma, ldmatrix, stmatrix and movmatrix against NumPy, with the fragments of the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest

from harness.emulator import matrix_layouts, ptx
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.program import Program
from harness.emulator.uniform import Shape
from harness.verdict import FindingKind as K
from tests.emulator_kit import run
from tests.matrix_kit import (
    DECODE,
    LANES,
    PER_REGISTER,
    allowed,
    from_registers,
    instruction_kernel,
    isa_layout,
    on_h200,
    random_bits,
    run_instruction,
    to_registers,
    without_tensor_cores,
)

pytestmark = pytest.mark.usefixtures("quick_compiler")

F16 = [("f16", "f16", kind, kind) for kind in ("f16", "f32")]
FP8 = [(a, b, c, d) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for c, d in (("f32", "f32"), ("f16", "f16"))]
INT8 = [(a, b, "s32", "s32") for a in ("s8", "u8") for b in ("s8", "u8")]
# (shape, kinds of A, B, C and D): all dense variants of sm_75 to sm_90
VARIANTS = [
    *(("m8n8k4", kinds) for kinds in [*F16, ("f16", "f16", "f16", "f32")]),
    *(("m16n8k8", kinds) for kinds in F16),
    *(("m16n8k16", kinds) for kinds in F16),
    *((f"m16n8k{k}", ("bf16", "bf16", "f32", "f32")) for k in (8, 16)),
    *((f"m16n8k{k}", ("tf32", "tf32", "f32", "f32")) for k in (4, 8)),
    *((f"m16n8k{k}", kinds) for k in (16, 32) for kinds in FP8),
    *((shape, kinds) for shape in ("m8n8k16", "m16n8k16", "m16n8k32") for kinds in INT8),
    *((shape, ("f64", "f64", "f64", "f64")) for shape in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")),
]


def _size(shape: str, matrix: str) -> tuple[int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    sizes = {"a": (int(m), int(k)), "b": (int(k), int(n))}
    return sizes.get(matrix, (int(m), int(n)))


def _quadrupled(shape: str, kinds: tuple[str, ...], matrix: str) -> tuple[int, int]:
    """m8n8k4 of halves is four products, side by side on a diagonal."""
    rows, columns = _size(shape, matrix)
    four = 4 if (shape, kinds[0]) == ("m8n8k4", "f16") else 1
    return rows * four ** (matrix != "b"), columns * four ** (matrix != "a")


def _opcode(shape: str, kinds: tuple[str, ...], major: tuple[str, str] = ("row", "col"), extra: str = "") -> str:
    a, b, c, d = kinds
    return f"mma.sync.aligned.{shape}.{major[0]}.{major[1]}{extra}.{d}.{a}.{b}.{c}"


def _multiply(shape: str, kinds: tuple[str, ...], bits: list[np.ndarray], major: tuple[str, str] = ("row", "col"), extra: str = "") -> np.ndarray:
    """Bit patterns of D."""
    operands = []
    for matrix, kind, pattern, order in zip("abc", kinds, bits, (*major, ""), strict=False):
        operands.append((kind, to_registers(pattern, kind, *isa_layout(shape, matrix, kind, order))))
    count, place = isa_layout(shape, "d", kinds[3])
    result = (kinds[3], count // PER_REGISTER.get(kinds[3], 1))
    found, ran = run_instruction(_opcode(shape, kinds, major, extra), result, operands)
    assert ran.findings == []
    return from_registers(found, kinds[3], _quadrupled(shape, kinds, "d"), place)


def _random(shape: str, kinds: tuple[str, ...], seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [random_bits(kind, _quadrupled(shape, kinds, matrix), rng) for matrix, kind in zip("abc", kinds, strict=False)]


def _on_diagonal(shape: str, kinds: tuple[str, ...]) -> np.ndarray:
    rows, columns = _quadrupled(shape, kinds, "d")
    width = 8 if (shape, kinds[0]) == ("m8n8k4", "f16") else 1000
    same: np.ndarray = np.arange(rows)[:, None] // width == np.arange(columns) // width
    return same


@pytest.mark.parametrize(("shape", "kinds"), VARIANTS, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_products(shape: str, kinds: tuple[str, ...]) -> None:
    """Every line of the table, for m8n8k4 of halves with every layout. Bit for bit but for doubles."""
    majors = [(x, y) for x in ("row", "col") for y in ("row", "col")] if (shape, kinds[0]) == ("m8n8k4", "f16") else [("row", "col")]
    bits = _random(shape, kinds)
    a, b, c = (DECODE[kind](pattern) for kind, pattern in zip(kinds, bits, strict=False))
    want, here = a @ b + c, _on_diagonal(shape, kinds)
    for major in majors:
        found = DECODE[kinds[3]](_multiply(shape, kinds, bits, major))
        if kinds[3] == "s32":
            want = (want + 2**31) % 2**32 - 2**31
            np.testing.assert_array_equal(found, want)
            continue
        if kinds[3] == "f64":
            assert (np.abs(found - want) <= allowed(a, b, c)).all()
            continue
        exact = (without_tensor_cores if len(majors) > 1 else on_h200)(kinds, a, b, c)
        np.testing.assert_array_equal(found[here], exact[here], err_msg=str(major))
        np.testing.assert_array_equal(np.signbit(found[here]), np.signbit(exact[here]))


def test_layouts_are_those_of_the_isa() -> None:
    for shape, kinds in VARIANTS:
        for matrix, kind in zip("abcd", kinds, strict=True):
            for major in ("row", "col") if (shape, kind) == ("m8n8k4", "f16") and matrix in "ab" else ("row",):
                count, place = isa_layout(shape, matrix, kind, major)
                want = tuple(tuple(place(lane, e) for lane in range(LANES)) for e in range(count))
                assert matrix_layouts.mma_fragment(shape, matrix, kind, major == "col").places == want, (shape, matrix, kind, major)


def test_sums_of_integers_wrap_or_saturate() -> None:
    shape, kinds = "m16n8k32", ("s8", "s8", "s32", "s32")
    a, b = np.full((16, 32), 127, np.uint64), np.full((32, 8), 127, np.uint64)
    b[:, 4:] = 0x80  # -128
    for c, wrapped, saturated in (
        (2**31 - 1, [2**31 - 1 + 32 * 127 * 127 - 2**32] * 4 + [2**31 - 1 - 32 * 127 * 128] * 4, [2**31 - 1] * 4 + [2**31 - 1 - 32 * 127 * 128] * 4),
        (-(2**31), [-(2**31) + 32 * 127 * 127] * 4 + [2**31 - 32 * 127 * 128] * 4, [-(2**31) + 32 * 127 * 127] * 4 + [-(2**31)] * 4),
    ):
        bits = [a, b, np.full((16, 8), c & 0xFFFFFFFF, np.uint64)]
        for extra, want in (("", wrapped), (".satfinite", saturated)):
            found = DECODE["s32"](_multiply(shape, kinds, bits, extra=extra))
            np.testing.assert_array_equal(found, np.tile(want, (16, 1)))


def test_rounding_of_doubles_may_be_named() -> None:
    bits = _random("m16n8k8", ("f64",) * 4)
    found = [_multiply("m16n8k8", ("f64",) * 4, bits, extra=extra) for extra in ("", ".rn")]
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(("kind", "nan", "canonical"), [("f32", 0x7FC00001, 0x7FFFFFFF), ("f16", 0xFE01, 0x7FFF)])
def test_not_a_number_and_infinity(kind: str, nan: int, canonical: int) -> None:
    """One NaN for all; infinity times zero is one."""
    shape, kinds = "m16n8k8", ("f16", "f16", kind, kind)
    a, b, c = np.zeros((16, 8), np.uint64), np.full((8, 8), 0x3C00, np.uint64), np.zeros((16, 8), np.uint64)
    a[3, 5], c[7, 2], a[9, 0], b[0, 6] = 0x7C00, nan, 0xFC00, 0
    found = _multiply(shape, kinds, [a, b, c])
    infinity = 0x7F800000 if kind == "f32" else 0x7C00
    want = np.zeros((16, 8), np.uint64)
    want[3], want[7, 2], want[9], want[9, 6] = infinity, canonical, infinity | 1 << (31 if kind == "f32" else 15), canonical
    np.testing.assert_array_equal(found, want)


# -- ldmatrix, stmatrix, movmatrix

SPACES = {".shared": "r", ".shared::cta": "r", "": "l"}
LDMATRIX = """__global__ void k(const unsigned short* in, const int* rows, unsigned* out) {{
    __shared__ alignas(16) unsigned short s[2048];
    int t = threadIdx.x; unsigned v[4] = {{}};
    for (int i = t; i < 2048; i += 32) s[i] = in[i];
    __syncwarp();
    {convert}
    asm volatile("ldmatrix.sync.aligned.m8n8.x{n}{trans}{space}.b16 {{{registers}}}, [%{n}];" : {outputs} : "{letter}"(p) : "memory");
    for (int j = 0; j < {n}; ++j) out[32 * j + t] = v[j];
}}"""
STMATRIX = """__global__ void k(const unsigned* in, const int* rows, unsigned short* out) {{
    __shared__ alignas(16) unsigned short s[2048];
    int t = threadIdx.x; unsigned v[4];
    for (int j = 0; j < {n}; ++j) v[j] = in[32 * j + t];
    for (int i = t; i < 2048; i += 32) s[i] = 7;
    __syncwarp();
    {convert}
    asm volatile("stmatrix.sync.aligned.m8n8.x{n}{trans}{space}.b16 [%{n}], {{{registers}}};" :: {inputs}, "{letter}"(p) : "memory");
    __syncwarp();
    for (int i = t; i < 2048; i += 32) out[i] = s[i];
}}"""


def _eights_kernel(text: str, n: int, trans: str, space: str) -> str:
    letter = SPACES[space]
    convert = "unsigned p = __cvta_generic_to_shared(s + rows[t] * 8);" if letter == "r" else "const void* p = s + rows[t] * 8;"
    if text is STMATRIX:  # the operands are numbered from the values on
        registers = ", ".join(f"%{j}" for j in range(n))
        return text.format(n=n, trans=trans, space=space, letter=letter, convert=convert, registers=registers,
                           inputs=", ".join(f'"r"(v[{j}])' for j in range(n)))  # fmt: skip
    return text.format(n=n, trans=trans, space=space, letter=letter, convert=convert,
                       registers=", ".join(f"%{j}" for j in range(n)), outputs=", ".join(f'"=r"(v[{j}])' for j in range(n)))  # fmt: skip


EIGHTS = [(n, trans, space) for space in SPACES for n in (1, 2, 4) for trans in ("", ".trans") if space != ".shared::cta" or n == 4]


def _held(matrix: np.ndarray) -> np.ndarray:
    """An 8x8 matrix of 16-bit patterns as 32 words: lane l has elements 2 (l % 4) and the next of row l / 4."""
    pairs = matrix.astype(np.uint32).reshape(32, 2)
    words: np.ndarray = pairs[:, 0] | pairs[:, 1] << 16
    return words


@pytest.mark.parametrize(("n", "trans", "space"), EIGHTS)
def test_ldmatrix(n: int, trans: str, space: str) -> None:
    """Matrix j's row r lies where lane 8 j + r says; addresses of the lanes behind are not looked at."""
    rng = np.random.default_rng(n)
    values, rows = rng.integers(0, 1 << 16, 2048).astype(np.uint16), rng.permutation(256)[:32].astype(np.int32)
    rows[8 * n :] = 100_000
    ran = run(_eights_kernel(LDMATRIX, n, trans, space), [values, rows, np.zeros((n, 32), np.uint32)])
    assert ran.findings == []
    for j in range(n):
        matrix = values.reshape(256, 8)[rows[8 * j : 8 * j + 8]]
        np.testing.assert_array_equal(ran.arrays[2][j], _held(matrix.T if trans else matrix), err_msg=f"matrix {j}")


@pytest.mark.parametrize(("n", "trans", "space"), EIGHTS)
def test_stmatrix(n: int, trans: str, space: str) -> None:
    rng = np.random.default_rng(n)
    matrices, rows = rng.integers(0, 1 << 16, (n, 8, 8)).astype(np.uint16), rng.permutation(256)[:32].astype(np.int32)
    rows[8 * n :] = 100_000
    words = np.stack([_held(m) for m in matrices])
    ran = run(_eights_kernel(STMATRIX, n, trans, space), [words, rows, np.zeros(2048, np.uint16)])
    assert ran.findings == []
    want = np.full((256, 8), 7, np.uint16)
    for j in range(n):
        want[rows[8 * j : 8 * j + 8]] = matrices[j].T if trans else matrices[j]
    np.testing.assert_array_equal(ran.arrays[2].reshape(256, 8), want)


def test_movmatrix() -> None:
    matrix = np.random.default_rng(3).integers(0, 1 << 16, (8, 8)).astype(np.uint16)
    text = """__global__ void k(const unsigned* in, unsigned* out) {
        unsigned v = in[threadIdx.x];
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(v));
        out[threadIdx.x] = v; }"""
    ran = run(text, [_held(matrix), np.zeros(32, np.uint32)])
    np.testing.assert_array_equal(ran.arrays[1], _held(matrix.T))


# -- what goes wrong

FIRST_LINE = 4  # of a kernel text: three #include lines stand before it
SHARED = """__global__ void k(unsigned* out, int step, int last) {{
    extern __shared__ unsigned s[]; int t = threadIdx.x, lane = t % 32; unsigned v = t, w = 0;
    {before}
    unsigned p = __cvta_generic_to_shared(s) + lane * step + (lane == 21) * last;
    {instruction}
    out[t] = v + w; }}"""
FILL = "for (int i = lane; i < 256; i += 32) s[i] = i; __syncwarp();"
LOAD = 'asm volatile("{ .reg .b32 %a, %b; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %a, %b}, [%2]; }" : "=r"(v), "=r"(w) : "r"(p) : "memory");'
STORE = 'asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %1, %1, %1};" :: "r"(p), "r"(v) : "memory");'


@pytest.mark.parametrize("instruction", [LOAD, STORE], ids=["load", "store"])
@pytest.mark.parametrize(("step", "last", "kind"), [(16, 8, K.MISALIGNED), (16, 688, K.OUT_OF_BOUNDS), (24, 0, K.MISALIGNED), (0, -16, K.OUT_OF_BOUNDS)])
def test_a_bad_row_address_is_its_lanes_fault(instruction: str, step: int, last: int, kind: K) -> None:
    ran = run(SHARED.format(before=FILL, instruction=instruction), [np.zeros(32, np.uint32), step, last], shared=1024)
    found = ran.findings[0]  # rows that all lie at one place are a race besides
    assert {f.kind for f in ran.findings[1:]} <= {K.DATA_RACE}
    assert (found.kind, found.line) == (kind, FIRST_LINE + 4)
    assert found.thread == (1 if step == 24 else 21, 0, 0)
    assert ("write" if instruction is STORE else "read") + (" of" if instruction is LOAD else " to") + " 16 bytes" in found.message


@pytest.mark.parametrize("op", ["ldmatrix", "stmatrix"])
def test_generic_addresses_must_be_of_shared_memory(op: str) -> None:
    operands = '{%0}, [%1];" : "=r"(v) : "l"(p)' if op == "ldmatrix" else '[%1], {%0};" :: "r"(v), "l"(p)'
    text = f"""__global__ void k(unsigned* out, int step, int global) {{
        __shared__ alignas(16) unsigned s[64]; int t = threadIdx.x; unsigned v = t; s[t] = s[t + 32] = t; __syncwarp();
        const char* p = (global ? (const char*)out : (const char*)s) + t * step;
        asm volatile("{op}.sync.aligned.m8n8.x1.b16 {operands} : "memory"); out[t] = v; }}"""
    assert run(text, [np.zeros(64, np.uint32), 16, 0]).findings == []
    found = [run(text, [np.zeros(64, np.uint32), *more]).findings[0] for more in ((24, 0), (48, 0), (16, 1))]
    assert [(f.kind, f.line) for f in found] == [(k, FIRST_LINE + 3) for k in (K.MISALIGNED, K.OUT_OF_BOUNDS, K.OUT_OF_BOUNDS)]
    assert [f.thread for f in found] == [(1, 0, 0), (6, 0, 0), (0, 0, 0)]
    assert "shared memory" in found[2].message
    assert op in found[2].message


def test_a_row_that_nobody_wrote_is_found() -> None:
    before = "for (int i = lane; i < 256; i += 32) if (i / 4 != 13) s[i] = i; __syncwarp();"
    (found,) = run(SHARED.format(before=before, instruction=LOAD), [np.zeros(32, np.uint32), 16, 0], shared=1024).findings
    assert (found.kind, found.line, found.thread) == (K.UNINITIALIZED_READ, FIRST_LINE + 4, (13, 0, 0))


def test_rows_written_by_another_warp_without_a_barrier_are_a_race() -> None:
    before = "if (t < 32) { " + FILL + " }"
    ran = run(SHARED.format(before=before, instruction=LOAD), [np.zeros(64, np.uint32), 16, 0], block=64, shared=1024)
    assert {f.kind for f in ran.findings} == {K.DATA_RACE}
    assert (FIRST_LINE + 2, FIRST_LINE + 4) in {tuple(sorted((f.line, f.other.line))) for f in ran.findings if f.other}
    fine = run(SHARED.format(before=before + " __syncthreads();", instruction=LOAD), [np.zeros(64, np.uint32), 16, 0], block=64, shared=1024)
    assert fine.findings == []


def test_stores_of_two_warps_to_the_same_rows_are_a_race() -> None:
    ran = run(SHARED.format(before="", instruction=STORE), [np.zeros(64, np.uint32), 16, 0], block=64, shared=1024)
    assert {f.kind for f in ran.findings} == {K.DATA_RACE}
    assert all(f.other and f.other.write for f in ran.findings)
    assert "writes it here" in ran.findings[0].message


MMA = 'asm volatile("{ .reg .f32 %a; mov.f32 %a, 0f00000000; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%a, %a, %a, %a}, {%0, %0}, {%0}, {%a, %a, %a, %a}; }" :: "r"(v));'
MOVE = 'asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(v));'


@pytest.mark.parametrize("instruction", [LOAD, STORE, MMA, MOVE], ids=["ldmatrix", "stmatrix", "mma", "movmatrix"])
@pytest.mark.parametrize(("condition", "threads", "thread"), [("if (lane < 16)", 32, 0), ("if (t != 40)", 64, 32), ("", 48, 32), ("if (lane == 3) return;", 32, 0)])
def test_every_thread_of_the_warp_must_be_there(instruction: str, condition: str, threads: int, thread: int) -> None:
    body = FILL + " __syncthreads();" + (condition if "return" in condition else "")
    guarded = instruction if "return" in condition else f"{condition} {{ {instruction} }}"
    ran = run(SHARED.format(before=body, instruction=guarded), [np.zeros(threads, np.uint32), 16, 0], block=threads, shared=1024)
    assert [(f.kind, f.line) for f in ran.findings if f.kind is not K.DATA_RACE] == [(K.INVALID_SHUFFLE, FIRST_LINE + 4)]
    assert ran.findings[-1].thread == (thread, 0, 0)


def test_a_guard_that_no_lane_meets_skips_the_instruction() -> None:
    text = SHARED.format(before=FILL, instruction='asm volatile("{ .reg .pred %p; setp.lt.s32 %p, %1, 0; @%p movmatrix.sync.aligned.m8n8.trans.b16 %0, %0; }" : "+r"(v) : "r"(t));')
    ran = run(text, [np.zeros(32, np.uint32), 16, 0], shared=1024)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[0], np.arange(32))


A16, B16, C32 = ("bf16", 4), ("bf16", 2), ("f32", 4)
UNSUPPORTED = {
    "mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32": [("s32", 4), ("s4", 2), ("s4", 1), ("s32", 4)],
    "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc": [("s32", 4), ("b1", 2), ("b1", 1), ("s32", 4)],
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": [C32, ("f16", 2), ("f16", 2), C32],
    "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16": [("f16", 2), A16, B16, ("f16", 2)],
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16": [C32, ("f16", 4), ("f16", 2), ("f16", 2)],
    "mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32": [("f16", 4), ("f16", 2), ("f16", 2), ("f32", 8)],
    "mma.sync.aligned.m8n8k4.row.col.rz.f64.f64.f64.f64": [("f64", 2), ("f64", 1), ("f64", 1), ("f64", 2)],
    "mma.sync.aligned.m16n8k16.col.row.f32.bf16.bf16.f32": [C32, A16, B16, C32],
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32": [C32, A16, B16, C32],
    "mma.sync.aligned.m16n8k16.row.col.satfinite.f32.bf16.bf16.f32": [C32, A16, B16, C32],
    "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32": [C32, ("e4m3", 4), ("e4m3", 2), C32],
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.s8.f32": [C32, ("e4m3", 4), ("s8", 2), C32],
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16": [C32, A16, B16, C32],
    "mma.sync.aligned.m8n8k8.row.col.f32.bf16.bf16.f32": [C32, A16, B16, C32],
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32": [C32, A16, B16, C32],  # registers of another shape
    "mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32": [C32, A16, B16, C32],
    "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32": [("s32", 2), ("s4", 1), ("s4", 1), ("s32", 2)],
    "wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64.rz": [("f64", 2), ("f64", 1), ("f64", 1), ("f64", 2)],
    "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32": [("s32", 2), ("b1", 1), ("b1", 1), ("s32", 2)],
    "movmatrix.sync.aligned.m8n8.trans.b8": [("b16", 1), ("b16", 1)],
}
MEMORY = ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%q];", "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r0, %r1, %r2}, [%q];",
          "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1}, [%q];", "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%q];",
          "ldmatrix.sync.aligned.m8n8.x1.shared::cluster.b16 {%r0}, [%q];", "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%q], {%r0};",
          "wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r0}, [%p], %r1;", "wmma.load.d.sync.aligned.row.m16n16k16.global.f32 {%r0}, [%p], %r1;",
          "wmma.load.c.sync.aligned.row.m16n16k16.global.bf16 {%r0, %r1, %r2, %r3}, [%p], %r1;", "wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {%r0}, [%p], %r1;",
          "wmma.store.c.sync.aligned.row.m16n16k16.global.f32 [%p], {%r0}, %r1;", "wmma.fill.sync.aligned.m16n16k16.f32 {%r0}, %r1;")  # fmt: skip


def _texts() -> list[str]:
    one = [instruction_kernel(op, kinds[0], kinds[1:]) for op, kinds in UNSUPPORTED.items()]
    head = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{ .reg .b32 %r<4>, %q; .reg .b64 %p; mov.u32 %q, 0; mov.u64 %p, 0; mov.u32 %r0, 0; mov.u32 %r1, 0;\n"
    return one + [f"{head}.loc 1 1 0\n{text}\nret;\n}}" for text in MEMORY]


@pytest.mark.parametrize("text", _texts(), ids=[*UNSUPPORTED, *(m.split()[0] + f" {n}" for n, m in enumerate(MEMORY))])
def test_other_variants_are_named_as_unsupported(text: str) -> None:
    op = next(line.split()[0] for line in text.splitlines() if "matrix" in line.split()[0] or "mma" in line.split()[0])
    with pytest.raises(UnsupportedPtx, match=op.replace(".", r"\.")) as error:
        Program(ptx.parse(text)).kernel("k", Shape(True, True))
    assert error.value.loc is not None
