"""Times the benchmark cases of one submission on a card: the supervisor's side.

    for each case   inputs and float64 reference are built once
      for each of three processes, fresh since the judging began
        open        the case goes to the card; a few plans run, so that it is known how windows will look
        rounds      a fresh disguise for every plan; then, and only then, the reference, and every output is compared
        close
      more rounds until the interval of the median is narrow (harness/measure/statistics.py), then the figures

The child times and compares; what counts as right, and the score, are decided here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from harness import cases as case_builder
from harness import check
from harness.cases import Case
from harness.devices.base import Program, RunLimits
from harness.devices.bench import Compared, Round, Setting
from harness.disguise import Disguise
from harness.errors import JudgeError
from harness.measure import ceilings, score, statistics
from harness.measure.records import Ceilings, Sample
from harness.problem import Problem
from harness.results import CaseResult, ErrorStats, Finding
from harness.sandbox import bench_codec as wire
from harness.sandbox import codec
from harness.sandbox.death import ChildDied, of_run
from harness.sandbox.frames import Frame
from harness.sandbox.supervisor import RunProcess
from harness.verdict import FindingKind, Verdict, verdict_of, worst

_WARM_UPS = 3
_OPEN_SECONDS = 120.0  # for gigabytes of inputs on a busy machine, beside the plans themselves
_CEILING_SECONDS = 120.0
_CHILD_SECONDS = 6.0  # of sampling in one child, after which a slow plan is sampled less often
_FEWEST = 5  # samples of a slow plan in one child


@dataclass(frozen=True)
class Card:
    """The card that is measured on: its ceilings, and bytes of its L2 cache."""

    ceilings: Ceilings
    l2_bytes: int


class Refused(Exception):
    """A case that ends without a figure; carries the result."""

    def __init__(self, result: CaseResult):
        super().__init__(result.verdict)
        self.result = result


def measured_ceilings(process: RunProcess, fresh: bool = False) -> Ceilings:
    """Of the card that the process has opened; from the cache where they still hold. Raises JudgeError."""
    opened = process.opened()
    found = None if fresh else ceilings.known(opened.name, opened.driver)
    if found is None:
        try:
            found = wire.read_ceilings(process.ask(Frame("ceilings"), "ceilings", _CEILING_SECONDS))
        except ChildDied as death:
            raise JudgeError(f"measuring the card's ceilings failed ({death.reason})") from None
        ceilings.remember(found)
    return found


class Benchmarking:
    """All benchmark cases of one submission. `processes`: fresh run children on the card; `tools`: the cubin of the
    judge's own kernels."""

    def __init__(self, problem: Problem, reference: ModuleType, program: Program, processes: Sequence[RunProcess],
                 card: Card, tools: bytes, limits: RunLimits, seed: int):  # fmt: skip
        self._problem, self._reference = problem, reference
        self._processes, self._card, self._tools = processes, card, tools
        self._limits, self._seed = limits, seed
        for process in processes:
            process.load(program)

    def measure(self, case: Case) -> CaseResult:
        """The figures of one case, or what was wrong. Raises JudgeError for what is not the submission's doing."""
        try:
            return self._measured(case)
        except Refused as refused:
            return refused.result

    def _measured(self, case: Case) -> CaseResult:
        session = _Session(case, self._draws(case), self._tools, self._limits, self._secret(case.name, "guards"))
        samples: list[Sample] = []
        wanted = statistics.next_round(samples)
        while wanted:
            for number, process in enumerate(self._processes):
                samples += session.sample(process, number, wanted)
            wanted = 0 if session.least < statistics.LEAST else statistics.next_round(samples)
        return self._result(case, session, samples)

    def _result(self, case: Case, session: _Session, samples: Sequence[Sample]) -> CaseResult:
        timing = statistics.summarise(samples, session.plans_per_window, least=session.least)
        cost, found = case.cost, self._card.ceilings
        written = sum(a.value.nbytes for a in case.arguments if a.role == "out" and isinstance(a.value, np.ndarray))
        dtype = self._problem.dtype
        rate, fastest = ceilings.rate_for(found, dtype), ceilings.fastest_rate_for(found, dtype)
        benchmark = score.benchmark(
            cost.bytes, cost.flops, written, timing, found, rate, fastest, self._card.l2_bytes
        )  # fmt: skip
        result = CaseResult(
            case.name, Verdict.ACCEPTED, session.worst_errors(), (), timing.seconds,
            parameters=dict(case.parameters), benchmark=benchmark,
        )  # fmt: skip
        if score.under_floor(benchmark):
            finding = _too_fast(case.name, benchmark.seconds, benchmark.floor_seconds)
            return replace(result, verdict=verdict_of(finding.kind), findings=(finding,))
        return result

    def _draws(self, case: Case) -> Iterator[Disguise]:
        """Fresh disguises, without end; the same for the same seed."""
        inputs = {a.name: a.value for a in case.arguments if a.role != "out"}
        rng = np.random.default_rng(self._secret(case.name, "disguises"))
        while True:
            yield case_builder.draw_disguise(self._problem, self._reference, inputs, rng)

    def _secret(self, case: str, purpose: str) -> int:
        """A number that follows from the seed, and tells nothing of it."""
        digest = hashlib.sha256(f"{purpose}/{self._seed}/{self._problem.id}/{case}".encode()).digest()
        return int.from_bytes(digest[:7], "little")


