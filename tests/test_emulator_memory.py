"""Memory of the emulator: every width at the very edge, neighbours, alignment, permission, spaces, atomics."""

from __future__ import annotations

import numpy as np
import pytest

from harness.verdict import FindingKind as K
from tests.emulator_kit import Ran, run

pytestmark = pytest.mark.usefixtures("quick_compiler")

WIDTHS = [(bits, n) for bits in (8, 16, 32, 64) for n in (1, 2, 4) if bits * n <= 128]


def _access(space: str, bits: int, n: int, store: bool) -> str:
    """A kernel whose lanes access `bits` x n at `base + offset + tid * step` of global or shared memory."""
    kind = f"b{max(bits, 16)}"
    names = ", ".join(f"%v{k}" for k in range(n))
    vector, group = (f".v{n}", f"{{{names}}}") if n > 1 else ("", names)
    op = f"st.{space}{vector}.b{bits} [%p], {group};" if store else f"ld.{space}{vector}.b{bits} {group}, [%p];"
    use = "" if store else "".join(f"cvt.u64.u{max(bits, 16)} %w, %v{k}; add.u64 %sum, %sum, %w;" for k in range(n))
    fill = "".join(f"mov.{kind} %v{k}, {k + 1};" for k in range(n))
    base = "ld.param.u64 %p, [a];" if space == "global" else "mov.u64 %p, buffer;"
    clear = "" if space == "global" else "mov.u32 %i, %tid.x; mul.wide.u32 %w, %i, 4; add.u64 %w, %p, %w; mov.u32 %z, 0; st.shared.u32 [%w], %z; bar.sync 0;"
    return f"""//ptx {space} {bits} {n} {store}
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 buffer[128];
.visible .entry k(.param .u64 a, .param .u64 o, .param .u32 start, .param .u32 step) {{
  .reg .{kind} %v<{n}>; .reg .b64 %p, %o, %w, %sum; .reg .b32 %i, %s, %z;
  .loc 1 5 0
  {base} ld.param.u64 %o, [o]; {clear} mov.u64 %sum, 0; {fill}
  ld.param.u32 %s, [step]; mov.u32 %i, %tid.x; mul.lo.s32 %i, %i, %s; ld.param.u32 %s, [start]; add.s32 %i, %i, %s;
  cvt.s64.s32 %w, %i; add.s64 %p, %p, %w;
  .loc 1 7 0
  {op}
  .loc 1 9 0
  {use} st.global.u64 [%o], %sum;
  ret;
}}"""


def _at(space: str, bits: int, n: int, store: bool, start: int, step: int, data: np.ndarray | None = None, **more: object) -> Ran:
    first = np.zeros(128, np.uint8) if data is None else data
    return run(_access(space, bits, n, store), [first, np.zeros(1, np.uint64), start, step], **more)  # type: ignore[arg-type]


def _kinds(ran: Ran) -> list[tuple[K, int]]:
    return [(f.kind, f.line) for f in ran.findings]


