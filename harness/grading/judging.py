"""One file, judged and compared with its declaration. Runs in a worker (workers.py)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from harness import pipeline, submission
from harness.errors import JudgeException, SubmissionError, UsageError
from harness.events import Finished
from harness.grading import files
from harness.grading.declaration import Declaration
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status, differences
from harness.report import measurement, terminal
from harness.report.grouping import group_findings
from harness.results import Report
from harness.verdict import Verdict

Say = Callable[[str], None]  # takes the step that has begun, for a progress display


@dataclass(frozen=True)
class Settings:
    """How all files are judged. `options.device` is "cpu" or "gpu", settled before."""

    options: pipeline.Options
    benchmarks: bool = False  # judge them too where no cases are declared, for a score
    report_only: bool = False  # nothing is a surprise

    @property
    def on_gpu(self) -> bool:
        """Whether times are measured."""
        return self.options.device == "gpu"


def grade(entry: Entry, settings: Settings, say: Say) -> Graded:
    """Judge one file. The judge's own failures, and those of a problem's reference, are in the result, too."""
    declared = entry.declared
    if declared.emulator_only and settings.on_gpu:
        why = declared.why or "it says so"
        return Graded(Status.SKIPPED, (f"declared for the emulator only: {why}",))
    try:
        report, text = _judged(entry, settings, say)
    except (JudgeException, OSError) as error:
        return Graded(Status.JUDGE_ERROR, (str(error),), Verdict.JUDGE_ERROR)
    reasons = (entry.fault,) if entry.fault else tuple(differences(declared, report, text, settings.on_gpu))
    return _graded(report, *_status(report, reasons, settings.report_only))


def _judged(entry: Entry, settings: Settings, say: Say) -> tuple[Report, str]:
    """The report, and the text that its lines refer to."""
    try:
        loaded = _loaded(entry)
    except SubmissionError as error:
        text = "" if entry.fault else files.text(entry.source)
        return pipeline.refused(entry.problem.id, entry.source.name, error), text
    chosen = options(entry.declared, settings)
    with contextlib.closing(pipeline.judge(entry.problem, loaded, chosen)) as events:
        for event in events:
            if isinstance(event, Finished):
                return event.report, loaded.text
            if line := terminal.progress_line(event):
                say(line)
    raise AssertionError("the judging ended without a report")


def _loaded(entry: Entry) -> submission.Submission:
    """The submission. Raises SubmissionError also where the file cannot be read: that is its author's mistake, too."""
    fault = entry.fault
    try:
        if not fault:
            return submission.load(entry.source)
    except UsageError as error:
        fault = str(error)
    raise SubmissionError(Verdict.COMPILE_ERROR, fault)


def options(declared: Declaration, settings: Settings) -> pipeline.Options:
    """How one file is judged: the cases and the track that it declares, benchmarks where a score is asked for. Nobody
    waits for registers and spills."""
    scored = settings.benchmarks or (settings.on_gpu and declared.score is not None)
    cases = declared.cases or ("benchmarks" if scored else None)
    track = {key: value for key in ("dtype", "variant") if (value := getattr(declared, key))}
    return dataclasses.replace(settings.options, cases=cases, resource_seconds=0.0, **track)


def _status(report: Report, reasons: tuple[str, ...], report_only: bool) -> tuple[Status, tuple[str, ...]]:
    if report.verdict is Verdict.JUDGE_ERROR:
        return Status.JUDGE_ERROR, ("the judge itself failed; the findings say more",)
    if report_only:
        return Status.REPORTED, ()
    return (Status.SURPRISE if reasons else Status.OK), reasons


def _graded(report: Report, status: Status, reasons: tuple[str, ...]) -> Graded:
    return Graded(
        status=status,
        reasons=reasons,
        verdict=report.verdict,
        dtype=report.dtype,
        variant=report.variant,
        device=report.device,
        score=report.score,
        modelled=measurement.unmeasured_ceilings(report),
        seconds=report.seconds,
        findings=tuple(group_findings(report)),
        log=report.compile.log,
    )
