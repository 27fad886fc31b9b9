"""<mma.h>: every shape and type through load, mma and store, in every layout, against NumPy; fragments; faults."""

from __future__ import annotations

import numpy as np
import pytest

from harness.verdict import FindingKind as K
from tests.emulator_kit import run
from tests.matrix_kit import DECODE, allowed, on_h200, random_bits

pytestmark = pytest.mark.usefixtures("quick_compiler")

TYPES = {"f16": "__half", "bf16": "__nv_bfloat16", "tf32": "wmma::precision::tf32", "s8": "signed char", "u8": "unsigned char",
         "f32": "float", "s32": "int", "f64": "double"}  # fmt: skip
IN_MEMORY = {"tf32": "float"}  # what a pointer points to, where it is another type
WORDS = {"f16": np.uint16, "bf16": np.uint16, "s8": np.uint8, "u8": np.uint8, "f64": np.uint64}

# A passes through shared memory, B is read by a generic address where the compiler leaves it one, C and D are global.
KERNEL = """
template <class Memory, class T, class C, class D, int M, int N, int K, class LA, class LB>
__device__ void product(const Memory* a, const Memory* b, const C* c, D* d, int lda, int ldb, int ldc, int turned,
                        int count) {
    __shared__ alignas(128) Memory s[3072];
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    wmma::fragment<wmma::accumulator, M, N, K, D> fd;
    wmma::layout_t layout = turned ? wmma::mem_col_major : wmma::mem_row_major;
    for (int i = threadIdx.x; i < count; i += 32) s[i] = a[i];
    __syncwarp();
    wmma::load_matrix_sync(fa, s, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, ldc, layout);
    wmma::mma_sync(fd, fa, fb, fc);
    wmma::store_matrix_sync(d, fd, ldc, layout);
}
"""
HEAD = "#include <mma.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda;\n"
SHAPES = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
LAYOUTS = [("row", "col"), ("col", "row")]  # of A and B
VARIANTS = [
    *(((m, n, k), ("f16", c, d)) for m, n, k in SHAPES for c in ("f16", "f32") for d in ("f16", "f32") if (m, n, k) == SHAPES[0] or c == d),
    *((shape, ("bf16", "f32", "f32")) for shape in SHAPES),
    *((shape, (kind, "s32", "s32")) for shape in SHAPES for kind in ("s8", "u8")),
    ((16, 16, 8), ("tf32", "f32", "f32")),
    ((8, 8, 4), ("f64", "f64", "f64")),
]


def _text(shape: tuple[int, int, int], kinds: tuple[str, ...]) -> str:
    """A kernel for each pair of layouts, named by them."""
    kind, c, d = kinds
    memory = IN_MEMORY.get(kind, TYPES[kind])
    m, n, k = shape
    out = [HEAD, KERNEL]
    for x, y in LAYOUTS:
        arguments = f"{memory}, {TYPES[kind]}, {TYPES[c]}, {TYPES[d]}, {m}, {n}, {k}, wmma::{x}_major, wmma::{y}_major"
        parameters = f"const {memory}* a, const {memory}* b, const {TYPES[c]}* c, {TYPES[d]}* d, int lda, int ldb, int ldc, int turned, int count"
        out.append(f'extern "C" __global__ void {x}_{y}({parameters}) {{ product<{arguments}>(a, b, c, d, lda, ldb, ldc, turned, count); }}')
    return "\n".join(out)


def _in_memory(matrix: np.ndarray, kind: str, major: str, pitch: int) -> np.ndarray:
    """Bit patterns with lines so many elements apart; the last line ends with its last element."""
    lines = matrix if major == "row" else matrix.T
    flat = np.zeros((len(lines), pitch), WORDS.get(kind, np.uint32))
    flat[:, : lines.shape[1]] = lines
    return flat.reshape(-1)[: (len(lines) - 1) * pitch + lines.shape[1]].copy()


def _pitch(kind: str, length: int) -> int:
    """Another 16 bytes behind each line."""
    return length + 16 // np.dtype(WORDS.get(kind, np.uint32)).itemsize


