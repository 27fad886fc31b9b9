"""The stage of a judging that comes after its tests: benchmarks timed on a card, or modelled without one.

On a card three fresh processes take turns (harness/benchmarking.py); installed libraries come after them, case by case.
Without one the emulator runs each benchmark at the size that the problem gives for it, and its counted traffic is set
against a data sheet: such figures are marked as modelled from here on.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

from harness import cases as case_builder
from harness.benchmarking import Benchmarking, Card
from harness.cases import Case
from harness.devices.base import Program, RunLimits
from harness.measure import ceilings as ceiling_rules
from harness.measure import score
from harness.measure.baselines import Baselines
from harness.measure.judge_kernels import compile_judge_kernels
from harness.measure.records import Ceilings
from harness.prefetch import Prefetch
from harness.problem import CaseSpec, Problem
from harness.reference import load_reference
from harness.results import CaseResult
from harness.sandbox.limits import gpu_limits
from harness.sandbox.supervisor import Opened, RunProcess, Toolchain
from harness.verdict import Verdict

PROCESSES = 3
_BASELINE_SECONDS = 300.0  # for all libraries and cases


class OnCard:
    """Benchmarks on the card that the judging has opened."""

    def __init__(self, problem: Problem, program: Program, limits: RunLimits, seed: int, toolchain: Toolchain,
                 opened: Opened):  # fmt: skip
        self._problem, self._program, self._limits, self._seed = problem, program, limits, seed
        self._devices, self._opened = {"gpu": toolchain.gpu}, opened

    def results(
        self, found: Ceilings, specs: Sequence[CaseSpec], baseline: bool
    ) -> Generator[CaseResult, None, None]:
        """One result for every case, in order. Raises JudgeError for what is not the submission's doing."""
        card = Card(found, self._opened.l2_bytes)
        tools = compile_judge_kernels(self._opened.arch)
        built = case_builder.build_specs(self._problem, specs, self._seed, honest=False)
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(self._process()) for _ in range(PROCESSES)]
            ahead = stack.enter_context(Prefetch(built))
            others = stack.enter_context(self._baselines()) if baseline else None
            reference = load_reference(self._problem)
            bench = Benchmarking(
                self._problem, reference, self._program, processes, card, tools, self._limits, self._seed
            )
            for case in ahead:
                yield _beside(bench.measure(case), case, others)

    def _process(self) -> RunProcess:
        return RunProcess(self._devices, {"gpu": gpu_limits()})

    def _baselines(self) -> Baselines:
        return Baselines(self._problem, self._opened.name, _BASELINE_SECONDS)


def _beside(result: CaseResult, case: Case, others: Baselines | None) -> CaseResult:
    """The result with what installed libraries take."""
    if others is None or result.benchmark is None:
        return result
    return replace(result, benchmark=replace(result.benchmark, baselines=others.measure(case)))


def modelled(
    problem: Problem,
    specs: Sequence[CaseSpec],
    seed: int,
    card: Ceilings,
    run: Callable[[Case], tuple[CaseResult, bool]],
) -> Generator[CaseResult, None, None]:
    """One result for every case, from what the emulator counts; `card` are a data sheet's ceilings."""
    smaller = [spec.modelled or spec for spec in specs]
    for spec, case in zip(specs, _built(problem, smaller, seed), strict=True):
        result, _ = run(case)
        yield _with_model(result, case, card, problem.dtype, spec.modelled_differs)


def _built(problem: Problem, specs: Sequence[CaseSpec], seed: int) -> Iterator[Case]:
    with Prefetch(case_builder.build_specs(problem, specs, seed)) as ahead:
        yield from ahead


def _with_model(result: CaseResult, case: Case, card: Ceilings, dtype: str, emulated: str) -> CaseResult:
    traffic = result.traffic
    if result.verdict is not Verdict.ACCEPTED or traffic is None or not traffic.sector_bytes:
        return result
    counted: Counter[str] = Counter()
    for launch in traffic.launches:
        counted.update(launch.flops)
    work, rate = ceiling_rules.work_seconds(card, dtype, counted), ceiling_rules.rate_for(card, dtype)
    figures = score.modelled_benchmark(
        case.cost.bytes, case.cost.flops, traffic.sector_bytes, work, card, rate, emulated
    )
    return replace(result, benchmark=figures)
