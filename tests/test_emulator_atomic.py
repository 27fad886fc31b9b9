"""Atomics of narrow floats, vectors, 16 and 128 bits; scopes, orders and cache policies; what is checked of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from harness.verdict import FindingKind as K
from tests.emulator_kit import run
from tests.narrow_float import half_pattern, half_value

pytestmark = pytest.mark.usefixtures("quick_compiler")

HALVES = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
EDGES = {"f16": [0, 0x8000, 1, 0x8001, 0x3FF, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E01, 0x3555],
         "bf16": [0, 0x8000, 1, 0x8001, 0x7F, 0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1, 0x3EAB]}  # fmt: skip


def _halves(kind: str, count: int, seed: int) -> np.ndarray:
    """Patterns: edges, and ordinary numbers of all sizes that add up to something."""
    rng = np.random.default_rng(seed)
    ordinary = np.array([half_pattern(float(v), kind) for v in rng.normal(0, 4, count) * 2.0 ** rng.integers(-9, 3, count)], np.uint16)
    edge = np.array(EDGES[kind], np.uint16)[rng.integers(0, 12, count)]
    found: np.ndarray = np.where(rng.random(count) < 0.3, edge, ordinary)
    return found


def _sum(kind: str) -> Callable[[int, int], int]:
    return lambda a, b: half_pattern(half_value(a, kind) + half_value(b, kind), kind)


def _least(kind: str, sign: float) -> Callable[[int, int], int]:
    """min (sign 1) or max (sign -1): a NaN loses against a number, -0 is below +0."""

    def least(a: int, b: int) -> int:
        values = [v for v in (half_value(a, kind), half_value(b, kind)) if not math.isnan(v)]
        return half_pattern(min(values, key=lambda v: (sign * v, sign * math.copysign(1, v)), default=math.nan), kind)

    return least


@pytest.mark.parametrize(("kind", "name"), [("f16", "__half"), ("bf16", "__nv_bfloat16")])
def test_sums_of_halves_run_in_lane_order_and_round_once(kind: str, name: str) -> None:
    """On global memory, on shared memory, and as pairs: each lane sees what the lanes before it left."""
    text = f"""{HALVES}__global__ void k({name}* g, {name}2* pairs, {name}* old, {name}* shared, {name}2* old2, const {name}* in) {{
        __shared__ {name} s[32]; int t = threadIdx.x; s[t] = in[64 + t]; __syncthreads();
        old[t] = atomicAdd(g + t % 3, in[t]);
        shared[t] = atomicAdd(s + 2 * (t % 3) + 1, in[t]);
        old2[t] = atomicAdd(pairs + t % 2, (({name}2*)in)[t]); }}"""
    given, start = _halves(kind, 96, 1), _halves(kind, 4, 2)
    arrays = [start[:3].copy(), start.copy(), np.zeros(32, np.uint16), np.zeros(32, np.uint16), np.zeros(64, np.uint16), given]
    ran = run(text, arrays)
    assert ran.findings == []
    add, cells, shared, pairs = _sum(kind), list(map(int, start[:3])), list(map(int, given[64:])), list(map(int, start))
    for t in range(32):
        assert ran.arrays[2][t] == cells[t % 3], t
        assert ran.arrays[3][t] == shared[2 * (t % 3) + 1], t
        cells[t % 3] = add(cells[t % 3], int(given[t]))
        shared[2 * (t % 3) + 1] = add(shared[2 * (t % 3) + 1], int(given[t]))
        for e in (0, 1):
            assert ran.arrays[4][2 * t + e] == pairs[2 * (t % 2) + e], t
            pairs[2 * (t % 2) + e] = add(pairs[2 * (t % 2) + e], int(given[2 * t + e]))
    assert list(ran.arrays[0]) == cells
    assert list(ran.arrays[1]) == pairs


VECTORS = [("add", "v2", "f16"), ("max", "v4", "f16"), ("min", "v8", "bf16"), ("add", "v8", "bf16"), ("add", "v2", "f16x2"),
           ("min", "v4", "f16x2"), ("max", "v2", "bf16x2"), ("add", "v4", "bf16x2")]  # fmt: skip


@pytest.mark.parametrize("base", ["atom", "red"])
@pytest.mark.parametrize(("op", "vector", "kind"), VECTORS)
def test_vectors_of_halves_are_updated_element_by_element(base: str, op: str, vector: str, kind: str) -> None:
    count, packed, element = int(vector[1]), kind.endswith("x2"), kind.removesuffix("x2")
    width = count * (2 if packed else 1)
    letter, c = ("r", "unsigned") if packed else ("h", "unsigned short")
    outs = ", ".join(f'"={letter}"(o[{n}])' for n in range(count))
    ins = ", ".join(f'"{letter}"(v[{n}])' for n in range(count))
    if base == "atom":
        names = [", ".join(f"%{n + start}" for n in range(count)) for start in (0, count + 1)]
        code = f'asm volatile("atom.global.{op}.noftz.{vector}.{kind} {{{names[0]}}}, [%{count}], {{{names[1]}}};" : {outs} : "l"(g), {ins});'
    else:
        names = [", ".join(f"%{n + 1}" for n in range(count))]
        code = f'for (int n = 0; n < {count}; ++n) o[n] = 0; asm volatile("red.global.{op}.noftz.{vector}.{kind} [%0], {{{names[0]}}};" :: "l"(g), {ins});'
    text = f"""__global__ void k({c}* g, {c}* old, const {c}* in) {{
        int t = threadIdx.x; {c} v[{count}], o[{count}];
        for (int n = 0; n < {count}; ++n) v[n] = in[{count} * t + n];
        {code} for (int n = 0; n < {count}; ++n) old[{count} * t + n] = o[n]; }}"""
    given, start = _halves(element, 32 * width, 3), _halves(element, width, 4)
    ran = run(text, [start.copy(), np.zeros(32 * width, np.uint16), given])
    assert ran.findings == []
    model = _sum(element) if op == "add" else _least(element, 1 if op == "min" else -1)
    cells = list(map(int, start))
    for t in range(32):
        if base == "atom":
            assert list(ran.arrays[1][width * t : width * (t + 1)]) == cells
        cells = [model(cell, int(v)) for cell, v in zip(cells, given[width * t :], strict=False)]
    assert list(ran.arrays[0]) == cells


def test_sums_of_float_vectors() -> None:
    text = """__global__ void k(float2* a, float4* b, float2* old2, float4* old4, const float4* in) {
        int t = threadIdx.x; float4 v = in[t];
        old2[t] = atomicAdd(a, make_float2(v.x, v.y)); old4[t] = atomicAdd(b + t % 2, v); }"""
    rng = np.random.default_rng(5)
    given = rng.normal(size=(32, 4)).astype(np.float32)
    ran = run(text, [np.ones(2, np.float32), np.zeros((2, 4), np.float32), np.zeros((32, 2), np.float32), np.zeros((32, 4), np.float32), given])
    assert ran.findings == []
    two, four = np.ones(2, np.float32), np.zeros((2, 4), np.float32)
    for t in range(32):
        np.testing.assert_array_equal(ran.arrays[2][t], two)
        np.testing.assert_array_equal(ran.arrays[3][t], four[t % 2])
        two, four[t % 2] = two + given[t, :2], four[t % 2] + given[t]
    np.testing.assert_array_equal(ran.arrays[0], two)
    np.testing.assert_array_equal(ran.arrays[1], four)


def test_global_memory_flushes_subnormal_sums_and_shared_memory_does_not() -> None:
    text = """__global__ void k(float* g, float* out, const float* start, const float* in) {
        __shared__ float s[32]; int t = threadIdx.x; s[t] = start[t]; __syncthreads();
        atomicAdd(g + t, in[t]); atomicAdd(s + t, in[t]); __syncthreads(); out[t] = s[t]; }"""
    tiny = 2.0**-126
    pairs = [(1.5 * tiny, -tiny), (tiny / 2, tiny / 2), (-tiny / 4, 0.0), (tiny, tiny), (0.0, -0.0), (1.0, tiny / 2),
             (-tiny / 2, -1e-45), (math.inf, -math.inf), (math.nan, 1.0), (math.inf, 1.0), (3.4e38, 3.4e38)]  # fmt: skip
    start, given = (np.array([p[k] for p in pairs] + [0.0] * (32 - len(pairs)), np.float32) for k in (0, 1))
    ran = run(text, [start.copy(), np.zeros(32, np.float32), start, given])
    assert ran.findings == []

    def flush(v: np.ndarray) -> np.ndarray:
        return np.where(np.abs(v) < np.float32(tiny), np.copysign(np.float32(0), v), v)

    with np.errstate(all="ignore"):
        for found, want in ((ran.arrays[0], flush(flush(start) + flush(given))), (ran.arrays[1], start + given)):
            bits = np.where(np.isnan(want), np.uint32(0x7FFFFFFF), want.astype(np.float32).view(np.uint32))
            np.testing.assert_array_equal(found.view(np.uint32), bits)


def test_compare_and_swap_of_16_bits() -> None:
    """A neighbour in the same word stays; every lane of a loop gets its turn, and a failed one changes nothing."""
    text = """__global__ void k(unsigned short* g, unsigned short* old) {
        __shared__ unsigned short s[2]; int t = threadIdx.x;
        if (t < 2) s[t] = 7; __syncthreads();
        unsigned short seen = g[1], assumed;
        do { assumed = seen; seen = atomicCAS(g + 1, assumed, (unsigned short)(assumed + t)); } while (seen != assumed);
        old[t] = atomicCAS(s + 1, (unsigned short)(7 + t), (unsigned short)(8 + t)); __syncthreads();
        if (t == 0) { g[2] = s[0]; g[3] = s[1]; } }"""
    ran = run(text, [np.array([1, 65530, 2, 3], np.uint16), np.zeros(32, np.uint16)])
    assert ran.findings == []
    assert list(ran.arrays[0]) == [1, (65530 + 496) % 65536, 7, 39]
    assert list(ran.arrays[1]) == [7 + t for t in range(32)]


WIDE = """struct alignas(16) Wide { unsigned long long low, high; };
__global__ void k(Wide* g, Wide* old, const Wide* in) {
    __shared__ Wide s; int t = threadIdx.x; if (t == 0) s = in[0]; __syncthreads();
    old[t] = atomicExch(g, in[t]);
    old[32 + t] = atomicCAS(&s, in[t], in[t + 1 & 31]);
    old[64 + t] = atomicCAS(g + 1, in[5], Wide{in[5].low, in[5].high + t}); __syncthreads();
    if (t == 0) g[2] = s; }"""


def test_exchange_and_compare_and_swap_of_128_bits() -> None:
    rng = np.random.default_rng(6)
    given = rng.integers(0, 1 << 63, (32, 2), dtype=np.uint64)
    given[5, 1] = given[6, 1] = 9
    start = rng.integers(0, 1 << 63, (3, 2), dtype=np.uint64)
    start[1] = given[5]
    ran = run(WIDE, [start.copy(), np.zeros((96, 2), np.uint64), given])
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[1][:32], np.concatenate([start[:1], given[:31]]))
    np.testing.assert_array_equal(ran.arrays[1][32:64], given)  # lane by lane the next one
    changed = given[5] + np.array([0, 1], np.uint64)  # lane 0 leaves it as it is, lane 1 changes it, and then nobody can
    np.testing.assert_array_equal(ran.arrays[1][64:], np.stack([given[5], given[5], *[changed] * 30]))
    np.testing.assert_array_equal(ran.arrays[0], np.stack([given[31], changed, given[0]]))


CONTENDED = f"""{HALVES}__global__ void k(__half2* h, __nv_bfloat16* b, float4* f, unsigned short* c, double* d) {{
    atomicAdd(h, __floats2half2_rn(1.0f, (threadIdx.x & 1) ? 1.0f : -1.0f)); atomicAdd(b + 1, __float2bfloat16(threadIdx.x % 4 == 0));
    atomicAdd(f, make_float4(1, 2, 3, 4)); atomicAdd(d, 0.25);
    unsigned short old = *c, assumed; do {{ assumed = old; old = atomicCAS(c, assumed, (unsigned short)(assumed + 3)); }} while (old != assumed); }}"""


@pytest.mark.parametrize("threads", [1, 4])
def test_nothing_is_lost_when_blocks_contend(threads: int) -> None:
    arrays: list[np.ndarray] = [np.zeros(2, np.uint16), np.zeros(2, np.uint16), np.zeros(4, np.float32), np.zeros(1, np.uint16), np.zeros(1)]
    ran = run(CONTENDED, arrays, 16, 64, threads=threads)
    assert ran.findings == []
    assert [half_value(int(v), "f16") for v in ran.arrays[0]] == [1024.0, 0.0]
    assert [half_value(int(v), "bf16") for v in ran.arrays[1]] == [0.0, 256.0]
    assert list(ran.arrays[2]) == [1024.0, 2048.0, 3072.0, 4096.0]
    assert ran.arrays[3][0] == 3072
    assert ran.arrays[4][0] == 256.0


def _checked(code: str, array: np.ndarray, *, read_only: bool = False) -> list[tuple[K, int]]:
    text = f"{HALVES}__global__ void k(char* p) {{\n {code} }}"
    return [(f.kind, f.line) for f in run(text, [array], block=1, read_only=[0] if read_only else []).findings]


@pytest.mark.parametrize(("code", "size"), [
    ("atomicAdd((__half*)p + {n}, __half(1));", 2), ("atomicAdd((__nv_bfloat162*)p + {n}, __nv_bfloat162());", 4),
    ("atomicAdd((float2*)p + {n}, make_float2(1, 2));", 8), ("atomicAdd((float4*)p + {n}, make_float4(1, 2, 3, 4));", 16),
    ("atomicCAS((unsigned short*)p + {n}, 1, 2);", 2),
])  # fmt: skip
def test_every_width_is_checked_like_a_store(code: str, size: int) -> None:
    last = 64 // size - 1
    array, line = np.zeros(64, np.uint8), 7
    assert _checked(code.format(n=last), array) == []
    assert _checked(code.format(n=last + 1), array) == [(K.OUT_OF_BOUNDS, line)]
    assert _checked(code.format(n=-1), array) == [(K.OUT_OF_BOUNDS, line)]
    assert _checked(code.format(n=0), array, read_only=True) == [(K.READ_ONLY_WRITE, line)]
    assert _checked(code.format(n=0).replace("p +", f"(p + {size // 2}) +"), array) == [(K.MISALIGNED, line)]
    assert _checked(code.format(n=0), np.ma.masked_all(64, np.uint8)) == [(K.UNINITIALIZED_READ, line)]


SCOPED = [f"atom{order}{scope}.{space}.add.u32" for space in ("global", "shared", "shared::cta")
          for order, scope in (("", ""), (".relaxed", ".cta"), (".acquire", ".gpu"), (".release", ".sys"), (".acq_rel", ".cluster"))]  # fmt: skip


def test_every_order_and_scope_is_known() -> None:
    lines, results = [], []
    for n, op in enumerate([*SCOPED, "atom.acq_rel.sys.add.u32"]):
        place = "r" if ".shared" in op else "l"
        target = "address" if place == "r" else "g"
        lines.append(f'asm volatile("{op} %0, [%1], 1;" : "=r"(old[{n}]) : "{place}"({target}));')
        results.append(n % 5 if n < 15 else 5)
    results[:5], results[5:15] = list(range(5)), list(range(10))
    text = f"""__global__ void k(unsigned* g, unsigned* old) {{ __shared__ unsigned s; s = 0;
        unsigned address = (unsigned)__cvta_generic_to_shared(&s); {" ".join(lines)}
        asm volatile("red.release.gpu.global.add.u32 [%0], 4;" :: "l"(g)); }}"""
    ran = run(text, [np.zeros(1, np.uint32), np.zeros(16, np.uint32)], block=1)
    assert ran.findings == []
    assert list(ran.arrays[1]) == results
    assert ran.arrays[0][0] == 10


def test_cache_policies_and_128_bit_accesses_change_nothing() -> None:
    text = """__global__ void k(const float4* in, float4* out, unsigned* sum, float4* wide) {
        int t = threadIdx.x; unsigned long long policy, other; float4 v; float x, y; unsigned old; __shared__ float4 s[32];
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        asm("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(other));
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(in + t), "l"(policy));
        asm volatile("ld.global.L1::evict_last.L2::256B.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "l"(in + t));
        v.x += x + y;
        asm volatile("st.global.L1::no_allocate.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;"
                     :: "l"(out + t), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "l"(other));
        asm volatile("atom.global.add.L2::cache_hint.u32 %0, [%1], 2, %2;" : "=r"(old) : "l"(sum), "l"(other));
        asm volatile("red.global.max.L2::cache_hint.u32 [%0], %1, %2;" :: "l"(sum + 1), "r"(old), "l"(policy));
        unsigned at = (unsigned)__cvta_generic_to_shared(s + t);
        asm volatile("{ .reg .b128 %q; ld.global.b128 %q, [%0]; st.shared.b128 [%1], %q; }" :: "l"(in + t), "r"(at));
        asm volatile("{ .reg .b128 %q; ld.shared.b128 %q, [%1]; st.global.b128 [%0], %q; }" :: "l"(wide + (31 - t)), "r"(at));
        asm volatile("{ .reg .b128 %q; .reg .b64 %x, %y; ld.global.relaxed.sys.b128 %q, [%1]; mov.b128 {%x, %y}, %q; mov.b128 %q, {%y, %x}; "
                     "st.global.relaxed.sys.b128 [%0], %q; }" :: "l"(wide + 32), "l"(in + 3));
        asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(in)); asm volatile("applypriority.global.L2::evict_normal [%0], 128;" :: "l"(out)); }"""
    given = np.random.default_rng(7).normal(size=(32, 4)).astype(np.float32)
    ran = run(text, [given, np.zeros((32, 4), np.float32), np.zeros(2, np.uint32), np.zeros((33, 4), np.float32)])
    assert ran.findings == []
    want = given.copy()
    want[:, 0] += given[:, 0] + given[:, 1]
    np.testing.assert_array_equal(ran.arrays[1], want)
    assert list(ran.arrays[2]) == [64, 62]
    np.testing.assert_array_equal(ran.arrays[3], np.concatenate([given[::-1], given[3:4, [2, 3, 0, 1]]]))


CLOCKS = """__global__ void k(unsigned* out, unsigned long long* wide, float x) {
    unsigned t0 = clock(); float y = x * x + 1.0f; out[100] = __float_as_uint(y); unsigned t1 = clock();
    long long w0 = clock64(), w1 = clock64(); unsigned long long g0, g1;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(g0)); __nanosleep(100); asm volatile("mov.u64 %0, %globaltimer;" : "=l"(g1));
    for (int i = 0; i < 50; ++i) { asm volatile(""); out[101] = i; }
    long long w2 = clock64();
    if (threadIdx.x == 3) { out[0] = t1 - t0; wide[0] = w1 - w0; wide[1] = w2 - w1; wide[2] = g1 - g0; wide[3] = w0 > t1; } }"""


@pytest.mark.parametrize("level", ["mid", "full"])
def test_clocks_grow_from_reading_to_reading(level: str) -> None:
    ran = run(CLOCKS, [np.zeros(128, np.uint32), np.zeros(4, np.uint64), 2.0], level=level)
    assert ran.findings == []
    assert 1 <= ran.arrays[0][0] < 1000
    assert 1 <= ran.arrays[1][0] <= 20
    assert ran.arrays[1][1] > 50
    assert ran.arrays[1][2] >= 1
    assert ran.arrays[1][3] == 1


def test_a_warp_that_sleeps_is_woken_by_another() -> None:
    text = """__global__ void k(volatile int* flag, int* out) {
        if (threadIdx.x < 32) { while (*flag == 0) __nanosleep(20); out[threadIdx.x] = *flag; }
        else if (threadIdx.x == 63) { __threadfence(); *flag = 5; } }"""
    ran = run(text, [np.zeros(1, np.int32), np.zeros(32, np.int32)], block=64)
    assert [f for f in ran.findings if f.kind is not K.NOTE] == []
    assert list(ran.arrays[1]) == [5] * 32
