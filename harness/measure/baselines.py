"""`--baseline`: what installed libraries take for the same cases on the same card.

    this process            a child of each library (harness/sandbox/baseline_child.py)
    ------------            -----
    open                --> import torch and the library, raise the clocks
    case: inputs,       --> candidates of problems/<id>/baselines.py (harness/measure/candidates.py), one by one:
          reference         prepare, compare with the reference, time
    Outcome             <-- trying, row, trying, row, ... done

A candidate that crashes, faults or hangs costs its own row: the next child goes on behind it. Some libraries compile
a kernel when it is first called (FlashInfer takes 20 to 50 s, and keeps the result in the user's cache), hence the long
time for a single candidate.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from harness.cases import Case
from harness.check import FLOORS
from harness.measure.candidates import load_libraries
from harness.measure.records import Baseline
from harness.problem import Problem
from harness.sandbox import codec
from harness.sandbox.baseline_child import EXPECTED, INPUT
from harness.sandbox.child import Child
from harness.sandbox.death import ChildDied
from harness.sandbox.frames import Frame
from harness.sandbox.limits import MIB, ProcessLimits

BENCH = "harness.measure.torch_bench:TorchBench"
SECONDS = 300.0  # for all baselines of a judging
_CANDIDATE_SECONDS = 150.0  # for one candidate: compilation and timing
_START_SECONDS = 120.0  # for the imports of a library
_CASE_SECONDS = 120.0  # for the inputs to reach the card
_NO_TIME = "no time was left for it"
# No limits but on what it prints: this is trusted code, which compiles, and maps more memory than the machine has.
_LIMITS = ProcessLimits(file_bytes=0, open_files=0, output_bytes=4 * MIB)
_GIVEN = ("HOME", "XDG_CACHE_HOME", "FLASHINFER_WORKSPACE_BASE", "FLASHINFER_CUDA_ARCH_LIST", "MAX_JOBS")


@dataclass(frozen=True)
class Outcome:
    """One row: the figure for the report, the error of the answer (|e| / |expected|) and how often it was run."""

    baseline: Baseline
    error: float = 0.0
    samples: int = 0


class Baselines:
    """The libraries that a problem is compared with, each in a child that lives from case to case.

    Use it from one thread, while nothing else uses the card, in a with statement, or close it. `seconds` is for all
    cases together, `device` the name of the card that the submission is timed on, as far as it is known, `bench` what
    holds the card in a child. Raises ProblemError where baselines.py is broken.
    """

    def __init__(self, problem: Problem, device: str = "", seconds: float = SECONDS, bench: str = BENCH):
        self._dtype = problem.dtype
        self._budget = _Budget(seconds)
        names = load_libraries(problem.directory)
        self._missing = [name for name in names if find_spec(name) is None]
        if "torch" in self._missing and bench == BENCH:  # which holds the card for every library
            self._missing, names = ["torch"], {}
        present = [name for name in names if name not in self._missing]
        self._libraries = [_Library(problem.directory, name, bench, device) for name in present]

    def measure(self, case: Case) -> tuple[Baseline, ...]:
        """Every library's figures for one case, in the order of baselines.py; those that are not installed last.
        Raises UsageError where there is no GPU."""
        return tuple(outcome.baseline for outcome in self.outcomes(case))

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        """The same, each as soon as it is there."""
        of_rows = (limits.abc[2] for limits in case.limits.values() if limits.kind == "rows")
        strictest = min(of_rows, default=FLOORS[self._dtype][2])
        with self._budget.running():
            for library in self._libraries:
                for outcome in library.outcomes(case, self._budget):
                    yield _judged(outcome, self._dtype, strictest)
        for name in self._missing:
            yield Outcome(Baseline(name, 0.0, self._dtype, f"{name} is not installed"))

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that have been opened so far, by name."""
        return {library.name: library.version for library in self._libraries if library.version}

    def close(self) -> None:
        """End the children."""
        for library in self._libraries:
            library.close()

    def __enter__(self) -> Baselines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def measure_baselines(
    problem: Problem,
    cases: Iterable[Case],
    device: str = "",
    seconds: float = SECONDS,
    bench: str = BENCH,
) -> dict[str, tuple[Baseline, ...]]:
    """By the case's name: what installed libraries take. See `Baselines` for arguments and errors."""
    with Baselines(problem, device, seconds, bench) as baselines:
        return {case.name: baselines.measure(case) for case in cases}


def _judged(outcome: Outcome, dtype: str, strictest: float) -> Outcome:
    """With a remark where a library computes in the case's own type, but not as well as the judge asks for."""
    baseline = outcome.baseline
    if not baseline.seconds or baseline.dtype != dtype or outcome.error <= strictest:
        return outcome
    remark = f"its error, {outcome.error:.0e}, would not be accepted"
    return replace(outcome, baseline=replace(baseline, note=_joined(baseline.note, remark)))


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


