"""Reports made by hand: measured with baselines, one noisy and one failing case; and a modelled one."""

from __future__ import annotations

from dataclasses import replace

from harness.measure.records import Baseline, Benchmark, Ceilings, Timing
from harness.results import (
    Access,
    CaseResult,
    CompileResult,
    ErrorStats,
    Finding,
    KernelResources,
    KernelUse,
    LaunchShape,
    LaunchUse,
    Occupancy,
    Report,
)
from harness.traffic import AccessTraffic, CaseTraffic, LaunchTraffic, LineTraffic, TensorTraffic
from harness.verdict import FindingKind, Verdict

SOURCE = """#include <cstdint>
__global__ void attend(const float* q, float* out, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = q[threadIdx.x];
  out[threadIdx.x] = tile[(threadIdx.x + 1) % 64] < 0 ? 0 : 1;
}
"""
H200 = Ceilings(
    "NVIDIA H200", "580.159", 4.30e12, 4.36e12, {"fma": 62e12, "tf32": 380e12, "bf16": 790e12},
    date="2026-11-29T10:00:00+00:00", sm_clock_mhz=1980,
)  # fmt: skip
DATA_SHEET = Ceilings("NVIDIA H100 80GB HBM3", "", 3.35e12, 3.35e12, {"fma": 66.9e12}, modelled=True)
GOOD = ErrorStats("out", 1e-7, (0,), 1e-6, 2e-6, 3e-7, (2e-4, 5e-5, 1e-5), 0, 0.04)
RACE = Finding(
    FindingKind.DATA_RACE, "Two threads touch tile[1] and nothing orders them.", "my.cu", 4, "tile", (1,), (0, 0, 0),
    (1, 0, 0), Access(5, (0, 0, 0), (0, 0, 0)), "attend(const float*, float*, int)", ("my.cu:2",),
)  # fmt: skip


def timing(seconds: float, spread: float = 0.004, noisy: bool = False) -> Timing:
    low, high = seconds * (1 - spread), seconds * (1 + spread)
    return Timing(
        seconds, low, high, (low, high), low, 90, 0, 3, 1, noisy, (1755, 1980), (3201, 3201), (45, 61),
        ("power cap",) if noisy else (),
    )  # fmt: skip


def benchmark(
    nbytes: int, flops: int, seconds: float, ceilings: Ceilings = H200, rate: float = 126e12, **changes: object
) -> Benchmark:
    """With the figures that follow from these."""
    memory, compute = nbytes / ceilings.bandwidth, flops / rate
    sol = max(memory, compute)
    made = Benchmark(
        nbytes, flops, seconds, sol, "compute" if compute > memory else "memory", 0.9 * sol, nbytes / seconds,
        flops / seconds, memory / seconds, compute / seconds, 100 * sol / seconds,
        None if ceilings.modelled else timing(seconds), ceilings.modelled,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def measured(**changes: object) -> Report:
    """Accepted, with three benchmarks, one of them noisy, and baselines."""
    flash, causal = 137_438_953_472, 68_736_253_952
    baselines = (
        Baseline("torch SDPA, efficient", 4.0e-3, "float32"),
        Baseline("torch SDPA, cuDNN", 2.2e-4, "bfloat16", "bf16 instead of float32"),
        Baseline("FlashInfer prefill", 0, "bfloat16", "not installed"),
    )
    slower = (Baseline("torch SDPA, efficient", 14.9e-6, "float32"),)
    noisy = timing(12.4e-6, 0.031, noisy=True)
    latency = benchmark(1_048_576, 67_108_864, 12.4e-6, timing=noisy, baselines=slower)
    cases = (
        CaseResult("one_token", Verdict.ACCEPTED, (GOOD,), (), 0.25),
        CaseResult("chapter_causal", Verdict.ACCEPTED, (GOOD,), (), 0.5),
        _case("heads_32_seq_4096_d64", benchmark(134_217_728, flash, 6.42e-3, baselines=baselines)),
        _case("heads_32_seq_4096_d64_causal", benchmark(134_217_728, causal, 5.1e-3, baselines=baselines[:1])),
        _case("one_head_latency", latency),
    )
    report = Report(
        "flash_attention", "my.cu", "NVIDIA H200", "float32", 7, Verdict.ACCEPTED, CompileResult(True, 0.5),
        cases, resources=(resources(),), score=13.4, tier="pass", ceilings=H200, seconds=41.3,
    )  # fmt: skip
    return replace(report, **changes)  # type: ignore[arg-type]


def modelled() -> Report:
    """Two benchmarks of the emulator."""
    one = benchmark(
        537_000_000, 1_074_000_000, 6.4e-4, DATA_SHEET, 66.9e12, moved_bytes=2_148_000_000, emulated="num_seqs 2 of 64"
    )
    two = benchmark(69_000_000, 138_000_000, 2.5e-5, DATA_SHEET, 66.9e12, moved_bytes=83_000_000)
    cases = (
        CaseResult("one_token", Verdict.ACCEPTED, (GOOD,), (), 0.25, traffic=traffic()),
        _case("seqs_64_len_4096", one),
        _case("one_seq_4096", two),
    )
    return Report(
        "paged_decode", "my.cu", "emulator (H100)", "float32", 7, Verdict.ACCEPTED, CompileResult(True, 0.5), cases,
        score=47.1, ceilings=DATA_SHEET, seconds=12.5,
    )  # fmt: skip


def failing() -> Report:
    """A race in a test, a benchmark that was refused, and hence no score."""
    cases = (
        CaseResult("one_token", Verdict.ACCEPTED, (GOOD,), (), 0.25),
        CaseResult("two_tokens", Verdict.DATA_RACE, (replace(GOOD, ratio=31.0),), (RACE,), 0.5, "said\n"),
        CaseResult("heads_32_seq_4096_d64", Verdict.POLICY_VIOLATION, (), (
            Finding(FindingKind.NOTE, "It took 1.0 us, less than the 120 us that the card needs."),)),
    )  # fmt: skip
    return measured(
        cases=cases, verdict=Verdict.DATA_RACE, score=None, tier="", score_note="not all tests are accepted",
        compile=CompileResult(True, 0.5, "my.cu(3): warning: unused\n", True, 40, 0, 256),
    )  # fmt: skip


def resources() -> KernelUse:
    kernel = KernelResources("_Z6attendPKfPfi", "attend", 40, 0, 16, 8, 256, 372, 1)
    shape = LaunchShape("_Z6attendPKfPfi", (17, 32, 1), (64, 1, 1), 1024, 3)
    use = LaunchUse(shape, 544, Occupancy(12, 24, 0.375, ("registers",)), 0.34)
    return KernelUse("H200", kernel, (use,))


def traffic() -> CaseTraffic:
    read = AccessTraffic(4096, 0, 524_288, 524_288, 32_768, 16_384, 131_072)
    written = AccessTraffic(32, 0, 4096, 4096, 128, 128, 4096)
    tensors = (TensorTraffic("q", 131_072, read), TensorTraffic("out", 4096, write=written))
    lines = (LineTraffic("my.cu", 4, "q", "read", 4096, 524_288, 32_768, 16_384),)
    launch = LaunchTraffic("attend", 9, (1, 1, 1), (64, 1, 1), 0, 1, 2, True, tensors, lines)
    return CaseTraffic((launch,), tensors=tensors, fewest_bytes=135_168, score_modelled=12.8)


def _case(name: str, figures: Benchmark) -> CaseResult:
    return CaseResult(name, Verdict.ACCEPTED, (GOOD,), (), 1.5, benchmark=figures)