@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("bits", "n"), WIDTHS)
def test_bounds_are_exact_for_every_width(space: str, bits: int, n: int, store: bool) -> None:
    """One address for all lanes, consecutive ones, and scattered ones: the last element fits, one further does not."""
    size = bits * n // 8
    for step in (0, size, -size) if size * 32 <= 128 else (0,):
        low, high = (0, 128 - size) if step == 0 else (0, 128 - 32 * size) if step > 0 else (31 * size, 128 - size)
        assert _kinds(_at(space, bits, n, store, low, step)) == []
        assert _kinds(_at(space, bits, n, store, high, step)) == []
        for start in (low - size, high + size):
            ran = _at(space, bits, n, store, start, step)
            assert _kinds(ran) == [(K.OUT_OF_BOUNDS, 7)]
            lane = 0 if step == 0 or (start < low) == (step > 0) else 31
            assert ran.findings[0].thread == (lane, 0, 0)
        if size > 1 and step == 0:
            assert _kinds(_at(space, bits, n, store, low + size // 2, step)) == [(K.MISALIGNED, 7)]


def test_an_access_across_the_end_is_out_of_bounds() -> None:
    ran = _at("global", 64, 2, False, 120, 0)
    assert ran.findings[0].kind in (K.OUT_OF_BOUNDS, K.MISALIGNED)
    ran = _at("global", 32, 1, False, 124, 0, np.zeros(126, np.uint8))
    assert _kinds(ran) == [(K.OUT_OF_BOUNDS, 7)]


@pytest.mark.parametrize(("bits", "n"), [(8, 1), (32, 1), (32, 4), (64, 1)])
def test_inputs_are_read_only(bits: int, n: int) -> None:
    for step in (0, bits * n // 8 if bits * n == 8 or bits * n == 32 else 0):
        ran = _at("global", bits, n, True, 0, step, read_only=[0])
        assert _kinds(ran) == [(K.READ_ONLY_WRITE, 7)]
        assert not ran.arrays[0].any()


def test_a_neighbouring_buffer_is_out_of_bounds_too() -> None:
    """Buffers are far apart in the address space: running over the end never lands in the next one."""
    text = "__global__ void k(float* a, float* b, long long far) { a[far] = 1; b[0] = 2; }"
    for far in (8, -1, 1 << 20, -(1 << 20), 1 << 36):
        ran = run(
            text.replace("long long far", "").replace(", )", ")").replace("a[far]", f"a[threadIdx.x + {far}LL]"),
            [np.zeros(8, np.float32), np.zeros(8, np.float32)],
        )
        assert [f.kind for f in ran.findings] == [K.OUT_OF_BOUNDS]
        assert ran.findings[0].tensor in ("a0", "")


def test_scratch_that_nobody_wrote_is_reported_with_its_element() -> None:
    text = """__global__ void k(const float* a, const char* c, float* out) {
        out[0] = a[4];
        out[1] = a[threadIdx.x * 8 & 31];
        out[2] = c[5];
        out[3] = ((const float4*)a)[threadIdx.x & 1].w;
    }"""
    ran = run(text, [np.ma.masked_all(32, np.float32), np.ma.masked_all(8, np.int8), np.zeros(4, np.float32)])
    assert sorted(f.line for f in ran.findings) == [5, 6, 7, 8]
    assert {f.kind for f in ran.findings} == {K.UNINITIALIZED_READ}


def test_scratch_is_tracked_word_by_word() -> None:
    text = """__global__ void k(float* a, float* out) {
        int t = threadIdx.x;
        if (t < 16) a[2 * t] = t;
        if (t == 31) ((float4*)a)[8] = make_float4(1, 2, 3, 4);
        __syncwarp();
        out[t] = t < 16 ? a[2 * t] : a[32 + t % 4];
    }"""
    ran = run(text, [np.ma.masked_all(64, np.float32), np.zeros(32, np.float32)])
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[1], [*range(16), *([1, 2, 3, 4] * 4)])


SPACES = """
__constant__ int table[4] = {5, 6, 7, 8};
__device__ int counter = 40;
__device__ __noinline__ int sum(const int* p, int n) { int s = 0; for (int i = 0; i < n; ++i) s += p[i]; return s; }
__device__ __noinline__ void fill(int* p, int n, int v) { for (int i = 0; i < n; ++i) p[i] = v + i; }
__global__ void k(int* out, int* in) {
    __shared__ int s[32];
    extern __shared__ int d[];
    int t = threadIdx.x, local[5];
    fill(local, 5, t);
    s[t] = t; d[t] = 2 * t;
    fill(t % 2 ? in + t * 2 : local, 2, 100);          // lanes in different spaces at one instruction
    __syncthreads();
    const int* from = t % 4 == 0 ? s : t % 4 == 1 ? local : t % 4 == 2 ? (const int*)in : d;
    out[t] = sum(from, 4) + sum(table, 2) + sum(&counter, 1) + local[t % 5];
}"""


@pytest.mark.parametrize("level", ["mid", "full"])
def test_generic_addresses_reach_every_space(level: str) -> None:
    ran = run(SPACES, [np.zeros(32, np.int32), np.zeros(64, np.int32)], shared=128, kernel="k", level=level)
    assert ran.findings == []
    inputs = np.zeros(64, np.int64)
    for t in range(1, 32, 2):
        inputs[2 * t : 2 * t + 2] = 100, 101
    for t in range(32):
        local = [t + i for i in range(5)]
        if t % 2 == 0:
            local[:2] = 100, 101
        source = [list(range(4)), local, list(inputs[:4]), [0, 2, 4, 6]][t % 4]
        assert ran.arrays[0][t] == sum(source[:4]) + 11 + 40 + local[t % 5]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("((volatile int*)s)[t + 1] = 1;", 7),
        ("write(s + t - 1, 1);", 3),
        ("write(local + t, 1);", 3),
        ("out[0] = local[t - 1];", 7),
        ("write((int*)nullptr + t, 1);", 3),
        ("((volatile int*)d)[t + 32] = 1;", 7),
    ],
)
def test_out_of_bounds_in_shared_and_local_memory(body: str, line: int) -> None:
    text = f"""
__device__ __noinline__ void write(int* p, int v) {{
    *p = v; }}
__global__ void k(int* out) {{
    extern __shared__ int d[]; __shared__ int s[32]; int local[8] = {{}}; int t = threadIdx.x;
    for (int i = 0; i < 8; ++i) local[i] = i + t; s[t] = local[t & 7]; d[t] = 3; out[t] = s[t];
    {body}
    out[t] += local[t & 7];
}}"""
    shared = 128
    if "volatile int*)s" in body:  # the last of static shared memory is followed by dynamic memory, unless there is none
        text, shared = text.replace("extern __shared__ int d[]; ", "").replace(" d[t] = 3;", ""), 0
    if body.startswith("out[0] = local"):
        text = text.replace("out[0] = local[t - 1]", "out[0] = local[t - 1 & 15]")
    ran = run(text, [np.zeros(32, np.int32)], shared=shared)
    assert ran.findings, "nothing was found"
    assert ran.findings[0].kind is K.OUT_OF_BOUNDS
    assert ran.findings[0].line == line + 3  # three lines of #include stand before


