"""The emulator's speed: `python -m tests.bench_emulator [--repeat N] [--threads N]`, a JSON object on stdout.

For the handbook's two cases, paged decode with cp.async, and bfloat16 FlashAttention on mma, on one host thread and
with every check on:

    ratio    CPU seconds of the emulator's run over CPU seconds of the float64 NumPy reference, both the least of
             `repeat` runs in this process; the run is of compiled code, as in every case of a judging but the first
    compile  CPU seconds of NVRTC and of PTX -> native code, paid once in a judging
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in judge.py; before NumPy is loaded

import argparse
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import cards, cases, problem
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.devices.cpu import EmulatorDevice

ROOT = Path(__file__).resolve().parents[1]
CASES = (("flash_attention", "chapter_full"), ("paged_decode", "chapter"))
BF16_SHAPE = (8, 1024, 64)  # batch_heads, seq_len, head_dim


@dataclass(frozen=True)
class Run:
    """A kernel with what it is called with, and the reference that does the same."""

    source: Path
    declaration: str
    arguments: list[Argument]
    reference: Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    runs = {f"{p}/{c}": handbook(p, c) for p, c in CASES}
    runs["decode_cp_async"] = handbook("paged_decode", "chapter", "good_cp_async.cu")
    runs["flash_bf16_mma"] = flash_bf16_mma()
    measured = {name: measure(run, options.repeat, options.threads) for name, run in runs.items()}
    print(
        json.dumps(
            {"machine": platform.processor() or platform.machine(), "threads": options.threads, "cases": measured},
            indent=2,
        )
    )


def handbook(problem_id: str, case_name: str, name: str = "chapter.cu") -> Run:
    """One case of one problem, with a kernel of tests/submissions: the handbook's own, or another."""
    p = problem.load(problem_id)
    (case,) = cases.build(p, case_name, 1)
    reference = cases.load_reference(p)
    inputs: dict[str, Any] = {a.name: a.value for a in case.arguments if a.role != "out"}
    source = ROOT / "tests/submissions" / problem_id / name
    return Run(source, p.declaration(), list(case.arguments), lambda: reference.expected(inputs))


def flash_bf16_mma() -> Run:
    """FlashAttention on bfloat16 inputs; the reference has them as floats."""
    source, scale = ROOT / "tests/kernels/flash_bf16_mma.cu", BF16_SHAPE[2] ** -0.5
    values = np.random.default_rng(1).standard_normal((3, *BF16_SHAPE), dtype=np.float32).view(np.uint32)
    dimensions = {"batch_heads": BF16_SHAPE[0], "seq_len": BF16_SHAPE[1]}
    arguments = [Argument(x, (v >> 16).astype(np.uint16), "in", "__nv_bfloat16") for x, v in zip("qkv", values, strict=True)]
    arguments += [Argument("out", np.zeros(BF16_SHAPE, np.float32), "out", "float")]
    arguments += [Argument(x, n, "scalar", "int") for x, n in dimensions.items()]
    arguments += [Argument("scale", scale, "scalar", "float")]
    rounded = (values & 0xFFFF0000).view(np.float32)
    inputs = dict(zip("qkv", rounded, strict=True)) | dimensions | {"scale": scale, "causal": False}
    reference = cases.load_reference(problem.load("flash_attention"))
    types = ", ".join(["const __nv_bfloat16*"] * 3)
    declaration = f'#include <cuda_bf16.h>\nextern "C" void solve({types}, float*, int, int, float);'
    return Run(source, declaration, arguments, lambda: reference.expected(inputs))


def measure(case: Run, repeat: int, threads: int) -> dict[str, Any]:
    """Emulator against reference for one case."""
    start = time.process_time()
    compiled = compile_submission(case.source.read_text(), case.source.name, case.declaration, cards.get("H100"))
    device, limits = EmulatorDevice(), RunLimits(seconds=600, threads=threads)
    program = Program(case.source.name, compiled.ptx)

    def run() -> None:
        result = device.run(program, case.arguments, limits, seed=1)
        assert not result.findings, result.findings[0].message

    run()
    compile_seconds = time.process_time() - start
    emulator, numpy = least(run, repeat), least(case.reference, repeat)
    return {
        "ratio": round(emulator / numpy, 3),
        "emulator_cpu_seconds": round(emulator, 4),
        "numpy_cpu_seconds": round(numpy, 4),
        "compile_cpu_seconds": round(compile_seconds - emulator, 3),
    }


def least(function: Callable[[], object], repeat: int) -> float:
    """Least CPU seconds of a call, all threads counted."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
