"""solve() of real CUDA C++ -> launch plan: compiled by NVRTC, evaluated by the emulator, recorded by the planner."""

from __future__ import annotations

import struct
from functools import lru_cache

import numpy as np
import pytest

from harness import cards
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.plan import FIRST_TENSOR_ID, Copy, Launch, LaunchPlan, Memset, Upload, address, locate
from harness.planner import PlanFault, make_plan, pack
from harness.results import Finding
from harness.verdict import FindingKind

DECLARATION = 'extern "C" void solve(const float* q, float* out, int n, float scale);'
KERNELS = """#include <cuda_runtime.h>
__constant__ int table[4];
template <int D> __global__ void work(const float* q, float* out, int n, float scale) { out[0] = q[0] * n * scale * D; }
__global__ void __launch_bounds__(64) small(float* out) { __shared__ float tile[256]; tile[threadIdx.x] = 1; out[0] = tile[3]; }
__global__ void big(float* out) { extern __shared__ float tile[]; tile[0] = 1; out[0] = tile[0]; }
"""
HEAD = 'extern "C" void solve(const float* q, float* out, int n, float scale) {\n'
FIRST_LINE = KERNELS.count("\n") + 2  # of the body of solve()
Q, OUT = address(FIRST_TENSOR_ID), address(FIRST_TENSOR_ID + 1)
SCRATCH = address(FIRST_TENSOR_ID + 4)
WORK = "_Z4workILi{}EEvPKfPfif"


@lru_cache
def program(body: str, before: str = "") -> Program:
    text = KERNELS + before + HEAD + body + "\n}\n"
    compiled = compile_submission(text, "my.cu", DECLARATION, cards.get("H100"))
    return Program("my.cu", compiled.ptx)


def plan(body: str, n: int = 100, before: str = "", limits: RunLimits | None = None, card: str = "H100") -> LaunchPlan:
    arguments = [
        Argument("q", np.zeros(64, np.float32), "in", "float"),
        Argument("out", np.zeros(64, np.float32), "out", "float"),
        Argument("n", n, "scalar", "int"),
        Argument("scale", 0.5, "scalar", "float"),
    ]
    return make_plan(program(body, before), arguments, cards.get(card), limits or RunLimits())


def faults(body: str, n: int = 100, before: str = "", limits: RunLimits | None = None) -> tuple[Finding, ...]:
    with pytest.raises(PlanFault) as caught:
        plan(body, n, before, limits)
    assert all(finding.file == "my.cu" for finding in caught.value.findings)
    return caught.value.findings


def arguments_of(launch: object) -> tuple[int, int, int, float]:
    assert isinstance(launch, Launch)
    q, out, n, scale = struct.unpack("<QQif", launch.args)
    return q, out, n, scale


def test_a_launch_has_its_shape_arguments_and_line() -> None:
    steps = plan("  dim3 block(32, 4);\n  work<3><<<(n + 127) / 128, block, 256>>>(q, out + 2, n, scale);", n=300).steps
    assert len(steps) == 1
    launch = steps[0]
    assert isinstance(launch, Launch)
    assert (launch.kernel, launch.grid, launch.block) == (WORK.format(3), (3, 1, 1), (32, 4, 1))
    assert (launch.shared_bytes, launch.line) == (256, FIRST_LINE + 1)
    assert arguments_of(launch) == (Q, OUT + 8, 300, 0.5)


def test_loops_branches_and_dispatch_follow_the_scalars() -> None:
    body = """
      auto kernel = n > 64 ? work<4> : work<2>;
      for (int i = 0; i < std::min(n, 3); ++i) kernel<<<i + 1, 32>>>(q, out, i, scale * i);
      switch (n) { case 50: work<1><<<1, 1>>>(q, out, n, scale); break; default: break; }
    """
    assert [(s.kernel, s.grid[0]) for s in plan(body, 100).steps if isinstance(s, Launch)] == [
        (WORK.format(4), grid) for grid in (1, 2, 3)
    ]
    assert [s.kernel for s in plan(body, 50).steps if isinstance(s, Launch)] == [WORK.format(2)] * 3 + [WORK.format(1)]
    assert [arguments_of(step)[3] for step in plan(body, 100).steps] == [0.0, 0.5, 1.0]


