"""Blocks that wait for each other: they come to an end where they do on a card, and where not, it is said who waits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from harness import cards
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.devices.cpu import EmulatorDevice
from harness.emulator import resident
from harness.verdict import FindingKind as K
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

BARRIER = """__device__ volatile unsigned generation; __device__ unsigned arrived;
__device__ void wait_for_all() { __syncthreads(); if (threadIdx.x == 0) { unsigned g = generation; __threadfence();
    if (atomicAdd(&arrived, 1u) == gridDim.x - 1) { arrived = 0; __threadfence(); generation = g + 1; }
    else while (generation == g) { }
    __threadfence(); } __syncthreads(); }
"""
ROTATE = """__global__ void k(float* x, int n) { int i = blockIdx.x * 64 + threadIdx.x; x[i] = i;
    for (int s = 0; s < n; ++s) { wait_for_all(); float v = x[(i + 64) % (gridDim.x * 64)]; wait_for_all(); x[i] = v; } }
"""
CHAIN = """__global__ void k(volatile int* done, int* o) { int b = blockIdx.x, last = gridDim.x - 1; if (threadIdx.x == 0) {
    if (b != last) while (done[b + 1] == 0) ;
    __threadfence(); o[b] = b != last ? o[b + 1] + 1 : 1; __threadfence(); done[b] = 1; } }
"""
RING = """__global__ void k(volatile int* flag, int* o) { int b = blockIdx.x;
if (threadIdx.x == 0)
while (flag[(b + 1) % gridDim.x] == 0) ;
__syncthreads();
flag[b] = 1; }
"""
POLLS = """__global__ void k(volatile int* flag, int* o) { int polls = 0;
    while (flag[0] == 0 && polls < 100000) ++polls;
    o[blockIdx.x * 32 + threadIdx.x] = polls; }
"""


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


@pytest.mark.parametrize("level", ["mid", "full"])
def test_a_barrier_of_the_whole_grid(level: str) -> None:
    ran = run(BARRIER + ROTATE, [np.ma.masked_all(64 * 24, np.float32), 5], 24, 64, level=level)
    assert ran.findings == []
    assert (ran.arrays[0] == (np.arange(64 * 24) + 5 * 64) % (64 * 24)).all()


def test_the_barrier_is_needed() -> None:
    ran = run((BARRIER + ROTATE).replace("wait_for_all(); x[i] = v;", "x[i] = v;"), [np.ma.masked_all(1536, np.float32), 5], 24, 64)
    assert {f.kind for f in ran.findings} == {K.DATA_RACE}


def test_earlier_blocks_wait_for_later_ones() -> None:
    ran = run(CHAIN, [_zeros(100), _zeros(100)], 100, 64)
    assert ran.findings == []
    assert (ran.arrays[1] == np.arange(100, 0, -1)).all()


def test_a_warp_is_charged_for_its_polls_only() -> None:
    ran = run(CHAIN, [_zeros(100), _zeros(100)], 100, 64, budget=5_000_000)
    assert ran.findings == []


def test_a_circle_of_waiting_blocks_is_a_deadlock_that_names_their_lines() -> None:
    ran = run(RING, [_zeros(8), _zeros(8)], 5, 64)
    (finding,) = ran.findings
    assert finding.kind is K.DEADLOCK
    assert (finding.line, finding.block) == (6, (0, 0, 0))
    assert "block (0, 0, 0): warp 0 at line 6, warp 1 at line 7; block (1, 0, 0): warp 0 at line 6" in finding.message
    assert "2 more blocks" in finding.message


def test_a_poll_that_gives_up_is_no_deadlock() -> None:
    ran = run(POLLS, [_zeros(8), _zeros(4 * 32)], 4, 32)
    assert ran.findings == []
    assert (ran.arrays[1] == 100_000).all()


def test_waiting_for_a_clock_is_no_deadlock() -> None:
    text = """__global__ void k(volatile int* flag, int* o) { long long start = clock64();
    while (flag[0] == 0 && clock64() - start < 300000) ;
    o[blockIdx.x * 32 + threadIdx.x] = 1; }"""
    ran = run(text, [_zeros(8), _zeros(4 * 32)], 4, 32)
    assert ran.findings == []
    assert ran.arrays[1].all()


def test_an_endless_loop_that_computes_names_its_line_too() -> None:
    text = """__global__ void k(volatile int* flag, int* o) { int x = 1;
    while (flag[0] == 0)
    x = x * 3 + 1;
    o[threadIdx.x] = x; }"""
    ran = run(text, [_zeros(8), _zeros(4 * 32)], 4, 32, seconds=1.0)
    (finding,) = ran.findings
    assert finding.kind is K.TIME_LIMIT
    assert finding.line in (5, 6)
    assert "block (0, 0, 0): warp 0 at line" in finding.message


def test_blocks_that_the_emulator_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "MAX_BYTES", 1 << 16)
    (finding,) = run(CHAIN, [_zeros(100), _zeros(100)], 100, 64).findings
    assert finding.kind is K.UNSUPPORTED
    assert "blocks have not started" in finding.message


GROUPS = "#include <cuda_runtime.h>\n#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
TOGETHER = """__global__ void k(const float* in, float* out, float* tmp, int n) {
  cg::grid_group grid = cg::this_grid(); int i = grid.thread_rank(); tmp[i] = in[i]; grid.sync();
  for (int s = 0; s < 3; ++s) { float v = tmp[(i + 77) % n]; grid.sync(); tmp[i] = v + 1; grid.sync(); } out[i] = tmp[i]; }