def test_parts_of_words() -> None:
    """Bytes and shorts, by single lanes and all together, leave their neighbours alone."""
    text = """__global__ void k(unsigned char* b, short* h, int* out) {
        __shared__ unsigned char sb[64]; __shared__ short sh[64]; unsigned char lb[12];
        int t = threadIdx.x;
        for (int i = 0; i < 12; ++i) lb[i] = i * 3 + t;
        lb[t % 12] = 200;
        sb[t] = t; sb[63 - t] = 100 + t; sh[t] = -t; sh[63 - t] = t * 7;
        b[t] = lb[(t + 1) % 12]; h[2 * t] = sh[63 - t];
        if (t == 5) { b[40] = 7; h[3] = -3; }
        __syncwarp();
        out[t] = sb[t ^ 1] + 256 * sb[63 - (t ^ 3)] + 65536 * lb[(t * 5) % 12] + sh[t ^ 7];
    }"""
    ran = run(text, [np.full(64, 1, np.uint8), np.full(64, 2, np.int16), np.zeros(32, np.int32)])
    assert ran.findings == []
    t = np.arange(32)

    def local(thread: int, k: int) -> int:
        return 200 if k == thread % 12 else k * 3 + thread

    b = np.full(64, 1, np.uint8)
    b[:32] = [local(x, (x + 1) % 12) for x in range(32)]
    b[40] = 7
    np.testing.assert_array_equal(ran.arrays[0], b)
    h = np.full(64, 2, np.int16)
    h[::2] = t * 7
    h[3] = -3
    np.testing.assert_array_equal(ran.arrays[1], h)
    want = [(x ^ 1) + 256 * (100 + (x ^ 3)) + 65536 * local(x, x * 5 % 12) - (x ^ 7) for x in map(int, t)]
    np.testing.assert_array_equal(ran.arrays[2], want)


@pytest.mark.parametrize(("kind", "count", "offset"), [("u8", 2, 2), ("u8", 4, 4), ("u16", 2, 0), ("u16", 4, 8)])
def test_short_vectors_in_local_memory(kind: str, count: int, offset: int) -> None:
    """Elements that share words, and those that do not, of one address for all lanes and of one for each."""
    bits = int(kind[1:])
    registers = [f"%h{k}" for k in range(count)]
    vector = "{" + ", ".join(registers) + "}"
    values = " ".join(f"shr.u32 %r2, %r1, {4 * k}; cvt.u16.u32 {r}, %r2;" for k, r in enumerate(registers))
    store = f"st.local.v{count}.{kind} [%rd3+{offset}], {vector};"
    load = f"ld.local.v{count}.{kind} {vector}, [%rd3+{offset}];"
    out = " ".join(f"cvt.u32.u16 %r3, {r}; st.global.u32 [%rd2+{4 * k}], %r3;" for k, r in enumerate(registers))
    own = "and.b32 %r4, %r1, 1; mul.wide.u32 %rd4, %r4, 16; add.u64 %rd3, %rd3, %rd4;"  # 16 bytes apart
    for address in ("mov.u64 %rd3, l;", f"mov.u64 %rd3, l; {own}"):
        text = f"""//ptx
.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{
  .local .align 16 .b8 l[64];
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %h<4>;
  mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; mad.wide.u32 %rd2, %r1, {4 * count}, %rd1;
  {address}
  mad.lo.u32 %r1, %r1, 2654435761, 2654435761; {values} {store}
  {" ".join(f"mov.u16 {r}, 0;" for r in registers)} {load} {out} ret;
}}"""
        ran = run(text, [np.zeros(32 * count, np.uint32)])
        assert ran.findings == []
        words = [(t + 1) * 2654435761 % 2**32 for t in range(32)]
        want = [[w >> 4 * k & (1 << bits) - 1 for k in range(count)] for w in words]
        np.testing.assert_array_equal(ran.arrays[0].reshape(32, count), want)


