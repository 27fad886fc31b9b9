"""The emulator's speed: `python -m tests.bench_emulator [--repeat N] [--threads N]`, a JSON object on stdout.

For the handbook's two cases, on one host thread and with every check on:

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
from pathlib import Path
from typing import Any

from harness import cards, cases, problem
from harness.compile.build import compile_submission
from harness.devices.base import Program, RunLimits
from harness.devices.cpu import EmulatorDevice

ROOT = Path(__file__).resolve().parents[1]
CASES = (("flash_attention", "chapter_full"), ("paged_decode", "chapter"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    measured = {f"{p}/{c}": measure(p, c, options.repeat, options.threads) for p, c in CASES}
    print(
        json.dumps(
            {"machine": platform.processor() or platform.machine(), "threads": options.threads, "cases": measured},
            indent=2,
        )
    )


def measure(problem_id: str, case_name: str, repeat: int, threads: int) -> dict[str, Any]:
    """Emulator against reference for one case of one problem, with the handbook's own kernel."""
    p = problem.load(problem_id)
    source = ROOT / "tests/submissions" / problem_id / "chapter.cu"
    (case,) = cases.build(p, case_name, 1)
    reference = cases.load_reference(p)
    inputs: dict[str, Any] = {a.name: a.value for a in case.arguments if a.role != "out"}
    start = time.process_time()
    compiled = compile_submission(source.read_text(), source.name, p.declaration(), cards.get("H100"))
    program, device, limits = (
        Program(source.name, compiled.ptx),
        EmulatorDevice(),
        RunLimits(seconds=600, threads=threads),
    )

    def run() -> None:
        result = device.run(program, list(case.arguments), limits, seed=1)
        assert not result.findings, result.findings[0].message

    run()
    compile_seconds = time.process_time() - start
    emulator, numpy = least(run, repeat), least(lambda: reference.expected(inputs), repeat)
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
