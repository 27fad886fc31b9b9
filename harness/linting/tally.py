"""What the seeds have shown of one standing kernel, and what follows from it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from harness.cases import Case
from harness.errors import SubmissionError
from harness.linting import floors
from harness.linting.kernels import StandingKernel
from harness.linting.records import KernelResult, Outcome
from harness.problem import Problem
from harness.results import CaseResult, ErrorStats
from harness.verdict import Verdict

_POLICY = "policy"  # in a case's place, for a kernel that may not run at all
_SHOWN = 3  # seeds that a reason names


@dataclass
class Tally:
    """Counts seed after seed."""

    kernel: StandingKernel
    track: Problem
    seeds: int
    passed: int = 0
    rejected_by: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    margins: list[float] = field(default_factory=list)
    touched: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    strayed: dict[str, float] = field(default_factory=dict)
    reason: str = ""  # why the kernel is refused
    _failed_seeds: list[int] = field(default_factory=list)

    def note_work(self, case: Case, result: CaseResult) -> None:
        """Distinct bytes of the tensors of a case that ran, and operations where all launches are known."""
        if result.traffic:
            if result.traffic.complete and not result.traffic.launches_left_out:
                self.counted[case.name] = sum(sum(launch.flops.values()) for launch in result.traffic.launches)
            names = {a.name for a in case.arguments if isinstance(a.value, np.ndarray)}
            tensors = [t for t in result.traffic.tensors if t.tensor in names]
            self.touched[case.name] = sum(t.read.distinct_bytes + t.write.distinct_bytes for t in tensors)

    def note_accepted(self, result: CaseResult) -> None:
        """A case that accepted the kernel; how near an honest one came to its limits."""
        if self.kernel.kind == "honest":
            self.margins.append(margin(result))
            self.strayed[result.name] = max(self._over_floors(result), self.strayed.get(result.name, 0.0))

    def _over_floors(self, result: CaseResult) -> float:
        """The worst error over its dtype's floor, whatever the limits of the case."""
        kinds = {tensor.name: tensor.check for tensor in self.track.outputs}
        ratios = (floors.of_stats(error, kinds[error.tensor], self.track.dtype) for error in result.errors)
        return max(ratios, default=0.0)

    def count(self, seed: int, rejected: CaseResult | None) -> None:
        """A seed has ended: the result that rejected the kernel, None where every case accepted it."""
        self.verdicts[rejected.verdict if rejected else Verdict.ACCEPTED] += 1
        if rejected:
            self.rejected_by[rejected.name] += 1
            self.margins.append(margin(rejected))
        if rejected is None if self.kernel.kind == "honest" else _rejects(rejected):
            self.passed += 1
            return
        self._failed_seeds.append(seed)
        shown = ", ".join(map(str, self._failed_seeds[:_SHOWN])) + " ..." * (len(self._failed_seeds) > _SHOWN)
        said = f"rejected on seed {shown}: {_said(rejected)}" if rejected else f"accepted by all cases on seed {shown}"
        self.reason = said

    def refuse_to_run(self, error: SubmissionError) -> None:
        """It may not run, or does not compile: only a bad kernel may be stopped by the policy."""
        self.verdicts[error.verdict] = self.seeds
        if self.kernel.kind == "bad" and error.verdict is Verdict.POLICY_VIOLATION:
            self.passed = self.rejected_by[_POLICY] = self.seeds
            self.margins.append(math.inf)
            return
        said = next((line for line in error.log.splitlines() if "error" in line), str(error))
        self.reason = f"it cannot be run: {error.verdict}: {said}"

    def result(self, seconds: float) -> KernelResult:
        """The record of all seeds, which took so many seconds."""
        worst = max if self.kernel.kind == "honest" else min
        return KernelResult(
            name=self.kernel.name,
            file=str(self.kernel.path),
            kind=self.kernel.kind,
            about=self.kernel.about,
            dtype=self.track.dtype,
            variant=self.track.variant,
            outcome=Outcome.REFUSED if self.reason else Outcome.SOUND,
            reason=self.reason,
            passed=self.passed,
            seeds=self.seeds,
            rejected_by=dict(self.rejected_by.most_common()),
            verdicts={str(verdict): count for verdict, count in self.verdicts.most_common()},
            margin=worst(self.margins, default=None),
            touched=self.touched,
            counted=self.counted,
            strayed=self.strayed,
            seconds=seconds,
        )


def margin(result: CaseResult) -> float:
    """The worst error over its limit; inf where it was rejected for something else than its error, or is NaN."""
    worst = max((_ratio(error) for error in result.errors), default=0.0)
    return worst if result.verdict is Verdict.ACCEPTED or worst > 1 else math.inf


def _ratio(error: ErrorStats) -> float:
    return math.inf if math.isnan(error.ratio) else error.ratio


def _rejects(result: CaseResult | None) -> bool:
    """A device that lacks an instruction has not rejected anything."""
    return result is not None and result.verdict is not Verdict.UNSUPPORTED


def _said(result: CaseResult) -> str:
    message = result.findings[0].message.splitlines()[0] if result.findings else ""
    return f"case {result.name}: {result.verdict}: {message}"