OPS = ("Add", "Sub", "Exch", "Min", "Max", "And", "Or", "Xor", "Inc", "Dec", "CAS")


def _model(op: str, kind: type[np.integer], old: int, v: int) -> int:
    bits = np.dtype(kind).itemsize * 8
    new = {
        "Add": old + v, "Sub": old - v, "Exch": v, "Min": min(old, v), "Max": max(old, v), "And": old & v, "Or": old | v,
        "Xor": old ^ v, "Inc": 0 if old >= v else old + 1, "Dec": v if old == 0 or old > v else old - 1,
        "CAS": v if old == 3 else old,
    }[op]  # fmt: skip
    new &= (1 << bits) - 1
    return new - (1 << bits) if np.dtype(kind).kind == "i" and new >> (bits - 1) else new


@pytest.mark.parametrize(("name", "kind"), [("int", np.int32), ("unsigned", np.uint32), ("unsigned long long", np.uint64), ("long long", np.int64)])
def test_atomics_of_one_warp_run_in_lane_order(name: str, kind: type[np.integer]) -> None:
    """Every operation, on global and on shared memory, with results: each lane sees what the lanes before it left."""
    ops = [op for op in OPS if (name == "unsigned" or op not in ("Inc", "Dec")) and (np.dtype(kind).itemsize == 4 or op != "Sub")]
    if name == "long long":
        ops = ["Min", "Max", "And", "Or", "Xor"]
    body = ""
    for k, op in enumerate(ops):
        args = "3, v" if op == "CAS" else "v"
        body += f"old[{k}][t] = atomic{op}(&g[{k}][t % 3], {args}); s[t] = t + 1; __syncthreads();"
        body += f"shared[{k}][t] = atomic{op}(&s[t % 3], {args}); __syncthreads();"
    text = f"""__global__ void k({name} (*g)[3], {name} (*old)[32], {name} (*shared)[32], const {name}* in) {{
        __shared__ {name} s[32]; int t = threadIdx.x; {name} v = in[t]; {body} }}"""
    rng = np.random.default_rng(3)
    v = rng.integers(0, 9, 32).astype(kind)
    if np.dtype(kind).kind == "i":
        v -= 4
    g = np.tile(np.arange(3).astype(kind), (len(ops), 1))
    ran = run(text, [g, np.zeros((len(ops), 32), kind), np.zeros((len(ops), 32), kind), v])
    assert ran.findings == []
    for k, op in enumerate(ops):
        cells, shared = [0, 1, 2], [1, 2, 3]
        for t in range(32):
            assert int(ran.arrays[1][k, t]) == cells[t % 3], (op, t)
            assert int(ran.arrays[2][k, t]) == shared[t % 3], (op, t)
            cells[t % 3] = _model(op, kind, cells[t % 3], int(v[t]))
            shared[t % 3] = _model(op, kind, shared[t % 3], int(v[t]))
        assert list(map(int, ran.arrays[0][k])) == cells, op