@pytest.mark.parametrize(("shape", "kinds"), VARIANTS, ids=lambda v: "x".join(map(str, v)) if isinstance(v[0], int) else "-".join(v))
def test_products(shape: tuple[int, int, int], kinds: tuple[str, ...]) -> None:
    m, n, k = shape
    kind, kind_c, kind_d = kinds
    rng = np.random.default_rng(m)
    bits = [random_bits(x, size, rng) for x, size in ((kind, (m, k)), (kind, (k, n)), (kind_c, (m, n)))]
    a, b, c = (DECODE[x](v) for x, v in zip((kind, kind, kind_c), bits, strict=True))
    want = a @ b + c
    for number, (x, y) in enumerate(LAYOUTS):
        turned = number % 2
        order = "col" if turned else "row"
        lda, ldb = _pitch(kind, k if x == "row" else m), _pitch(kind, n if y == "row" else k)
        ldc = max(_pitch(v, m if turned else n) for v in (kind_c, kind_d))
        empty = _in_memory(np.zeros((m, n), np.uint64), kind_d, order, ldc)
        arguments = [_in_memory(bits[0], kind, x, lda), _in_memory(bits[1], kind, y, ldb), _in_memory(bits[2], kind_c, order, ldc), empty]
        ran = run(_text(shape, kinds), [*arguments, lda, ldb, ldc, turned, arguments[0].size], kernel=f"{x}_{y}", read_only=[0, 1, 2])
        assert ran.findings == []
        flat = np.zeros((n if turned else m) * ldc, np.uint64)
        flat[: empty.size] = ran.arrays[3]
        lines = flat.reshape(-1, ldc)
        assert not lines[:, m if turned else n :].any()
        found = DECODE[kind_d](lines[:, : m if turned else n])
        _compare(found.T if turned else found, want, kinds, a, b, c)


def _compare(found: np.ndarray, want: np.ndarray, kinds: tuple[str, ...], a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    if kinds[2] == "s32":
        np.testing.assert_array_equal(found, (want + 2**31) % 2**32 - 2**31)
        return
    if kinds[2] == "f64":
        assert (np.abs(found - want) <= allowed(a, b, c)).all()
        return
    exact = on_h200((kinds[0], *kinds), a, b, c, parts=2 if kinds[0] == "tf32" else 1)
    np.testing.assert_array_equal(found, exact)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(exact))


@pytest.mark.parametrize("saturate", [True, False])
def test_sums_of_integers_wrap_or_saturate(saturate: bool) -> None:
    text = HEAD + """__global__ void k(const signed char* a, int* out) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
        wmma::load_matrix_sync(fa, a, 16); wmma::load_matrix_sync(fb, a, 16); wmma::fill_fragment(fc, 0x7FFFFFFF);
        wmma::mma_sync(fc, fa, fb, fc, SATURATE);
        wmma::store_matrix_sync(out, fc, 16, wmma::mem_row_major); }""".replace("SATURATE", str(saturate).lower())
    a = np.random.default_rng(1).integers(-128, 128, (16, 16)).astype(np.int8)
    want = a.astype(np.int64) @ a.T.astype(np.int64) + 2**31 - 1
    want = np.minimum(want, 2**31 - 1) if saturate else want
    np.testing.assert_array_equal(run(text, [a, np.zeros((16, 16), np.int32)]).arrays[1], want.astype(np.int32))


# Fragments of 16x16x16 as cards from sm_75 on have them: the accumulator and A like those of mma.m16n8k16, B like two of
# them; halves of A and B are held twice.
FRAGMENTS = """
__global__ void k(const __half* a, const __half* b, float* rows, float* columns, float* first, float* second, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    int t = threadIdx.x;
    for (int i = 0; i < 16; ++i) { rows[16 * t + i] = fa.x[i]; columns[16 * t + i] = fb.x[i]; }
    for (int i = 0; i < 8; ++i) fc.x[i] = 100 * t + i;
    wmma::store_matrix_sync(first, fc, 16, wmma::mem_row_major);
    for (int i = 0; i < fa.num_elements; ++i) fa.x[i] = fa.x[i] * __half(2);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(second, fc, 16, wmma::mem_row_major);
    for (int i = 0; i < 8; ++i) c[8 * t + i] = fc.x[i];
}"""


