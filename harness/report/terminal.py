"""Events and the report for a person at a terminal: progress while cases run, then a table, findings, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.events import (
    BenchmarkStarted,
    Calibrating,
    CaseStarted,
    Compiling,
    CountingResources,
    DeviceReady,
    Event,
)
from harness.report import benchmarks, measurement, resources, traffic, wording
from harness.report.excerpt import excerpt, printable
from harness.report.grouping import Group as FindingGroup
from harness.report.grouping import group_findings
from harness.results import Access, CaseResult, Finding, Report
from harness.verdict import Verdict, verdict_of

_STYLES = {
    Verdict.ACCEPTED: "bold green",
    Verdict.UNSUPPORTED: "bold yellow",
    Verdict.JUDGE_ERROR: "bold magenta",
}
_MAX_GROUPS = 12  # distinct findings shown in full
_MAX_PRINTED = 20  # lines of the submission's own output


def style_of(verdict: Verdict) -> str:
    """The rich style that a verdict is shown in."""
    return _STYLES.get(verdict, "bold red")


def progress_line(event: Event) -> str:
    """What a status line says while this event is the latest; "" for events that change nothing on screen."""
    if isinstance(event, Compiling):
        return f"compiling {printable(event.submission)}"
    if isinstance(event, DeviceReady):
        return f"running on {printable(event.name)}"
    if isinstance(event, CaseStarted):
        return f"case {event.number}/{event.total}  {printable(event.name)}"
    if isinstance(event, Calibrating):
        return "measuring the card's ceilings"
    if isinstance(event, BenchmarkStarted):
        return f"benchmark {event.number}/{event.total}  {printable(event.name)}"
    if isinstance(event, CountingResources):
        return "counting registers"
    return ""


def print_report(console: Console, report: Report, source: str, repeat: str, all_traffic: bool = False) -> None:
    """Print the whole report. `source` is the submission's text, `repeat` the command that judges it the same way;
    `all_traffic`: of every launch, not only a summary of the largest case's."""
    log = printable(report.compile.log).strip()
    if log:
        console.print(Text(log), soft_wrap=True)  # verbatim, as is the command below: they are copied and searched
    for part in _parts(report, source, console.width):
        console.print(part)
    for part in traffic.details(report.cases) if all_traffic else traffic.summary(report.cases):
        console.print(part)
    console.print(Text(f"repeat: {printable(repeat)}"), soft_wrap=True)


def _parts(report: Report, source: str, columns: int) -> Iterator[RenderableType]:
    if tests := measurement.tests(report):
        yield _table(tests)
    yield from benchmarks.parts(report, columns)
    groups = group_findings(report)
    for group in groups[:_MAX_GROUPS]:
        if group.finding.message.strip() not in report.compile.log:
            yield _finding(group, source, columns)
    if len(groups) > _MAX_GROUPS:
        yield Text(f"{len(groups) - _MAX_GROUPS} more findings; --json PATH writes all of them\n")
    yield from _printed(report.cases)
    yield from resources.parts(report)
    if score := measurement.score(report):
        yield Text(f"\n{printable(score)}", style="bold", overflow="fold")
    yield _last_line(report)


def _table(cases: Iterable[CaseResult]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("error / limit", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    for case in cases:
        verdict = Text(case.verdict, style=style_of(case.verdict))
        error = Text(printable(wording.error(case)))
        table.add_row(Text(printable(case.name)), verdict, error, f"{case.seconds:.2f} s")
    return table


def _finding(group: FindingGroup, source: str, columns: int) -> RenderableType:
    finding = group.finding
    head = Text("\n")
    head.append(finding.kind, style=style_of(verdict_of(finding.kind)))
    if group.cases:
        head.append(f"  in {printable(wording.names(group.cases))}")
    lines = [Text(printable(finding.message), overflow="fold")]
    lines += _excerpt(source, finding, 1, columns)
    lines += [Text(printable(line)) for line in wording.who(finding)]
    if finding.other:
        lines += _other(finding.other, source, columns)
    return Group(head, *lines)


def _excerpt(source: str, place: Finding | Access, around: int, columns: int) -> list[Text]:
    lines = excerpt(source, place.line, printable(place.file), around, columns) if place.line else []
    texts = [Text(line, "cyan" if line.lstrip(" |").startswith("^") else "") for line in lines]
    for text in texts[1:]:  # the first is the file's name
        text.no_wrap, text.overflow = True, "crop"
    return texts


def _other(other: Access, source: str, columns: int) -> list[Text]:
    return [Text(wording.other(other)), *_excerpt(source, other, 0, columns)]


def _printed(cases: Iterable[CaseResult]) -> Iterator[RenderableType]:
    for case in cases:
        if case.stdout.strip():
            lines = printable(case.stdout).rstrip().split("\n")
            shown = [f"  {line}" for line in lines[:_MAX_PRINTED]]
            more = [f"  ... {len(lines) - _MAX_PRINTED} more lines"] if len(lines) > _MAX_PRINTED else []
            head = f"\nprinted in {printable(case.name)}:"
            yield Text("\n".join([head, *shown, *more]), overflow="fold")
            return  # one case tells; the JSON report has the rest


def _last_line(report: Report) -> Text:
    passed = sum(case.verdict is Verdict.ACCEPTED for case in report.cases)
    line = Text("\n")
    line.append(report.verdict, style=style_of(report.verdict))
    if report.cases:
        line.append(f"  {passed} of {len(report.cases)} cases passed")
    if report.device:
        line.append(f"  on {printable(report.device)}")
    if track := wording.track(report):
        line.append(f", {track}" if report.device else f"  {track}")
    line.append(f"  in {report.seconds:.1f} s  seed {report.seed}")
    if report.schedule is not None:
        line.append(f"  schedule {report.schedule}")
    return line