def test_memory_calls_become_steps_in_order() -> None:
    body = """  float* t;
      cudaMalloc(&t, n * sizeof(float));
      cudaMemsetAsync(t, 0xff, n * sizeof(float));
      cudaMemcpy(t, q, 256, cudaMemcpyDeviceToDevice);
      int shape[4] = {n, 2, 3, 4};
      cudaMemcpyToSymbol(table, shape, sizeof(shape));
      work<1><<<1, 32>>>(t, out, n, scale);
      cudaFree(t);"""
    made = plan(body)
    line = FIRST_LINE
    memset, copy, upload, launch = made.steps
    assert memset == Memset(SCRATCH, 255, 400, line + 2)
    assert copy == Copy(SCRATCH, Q, 256, line + 3)
    assert isinstance(upload, Upload)
    assert (upload.data, upload.line) == (struct.pack("<4i", 100, 2, 3, 4), line + 5)
    assert [(b.id, b.name, b.nbytes) for b in made.variables] == [(locate(upload.dst)[0], "table", 16)]
    assert arguments_of(launch)[0] == SCRATCH
    assert [(b.name, b.nbytes, b.line) for b in made.scratch] == [("scratch #1", 400, line + 1)]


def test_a_constant_array_can_be_uploaded() -> None:
    body = "  const int shape[4] = {1, 2, 3, 4};\n  cudaMemcpyToSymbol(table, shape, sizeof(shape));"
    (upload,) = plan(body).steps
    assert isinstance(upload, Upload)
    assert upload.data == struct.pack("<4i", 1, 2, 3, 4)


def test_cuda_launch_kernel_is_a_launch() -> None:
    body = (
        "  void* args[] = {&q, &out, &n, &scale};\n  cudaLaunchKernel((void*)work<5>, dim3(2), dim3(64), args, 0, 0);"
    )
    (launch,) = plan(body).steps
    assert isinstance(launch, Launch)
    assert (launch.kernel, launch.grid, launch.line) == (WORK.format(5), (2, 1, 1), FIRST_LINE + 1)
    assert arguments_of(launch) == (Q, OUT, 100, 0.5)


def test_the_card_answers_questions() -> None:
    body = """
      cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);
      int sms = 0, blocks = 0; cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, work<1>, 256, 0);
      printf("%s %d %d %zu %d", p.name, sms, p.multiProcessorCount, p.sharedMemPerBlockOptin, blocks);
      work<1><<<sms, 32>>>(q, out, p.major * 10 + p.minor, scale);
    """
    made = plan(body)
    assert made.stdout == "NVIDIA H100 80GB HBM3 132 132 232448 8"
    assert arguments_of(made.steps[0])[2] == 90
    assert plan(body, card="T4").steps[0].grid == (40, 1, 1)  # type: ignore[union-attr]


def test_nothing_that_only_synchronises_is_a_step() -> None:
    body = """
      cudaStream_t s; cudaStreamCreate(&s); cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
      cudaEventRecord(a, s); work<1><<<1, 32, 0, s>>>(q, out, n, scale); cudaEventRecord(b, s);
      cudaStreamSynchronize(s); cudaDeviceSynchronize();
      float ms = 1; cudaEventElapsedTime(&ms, a, b); if (ms != 0) exit(1);
      if (cudaGetLastError() != cudaSuccess) exit(1);
      cudaEventDestroy(a); cudaStreamDestroy(s);
    """
    assert len(plan(body).steps) == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("work<1><<<1, 2048>>>(q, out, n, scale);", "block.x is over 1024"),
        ("work<1><<<0, 32>>>(q, out, n, scale);", "grid.x is 0"),
        ("work<1><<<dim3(1, 70000), 32>>>(q, out, n, scale);", "grid.y is over 65535"),
        ("small<<<1, 128>>>(out);", "__launch_bounds__"),
        ("big<<<1, 32, 60000>>>(out);", "cudaFuncSetAttribute"),
        ("small<<<1, 32, 49000>>>(out);", "beside 1024 bytes of static shared memory"),
        ("void (*none)(float*) = nullptr; none<<<1, 1>>>(out);", "invalid device function"),
    ],
)
def test_a_refused_launch_is_found_at_its_line(body: str, said: str) -> None:
    (finding,) = faults(f"  int unused = n; (void)unused;\n  {body}\n  cudaDeviceSynchronize();")
    assert (finding.kind, finding.line) == (FindingKind.INVALID_LAUNCH, FIRST_LINE + 1)
    assert said in finding.message


