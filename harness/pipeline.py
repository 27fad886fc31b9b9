"""judge(problem, submission, options) -> events, ending in Finished(report). The only orchestrator.

    this thread        starts children, compares, decides; the only one that sees references
    prefetch thread    builds the next case: inputs, float64 reference, limits
    compile child      one per source, unless the cache knows it (harness/artefacts.py)
    run child          started first, so that its imports overlap with compiling; one case at a time
    resource child     last, for registers and spills of what was launched; never changes the verdict

A judging that was asked to trace runs one test a second time behind the others (harness/tracing.py), by slower code.

The verdict of a case is the worst of what the device found and of the comparison (harness/verdict.py ranks them).
All cases run, also after a wrong one, until one has run out of time, or two out of memory or with their child killed:
more would cost the learner the same wait again and say nothing new.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from harness import cards, object_cache, policy, resource_meter, tracing, tracks
from harness import cases as case_builder
from harness.artefacts import compiled
from harness.benchmark_stage import OnCard, modelled
from harness.benchmarking import measured_ceilings
from harness.cases import Case
from harness.check import compare
from harness.devices.base import Program, RunLimits, RunResult
from harness.errors import SubmissionError, UsageError
from harness.events import (
    BenchmarkFinished,
    BenchmarkStarted,
    Calibrating,
    CaseFinished,
    CaseStarted,
    Compiled,
    Compiling,
    CountingResources,
    DeviceReady,
    Event,
    Finished,
)
from harness.measure import ceilings, score
from harness.measure.records import Ceilings
from harness.prefetch import Prefetch
from harness.problem import CaseSpec, Problem
from harness.results import CaseResult, CompileResult, ErrorStats, Finding, MismatchMap, Report
from harness.sandbox.death import ChildDied, of_run
from harness.sandbox.limits import MIB, ProcessLimits, gpu_limits, run_limits
from harness.sandbox.supervisor import RunProcess, Source, Toolchain
from harness.submission import Submission
from harness.verdict import FindingKind, Verdict, verdict_of, worst

MAX_LOST_CASES = 2
# The run stopped there, so that what the outputs hold says nothing. A race or an uninitialised read does not stop it.
_STOPS = frozenset({
    FindingKind.OUT_OF_BOUNDS, FindingKind.MISALIGNED, FindingKind.READ_ONLY_WRITE, FindingKind.BARRIER_DIVERGENCE,
    FindingKind.DEADLOCK, FindingKind.INVALID_SHUFFLE, FindingKind.TRAP, FindingKind.INVALID_LAUNCH,
    FindingKind.HOST_ERROR, FindingKind.TIME_LIMIT, FindingKind.MEMORY_LIMIT, FindingKind.UNSUPPORTED,
})  # fmt: skip
_EMULATOR_BYTES = 1792 * MIB  # interpreter, LLVM, tensors, their shadows and those of blocks, blocks set aside
_BYTES_PER_CORE = 16 * MIB  # stacks and arenas of a thread


@dataclass(frozen=True)
class Options:
    """How to judge. `seconds` is of one case, 0 takes the problem's own; `threads` 0 means all cores."""

    device: str = "auto"  # "auto", "cpu", "gpu"
    dtype: str | None = None  # of the track; None: what solve() is written for (harness/tracks.py)
    variant: str | None = None  # the same
    cases: str | None = None  # None: all tests; "samples"; "benchmarks"; or names and patterns, comma-separated
    baseline: bool = False  # time what installed libraries take for the same benchmarks
    seed: int | None = None  # None: fresh, and secret until the report
    card: str = "H100"
    cache: bool = True
    threads: int = 0
    schedule: int | None = None  # a seed that shuffles blocks and warps in the emulator
    trace: bool = False  # run one test once more in the emulator, to keep what its warps touched (harness/traces.py)
    seconds: float = 0.0
    compile_seconds: float = 30.0  # of NVRTC
    resource_seconds: float = resource_meter.PATIENCE  # of NVRTC at full optimisation, for registers; 0: not at all
    gpu_compile_seconds: float = 120.0  # of NVRTC and nvcc: full optimisation of an unrolled tile loop takes 40 s
    toolchain: Toolchain = field(default_factory=Toolchain)


