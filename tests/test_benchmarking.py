"""The supervisor's side of a measurement, over processes that answer as a card's would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness import cases, problem
from harness.benchmarking import Benchmarking, Card
from harness.cases import Case
from harness.check import ErrorLimits
from harness.devices.base import Program, RunLimits
from harness.devices.bench import Compared, Round, Setting, Window
from harness.measure import ceilings
from harness.measure.clocks import Clocks
from harness.measure.judge_kernels import Figures
from harness.reference import load_reference
from harness.results import CaseResult, Finding
from harness.sandbox import bench_codec as wire
from harness.sandbox.frames import Frame
from harness.verdict import FindingKind, Verdict

PROBLEM = problem.load("split_k_merge")
REFERENCE = load_reference(PROBLEM)
SPEC = next(spec for spec in PROBLEM.tests if spec.name == "rows_1000")
CASE = cases.build_one(PROBLEM, REFERENCE, SPEC, 7, honest=False)
RIGHT = Figures(1e-7, 1e-7, 1e-12, 0.01, 3, 0, 0)


class Process:
    """Answers as a run child does; what its kernel wrote is `figures` off."""

    def __init__(self, seconds: float, figures: Figures = RIGHT, findings: Sequence[Finding] = ()):
        self.seconds, self.figures, self.findings = seconds, figures, tuple(findings)
        self.asked: list[str] = []
        self.plans = 0
        self.values: list[bytes] = []  # a factor of every disguise that came

    def load(self, program: Program) -> None:
        pass

    def ask(self, request: Frame, due: str, seconds: float, payload: int = 0) -> Frame:
        self.asked.append(request.kind)
        return getattr(self, f"_{request.kind}")(request)  # type: ignore[no-any-return]

    def _bench(self, request: Frame) -> Frame:
        assert not any(name.startswith("expected") for name in request.arrays), "no reference before the windows"
        return wire.benched_frame(Setting(self.seconds, 1e-6, 1, 4, 20))

    def _sample(self, request: Frame) -> Frame:
        disguises = wire.read_disguises(request)
        self.plans = len(disguises)
        self.values += [each.gather["out"][0].tobytes() for each in disguises]
        windows = tuple(Window(self.seconds, Clocks(1980, 3201, 40)) for _ in disguises)
        return wire.sampled_frame(Round(() if self.findings else windows, self.findings))

    def _compare(self, request: Frame) -> Frame:
        found = [Compared(plan, name, self.of(name)) for name in CASE.expected for plan in range(self.plans)]
        return wire.compared_frame(found)

    def of(self, output: str) -> Figures:
        return self.figures

    def _fetch(self, request: Frame) -> Frame:
        return Frame("fetched", {}, {name: np.zeros(a.shape, np.float32) for name, a in CASE.expected.items()})

    def _close(self, request: Frame) -> Frame:
        return Frame("closed")


def measured(processes: Sequence[Process], case: Case = CASE) -> CaseResult:
    from harness import cards

    card = Card(ceilings.datasheet(cards.get("H200")), 50 << 20)
    bench = Benchmarking(
        PROBLEM, REFERENCE, Program("a.cu", ""), processes, card, b"", RunLimits(), 7  # type: ignore[arg-type]
    )  # fmt: skip
    return bench.measure(case)


def test_three_processes_give_a_time_and_a_score() -> None:
    processes = [Process(1e-3) for _ in range(3)]
    result = measured(processes)
    assert result.verdict is Verdict.ACCEPTED and result.benchmark and result.benchmark.timing
    assert result.benchmark.seconds == 1e-3
    assert result.benchmark.timing.samples == 90 and result.benchmark.timing.children == 3
    assert not result.benchmark.timing.noisy
    assert result.benchmark.score == pytest.approx(100 * result.benchmark.sol_seconds / 1e-3)
    assert processes[0].asked == ["bench", "sample", "compare", "sample", "compare", "close"]


def test_no_two_plans_have_the_same_inputs() -> None:
    processes = [Process(1e-3) for _ in range(3)]
    measured(processes)
    values = [value for process in processes for value in process.values]
    assert len(set(values)) == len(values) == 90


@pytest.mark.parametrize(
    "figures",
    [
        replace(RIGHT, ratio=1.5),
        replace(RIGHT, ratio=float("nan")),
        replace(RIGHT, square_sum=float("inf")),
        replace(RIGHT, nonfinite=1),
        replace(RIGHT, poisoned=1),
    ],
)
def test_one_process_that_strays_is_a_wrong_answer(figures: Figures) -> None:
    result = measured([Process(1e-3), Process(1e-3), Process(1e-3, figures)])
    assert result.verdict is Verdict.WRONG_ANSWER and result.benchmark is None
    assert "A timed launch, whose inputs were drawn afresh" in result.findings[0].message


class SumsStray(Process):
    def of(self, output: str) -> Figures:
        return self.figures if output == "lse" else RIGHT


@pytest.mark.parametrize(("factor", "strayed", "verdict"), [
    (1.0, 0.9, Verdict.ACCEPTED), (1.0, 1.1, Verdict.WRONG_ANSWER), (4.0, 3.6, Verdict.ACCEPTED),
    (4.0, 4.4, Verdict.WRONG_ANSWER), (4.0, float("nan"), Verdict.WRONG_ANSWER),
])  # fmt: skip
def test_a_log_sum_exp_is_held_to_the_factor_of_its_dtype(factor: float, strayed: float, verdict: Verdict) -> None:
    case = replace(CASE, limits={**CASE.limits, "lse": ErrorLimits("elements", (factor, 0.0, 0.0))})
    figures = replace(RIGHT, worst_max=strayed, worst_norm=0.0, square_sum=0.0, ratio=strayed)
    assert measured([SumsStray(1e-3, figures), Process(1e-3), Process(1e-3)], case).verdict is verdict


def test_a_time_under_the_floor_is_refused() -> None:
    result = measured([Process(1e-9) for _ in range(3)])
    assert result.verdict is Verdict.POLICY_VIOLATION
    assert [finding.kind for finding in result.findings] == [FindingKind.TOO_FAST]


def test_what_a_window_found_is_the_verdict() -> None:
    finding = Finding(FindingKind.READ_ONLY_WRITE, "m is an input, but a timed launch changed it.", tensor="m")
    result = measured([Process(1e-3, findings=[finding]), Process(1e-3), Process(1e-3)])
    assert result.verdict is Verdict.POLICY_VIOLATION and result.findings == (finding,)


def test_a_slow_plan_is_sampled_less_often() -> None:
    result = measured([Process(1.0) for _ in range(3)])
    assert result.benchmark and result.benchmark.timing
    assert result.benchmark.timing.samples == 18 and not result.benchmark.timing.noisy


def test_processes_that_differ_are_noisy() -> None:
    result = measured([Process(1e-3), Process(1.2e-3), Process(0.8e-3)])
    assert result.benchmark and result.benchmark.timing and result.benchmark.timing.noisy
    assert result.benchmark.timing.samples == 600