def test_a_checked_refusal_names_the_launch_not_the_exit() -> None:
    body = """  work<1><<<1, 2048>>>(q, out, n, scale);
      cudaError_t error = cudaGetLastError();
      if (error != cudaSuccess) { fprintf(stderr, "%s\\n", cudaGetErrorString(error)); exit(1); }"""
    (finding,) = faults(body)
    assert (finding.kind, finding.line) == (FindingKind.INVALID_LAUNCH, FIRST_LINE)


def test_shared_memory_is_opened_by_the_attribute() -> None:
    body = """
      cudaFuncSetAttribute(big, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
      big<<<1, 32, 100000>>>(out);
    """
    assert plan(body).dynamic_shared_limit == {"_Z3bigPf": 100000}


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        ("float x = q[0]; if (x > 0) out[0] = x;", FindingKind.HOST_ERROR, "device memory"),
        ("out[n] = 1;", FindingKind.HOST_ERROR, "device memory"),
        ("float h[4]; cudaMemcpy(h, out, 16, cudaMemcpyDeviceToHost);", FindingKind.UNSUPPORTED, "out to the host"),
        ("cudaMemset(out, 0, 4 * n);", FindingKind.OUT_OF_BOUNDS, "bytes 0 to 400 of out"),
        ("float* t; cudaMalloc(&t, 4); cudaFree(t); cudaMemset(t, 0, 4);", FindingKind.OUT_OF_BOUNDS, "freed"),
        ("float* t; cudaMalloc(&t, 4); cudaFree(t); cudaFree(t);", FindingKind.HOST_ERROR, "freed before"),
        ("cudaMemset((void*)q, 0, 4);", FindingKind.READ_ONLY_WRITE, "q is an input"),
        ("assert(n == 3);", FindingKind.TRAP, "n == 3"),
        ("exit(4);", FindingKind.HOST_ERROR, "exit(4)"),
    ],
)
def test_what_solve_may_not_do_is_found_at_its_line(body: str, kind: FindingKind, said: str) -> None:
    finding = faults(f"  int unused = n; (void)unused;\n  {body}")[0]
    assert (finding.kind, finding.line) == (kind, FIRST_LINE + 1)
    assert said in finding.message


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("float host[64] = {0}; work<1><<<1, 32>>>(host, out, n, scale);", 1),
        ("float host[64] = {0}; work<1><<<1, 32>>>(q, host + 3, n, scale);", 2),
        ("float* host = (float*)malloc(256); work<1><<<1, 32>>>(host, out, n, scale);", 1),
        ("float* host = new float[64]; small<<<1, 32>>>(host);", 1),
        ("float* host; cudaMallocHost(&host, 256); small<<<1, 32>>>(host);", 1),
        ("float h; float* p = &h; void* args[] = {&p}; cudaLaunchKernel((void*)small, 1, 32, args, 0, 0);", 1),
    ],
)
def test_host_memory_is_no_argument_of_a_kernel(body: str, number: int) -> None:
    finding = faults(f"  int unused = n; (void)unused;\n  {body}")[0]
    assert (finding.kind, finding.line) == (FindingKind.HOST_ERROR, FIRST_LINE + 1)
    assert f"argument {number} of " in finding.message and "copy the data to the device" in finding.message