def test_fragments_are_those_of_the_cards() -> None:
    a, b = (np.arange(256).reshape(16, 16).astype(np.float16) + n for n in (0, 1000))
    b = ((b - 1128) / 64).astype(np.float16)
    held = [np.zeros((32, 16), np.float32) for _ in range(2)]
    results = [np.zeros((16, 16), np.float32) for _ in range(2)]
    ran = run(HEAD + FRAGMENTS, [a, b, *held, *results, np.zeros((32, 8), np.float32)])
    assert ran.findings == []
    lane, i = np.arange(32)[:, None], np.arange(8)
    row, column = lane // 4 + (i & 2) * 4, lane % 4 * 2 + (i & 1) + (i & 4) * 2
    np.testing.assert_array_equal(ran.arrays[2], np.tile(a[row, column], 2))
    depth, right = lane % 4 * 2 + (i & 1) + (i & 2) * 4, lane // 4 + (i & 4) * 2
    np.testing.assert_array_equal(ran.arrays[3], np.tile(b[depth, right], 2))
    want = np.zeros((16, 16))
    want[row, column] = 100 * lane + i
    np.testing.assert_array_equal(ran.arrays[4], want)
    want += 2 * a.astype(float) @ b
    np.testing.assert_allclose(ran.arrays[5], want, rtol=1e-5)
    np.testing.assert_array_equal(ran.arrays[6], ran.arrays[5][row, column])


FAULTS = """
__global__ void k(const __half* in, float* out, int a_offset, int stride, int c_offset, int c_stride) {{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    {shared}
    wmma::load_matrix_sync(fa, {source} + a_offset, stride);
    wmma::load_matrix_sync(fb, in, 16); wmma::fill_fragment(fc, 0.f); wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(out + c_offset, fc, c_stride, wmma::mem_row_major);
}}"""
LOAD_LINE, STORE_LINE = 13, 15
COPY = "__shared__ alignas(32) __half s[16 * 24]; for (int i = threadIdx.x; i < 16 * 24; i += 32) s[i] = in[i]; __syncwarp();"
# arguments, kind, line, which lane's piece of 16 bytes is at fault
CASES: dict[str, tuple[tuple[int, int, int, int], K | None, int, int]] = {
    "clean": ((0, 24, 0, 24), None, 0, 0),
    "address": ((4, 24, 0, 24), K.MISALIGNED, LOAD_LINE, 0),
    "stride": ((0, 20, 0, 24), K.MISALIGNED, LOAD_LINE, 2),
    "last line": ((16, 24, 0, 24), K.OUT_OF_BOUNDS, LOAD_LINE, 31),
    "before": ((-8, 24, 0, 24), K.OUT_OF_BOUNDS, LOAD_LINE, 0),
    "store address": ((0, 24, 2, 24), K.MISALIGNED, STORE_LINE, 0),
    "store stride": ((0, 24, 0, 26), K.MISALIGNED, STORE_LINE, 4),
    "store beyond": ((0, 24, 128, 24), K.OUT_OF_BOUNDS, STORE_LINE, 12),
}


def _clean() -> list[np.ndarray | int]:
    return [np.zeros(16 * 24, np.float16), np.zeros(16 * 24, np.float32), *CASES["clean"][0]]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_every_piece_of_a_matrix_is_checked(name: str, shared: bool) -> None:
    arguments, kind, line, lane = CASES[name]
    text = HEAD + FAULTS.format(shared=COPY if shared else "", source="s" if shared else "in")
    ran = run(text, [np.zeros(16 * 24, np.float16), np.zeros(16 * 24, np.float32), *arguments], read_only=[0])
    if kind is None:
        assert ran.findings == []
        return
    (found,) = ran.findings
    assert (found.kind, found.line, found.thread) == (kind, line, (lane, 0, 0))
    assert ("write to 16 bytes" if line == STORE_LINE else "read of 16 bytes") in found.message


def test_an_input_must_not_be_stored_to() -> None:
    (found,) = run(HEAD + FAULTS.format(shared="", source="in"), _clean(), read_only=[0, 1]).findings
    assert (found.kind, found.line, found.tensor) == (K.READ_ONLY_WRITE, STORE_LINE, "a1")


def test_a_part_that_nobody_wrote_is_found() -> None:
    half = COPY.replace("i += 32) s[i]", "i += 32) if (i / 24 != 9) s[i]")
    (found,) = run(HEAD + FAULTS.format(shared=half, source="s"), _clean()).findings
    assert (found.kind, found.line, found.thread) == (K.UNINITIALIZED_READ, LOAD_LINE, (18, 0, 0))


def test_every_thread_of_the_warp_must_be_there() -> None:
    text = HEAD + FAULTS.format(shared="if (threadIdx.x == 7) return;", source="in")
    (found,) = run(text, _clean()).findings
    assert (found.kind, found.line) == (K.INVALID_SHUFFLE, LOAD_LINE)