class _Budget:
    """Seconds that are spent only while baselines are measured."""

    def __init__(self, seconds: float):
        self._left = seconds
        self._since = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._left -= time.monotonic() - self._since

    def at_most(self, seconds: float) -> float:
        """So many seconds, or what is left; not above 0 when nothing is."""
        return min(seconds, self._left - (time.monotonic() - self._since))


class _Library:
    """One library's child, and those that follow it after a death."""

    def __init__(self, directory: Path, name: str, bench: str, device: str):
        self._open = {"directory": str(directory), "library": name, "bench": bench, "environment": _environment()}
        self.name = name
        self._device = device
        self._child: Child | None = None
        self.version = ""  # once it has been opened
        self._remark = ""  # on every row

    def outcomes(self, case: Case, budget: _Budget) -> Iterator[Outcome]:
        """A case, candidate by candidate."""
        begun: list[Baseline] = []  # which a new child leaves out
        running: list[Baseline] = []  # the one of them that has not answered yet
        finished = False
        while not finished:
            try:
                finished = yield from self._case(case, begun, running, budget)
            except ChildDied as died:
                self.close()
                out_of_time = budget.at_most(1) <= 0
                finished = not running or out_of_time  # otherwise the next child goes on behind it
                candidate = running.pop() if running else Baseline(self.name, 0.0, "")
                yield Outcome(replace(candidate, note=_NO_TIME if out_of_time else died.reason))

    def _case(
        self, case: Case, begun: list[Baseline], running: list[Baseline], budget: _Budget
    ) -> Generator[Outcome, None, bool]:
        """What is left of a case; whether that is all of it, for a card that has faulted needs another child."""
        if absent := self._opened(budget):
            yield Outcome(Baseline(self.name, 0.0, "", absent))
            return True
        assert self._child
        self._child.send(_request(case, begun))
        while (frame := self._receive(budget, _CASE_SECONDS)).kind != "done":
            candidate = _candidate(codec.check(frame, "trying"))
            begun.append(candidate)
            running.append(candidate)
            row = codec.check(self._receive(budget, _CANDIDATE_SECONDS), "row")
            running.clear()
            yield _outcome(candidate, row, self._remark)
            if row.fields.get("broken"):
                self.close()
                return not candidate.dtype  # it was baselines.py itself, which would fail again
        return True

    def _opened(self, budget: _Budget) -> str:
        """See to it that there is a child; why there is none. Raises UsageError where there is no GPU."""
        if self._child:
            return ""
        self._child = Child("harness.sandbox.baseline_child", _LIMITS)
        self._child.send(Frame("open", self._open))
        answer = self._receive(budget, _START_SECONDS)
        if answer.kind == "absent":
            self.close()
            return f"{self.name} cannot be used: {codec.text_of(answer, 'message')}"
        device, self.version = (codec.text_of(codec.check(answer, "ready"), name) for name in ("device", "version"))
        self._remark = "" if device in self._device or self._device in device else f"on {device}"
        return ""

    def _receive(self, budget: _Budget, seconds: float) -> Frame:
        assert self._child
        return self._child.receive(max(budget.at_most(seconds), 0.0), 0)

    def close(self) -> None:
        """End the child, if there is one."""
        if self._child:
            self._child.close()
        self._child = None


def _environment() -> dict[str, str]:
    """What leads a library to its cache (a child's own home is a new folder each time), and to tools such as ninja that
    pip has put beside the interpreter."""
    path = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(Path(sys.executable).parent))))
    given = {name: os.environ[name] for name in _GIVEN if name in os.environ}
    return {"HOME": str(Path.home()), "PATH": path} | given


def _request(case: Case, begun: Sequence[Baseline]) -> Frame:
    arrays: dict[str, np.ndarray] = {}
    scalars: dict[str, int | float] = {}
    for argument in case.arguments:
        if not isinstance(argument.value, np.ndarray):
            scalars[argument.name] = argument.value
        elif argument.role != "out":
            arrays[INPUT + argument.name] = argument.value
    arrays |= {EXPECTED + name: array for name, array in case.expected.items()}
    skip = [[candidate.name, candidate.dtype] for candidate in begun]
    return Frame("case", {"scalars": scalars, "skip": skip}, arrays)


def _candidate(frame: Frame) -> Baseline:
    name, dtype, note = (codec.text_of(frame, field) for field in ("name", "dtype", "note"))
    return Baseline(name, 0.0, dtype, note)


def _outcome(candidate: Baseline, row: Frame, remark: str) -> Outcome:
    if failure := codec.text_of(row, "failure"):
        return Outcome(replace(candidate, note=failure))
    gaps = "includes launch gaps" if row.fields.get("gaps") else ""
    note = _joined(candidate.note, gaps, remark)
    seconds, error, samples = (codec.number_of(row, field) for field in ("seconds", "error", "samples"))
    return Outcome(replace(candidate, seconds=seconds, note=note), error, int(samples))
