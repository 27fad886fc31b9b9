"""What a kernel asks of the device runtime, and larger pieces of CUDA C++ as NVRTC compiles them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from harness.emulator.errors import UnsupportedPtx
from harness.verdict import FindingKind as K
from tests.emulator_kit import run

LEVELS = pytest.mark.parametrize("level", ["mid", "full"])


@LEVELS
def test_printf_formats(level: str) -> None:
    text = r"""__global__ void k(const float* a) {
        int t = threadIdx.x;
        if (t == 1) printf("%d %5d|%-5d|%05d %u %x %X %o %c %%\n", -3, 42, 42, 42, 4000000000u, 255, 255, 8, 'z');
        if (t == 2) printf("%f %.3f %8.2f %e %g %s %s\n", a[0], a[1], -1.5, 12345.678, 0.0001, "text", t > 1 ? "yes" : "no");
        if (t == 3) printf("%lld %llu %lx %hhd %5.1f%%\n", -(1LL << 40), 1ULL << 63, 1L << 36, (char)-7, 99.5);
        if (t == 4) printf("nothing\n");
        if (t == 5) printf("%*d %.*f %d %lld %d\n", 6, 12, 2, 3.14159, 1, 2LL, 3);
    }"""
    ran = run(text, [np.array([0.5, 2.0], np.float32)], level=level)
    assert ran.findings == []
    assert ran.stdout.split("\n") == [
        "-3    42|42   |00042 4000000000 ff FF 10 z %",
        "0.500000 2.000    -1.50 1.234568e+04 0.0001 text yes",
        f"{-(1 << 40)} {1 << 63} 1000000000 -7  99.5%",
        "nothing",
        "    12 3.14 1 2 3",
        "",
    ]


def test_printf_by_all_lanes_and_in_a_loop() -> None:
    ran = run('__global__ void k() { for (int i = 0; i < 2; ++i) printf("%d:%d ", i, threadIdx.x); }', [], block=40)
    assert ran.stdout.split() == [f"{i}:{t}" for w in (range(32), range(32, 40)) for i in range(2) for t in w]


def test_an_assertion_that_fails() -> None:
    ran = run("__global__ void k(const int* a) { int t = threadIdx.x;\nassert(a[t] < 7 && a[t] >= 0); }", [np.arange(32, dtype=np.int32)])
    found = ran.findings[0]
    assert (found.kind, found.line) == (K.TRAP, 5)
    assert "a[t] < 7 && a[t] >= 0" in found.message
    assert found.thread == (7, 0, 0)


def test_an_assertion_that_holds() -> None:
    assert run("__global__ void k(const int* a) { assert(a[threadIdx.x] >= 0); }", [np.arange(32, dtype=np.int32)]).findings == []


def test_a_trap() -> None:
    found = run("__global__ void k(int* a) { if (threadIdx.x == 9)\n__trap();\na[threadIdx.x] = 1; }", [np.zeros(32, np.int32)]).findings[0]
    assert (found.kind, found.line, found.thread) == (K.TRAP, 5, (9, 0, 0))


DEEP = """
__device__ __noinline__ int f0(int x, int y) { if (x < 0) return y; return x + y; }
__device__ __noinline__ int f1(int x, int y) { int s = 0; for (int i = 0; i < (x & 3); ++i) s += f0(x - i, y); return s + f0(y, x); }
__device__ __noinline__ int f2(int x, int y) { return x % 2 ? f1(x, y) * 3 : f1(y, x) - 1; }
__device__ __noinline__ int f3(int x, int y) { return f2(x, y) + f2(x + 1, y) + f0(x, 1); }
struct Big { int a[6]; double b; };
__device__ __noinline__ Big make(int x) { Big r; for (int i = 0; i < 6; ++i) r.a[i] = x * i; r.b = x * 0.5; return r; }
__device__ __noinline__ double use(Big v, char c, short s, bool flip) { return (flip ? -1 : 1) * (v.b + v.a[5] + c + s); }
__global__ void k(int* out, double* d) { int t = threadIdx.x; out[t] = f3(t - 5, t * 2); d[t] = use(make(t), (char)-t, (short)(t * 100), t & 1); }"""


def _f0(x: int, y: int) -> int:
    return y if x < 0 else x + y


def _f1(x: int, y: int) -> int:
    return sum(_f0(x - i, y) for i in range(x & 3)) + _f0(y, x)


def _f2(x: int, y: int) -> int:
    return _f1(x, y) * 3 if math.fmod(x, 2) else _f1(y, x) - 1


@LEVELS
def test_device_functions_with_loops_returns_and_structures(level: str) -> None:
    ran = run(DEEP, [np.zeros(32, np.int32), np.zeros(32)], kernel="k", level=level)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[0], [_f2(t - 5, 2 * t) + _f2(t - 4, 2 * t) + _f0(t - 5, 1) for t in range(32)])
    t = np.arange(32)
    np.testing.assert_array_equal(ran.arrays[1], np.where(t & 1, -1, 1) * (t * 0.5 + 5 * t - t + 100 * t))


VARIABLES = """
__constant__ float scale[3] = {0.5f, 2.0f, -1.0f};
__device__ int counts[4] = {1, 2};
__device__ double pi = 3.25;
__device__ const char* words[2] = {"ab", "xyz"};
struct Point { short x; float y; };
__constant__ Point points[2] = {{3, 1.5f}, {-4, 2.5f}};
__global__ void k(float* out, int* n) {
    int t = threadIdx.x;
    out[t] = scale[t % 3] + points[t & 1].x * points[t & 1].y + (float)pi + words[t & 1][1];
    if (t == 0) { counts[3] = counts[0] + counts[1]; n[0] = counts[3] + counts[2]; }
}"""


@LEVELS
def test_device_and_constant_variables(level: str) -> None:
    ran = run(VARIABLES, [np.zeros(32, np.float32), np.zeros(1, np.int32)], level=level)
    assert ran.findings == []
    t = np.arange(32)
    want = np.array([0.5, 2, -1])[t % 3] + np.where(t & 1, -10.0, 4.5) + 3.25 + np.where(t & 1, ord("y"), ord("b"))
    np.testing.assert_array_equal(ran.arrays[0], want.astype(np.float32))
    assert ran.arrays[1][0] == 3


DYNAMIC = """
template <typename T> __device__ T* pool() { extern __shared__ __align__(16) unsigned char raw[]; return (T*)raw; }
extern __shared__ double doubles[];
__global__ void k(float* out) {
    __shared__ int fixed[3]; int t = threadIdx.x; float* f = pool<float>(); int* i = (int*)(f + 32);
    if (t < 3) fixed[t] = t; f[t] = t * 0.5f; i[t] = t; __syncwarp();
    out[t] = f[31 - t] + i[t ^ 1] + fixed[t % 3]; __syncwarp();
    doubles[t] = t * 0.25; __syncwarp(); out[t] += (float)doubles[(t + 1) & 31]; unsigned size; asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(size)); out[t] += size;
}"""


@LEVELS
def test_dynamic_shared_memory_under_several_types(level: str) -> None:
    ran = run(DYNAMIC, [np.zeros(32, np.float32)], shared=256, level=level)
    assert ran.findings == []
    t = np.arange(32)
    np.testing.assert_array_equal(ran.arrays[0], ((31 - t) * 0.5 + (t ^ 1) + t % 3 + (t + 1 & 31) * 0.25 + 256).astype(np.float32))


FLOATS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "sinf": (np.sin, -10, 10), "cosf": (np.cos, -1e4, 1e4), "tanf": (np.tan, -1.4, 1.4), "asinf": (np.arcsin, -1, 1), "atanf": (np.arctan, -50, 50),
    "sinhf": (np.sinh, -5, 5), "tanhf": (np.tanh, -5, 5), "expf": (np.exp, -80, 80), "exp2f": (np.exp2, -100, 100), "expm1f": (np.expm1, -3, 3),
    "logf": (np.log, 1e-6, 1e6), "log2f": (np.log2, 1e-6, 1e6), "log1pf": (np.log1p, -0.9, 9), "sqrtf": (np.sqrt, 0, 1e9), "cbrtf": (np.cbrt, -99, 99),
    "erff": (np.vectorize(math.erf), -3, 3), "rsqrtf": (lambda x: 1 / np.sqrt(x), 1e-3, 1e6), "lgammaf": (np.vectorize(math.lgamma), 3, 40),
    "floorf": (np.floor, -9, 9), "rintf": (np.rint, -9, 9), "roundf": (lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), -9, 9),
}  # fmt: skip
DOUBLES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "sin": (np.sin, -100, 100), "cos": (np.cos, -100, 100), "exp": (np.exp, -300, 300), "log": (np.log, 1e-9, 1e9), "sqrt": (np.sqrt, 0, 1e9),
    "tanh": (np.tanh, -3, 3), "pow3": (lambda x: x**3.3, 0.1, 50), "cbrt": (np.cbrt, -9, 9), "erf": (np.vectorize(math.erf), -2, 2),
    "atan": (np.arctan, -9, 9), "rint": (np.rint, -9, 9), "div": (lambda x: 1 / (x + 3), 0, 10), "log1p": (np.log1p, -0.5, 5),
}  # fmt: skip


@LEVELS
def test_the_math_library_in_float(level: str) -> None:
    """Each function within a few units of the last place: all of it is plain PTX by then."""
    body = "\n".join(f"out[{k} * n + i] = {name}(in[{k} * n + i]);" for k, name in enumerate(FLOATS))
    n = 256
    x = np.concatenate([np.random.default_rng(k).uniform(lo, hi, n) for k, (_, lo, hi) in enumerate(FLOATS.values())]).astype(np.float32)
    ran = run(f"__global__ void k(const float* in, float* out, int n) {{ int i = blockIdx.x * 32 + threadIdx.x; {body} }}", [x, np.zeros_like(x), n], n // 32, level=level)
    assert ran.findings == []
    for k, (name, (model, _, _)) in enumerate(FLOATS.items()):
        want = model(x[k * n : (k + 1) * n].astype(np.float64))
        np.testing.assert_allclose(ran.arrays[1][k * n : (k + 1) * n], want, rtol=6e-7, atol=1e-7 if name in ("sinf", "cosf", "lgammaf") else 0, err_msg=name)


@LEVELS
def test_the_math_library_in_double(level: str) -> None:
    calls = {name: f"{name}(x)" for name in DOUBLES} | {"pow3": "pow(x, 3.3)", "div": "1 / (x + 3)"}
    body = "\n".join(f"{{ double x = in[{k} * n + i]; out[{k} * n + i] = {call}; }}" for k, call in enumerate(calls.values()))
    n = 64
    x = np.concatenate([np.random.default_rng(k).uniform(lo, hi, n) for k, (_, lo, hi) in enumerate(DOUBLES.values())])
    ran = run(f"__global__ void k(const double* in, double* out, int n) {{ int i = blockIdx.x * 32 + threadIdx.x; {body} }}", [x, np.zeros_like(x), n], n // 32, level=level)
    assert ran.findings == []
    for k, (name, (model, _, _)) in enumerate(DOUBLES.items()):
        np.testing.assert_allclose(ran.arrays[1][k * n : (k + 1) * n], model(x[k * n : (k + 1) * n]), rtol=2e-15, atol=1e-18, err_msg=name)


@LEVELS
def test_integers_of_64_bits_and_intrinsics(level: str) -> None:
    text = """__global__ void k(const long long* a, const long long* b, long long* out) {
        int t = threadIdx.x; long long x = a[t], y = b[t]; unsigned long long u = x, v = y; long long* o = out + t * 16;
        o[0] = x / y; o[1] = x % y; o[2] = u / v; o[3] = u % v; o[4] = __mul64hi(x, y); o[5] = __umul64hi(u, v); o[6] = __clzll(x); o[7] = __popcll(x);
        o[8] = __brevll(x); o[9] = __ffsll(x); o[10] = __mulhi((int)x, (int)y); o[11] = __byte_perm(u, v, 0x3715); o[12] = __funnelshift_l(u, v, 9);
        o[13] = __sad((int)x >> 8, (int)y >> 8, 5u); o[14] = x >> (y & 63); o[15] = u << (v & 63);
    }"""
    rng = np.random.default_rng(8)
    a, b = rng.integers(-(1 << 62), 1 << 62, 32), rng.integers(-(1 << 62), 1 << 62, 32) >> rng.integers(0, 60, 32)
    b[b == 0] = 3
    ran = run(text, [a, b, np.zeros(32 * 16, np.int64)], level=level)
    assert ran.findings == []
    mask, low = (1 << 64) - 1, (1 << 32) - 1

    def signed(v: int, bits: int) -> int:
        v &= (1 << bits) - 1
        return v - (1 << bits) if v >> (bits - 1) else v

    for t in range(32):
        x, y = int(a[t]), int(b[t])
        u, v = x & mask, y & mask
        q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        pool = (v & low) << 32 | u & low
        bytes_ = [pool >> 8 * k & 255 for k in (5, 1, 7, 3)]
        x32, y32 = signed(x, 32), signed(y, 32)
        want = [q, x - q * y, u // v, u % v, x * y >> 64, u * v >> 64, 64 - u.bit_length(), u.bit_count(), int(f"{u:064b}"[::-1], 2), (u & -u).bit_length(),
                x32 * y32 >> 32, sum(c << 8 * k for k, c in enumerate(bytes_)), (v & low) << 9 & low | (u & low) >> 23,
                5 + abs((x32 >> 8) - (y32 >> 8)), x >> (v & 63), u << (v & 63)]  # fmt: skip
        assert [int(w) for w in ran.arrays[2][t * 16 : t * 16 + 16]] == [signed(w, 64) for w in want]


FUSED = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 o) {
  .reg .f32 %x, %y, %z, %d, %p<9>; .reg .b64 %a, %o, %w; .reg .b32 %t;
  ld.param.u64 %a, [a]; ld.param.u64 %o, [o]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4; add.s64 %a, %a, %w; add.s64 %o, %o, %w;
  ld.global.f32 %x, [%a]; ld.global.f32 %y, [%a+128]; ld.global.f32 %z, [%a+256];
  mul.f32 %p1, %x, %y; add.f32 %d, %p1, %z; st.global.f32 [%o], %d;
  mul.f32 %p2, %x, %y; sub.f32 %d, %p2, %z; st.global.f32 [%o+128], %d;
  mul.f32 %p3, %x, %y; sub.f32 %d, %z, %p3; st.global.f32 [%o+256], %d;
  mul.rn.f32 %p4, %x, %y; add.f32 %d, %p4, %z; st.global.f32 [%o+384], %d;
  mul.f32 %p5, %x, %y; add.rn.f32 %d, %p5, %z; st.global.f32 [%o+512], %d;
  mul.f32 %p6, %x, %y; add.f32 %d, %p6, %z; add.rn.f32 %d, %d, %p6; st.global.f32 [%o+640], %d;
  ret;
}"""


def test_products_and_sums_are_fused_as_the_assembler_does() -> None:
    """mul and add without a rounding mode become one fma where the product has no other use."""
    x, y, z = np.random.default_rng(1).uniform(-2, 2, (3, 32)).astype(np.float32)
    out = run(FUSED, [np.stack([x, y, z]), np.zeros((6, 32), np.float32)]).arrays[1]
    wide, once = x.astype(np.float64) * y, x * y
    np.testing.assert_array_equal(out[:3], np.stack([wide + z, wide - z, z - wide]).astype(np.float32))
    np.testing.assert_array_equal(out[3:], [once + z, once + z, once + z + once])


@pytest.mark.parametrize(("body", "name"), [("int* p = (int*)malloc(16); p[0] = 1; out[0] = p[0];", "malloc"), ("int* p = new int; *p = 2; out[0] = *p;", "malloc")])
def test_calls_that_are_not_there_are_named(body: str, name: str) -> None:
    with pytest.raises(UnsupportedPtx, match=name):
        run(f"__global__ void k(int* out) {{ {body} }}", [np.zeros(1, np.int32)])