def judge(problem: Problem, submission: Submission, options: Options | None = None) -> Generator[Event, None, None]:
    """Judge one submission. The generator owns child processes: consume it in one thread, to its end or close it.

    Whatever track `problem` is, the submission's own is judged, or the one that the options name.

    Raises UsageError (no such track, case, card or device) and JudgeError (the judge itself failed).
    """
    return _Judging(problem, submission, options or Options()).events()


def refused(problem: str, name: str, error: SubmissionError) -> Report:
    """The report of a submission that never reached the compiler: empty, too long, not text."""
    result = CompileResult(ok=False, log=error.log or str(error))
    findings = error.findings or (_in_words(error),)
    return Report(problem, name, "", "", 0, error.verdict, result, findings=findings)


class _Judging:
    """One judging on its way to a report."""

    def __init__(self, problem: Problem, submission: Submission, options: Options):
        self._track = tracks.find(problem, submission.text, options.dtype, options.variant)
        self._problem = self._track.problem
        self._submission = submission
        self._options = options
        self._begun = time.monotonic()
        self._seed = case_builder.fresh_seed() if options.seed is None else options.seed
        self._device = ""
        self._card = cards.get(self._options.card)
        self._meter: resource_meter.Meter | None = None
        self._resources = resource_meter.Resources()
        self._compile = CompileResult(ok=False)
        self._refusal: SubmissionError | None = None
        self._cases: list[CaseResult] = []
        self._notes: list[Finding] = []
        self._ceilings: Ceilings | None = None
        self._mean: float | None = None
        self._score_note = ""

    def events(self) -> Generator[Event, None, None]:
        """The judging, step by step."""
        specs = case_builder.select(self._problem, self._options.cases)
        benchmarks = [spec for spec in specs if spec in self._problem.benchmarks]
        tests = [spec for spec in specs if spec not in benchmarks]
        if self._options.cases == "benchmarks":
            tests = list(self._problem.tests)  # no figure without correctness
        devices = self._options.toolchain.candidates(self._options.device)
        cases = case_builder.build_specs(self._problem, tests, self._seed)
        with RunProcess(devices, self._process_limits(specs)) as runner, Prefetch(cases) as ahead:
            try:
                yield from self._prepare(runner)
                yield from self._run_all(runner, ahead, tests)
                if self._options.trace and runner.opened().kind == "cpu":
                    self._trace(runner)
                if benchmarks:
                    yield from self._benchmark(runner, tests, benchmarks)
                if self._options.cache:
                    object_cache.keep(self._ptx, runner.collect())
            except SubmissionError as error:
                self._refusal = error
                if not self._compile.ok:
                    self._notes += [Finding(FindingKind.NOTE, f"{self._track.note}.")] * bool(self._track.note)
                    self._compile = CompileResult(ok=False, log=error.log or str(error))
                    yield Compiled(self._compile)
        yield from self._measure()
        yield Finished(self._report())

    def _prepare(self, runner: RunProcess) -> Iterator[Event]:
        """Compile for the device that the child has opened, and load the program there."""
        yield Compiling(self._problem.id, self._submission.name, self._seed)
        options, submission = self._options, self._submission
        arch = runner.opened().arch if runner.may_be_gpu else ""
        declaration = self._problem.declaration()
        source = Source(submission.text, submission.name, declaration, options.card, arch)
        seconds = options.gpu_compile_seconds if arch else options.compile_seconds
        artefacts, cached = compiled(source, options.toolchain, seconds, options.cache)
        self._compile = CompileResult(True, artefacts.seconds, artefacts.log, cached)
        self._meter = resource_meter.Meter(source, options.toolchain, options.resource_seconds, options.cache)
        yield Compiled(self._compile)
        allowed = self._problem.policy.device_state_bytes
        policy.require(artefacts.ptx, artefacts.cubin, submission.text, submission.name, allowed)
        self._ptx = artefacts.ptx
        known = object_cache.known(artefacts.ptx) if options.cache else {}
        self._program = Program(submission.name, artefacts.ptx, options.card, artefacts.cubin)
        runner.load(self._program, known)
        opened = runner.opened()
        self._device = opened.name
        if opened.kind == "gpu":
            self._card = cards.named_in(opened.name) or self._card
        yield DeviceReady(opened.kind, opened.name)

    def _run_all(self, runner: RunProcess, cases: Prefetch[Case], specs: Sequence[CaseSpec]) -> Iterator[Event]:
        total = len(specs)
        lost = 0
        for number, case in enumerate(cases, 1):
            yield CaseStarted(case.name, number, total)
            result, died = self._run(runner, case)
            self._cases.append(result)
            yield CaseFinished(result, number, total)
            lost += died or result.verdict is Verdict.MEMORY_LIMIT
            out_of_time = any(finding.kind is FindingKind.TIME_LIMIT for finding in result.findings)
            if out_of_time or lost >= MAX_LOST_CASES:
                self._skip(specs[number:], out_of_time)
                return

    def _trace(self, runner: RunProcess) -> None:
        """Run the case that tells most once more, and keep what is seen of it; the verdict stands already."""
        number = tracing.representative(self._cases)
        if number is None:
            return
        name = self._cases[number].name
        specs = [spec for spec in self._problem.tests + self._problem.benchmarks if spec.name == name]
        case = next(case_builder.build_specs(self._problem, specs[:1], self._seed, honest=False))
        limits = replace(self._run_limits(), trace=True)
        with contextlib.suppress(ChildDied, SubmissionError):  # a picture less
            run = runner.run(case.arguments, limits, _schedule_seed(self._seed, name))
            self._cases[number] = replace(self._cases[number], trace=run.trace)

    def _benchmark(self, runner: RunProcess, tests: Sequence[CaseSpec], specs: Sequence[CaseSpec]) -> Iterator[Event]:
        """Time the benchmarks on a card, or model them from what the emulator counts; then the score."""
        if not all(case.verdict is Verdict.ACCEPTED for case in self._cases):
            self._notes.append(_not_run([spec.name for spec in specs], "not all tests are accepted"))
            return
        before = len(self._cases)
        options, opened = self._options, runner.opened()
        if opened.kind == "gpu":
            stage = OnCard(self._problem, self._program, self._run_limits(), self._seed, options.toolchain, opened)
            yield Calibrating()
            self._ceilings = measured_ceilings(runner)
            results = stage.results(self._ceilings, specs, options.baseline)
        else:
            if options.baseline:
                raise UsageError("--baseline needs a GPU: nothing here runs torch or FlashInfer on one")
            self._ceilings = ceilings.datasheet(self._card)
            results = modelled(self._problem, specs, self._seed, self._ceilings, lambda case: self._run(runner, case))
        for number, spec in enumerate(specs, 1):
            yield BenchmarkStarted(spec.name, number, len(specs))
            result = next(results)
            self._cases.append(result)
            yield BenchmarkFinished(result, number, len(specs))
            if result.verdict in (Verdict.JUDGE_ERROR, Verdict.TIME_LIMIT) and number < len(specs):
                self._notes.append(_not_run([s.name for s in specs[number:]], f"{spec.name} ended the measurement"))
                break
        results.close()
        self._score(tests, self._cases[before:])

    def _score(self, tests: Sequence[CaseSpec], cases: Sequence[CaseResult]) -> None:
        """The geometric mean, where everything that it stands on is there."""
        figures = [case.benchmark for case in cases if case.benchmark and case.verdict is Verdict.ACCEPTED]
        if len(figures) < len(cases):
            self._score_note = "a benchmark is not accepted"
        elif len(tests) < len(self._problem.tests) or len(cases) < len(self._problem.benchmarks):
            self._score_note = "it needs all tests and benchmarks: --cases benchmarks"
        else:
            self._mean = score.overall(figures)

    def _tier(self) -> str:
        """What a measured score is called; tiers say nothing of modelled ones."""
        measured = self._ceilings is not None and not self._ceilings.modelled
        return score.tier(self._mean, self._problem.tiers) if measured and self._mean is not None else ""

    def _measure(self) -> Iterator[Event]:
        """Registers and spills, once the verdict stands; where nothing was launched there is nothing to say."""
        if not (self._meter and self._options.resource_seconds and resource_meter.launched(self._cases)):
            return
        known = self._meter.known()
        if not known:
            yield CountingResources()
        self._resources = known or self._meter.measure()

    def _skip(self, specs: Sequence[CaseSpec], out_of_time: bool) -> None:
        why = f"{self._cases[-1].name} ran out of time" if out_of_time else f"{MAX_LOST_CASES} cases ended the run"
        if specs:
            self._notes.append(_not_run([spec.name for spec in specs], why))

    def _run(self, runner: RunProcess, case: Case) -> tuple[CaseResult, bool]:
        """One case, and whether it took its child with it."""
        limits = self._run_limits()
        try:
            run = runner.run(case.arguments, limits, _schedule_seed(self._seed, case.name))
        except ChildDied as death:
            verdict, finding = of_run(death)
            stdout = death.stdout[: limits.stdout_bytes]
            return CaseResult(case.name, verdict, (), (finding,), 0.0, stdout, dict(case.parameters)), True
        return assess(case, run, limits), False

    def _run_limits(self) -> RunLimits:
        seconds = self._options.seconds or self._problem.limits.seconds
        return RunLimits(
            seconds=seconds,
            threads=self._options.threads,
            schedule=self._options.schedule,
            device_state_bytes=self._problem.policy.device_state_bytes,
        )

    def _process_limits(self, specs: Sequence[CaseSpec]) -> dict[str, ProcessLimits]:
        memory = _EMULATOR_BYTES + (os.cpu_count() or 1) * _BYTES_PER_CORE
        if not all(spec in self._problem.tests for spec in specs):  # benchmarks are as large as the problem allows
            memory += 2 * self._problem.limits.memory_mib * MIB
        return {"gpu": gpu_limits(), "cpu": run_limits(memory)}

    def _report(self) -> Report:
        verdicts = [case.verdict for case in self._cases]
        if self._refusal:
            verdicts.append(self._refusal.verdict)
            self._notes += self._refusal.findings or [_in_words(self._refusal)]
        kernels = resource_meter.uses(self._resources.kernels, resource_meter.launched(self._cases), self._card)
        return Report(
            problem=self._problem.id,
            submission=self._submission.name,
            device=self._device,
            dtype=self._problem.dtype,
            variant=self._problem.variant,
            seed=self._seed,
            verdict=worst(verdicts),
            compile=resource_meter.with_most(self._compile, kernels),
            cases=tuple(self._cases),
            findings=tuple(self._notes),
            resources=kernels,
            resources_note=self._resources.note(),
            score=self._mean,
            tier=self._tier(),
            score_note=self._score_note,
            ceilings=self._ceilings,
            seconds=time.monotonic() - self._begun,
            schedule=self._options.schedule,
        )


