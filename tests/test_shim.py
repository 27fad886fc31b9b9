"""The shim headers accept what nvcc accepts and no more.

Each line below is the body of a kernel or of a host function. That NVRTC with the shim takes or refuses it is always
tested; where nvcc is installed, it must agree. `python -m tests.compare_compilers` does the same for whole files.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import cards
from harness.compile.build import compile_submission
from harness.errors import SubmissionError

DECLARATION = 'extern "C" void solve(float* o, int n);'
INCLUDES = (
    "cmath", "math.h", "algorithm", "cstdio", "stdio.h", "cstdlib", "stdlib.h", "cfloat", "float.h", "climits",
    "limits.h", "cstdint", "stdint.h", "cstddef", "stddef.h", "cassert", "assert.h", "cstring", "string.h", "utility",
    "limits", "type_traits", "initializer_list", "iostream", "new", "cuda_runtime.h", "cuda_runtime_api.h",
    "device_launch_parameters.h",
)  # fmt: skip
OF_THE_TOOLKIT = ("cuda.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_pipeline.h", "mma.h")
HEAD = "".join(f"#include <{name}>\n" for name in (*INCLUDES, "cuda_fp16.h", "cuda_bf16.h"))

IN_KERNELS = """
o[0] = std::sqrt(o[1]) + sqrtf(o[1]) + rsqrtf(o[2]) + std::exp(o[1]) + __expf(o[1]) + exp2f(o[0]);
o[0] = pow(o[1], n) + pow(n, 2) + std::pow(o[1], 2) + powf(o[0], n) + pow(o[0], 0.5);
o[0] = max(n, 3u) + max(o[0], 1.0) + min(n, 3) + fmaxf(o[0], n) + fminf(o[0], 1) + fmax(o[0], o[1]);
o[0] = std::abs(n) + std::abs(o[2]) + abs(n) + abs(o[0]) + fabs(o[3]) + fabsf(n);
o[0] = std::isnan(o[1]) + isinf(o[2]) + std::isfinite(o[0]) + std::signbit(o[0]);
o[0] = std::fabs(o[1]) + std::ceil(o[0]) + std::floor(2.5) + std::tanh(o[1]) + std::log(o[2]) + std::log2(o[2]);
o[0] = std::fma(o[0], o[1], o[2]) + std::round(o[0]) + roundf(n) + lround(o[2]) + fmod(o[0], o[1]) + trunc(o[0]);
o[0] = M_PI * HUGE_VALF + INFINITY + NAN + FLT_MAX + DBL_EPSILON + INT_MAX + UINT32_MAX + SIZE_MAX + M_SQRT1_2;
constexpr float worst = -INFINITY; o[0] = worst; static_assert(FLT_MAX > 1 && INT_MIN < 0 && sizeof(int64_t) == 8, "");
std::uint32_t x = 3; std::size_t z = x; uint8_t q = z; int64_t y = q; uintptr_t p = (uintptr_t)o; o[0] = y + p;
o[0] = std::is_same<float, double>::value + std::is_same_v<int, int>; std::conditional_t<true, float, int> t = 2; o[1] = t;
auto y = std::move(o[0]); o[1] = y; auto f = [=](int a) { return a + n; }; o[2] = f(3);
memcpy(o, o + 4, 16); memset(o, 0, 4); printf("%d %f\\n", n, o[0]); std::printf("x"); assert(n > 0);
__half h = __float2half(o[0]); o[1] = __half2float(h); __nv_bfloat16 b = __float2bfloat16(o[0]); o[2] = float(b);
o[0] = __shfl_xor_sync(0xffffffffu, o[0], 1); o[1] = __ldg(o); atomicAdd(o, 1.0f); __syncwarp(); __syncthreads();
float4 v = make_float4(1, 2, 3, 4); reinterpret_cast<float4*>(o)[0] = v; o[0] = __popc(n) + __clz(n) + warpSize;
if constexpr (sizeof(float) == 4) { o[0] = 1; } else { o[0] = 2; }
""".strip().splitlines()

IN_HOST_CODE = """
n = std::sqrt(n) + sqrt(n) + 1.0f / sqrtf(n) + pow(n, 2) + std::pow(n, 0.5) + ceil(n / 2.0) + std::ceil(n / 3) + log2(n);
n = fmax(n, 2) + fmin(1.f, 2) + std::fmax(n, 2.f) + fmaxf(n, 1) + exp(n) + log(n) + floor(n) + std::log2(n);
n = std::min(n, 3); n = std::max(n, 3); n = std::min({1, 2, n}); n = std::clamp(n, 1, 2); std::swap(n, n); n = max(n, 3u);
using std::min; n = min(n, 3); n = std::max<int>(n, 2u); n = std::numeric_limits<float>::infinity() > n;
n = std::numeric_limits<int>::max(); double d = std::numeric_limits<double>::epsilon(); n = d + FLT_EPSILON;
float* h = (float*)malloc(4); memset(h, 0, 4); std::memcpy(h, h + 0, 4); free(h); h = new float[4]; delete[] h;
printf("%d\\n", n); fprintf(stderr, "%d %f\\n", n, 1.5); std::cout << "n = " << n << ' ' << 1.5f << std::endl; puts("x");
if (n < 0) exit(1); if (n < -1) abort(); assert(n >= 0); static int calls = 0; ++calls;
float* t = nullptr; cudaMalloc(&t, 4); cudaMalloc((void**)&t, 4); cudaMallocAsync(&t, 4, 0); cudaFree(t); cudaFreeAsync(t, 0);
cudaMemset(o, 0, 4); cudaMemsetAsync(o, 0, 4); cudaMemsetAsync(o, 0, 4, 0); cudaMemcpy(o, o, 4, cudaMemcpyDeviceToDevice);
cudaMemcpyAsync(o, &n, 4, cudaMemcpyHostToDevice); cudaMemcpyAsync(o, o, 4, cudaMemcpyDefault, 0);
cudaMemcpyToSymbol(table, &n, 4); cudaMemcpyToSymbol(table, &n, 4, 4, cudaMemcpyHostToDevice); cudaMemcpyToSymbolAsync(table, &n, 4);
void* p; cudaGetSymbolAddress(&p, table); size_t s; cudaGetSymbolSize(&s, table); cudaMemcpyFromSymbol(&n, table, 4);
float* t; cudaMallocHost(&t, 4); cudaHostAlloc(&t, 4, cudaHostAllocDefault); cudaFreeHost(t); size_t a, b; cudaMemGetInfo(&a, &b);
cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 98304); cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferL1);
cudaFuncAttributes a; cudaFuncGetAttributes(&a, kernel); n = a.numRegs + a.sharedSizeBytes + a.maxThreadsPerBlock;
cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, 128, 0); int g, b; cudaOccupancyMaxPotentialBlockSize(&g, &b, kernel);
int v; cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0); cudaGetDevice(&v); cudaSetDevice(0); cudaGetDeviceCount(&v);
cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); n = p.multiProcessorCount + p.sharedMemPerBlockOptin + p.major + p.name[0];
cudaError_t e = cudaGetLastError(); if (e != cudaSuccess) printf("%s %s\\n", cudaGetErrorString(e), cudaGetErrorName(e)); cudaPeekAtLastError();
cudaStream_t s; cudaStreamCreate(&s); cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); cudaStreamSynchronize(s); cudaStreamDestroy(s);
cudaEvent_t a; cudaEventCreate(&a); cudaEventCreateWithFlags(&a, cudaEventDisableTiming); cudaEventRecord(a); cudaEventRecord(a, 0); cudaEventSynchronize(a);
cudaEvent_t a, b; float ms; cudaEventElapsedTime(&ms, a, b); cudaStreamWaitEvent(0, a, 0); cudaStreamWaitEvent(0, a); cudaEventDestroy(a);
cudaDeviceSynchronize(); int v; cudaRuntimeGetVersion(&v); cudaDriverGetVersion(&v);
dim3 grid(n, 2), block(32); kernel<<<grid, block>>>(o, n); kernel<<<n, 32, 1024>>>(o, n); kernel<<<dim3(n), dim3(32, 2, 1), 0, 0>>>(o, n);
auto f = kernel; f<<<n, 1>>>(o, n); void (*g)(float*, int) = n > 3 ? kernel : other<3>; g<<<1, 1>>>(o, n); other<4><<<1, 1>>>(o, n);
void* args[] = {&o, &n}; cudaLaunchKernel(kernel, dim3(1), dim3(1), args, 0, 0); cudaLaunchKernel((void*)kernel, 1, 1, args);
auto launch = [&](int blocks) { kernel<<<blocks, 1>>>(o, n); }; launch(3); for (int i = 0; i < 3; ++i) launch(i + 1);
""".strip().splitlines()

# Refused by the front end itself.
WRONG = """
o[0] = min(n, 3.f);
o[0] = max(o[0], 3);
o[0] = std::expf(o[0]);
o[0] = std::sqrtf(o[0]);
o[0] = abs(n - 3u);
o[0] = rsqrt(n);
o[0] = sqrt("four");
o[0] = undefined_name;
std::vector<float> v;
cudaThreadSynchronize();
cudaDeviceProp p; o[0] = p.clockRate;
""".strip().splitlines()

# Host code in a kernel: nvcc sees it once everything else is right, and constexpr functions first.
CONSTEXPR_IN_KERNELS = """
o[0] = sqrt(n);
o[0] = std::exp(n);
o[0] = fabs(n);
o[0] = ceil(n / 2);
o[0] = fmax(n, 3);
o[0] = std::min(n, 3);
o[0] = std::max(o[0], 3.f);
o[0] = std::max({n, 2, 3});
o[0] = std::clamp(n, 1, 2);
o[0] = std::numeric_limits<float>::infinity();
""".strip().splitlines()

HOST_IN_KERNELS = """
std::swap(o[0], o[1]);
fprintf(stderr, "x");
cudaDeviceSynchronize();
cudaMemset(o, 0, 4);
o[0] = host_function(o[1]);
""".strip().splitlines()

BEFORE = "float host_function(float x) { return x + 1; }\n__constant__ int table[4];\n"
KERNELS = "__global__ void kernel(float* o, int n) {}\ntemplate <int D> __global__ void other(float* o, int n) {}\n"
SOLVE = 'extern "C" void solve(float* o, int n) { kernel<<<1, 1>>>(o, n); }\n'


def kernel_bodies(bodies: list[str]) -> str:
    """One kernel a line, so that messages tell by their line which body they are about."""
    lines = [f"__global__ void k{i}(float* o, int n) {{ {body} }}\n" for i, body in enumerate(bodies)]
    return HEAD + BEFORE + KERNELS + SOLVE + "".join(lines)


def host_bodies(bodies: list[str]) -> str:
    lines = [f"void h{i}(float* o, int n) {{ {body} }}\n" for i, body in enumerate(bodies)]
    return HEAD + BEFORE + KERNELS + SOLVE + "".join(lines)


def ours(text: str) -> str:
    """The refusal, or an empty string."""
    try:
        compile_submission(text, "my.cu", DECLARATION, cards.get("H100"))
    except SubmissionError as error:
        return error.log
    return ""


def refused_bodies(text: str, bodies: list[str], log: str) -> list[str]:
    """Those bodies, the last lines of the text, that the log has an error for."""
    lines = {int(line) for line in re.findall(r"my\.cu\((\d+)\): error", log)}
    first = text.count("\n") - len(bodies) + 1
    return [body for line, body in enumerate(bodies, first) if line in lines]


def test_kernels_may() -> None:
    assert ours(kernel_bodies(IN_KERNELS)) == ""


def test_solve_may() -> None:
    assert ours(host_bodies(IN_HOST_CODE)) == ""


REFUSED = pytest.mark.parametrize(
    "bodies", [WRONG, CONSTEXPR_IN_KERNELS, HOST_IN_KERNELS], ids=["wrong", "constexpr", "host"]
)


@REFUSED
def test_kernels_may_not(bodies: list[str]) -> None:
    text = kernel_bodies(bodies)
    assert refused_bodies(text, bodies, ours(text)) == bodies


@pytest.mark.parametrize(
    ("name", "said"), [("FLT_MAX", "FLT_MAX"), ("uint32_t(1)", "uint32_t"), ("std::memcpy", "memcpy")]
)
def test_without_its_header_a_name_is_unknown(name: str, said: str) -> None:
    assert said in ours(KERNELS + f'extern "C" void solve(float* o, int n) {{ auto x = {name}; }}\n')


def test_nvcc_brings_these_along_without_a_header() -> None:
    body = 'n = INFINITY + M_PI + INT_MAX + std::min(n, 3) + sqrtf(n); printf("x"); assert(n); int64_t x = n; n = x;'
    assert ours(KERNELS + f'extern "C" void solve(float* o, int n) {{ {body} }}\n') == ""


def test_headers_of_the_toolkit_and_of_the_shim_live_together() -> None:
    includes = "".join(f"#include <{name}>\n" for name in (*OF_THE_TOOLKIT, *INCLUDES, "cooperative_groups.h"))
    assert ours(includes + kernel_bodies(IN_KERNELS)) == ""
    assert "host_function" in ours(includes + kernel_bodies(["o[0] = host_function(o[1]);"]))


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed: nothing to agree with")


def nvcc(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    source = folder / "my.cu"
    source.write_text(f"{DECLARATION}\n#line 1\n{text}")
    command = ["nvcc", "-cubin", "-arch=sm_90a", "-std=c++17", "-w", "-o", str(folder / "my.cubin"), str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@needs_nvcc
@pytest.mark.parametrize("text", [kernel_bodies(IN_KERNELS), host_bodies(IN_HOST_CODE)], ids=["kernels", "host code"])
def test_nvcc_accepts_the_same(text: str, tmp_path: Path) -> None:
    result = nvcc(text, tmp_path)
    assert result.returncode == 0, result.stderr


@needs_nvcc
@REFUSED
def test_nvcc_refuses_the_same(bodies: list[str], tmp_path: Path) -> None:
    text = kernel_bodies(bodies)
    assert refused_bodies(text, bodies, nvcc(text, tmp_path).stderr) == bodies
