"""Events and the report for a person at a terminal: progress while cases run, then a table, findings, the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.events import CaseStarted, Compiling, DeviceReady, Event
from harness.report.excerpt import excerpt, printable
from harness.report.grouping import Group as FindingGroup
from harness.report.grouping import group_findings
from harness.results import Access, CaseResult, ErrorStats, Finding, Report
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
    return ""


def print_report(console: Console, report: Report, source: str, repeat: str) -> None:
    """Print the whole report. `source` is the submission's text, `repeat` the command that judges it the same way."""
    log = printable(report.compile.log).strip()
    if log:
        console.print(Text(log), soft_wrap=True)  # verbatim, as is the command below: they are copied and searched
    for part in _parts(report, source):
        console.print(part)
    console.print(Text(f"repeat: {printable(repeat)}"), soft_wrap=True)


def _parts(report: Report, source: str) -> Iterator[RenderableType]:
    if report.cases:
        yield _table(report.cases)
    groups = group_findings(report)
    for group in groups[:_MAX_GROUPS]:
        if group.finding.message.strip() not in report.compile.log:
            yield _finding(group, source)
    if len(groups) > _MAX_GROUPS:
        yield Text(f"{len(groups) - _MAX_GROUPS} more findings; --json PATH writes all of them\n")
    yield from _printed(report.cases)
    yield _last_line(report)


def _table(cases: Iterable[CaseResult]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("worst error / limit", justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    for case in cases:
        verdict = Text(case.verdict, style=style_of(case.verdict))
        table.add_row(Text(printable(case.name)), verdict, Text(_error(case.errors)), f"{case.seconds:.2f} s")
    return table


def _error(errors: tuple[ErrorStats, ...]) -> str:
    """The error that came nearest to its limit, as "1.2e-06 / 2.0e-04 out"."""
    if not errors:
        return "-"
    worst = max(errors, key=lambda e: (e.nan_count > 0, e.ratio if e.ratio == e.ratio else float("inf")))
    if worst.nan_count:
        return f"{worst.nan_count} NaN or Inf in {worst.tensor}"
    pairs = zip((worst.row_max, worst.row_norm, worst.total_norm), worst.limits, strict=True)
    error, limit = max(pairs, key=lambda pair: pair[0] / pair[1] if pair[1] > 0 else pair[0])
    return f"{error:.1e} / {limit:.1e}"


def _finding(group: FindingGroup, source: str) -> RenderableType:
    finding = group.finding
    head = Text("\n")
    head.append(finding.kind, style=style_of(verdict_of(finding.kind)))
    if group.cases:
        head.append(f"  in {printable(_names(group.cases))}")
    lines = [Text(printable(finding.message), overflow="fold")]
    lines += [Text(line, style="cyan" if "^" in line else "") for line in _place(finding, source)]
    lines += [Text(line) for line in _who(finding)]
    if finding.other:
        lines += [Text(line) for line in _other(finding.other, source)]
    return Group(head, *lines)


def _names(cases: tuple[str, ...]) -> str:
    if len(cases) <= 3:
        return ", ".join(cases)
    return f"{len(cases)} cases: {', '.join(cases[:3])}, ..."


def _place(finding: Finding, source: str) -> list[str]:
    return excerpt(source, finding.line, printable(finding.file)) if finding.line else []


def _who(finding: Finding) -> Iterator[str]:
    parts = []
    if finding.kernel:
        parts.append(f"kernel {printable(finding.kernel)}")
    element = f"{finding.tensor}[{', '.join(map(str, finding.index))}]"
    if finding.tensor and finding.index and element not in finding.message:
        parts.append(printable(element))
    parts += _thread(finding.block, finding.thread)
    if parts:
        yield ", ".join(parts)
    for caller in finding.call_stack:
        yield f"called from {printable(caller)}"


def _thread(block: tuple[int, int, int] | None, thread: tuple[int, int, int] | None) -> list[str]:
    parts = []
    if block is not None:
        parts.append(f"block ({', '.join(map(str, block))})")
    if thread is not None:
        parts.append(f"thread ({', '.join(map(str, thread))})")
    return parts


def _other(other: Access, source: str) -> Iterator[str]:
    where = ", ".join(_thread(other.block, other.thread)) or "another thread"
    yield f"the other access is a {'write' if other.write else 'read'} by {where}"
    if other.line:
        yield from excerpt(source, other.line, printable(other.file), around=0)


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
    line.append(f"  in {report.seconds:.1f} s  seed {report.seed}")
    return line