def assess(case: Case, run: RunResult, limits: RunLimits) -> CaseResult:
    """Compare what the run left with the reference, and let the worst speak for the case."""
    errors: list[ErrorStats] = []
    maps: list[MismatchMap] = []
    findings = list(run.findings)
    if len(run.stdout) > limits.stdout_bytes:
        findings.append(_too_much_output(limits.stdout_bytes))
    if not any(finding.kind in _STOPS for finding in findings):
        errors, mismatches, maps = compare(case, run.outputs, run.unwritten)
        findings += mismatches if run.launches else [_nothing_launched(finding) for finding in mismatches]
    verdicts = [verdict_of(finding.kind) for finding in findings]
    if not all(error.ratio <= 1 for error in errors):  # so written that a NaN ratio is wrong, too
        verdicts.append(Verdict.WRONG_ANSWER)
    stdout, verdict = run.stdout[: limits.stdout_bytes], worst(verdicts)
    traffic = run.traffic and run.traffic.scored(case.cost.bytes, verdict is Verdict.ACCEPTED)
    return CaseResult(
        case.name, verdict, tuple(errors), tuple(findings), run.seconds, stdout, dict(case.parameters),
        launches=run.launches, traffic=traffic, mismatches=tuple(maps),
    )  # fmt: skip


def _nothing_launched(finding: Finding) -> Finding:
    return replace(finding, message=f"solve() launched no kernel: {finding.message}")


def _too_much_output(limit: int) -> Finding:
    return Finding(FindingKind.OUTPUT_LIMIT, f"The submission printed more than {limit} bytes in one case.")


def _in_words(error: SubmissionError) -> Finding:
    kind = FindingKind.UNSUPPORTED if error.verdict is Verdict.UNSUPPORTED else FindingKind.NOTE
    return Finding(kind, str(error))


def _not_run(names: Sequence[str], why: str) -> Finding:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Finding(FindingKind.NOTE, f"Not run: {shown}, since {why}.")


def _schedule_seed(seed: int, case: str) -> int:
    """What the device may shuffle its schedule by; says nothing about the seed that inputs are drawn from."""
    return int.from_bytes(hashlib.sha256(f"schedule/{seed}/{case}".encode()).digest()[:4], "little")