class _Session:
    """One case in all processes."""

    def __init__(self, case: Case, disguises: Iterator[Disguise], tools: bytes, limits: RunLimits, secret: int):
        self._case, self._disguises, self._tools, self._limits, self._secret = case, disguises, tools, limits, secret
        self._rms = {n: check.row_rms(case.expected[n]) for n, limit in case.limits.items() if limit.kind == "rows"}
        self._norms = {n: float(np.sqrt(np.square(case.expected[n]).sum())) for n in self._rms}
        self._errors: dict[str, ErrorStats] = {}
        self.plans_per_window = 1
        self.least = statistics.LEAST

    def sample(self, process: RunProcess, number: int, count: int) -> list[Sample]:
        """`count` samples from one process, fewer where the plan is slow. Raises Refused."""
        try:
            return self._sample(process, number, count)
        except ChildDied as death:
            verdict, finding = of_run(death)
            raise self._refused(verdict, finding) from None

    def _sample(self, process: RunProcess, number: int, count: int) -> list[Sample]:
        setting = self._open(process)
        self.plans_per_window = max(self.plans_per_window, setting.plans_per_window)
        slow = _CHILD_SECONDS / max(setting.seconds, 1e-9)
        if slow < statistics.LEAST:
            self.least = max(_FEWEST, min(self.least, int(slow)))
            count = self.least
        samples: list[Sample] = []
        while len(samples) < count:
            windows = min(count - len(samples), max(setting.windows_at_most, 1))
            samples += self._round(process, number, windows, setting)
        process.ask(Frame("close"), "closed", 10.0)
        return samples

    def _open(self, process: RunProcess) -> Setting:
        warm_ups = [next(self._disguises) for _ in range(_WARM_UPS)]
        request = wire.bench_request(self._case.arguments, self._limits, self._secret, warm_ups, self._tools)
        seconds = _OPEN_SECONDS + len(warm_ups) * self._limits.seconds
        setting = wire.read_benched(process.ask(request, "benched", seconds))
        self._refuse_for(setting.findings)
        return setting

    def _round(self, process: RunProcess, number: int, windows: int, setting: Setting) -> list[Sample]:
        disguises = [next(self._disguises) for _ in range(windows * setting.plans_per_window)]
        seconds = self._limits.seconds + 10 * windows * max(setting.seconds, 0.1)
        answer = process.ask(wire.sample_request(disguises), "sampled", seconds)
        found: Round = wire.read_sampled(answer)
        self._refuse_for(found.findings)
        self._verify(process, disguises)
        return [
            Sample(w.seconds, number, w.clocks.sm_mhz, w.clocks.memory_mhz, w.clocks.temperature, w.clocks.throttled,
                   w.clocks.power_capped)
            for w in found.windows
        ]  # fmt: skip

    def _verify(self, process: RunProcess, disguises: Sequence[Disguise]) -> None:
        """Every output of the round beside the reference. Raises Refused for the first that is wrong."""
        limits = {name: (limit.abc[0], limit.abc[1]) for name, limit in self._case.limits.items()}
        request = wire.compare_request(self._case.expected, self._rms, limits)
        table = (1 << 20) + 256 * len(disguises) * len(limits)
        found = wire.read_compared(process.ask(request, "compared", _OPEN_SECONDS, table))
        if len(found) != len(disguises) * len(limits):
            missing = Finding(FindingKind.NOTE, "An output of a timed launch is missing.")
            raise self._refused(Verdict.JUDGE_ERROR, missing)
        for each in found:
            stats = self._stats(each)
            if not (stats.ratio <= 1 and each.figures.poisoned == 0 and each.figures.nonfinite == 0):
                raise self._wrong(process, each, disguises[each.plan], stats)
            kept = self._errors.get(each.tensor)
            if kept is None or stats.ratio > kept.ratio:
                self._errors[each.tensor] = stats

    def _stats(self, each: Compared) -> ErrorStats:
        limit, figures = self._case.limits[each.tensor], each.figures
        total, shape = 0.0, self._case.expected[each.tensor].shape
        if limit.kind == "rows":
            norm = self._norms[each.tensor]
            total = 0.0 if figures.square_sum == 0 else math.sqrt(figures.square_sum) / norm if norm else math.inf
            shape = shape[:-1]
        ratio = figures.ratio / limit.abc[0]  # of elements
        if limit.kind == "rows":
            ratio = max(figures.ratio, total / max(limit.abc[2], 1e-300))
        if math.isnan(figures.ratio) or math.isnan(total):
            ratio = math.nan
        row = tuple(int(i) for i in np.unravel_index(figures.worst_row, shape)) if shape else ()
        return ErrorStats(
            each.tensor, math.nan, row, figures.worst_max, figures.worst_norm, total, limit.abc, figures.nonfinite,
            ratio,
        )  # fmt: skip

    def _wrong(self, process: RunProcess, each: Compared, disguise: Disguise, stats: ErrorStats) -> Refused:
        """The refusal for a wrong output, with what a test would say of it."""
        size = codec.output_bytes(self._case.arguments)
        answer = process.ask(Frame("fetch", {"plan": each.plan}), "fetched", _OPEN_SECONDS, size)
        outputs = {name: disguise.removed(name, array) for name, array in answer.arrays.items()}
        if set(outputs) != set(self._case.expected):
            outputs = {}
        unwritten = {each.tensor: each.figures.poisoned} if each.figures.poisoned else {}
        errors, findings, maps = check.compare(self._case, outputs, unwritten) if outputs else ([stats], [], [])
        words = "A timed launch, whose inputs were drawn afresh: "
        findings = [replace(finding, message=words + finding.message) for finding in findings]
        if not findings:
            findings = [Finding(FindingKind.MISMATCH, f"{words}{each.tensor} is wrong.", tensor=each.tensor)]
        result = self._case_result(Verdict.WRONG_ANSWER, tuple(errors), tuple(findings))
        return Refused(replace(result, mismatches=tuple(maps)))

    def _refuse_for(self, findings: Sequence[Finding]) -> None:
        """Raise Refused for what the child found; nothing where it found nothing."""
        if findings:
            raise self._refused(worst(verdict_of(finding.kind) for finding in findings), *findings)

    def _refused(self, verdict: Verdict, *findings: Finding) -> Refused:
        return Refused(self._case_result(verdict, (), findings))

    def _case_result(
        self, verdict: Verdict, errors: tuple[ErrorStats, ...], findings: tuple[Finding, ...]
    ) -> CaseResult:
        return CaseResult(self._case.name, verdict, errors, findings, parameters=dict(self._case.parameters))

    def worst_errors(self) -> tuple[ErrorStats, ...]:
        """Of each output, the farthest that any timed launch strayed."""
        return tuple(self._errors[name] for name in self._case.expected if name in self._errors)


def _too_fast(name: str, seconds: float, floor: float) -> Finding:
    message = (f"{name} took {seconds * 1e6:.2f} us; the bytes and operations that it needs take this card "
               f"{floor * 1e6:.2f} us at the very least. Such a time is refused, not ranked.")  # fmt: skip
    return Finding(FindingKind.TOO_FAST, message)

