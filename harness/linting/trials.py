"""One standing kernel in one track, run on all seeds in the emulator and judged as a submission is.

A bad kernel must be rejected on every seed. One case that rejects it is enough, so that a seed ends there (unless it
was a near thing: then others are tried), and the next seed begins with the cases that rejected before. An honest kernel
must be accepted on every case of every seed.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness import object_cache, pipeline, policy
from harness.artefacts import compiled
from harness.case_list import CaseSpec
from harness.cases import Case
from harness.devices.base import Program, RunLimits
from harness.errors import JudgeError, SubmissionError
from harness.linting.case_store import CaseStore
from harness.linting.kernels import StandingKernel
from harness.linting.records import NEAR, KernelResult, Outcome
from harness.linting.tracks import declaration
from harness.problem import Problem
from harness.results import CaseResult, ErrorStats
from harness.sandbox.death import ChildDied, of_run
from harness.sandbox.supervisor import RunProcess, Source, Toolchain
from harness.submission import safe_name
from harness.verdict import Verdict

CARD = "H100"
COMPILE_SECONDS = 60.0
_POLICY = "policy"  # in a case's place, for a kernel that may not run at all
_PATIENCE = 5  # times the limit of a case: the machine may be busy with other kernels
_SHOWN = 3  # seeds that a reason names


@dataclass(frozen=True)
class Setting:
    """What all trials of a linting have in common. `stopped` is asked before every case."""

    store: CaseStore
    seeds: Sequence[int]
    toolchain: Toolchain
    threads: int = 1  # of the emulator
    cache: bool = True
    stopped: Callable[[], bool] = lambda: False


class Stopped(Exception):
    """The linting was interrupted."""


def examine(kernel: StandingKernel, track: Problem, setting: Setting, runner: RunProcess) -> KernelResult:
    """Run the kernel and say whether it got what it must. Raises ProblemError (a case cannot be built), JudgeError."""
    return _Trial(kernel, track, setting, runner).result()


@dataclass
class _Tally:
    """What the seeds have shown so far."""

    passed: int = 0
    rejected_by: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    margins: list[float] = field(default_factory=list)
    failed_seeds: list[int] = field(default_factory=list)
    example: str = ""  # of what an honest kernel was rejected for
    touched: dict[str, int] = field(default_factory=dict)


class _Trial:
    def __init__(self, kernel: StandingKernel, track: Problem, setting: Setting, runner: RunProcess):
        self._kernel, self._track, self._setting, self._runner = kernel, track, setting, runner
        self._tally = _Tally()
        self._order = list(track.tests)
        self._start = time.monotonic()

    def result(self) -> KernelResult:
        try:
            self._load()
        except SubmissionError as error:
            return self._unloaded(error)
        for seed in self._setting.seeds:
            rejected = self._reject(seed)
            self._count(seed, rejected)
            if rejected and rejected.verdict is Verdict.UNSUPPORTED:
                break  # it says nothing of the problem, on any seed
        if self._setting.cache:
            object_cache.keep(self._ptx, self._runner.collect())
        return self._record(self._reason())

    def _load(self) -> None:
        kernel, setting, allowed = self._kernel, self._setting, self._track.policy.device_state_bytes
        name = safe_name(kernel.name)
        source = Source(kernel.text, name, declaration(self._track), CARD)
        artefacts, _ = compiled(source, setting.toolchain, COMPILE_SECONDS, setting.cache)
        policy.require(artefacts.ptx, artefacts.cubin, kernel.text, name, allowed)
        self._ptx = artefacts.ptx
        known = object_cache.known(self._ptx) if setting.cache else {}
        self._runner.load(Program(name, self._ptx, CARD), known)

    def _unloaded(self, error: SubmissionError) -> KernelResult:
        """It may not run, or does not compile: only a bad kernel may be stopped by the policy."""
        seeds = len(self._setting.seeds)
        self._tally.verdicts[error.verdict] = seeds
        if self._kernel.kind == "bad" and error.verdict is Verdict.POLICY_VIOLATION:
            self._tally.passed, self._tally.rejected_by[_POLICY] = seeds, seeds
            self._tally.margins.append(math.inf)
            return self._record("")
        said = next((line for line in error.log.splitlines() if "error" in line), str(error))
        return self._record(f"it cannot be run: {error.verdict}: {said}")

    def _reject(self, seed: int) -> CaseResult | None:
        """The result that rejects the kernel on this seed, the clearest where all come near; None where every case
        accepts it."""
        nearest: tuple[float, CaseSpec, CaseResult] | None = None
        for spec in self._order:
            if self._setting.stopped():
                raise Stopped
            result = self._run(spec, seed)
            ratio = _ratio(result)
            if result.verdict is Verdict.ACCEPTED:
                self._tally.margins += [ratio] if self._kernel.kind == "honest" else []
            elif nearest is None or ratio > nearest[0]:
                nearest = ratio, spec, result
            if nearest and (nearest[0] >= NEAR or self._kernel.kind == "honest"):
                break
        if nearest is None:
            return None
        self._order.remove(nearest[1])
        self._order.insert(0, nearest[1])
        return nearest[2]

    def _run(self, spec: CaseSpec, seed: int) -> CaseResult:
        case, limits = self._setting.store.get(self._track, spec, seed), self._limits()
        try:
            run = self._runner.run(case.arguments, limits, seed)
        except ChildDied as death:
            verdict, finding = of_run(death)
            result = CaseResult(case.name, verdict, findings=(finding,))
        else:
            result = pipeline.assess(case, run, limits)
        if result.verdict is Verdict.JUDGE_ERROR:
            said = result.findings[0].message if result.findings else ""
            raise JudgeError(f"{self._kernel.path} on case {case.name}, seed {seed}: {said}")
        if seed == self._setting.seeds[0]:
            self._note_touched(case, result)
        return result

    def _limits(self) -> RunLimits:
        problem = self._track
        return RunLimits(
            seconds=_PATIENCE * problem.limits.seconds,
            threads=self._setting.threads,
            device_state_bytes=problem.policy.device_state_bytes,
        )

    def _note_touched(self, case: Case, result: CaseResult) -> None:
        if result.traffic:
            names = {a.name for a in case.arguments if isinstance(a.value, np.ndarray)}
            tensors = [t for t in result.traffic.tensors if t.tensor in names]
            self._tally.touched[case.name] = sum(t.read.distinct_bytes + t.write.distinct_bytes for t in tensors)

    def _count(self, seed: int, rejected: CaseResult | None) -> None:
        tally = self._tally
        tally.verdicts[rejected.verdict if rejected else Verdict.ACCEPTED] += 1
        if rejected:
            tally.rejected_by[rejected.name] += 1
        proper = rejected is None if self._kernel.kind == "honest" else _rejects(rejected)
        tally.passed += proper
        if rejected and (not proper or self._kernel.kind != "honest"):
            tally.margins.append(_ratio(rejected))
        if not proper:
            tally.failed_seeds.append(seed)
            tally.example = tally.example or _said(rejected)

    def _reason(self) -> str:
        tally = self._tally
        if not tally.failed_seeds:
            return ""
        seeds = ", ".join(map(str, tally.failed_seeds[:_SHOWN])) + (" ..." if len(tally.failed_seeds) > _SHOWN else "")
        if tally.example:
            return f"rejected on seed {seeds}: {tally.example}"
        return f"accepted by all cases on seed {seeds}"

    def _record(self, reason: str) -> KernelResult:
        kernel, track, tally = self._kernel, self._track, self._tally
        worst = max if kernel.kind == "honest" else min
        return KernelResult(
            name=kernel.name,
            file=str(kernel.path),
            kind=kernel.kind,
            about=kernel.about,
            dtype=track.dtype,
            variant=track.variant,
            outcome=Outcome.REFUSED if reason else Outcome.SOUND,
            reason=reason,
            passed=tally.passed,
            seeds=len(self._setting.seeds),
            rejected_by=dict(tally.rejected_by.most_common()),
            verdicts={str(verdict): count for verdict, count in tally.verdicts.most_common()},
            margin=worst(tally.margins, default=None),
            touched=tally.touched,
            seconds=time.monotonic() - self._start,
        )


def _rejects(result: CaseResult | None) -> bool:
    """A device that lacks an instruction has not rejected anything."""
    return result is not None and result.verdict is not Verdict.UNSUPPORTED


def _ratio(result: CaseResult) -> float:
    """The worst error over its limit; inf where it was rejected for something else than its error, or is NaN."""
    ratios = [_number(error) for error in result.errors]
    worst = max(ratios, default=0.0)
    return worst if result.verdict is Verdict.ACCEPTED or worst > 1 else math.inf


def _number(error: ErrorStats) -> float:
    return math.inf if math.isnan(error.ratio) else error.ratio


def _said(result: CaseResult | None) -> str:
    if result is None:
        return ""
    finding = result.findings[0].message.splitlines()[0] if result.findings else ""
    return f"case {result.name}: {result.verdict}: {finding}"