CONTENDED = """__global__ void k(int* sum, unsigned* seen, float* f, double* d, float* least) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, t); atomicOr(seen + (t >> 5), 1u << (t & 31)); atomicAdd(f, 1.0f); atomicAdd(d, 0.5);
    int* p = (int*)least; int old = *p, assumed;
    do { assumed = old; old = atomicCAS(p, assumed, __float_as_int(fminf((float)(1000 - t), __int_as_float(assumed)))); } while (old != assumed);
}"""


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_atomics_are_exact_when_blocks_contend(threads: int) -> None:
    n = 64 * 128
    arrays: list[np.ndarray] = [np.zeros(1, np.int32), np.zeros(n // 32, np.uint32), np.zeros(1, np.float32), np.zeros(1), np.full(1, 1e9, np.float32)]
    ran = run(CONTENDED, arrays, 64, 128, threads=threads)
    assert ran.findings == []
    assert ran.arrays[0][0] == n * (n - 1) // 2
    assert (ran.arrays[1] == 0xFFFFFFFF).all()
    assert ran.arrays[2][0] == n
    assert ran.arrays[3][0] == n / 2
    assert ran.arrays[4][0] == 1000 - (n - 1)


def test_atomics_are_checked_like_stores() -> None:
    text = "__global__ void k(int* a, int n) { atomicAdd(a + n, 1); }"
    assert [f.kind for f in run(text, [np.zeros(4, np.int32), 4]).findings] == [K.OUT_OF_BOUNDS]
    assert [f.kind for f in run(text, [np.zeros(4, np.int32), -1]).findings] == [K.OUT_OF_BOUNDS]
    assert [f.kind for f in run(text, [np.zeros(4, np.int32), 0], read_only=[0]).findings] == [K.READ_ONLY_WRITE]
    assert [f.kind for f in run(text, [np.ma.masked_all(4, np.int32), 0]).findings] == [K.UNINITIALIZED_READ]
    misaligned = "__global__ void k(char* a) { atomicAdd((int*)(a + 2), 1); }"
    assert [f.kind for f in run(misaligned, [np.zeros(16, np.int8)]).findings] == [K.MISALIGNED]


VECTORS = """struct Pair { int a; double b; char c[3]; };
__global__ void k(float4* f, double2* d, uchar4* u, short2* s, Pair* p, longlong2* l, const Pair by_value) {
    int t = threadIdx.x;
    float4 v = f[t]; v.x += v.w; f[t] = v;
    double2 w = d[t]; w.y *= w.x; d[t] = w;
    uchar4 c = u[t]; c.z = c.x + c.y; u[t] = c;
    short2 h = s[t]; h.x -= h.y; s[t] = h;
    Pair q = p[t]; q.b += q.a + by_value.b; q.c[2] = by_value.c[1]; p[t] = q;
    longlong2 m = l[t]; m.x = m.x / (m.y | 1); l[t] = m;
}"""


@pytest.mark.parametrize("level", ["mid", "full"])
def test_vector_types_and_structures(level: str) -> None:
    rng = np.random.default_rng(0)
    pair = np.dtype([("a", "<i4"), ("_", "<i4"), ("b", "<f8"), ("c", "i1", 3), ("e", "V5")])
    f, d = rng.integers(-9, 9, (32, 4)).astype(np.float32), rng.integers(-9, 9, (32, 2)).astype(np.float64)
    u, s = rng.integers(0, 255, (32, 4), dtype=np.uint8), rng.integers(-99, 99, (32, 2)).astype(np.int16)
    p, wide = np.zeros(32, pair), rng.integers(-(1 << 60), 1 << 60, (32, 2))
    p["a"], p["b"] = np.arange(32), 0.25
    value = np.zeros(1, pair)
    value["b"], value["c"] = 1.5, (4, 5, 6)
    text = VECTORS.replace("const Pair by_value", "const Pair* pointer").replace("int t = threadIdx.x;", "int t = threadIdx.x; Pair by_value = *pointer;")
    ran = run(text, [f, d, u, s, p.view(np.uint8), wide, value.view(np.uint8)], level=level)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[0][:, 0], f[:, 0] + f[:, 3])
    np.testing.assert_array_equal(ran.arrays[1][:, 1], d[:, 0] * d[:, 1])
    np.testing.assert_array_equal(ran.arrays[2][:, 2], u[:, 0] + u[:, 1])
    np.testing.assert_array_equal(ran.arrays[3][:, 0], s[:, 0] - s[:, 1])
    after = ran.arrays[4].view(pair)
    np.testing.assert_array_equal(after["b"], 0.25 + np.arange(32) + 1.5)
    assert (after["c"][:, 2] == 5).all()
    x, y = wide[:, 0], wide[:, 1] | 1
    np.testing.assert_array_equal(ran.arrays[5][:, 0], np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y)))