def test_addresses_of_variables_and_integers_are_no_host_memory() -> None:
    before = "struct Shape { int a, b; };\n__device__ float scratch[4];\n"
    before += "__global__ void shaped(Shape s, int a, int b, float* t, void* none) { t[0] = s.a + s.b + a + b; }\n"
    body = "float host[64]; host[n % 64] = scale; cudaMemcpy(out, host, 4, cudaMemcpyHostToDevice); void* t;"
    body += "cudaGetSymbolAddress(&t, scratch); shaped<<<1, 32>>>(Shape{n, 64}, 64, 512, (float*)t, nullptr);"
    (finding,) = faults(f"  {body}", before=before)
    assert finding.kind == FindingKind.DEVICE_STATE and "hands the address of the device variable scratch" in finding.message
    before = before.replace("__device__ float", "__constant__ float")  # which no kernel can write
    assert len(plan(body, before=before).steps) == 2


@pytest.mark.parametrize(
    ("body", "before", "kind", "said"),
    [
        ("float* h = (float*)malloc(1 << 30); memset(h, n, 4); small<<<1, 32>>>(out + int(h[0]));", "",
         FindingKind.MEMORY_LIMIT, "solve() asks for 1073741824 bytes of host memory after 0 bytes before"),
        ("small<<<fold(n), 32>>>(out);", "__noinline__ int fold(int n) { return n < 2 ? n : fold(n / 2) + fold(n / 3); }\n",
         FindingKind.UNSUPPORTED, "recursive call of fold"),
        ("small<<<1, 32>>>(huge);", "__device__ float huge[1 << 29];\n",
         FindingKind.MEMORY_LIMIT, "the variable huge has 2147483648 bytes; all variables of a file may have 134217728"),
    ],
)  # fmt: skip
def test_limits_of_host_code_are_named(body: str, before: str, kind: FindingKind, said: str) -> None:
    (finding,) = faults(f"  {body}", before=before)
    assert finding.kind == kind
    assert said in finding.message


def test_an_endless_loop_in_solve_ends() -> None:
    (finding,) = faults("  for (volatile int i = 0;; i = i + 1) {}")
    assert finding.kind == FindingKind.TIME_LIMIT


def test_scratch_has_a_limit() -> None:
    body = "  float* t = nullptr;\n  if (cudaMalloc(&t, 1 << 20) != cudaSuccess) return;"
    (finding,) = faults(body, limits=RunLimits(scratch_bytes=1 << 19))
    assert (finding.kind, finding.line) == (FindingKind.MEMORY_LIMIT, FIRST_LINE + 1)


def test_host_code_may_have_helpers_arrays_and_state() -> None:
    before = """
      static int calls;
      struct Shape { int blocks, threads; };
      Shape choose(int n) { return {(n + 63) / 64, n > 64 ? 128 : 64}; }
      template <class F> void repeat(int times, F f) { for (int i = 0; i < times; ++i) f(i); }
    """
    body = """
      const int sizes[3] = {1, 2, 4};
      Shape shape = choose(n);
      repeat(3, [&](int i) { work<1><<<shape.blocks * sizes[i], shape.threads>>>(q, out, ++calls, scale); });
    """
    steps = plan(body, before=before).steps
    assert [(s.grid[0], s.block[0], arguments_of(s)[2]) for s in steps if isinstance(s, Launch)] == [
        (2, 128, 1),
        (4, 128, 2),
        (8, 128, 3),
    ]
    assert plan(body, before=before).steps == steps  # no state survives a call


def test_scalars_are_packed_as_the_abi_aligns_them() -> None:
    arguments = [
        Argument("n", 7, "scalar", "int"),
        Argument("q", np.zeros(4, np.float32), "in", "float"),
        Argument("scale", 0.25, "scalar", "float"),
        Argument("offset", -9, "scalar", "int64_t"),
    ]
    expected = struct.pack("<i4xQf4xq", 7, address(FIRST_TENSOR_ID + 1), 0.25, -9)
    assert pack(arguments) == expected
