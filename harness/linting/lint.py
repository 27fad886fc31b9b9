"""lint(problem) -> report: is the problem sound, as a judge of kernels?

    reference   expected() and the honest() models keep to the limits; a seed repeats
    contrast    answers that are none are out of limits; every input counts
    starter     compiles, and is not accepted
    bad/        every kernel is rejected on every seed
    honest/     every kernel is accepted on every test of every seed
    cost        bytes as honest kernels touch them, flops, memory
    disguise    keeps the answer

Everything runs in every track that the problem has. Kernels run in the emulator, several at a time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from harness.errors import UsageError
from harness.linting import answers, contrast, costs, disguises, floors, workers
from harness.linting.case_store import CaseStore
from harness.linting.kernels import StandingKernel, standing, starters
from harness.linting.records import Check, KernelResult, LintReport, Outcome, of_track
from harness.linting.trials import Setting
from harness.problem import Problem
from harness.sandbox.supervisor import Toolchain
from harness.tracks import title

FEW_KERNELS = {"bad": 5, "honest": 3}  # for a track; below it, a warning
Progress = Callable[[str], None]


@dataclass(frozen=True)
class LintOptions:
    """How to lint. `only`: patterns of kernel names ("no_scale", "bad/*"), with commas: nothing but these kernels is
    looked at then. `build_seconds`: how long a test may take to build; None: what follows from limits.seconds."""

    seeds: int = 20
    first_seed: int = 1
    jobs: int = 1
    dtype: str | None = None  # None: all
    variant: str | None = None
    only: str | None = None
    cache: bool = True
    build_seconds: float | None = None
    toolchain: Toolchain = field(default_factory=Toolchain)


def lint(problem: Problem, options: LintOptions, progress: Progress = lambda line: None) -> LintReport:
    """Lint a problem that has been loaded, hence keeps to the schema. `progress` is told of every step.

    Raises UsageError (no such track or kernel), ProblemError (the reference fails, a kernel file has no header) and
    JudgeError.
    """
    return _Linting(problem, options, progress).report()


class _Linting:
    def __init__(self, problem: Problem, options: LintOptions, progress: Progress):
        self._problem, self._options, self._progress = problem, options, progress
        problem.track(options.dtype, options.variant)
        self._tracks = [
            track for track in problem.tracks()
            if options.dtype in (None, track.dtype) and options.variant in (None, track.variant)
        ]  # fmt: skip
        self._seeds = range(options.first_seed, options.first_seed + options.seeds)
        self._store = CaseStore(problem, patience=options.build_seconds, progress=progress)

    def report(self) -> LintReport:
        start = time.monotonic()
        bad, honest = (standing(self._problem, kind) for kind in ("bad", "honest"))
        kernels = [*starters(self._problem), *honest, *bad]
        if self._options.only:
            kernels = self._chosen(kernels)
            results, checks = self._run(kernels), []
        else:
            checks = [*self._problem_checks(), *self._counts("bad", bad), *self._counts("honest", honest)]
            results = self._run(kernels)
            checks += self._cost_checks(results)
        seconds = time.monotonic() - start
        return LintReport(
            self._problem.id, self._options.first_seed, self._options.seeds, tuple(checks), tuple(results), seconds
        )

    def _chosen(self, kernels: Sequence[StandingKernel]) -> list[StandingKernel]:
        patterns = [part.strip().removesuffix(".cu") for part in (self._options.only or "").split(",")]
        chosen = [kernel for kernel in kernels if any(_matches(kernel, pattern) for pattern in patterns)]
        if not any(kernel.is_for(track) for kernel in chosen for track in self._tracks):
            names = ", ".join(kernel.name for kernel in kernels)
            raise UsageError(f"no kernel of these tracks matches {self._options.only!r}; there are {names}")
        return chosen

    def _problem_checks(self) -> list[Check]:
        """All but those that need the results of kernels."""
        checks = [Check("schema", Outcome.SOUND, f"{self._problem.directory / 'problem.yaml'} keeps to the schema")]
        for track in self._tracks:
            for check in self._of_track(track):
                self._progress(f"{title(track)}: {check.name}: {check.outcome}")
                checks.append(check)
        return checks

    def _of_track(self, track: Problem) -> Iterator[Check]:
        store, seeds = self._store, self._seeds
        yield answers.accepted_reference(track, store, seeds)
        yield answers.accepted_models(track, store, seeds)
        yield answers.repeatable(track, store, seeds[0])
        yield from contrast.cheap_answers(track, store, seeds)
        yield contrast.effects(track, store, seeds)
        yield disguises.kept_answers(track, store, seeds)
        yield costs.operations(track, store)
        yield costs.memory(track, store, seeds[0])
        yield costs.build_time(track, store)

    def _counts(self, kind: str, kernels: Sequence[StandingKernel]) -> Iterator[Check]:
        """Whether each track has standing kernels at all, and enough of them."""
        folder = self._problem.directory / kind
        for track in self._tracks:
            count = sum(kernel.is_for(track) for kernel in kernels)
            outcome = Outcome.SOUND if count >= FEW_KERNELS[kind] else Outcome.WARNING if count else Outcome.REFUSED
            message = f"{folder} holds {count} kernels for {title(track)}"
            if count < FEW_KERNELS[kind]:
                message += f"; write {FEW_KERNELS[kind]} or more, as harness/linting/kernels.py describes"
            yield of_track(track, f"{kind} kernels", outcome, message, {"count": count})

    def _run(self, kernels: Sequence[StandingKernel]) -> list[KernelResult]:
        """Track after track, so that built cases are shared."""
        tasks = [(kernel, track) for track in self._tracks for kernel in kernels if kernel.is_for(track)]
        setting = Setting(self._store, self._seeds, self._options.toolchain, cache=self._options.cache)
        results = []
        with contextlib.closing(workers.results(tasks, setting, self._options.jobs)) as finished:
            for number, result in enumerate(finished, 1):
                results.append(result)
                self._progress(f"{number} of {len(tasks)}: {_in_short(result)}")
        order = {(kernel.kind, kernel.name, track.dtype, track.variant): n for n, (kernel, track) in enumerate(tasks)}
        return sorted(results, key=lambda r: order[r.kind, r.name, r.dtype, r.variant])

    def _cost_checks(self, results: Sequence[KernelResult]) -> list[Check]:
        checks = []
        for track in self._tracks:
            mine = [r for r in results if r.kind == "honest" and (r.dtype, r.variant) == (track.dtype, track.variant)]
            checks.append(costs.byte_model(track, self._store, mine))
            checks.append(costs.flop_model(track, self._store, mine))
            checks.append(floors.honest_kernels(track, mine))
        return checks


def _in_short(result: KernelResult) -> str:
    return f"{result.dtype}, {result.variant}: {result.kind}/{result.name}: {result.outcome}"


def _matches(kernel: StandingKernel, pattern: str) -> bool:
    """By its name, or by `bad/name`."""
    name = kernel.name.removesuffix(".cu")
    return fnmatchcase(name, pattern) or fnmatchcase(f"{kernel.kind}/{name}", pattern)
