"""One standing kernel in one track, run on all seeds in the emulator and judged as a submission is.

A bad kernel must be rejected on every seed. One case that rejects it is enough, so that a seed ends there (unless it
was a near thing: then others are tried), and the next seed begins with the cases that rejected before. An honest kernel
must be accepted on every case of every seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness import object_cache, pipeline, policy
from harness.artefacts import compiled
from harness.case_list import CaseSpec
from harness.devices.base import Program, RunLimits
from harness.errors import JudgeError, SubmissionError
from harness.linting.case_store import CaseStore
from harness.linting.kernels import StandingKernel
from harness.linting.records import NEAR, KernelResult
from harness.linting.tally import Tally, margin
from harness.linting.tracks import declaration
from harness.problem import Problem
from harness.results import CaseResult
from harness.sandbox.death import ChildDied, of_run
from harness.sandbox.supervisor import RunProcess, Source, Toolchain
from harness.submission import safe_name
from harness.verdict import Verdict

CARD = "H100"
COMPILE_SECONDS = 60.0
_PATIENCE = 5  # times the limit of a case: the machine may be busy with other kernels


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


class _Trial:
    def __init__(self, kernel: StandingKernel, track: Problem, setting: Setting, runner: RunProcess):
        self._kernel, self._track, self._setting, self._runner = kernel, track, setting, runner
        self._tally = Tally(kernel, track, len(setting.seeds))
        self._order = list(track.tests)
        self._start = time.monotonic()

    def result(self) -> KernelResult:
        try:
            self._load()
            self._run_all()
        except SubmissionError as error:  # of the compiler or the policy, or what stops every case alike
            self._tally.refuse_to_run(error)
        return self._tally.result(time.monotonic() - self._start)

    def _load(self) -> None:
        kernel, setting, allowed = self._kernel, self._setting, self._track.policy.device_state_bytes
        name = safe_name(kernel.name)
        source = Source(kernel.text, name, declaration(self._track), CARD)
        artefacts, _ = compiled(source, setting.toolchain, COMPILE_SECONDS, setting.cache)
        policy.require(artefacts.ptx, artefacts.cubin, kernel.text, name, allowed)
        self._ptx = artefacts.ptx
        known = object_cache.known(self._ptx) if setting.cache else {}
        self._runner.load(Program(name, self._ptx, CARD), known)

    def _run_all(self) -> None:
        for seed in self._setting.seeds:
            rejected = self._reject(seed)
            self._tally.count(seed, rejected)
            if rejected and rejected.verdict is Verdict.UNSUPPORTED:
                break  # it says nothing of the problem, on any seed
        if self._setting.cache:
            object_cache.keep(self._ptx, self._runner.collect())

    def _reject(self, seed: int) -> CaseResult | None:
        """The result that rejects the kernel on this seed, the clearest where all come near; None where every case
        accepts it."""
        nearest: tuple[float, CaseSpec, CaseResult] | None = None
        for spec in self._order:
            if self._setting.stopped():
                raise Stopped
            result = self._run(spec, seed)
            if result.verdict is Verdict.ACCEPTED:
                self._tally.note_accepted(result)
            elif nearest is None or margin(result) > nearest[0]:
                nearest = margin(result), spec, result
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
            self._tally.note_work(case, result)
        return result

    def _limits(self) -> RunLimits:
        problem = self._track
        return RunLimits(
            seconds=_PATIENCE * problem.limits.seconds,
            threads=self._setting.threads,
            device_state_bytes=problem.policy.device_state_bytes,
        )
