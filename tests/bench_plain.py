"""The emulator beside plain C++: `python -m tests.bench_plain [--repeat N] [--levels mid full]`, JSON on stdout.

The handbook's two kernels (tests/bench_emulator.py), in the emulator with every check on and as loops over blocks and
threads in C++ (tests/bench_plain/*.cpp), built by g++ in three ways. All on one thread, in CPU seconds, the least of
`repeat` runs; the C++ results are checked against the reference first.

    thread_instructions   32 times the warp-instructions that the emulator ran, counted by the loop turn; PTX as the
                          compiler gave it at that level, so `mid` counts moves that `full` does not have
    per_second            these over the emulator's seconds: how fast it is
    g++                   for each way of building: seconds, the emulator's time over them, and the same
                          thread-instructions over them, as the rate that plain C++ has on the same work
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded

import argparse
import ctypes
import json
import platform
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness import cards, cases, problem
from harness.compile.build import LEVELS, compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from harness.emulator.launch import Launcher, Outcome
from tests.bench_emulator import CASES, ROOT, least

BUILDS = {
    "-O2": ["-O2"],
    "-O3 -march=native": ["-O3", "-march=native"],
    "-O3 -march=native -ffast-math": ["-O3", "-march=native", "-ffast-math", "-fno-finite-math-only"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=["mid"], help="full takes the compiler half a minute")
    options = parser.parse_args()
    measured = {f"{p}/{c}": measure(p, c, options.repeat, options.levels) for p, c in CASES}
    print(json.dumps({"machine": platform.processor() or platform.machine(), "threads": 1, "cases": measured}, indent=2))


def measure(problem_id: str, case_name: str, repeat: int, levels: list[str]) -> dict[str, Any]:
    """One case: every level of the compiler in the emulator, every build of the C++."""
    p = problem.load(problem_id)
    (case,) = cases.build(p, case_name, 1)
    plain = {name: _plain_seconds(p.id, flags, case, repeat) for name, flags in BUILDS.items()}
    return {level: _beside(*_emulated(p, case, level, repeat), plain) for level in levels}


def _beside(count: int, seconds: float, plain: dict[str, float]) -> dict[str, Any]:
    return {
        "thread_instructions": count,
        "emulator_cpu_seconds": round(seconds, 4),
        "per_second": round(count / seconds),
        "g++": {
            name: {"cpu_seconds": round(s, 4), "emulator_over_plain": round(seconds / s, 2), "per_second": round(count / s)}
            for name, s in plain.items()
        },
    }


def _emulated(p: problem.Problem, case: cases.Case, level: str, repeat: int) -> tuple[int, float]:
    """Thread-instructions of a run, and its CPU seconds."""
    source = ROOT / "tests/submissions" / p.id / "chapter.cu"
    compiled = compile_submission(source.read_text(), source.name, p.declaration(), cards.get("H100"), level)
    program, device = Program(source.name, compiled.ptx), EmulatorDevice()

    def run() -> None:
        result = device.run(program, list(case.arguments), RunLimits(seconds=600, threads=1), seed=1)
        assert not result.findings, result.findings[0].message

    return 32 * _warp_instructions(run), least(run, repeat)


def _warp_instructions(run: Callable[[], None]) -> int:
    """Of all launches of a run."""
    counts: list[int] = []
    launch = Launcher.launch

    def counted(self: Launcher, *args: Any, **keywords: Any) -> Outcome:
        outcome = launch(self, *args, **keywords)
        counts.append(outcome.instructions)
        return outcome

    Launcher.launch = counted  # type: ignore[method-assign]
    try:
        run()
    finally:
        Launcher.launch = launch  # type: ignore[method-assign]
    return sum(counts)


def _plain_seconds(problem_id: str, flags: list[str], case: cases.Case, repeat: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        library = _build(ROOT / "tests/bench_plain" / f"{problem_id}.cpp", flags, Path(folder))
        out = next(np.zeros_like(a.value) for a in case.arguments if a.role == "out")
        arguments = [_passed(a, out) for a in case.arguments]
        library.solve(*arguments)
        _check(problem_id, case, out)
        return least(lambda: library.solve(*arguments), repeat)


def _build(source: Path, flags: list[str], folder: Path) -> ctypes.CDLL:
    target = folder / "plain.so"
    subprocess.run(["g++", "-std=c++17", *flags, "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def _passed(a: Argument, out: np.ndarray) -> Any:
    """An argument of solve() for ctypes."""
    if a.role == "out":
        return out.ctypes.data_as(ctypes.c_void_p)
    if isinstance(a.value, np.ndarray):
        return a.value.ctypes.data_as(ctypes.c_void_p)
    return ctypes.c_float(a.value) if isinstance(a.value, float) else ctypes.c_int(a.value)


def _check(problem_id: str, case: cases.Case, out: np.ndarray) -> None:
    reference = cases.load_reference(problem.load(problem_id))
    expected = reference.expected({a.name: a.value for a in case.arguments if a.role != "out"})["out"]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main()
