"""What came of one file, and how that differs from what it declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.grading.declaration import Declaration
from harness.report import measurement
from harness.report.grouping import Group
from harness.results import Finding, Report
from harness.verdict import Verdict


class Status(StrEnum):
    """How a file stands."""

    OK = "ok"  # as declared, or accepted where nothing is declared
    SURPRISE = "surprise"  # where nothing is declared, people read that it failed
    REPORTED = "reported"  # nothing is a surprise with --report-only
    SKIPPED = "skipped"  # a declaration for the emulator only, on a GPU
    JUDGE_ERROR = "judge_error"
    NOT_RUN = "not_run"  # it was interrupted


@dataclass(frozen=True)
class Graded:
    """One file. `reasons` are sentences: why it is a surprise, was skipped, or could not be judged."""

    status: Status
    reasons: tuple[str, ...] = ()
    verdict: Verdict | None = None  # None where nothing was judged
    dtype: str = ""
    variant: str = ""
    device: str = ""
    score: float | None = None
    modelled: bool = False  # the score was not measured
    seconds: float = 0.0  # that judging took
    findings: tuple[Group, ...] = ()  # the same mistake in many cases is one
    log: str = ""  # of the compiler


def differences(declared: Declaration, report: Report, source: str, measured: bool = False) -> Iterator[str]:
    """Why the report is not what was declared, in sentences; nothing where it is. `source` is the submission's text;
    `measured`: a least score counts."""
    if report.verdict != declared.verdict:
        yield f"{f'declared {declared.verdict},' if declared.given else 'must be accepted:'} got {report.verdict}"
        return  # all else would follow from it
    findings = [*report.findings, *(finding for case in report.cases for finding in case.findings)]
    if declared.finding:
        findings = [finding for finding in findings if finding.kind == declared.finding]
        if not findings:
            yield f"declared a finding {declared.finding}, got none of that kind"
    log, lines = report.compile.log, source.split("\n")
    if (text := declared.line_contains) and not any(text in line for line in _marked(findings, log, lines)):
        yield f"declared a finding at a line with {text!r}, got none at such a line"
    for text in declared.message_contains:
        if text not in log and not any(text in finding.message for finding in findings):
            yield f"declared that the judge says {text!r}, it did not"
    if measured and declared.score is not None:
        yield from _short_of(declared.score, report)


def _marked(findings: list[Finding], log: str, lines: list[str]) -> Iterator[str]:
    """The lines that findings point at; where none does, that of the compiler's first error."""
    numbers = [finding.line for finding in findings if finding.line] or [first_error(log)]
    yield from (lines[number - 1] for number in numbers if 0 < number <= len(lines))


def first_error(log: str) -> int:
    """The line that the compiler's first error is at; 0 where it names none."""
    for row in log.splitlines():
        head, found, _ = row.partition("): error")
        number = head.rpartition("(")[2]
        if found and number.isdigit():
            return int(number)
    return 0


def _short_of(least: float, report: Report) -> Iterator[str]:
    if report.score is None:
        yield f"declared a score of at least {least:g}, got none: {report.score_note or 'nothing was timed'}"
    elif measurement.unmeasured_ceilings(report):
        yield f"declared a score of at least {least:g}, which a modelled one of {report.score:.1f} cannot show"
    elif not report.score >= least:
        yield f"declared a score of at least {least:g}, got {report.score:.6g}"


def place(finding: Finding, source: Path) -> str:
    """Where a finding is, as editors and CI logs link it: "solutions/a.cu:12"; the file alone without a line."""
    return f"{source}:{finding.line}" if finding.line else str(source)