extern "C" void solve(const float* in, float* out, int n) {
  float* tmp; cudaMalloc(&tmp, n * sizeof(float)); void* args[] = {&in, &out, &tmp, &n};
  int fit = 0; cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, k, 64, 0);
  if (fit * 132 >= n / 64) cudaLaunchCooperativeKernel(k, dim3(n / 64), dim3(64), args, 0, 0);
  cudaFree(tmp); }
"""
PLANTED = """__global__ void k(const float* in, float* out, int n) { int i = blockIdx.x * 48 + threadIdx.x;
  if (i < n) out[i] = in[i] + blockIdx.x;
  if (i + 30 < n) out[i + 30] = 3; }
extern "C" void solve(const float* in, float* out, int n) { k<<<(n + 47) / 48, 64>>>(in, out, n); }
"""
SAME_VALUES = """__global__ void k(const float* in, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += 64) out[i] = in[i]; }
extern "C" void solve(const float* in, float* out, int n) { k<<<20, 64>>>(in, out, n); }
"""
OUT_OF_BOUNDS = PLANTED.replace("if (i < n) ", "")


@lru_cache(maxsize=16)
def _ptx(text: str) -> str:
    declaration = 'extern "C" void solve(const float* in, float* out, int n);'
    headers = GROUPS if "cg::" in text else "#include <cuda_runtime.h>\n"
    return compile_submission(headers + text, "my.cu", declaration, cards.get("H100"), "mid").ptx


def _judge(text: str, n: int = 1024, threads: int = 0, schedule: int | None = None) -> RunResult:
    arguments = [
        Argument("in", np.arange(n, dtype=np.float32), "in", "float"),
        Argument("out", np.zeros(n, np.float32), "out", "float"),
        Argument("n", n, "scalar", "int"),
    ]
    return EmulatorDevice().run(Program("my.cu", _ptx(text)), arguments, RunLimits(threads=threads, schedule=schedule), 1)


@pytest.mark.parametrize("schedule", [None, 1, 2])
def test_a_cooperative_launch_synchronises_its_grid(schedule: int | None) -> None:
    result = _judge(TOGETHER, schedule=schedule)
    assert result.findings == ()
    assert (result.outputs["out"] == (np.arange(1024) + 3 * 77) % 1024 + 3).all()


def test_a_launch_that_is_not_cooperative_has_no_grid_to_synchronise() -> None:
    (finding,) = _judge(TOGETHER.replace("cudaLaunchCooperativeKernel", "cudaLaunchKernel")).findings
    assert finding.kind is K.TRAP
    assert "cudaLaunchCooperativeKernel" in finding.message


def test_a_grid_barrier_that_one_block_leaves_out() -> None:
    text = TOGETHER.replace("tmp[i] = v + 1; grid.sync();", "tmp[i] = v + 1; if (s < 2 || blockIdx.x) grid.sync();")
    (finding,) = [f for f in _judge(text).findings if f.kind is not K.DATA_RACE]
    assert finding.kind is K.DEADLOCK
    assert finding.line == 6


@pytest.mark.parametrize("text", [PLANTED, OUT_OF_BOUNDS, SAME_VALUES, TOGETHER], ids=["race", "bounds", "same", "grid"])
def test_findings_and_bytes_are_the_same_on_any_number_of_cores(text: str) -> None:
    first, *others = [_judge(text, n=1000 if text is not TOGETHER else 1024, threads=threads) for threads in (1, 2, 4, 4)]
    assert bool(first.findings) == (text in (PLANTED, OUT_OF_BOUNDS))
    for other in others:
        assert other.findings == first.findings
        assert other.unwritten == first.unwritten
        assert other.outputs["out"].tobytes() == first.outputs["out"].tobytes()
