"""Report -> one HTML page that needs nothing else: to read offline, to print, to mail.

Every text goes through `printable` and Jinja2's autoescape, whoever wrote it; only the charts are put in as they are,
and they do the same for their words.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import jinja2
from markupsafe import Markup

from harness.report import (
    bars,
    destination,
    figures,
    finding_pictures,
    measurement,
    roofline,
    traffic,
    warp_pictures,
    wording,
)
from harness.report.excerpt import excerpt, printable
from harness.report.grouping import Group, group_findings
from harness.results import Access, CaseResult, Finding, Report
from harness.verdict import Verdict, verdict_of

_MOST_FINDINGS = 100
_MOST_PRINTED = 200  # lines of the submission's own output
_MOST_LOG = 65536  # characters of the compiler's
_MARKS = {Verdict.ACCEPTED: "\N{CHECK MARK}", Verdict.UNSUPPORTED: "?", Verdict.JUDGE_ERROR: "!"}


def render(report: Report, source: str, repeat: str, date: str = "") -> str:
    """The page. `source` is the submission's text, `repeat` the command that judges it the same way, `date` when it was
    judged, now if empty. It starts with `destination.HTML`."""
    page = _environment().get_template("report.html.j2").render(
        report=report, repeat=repeat, facts=_facts(report, date or _now()), findings=_findings(report, source),
        more_findings=max(0, len(group_findings(report)) - _MOST_FINDINGS), printed=_printed(report),
        log=report.compile.log.strip()[:_MOST_LOG], traffic=traffic.busiest(report.cases),
        roofline=roofline.draw(report), points=roofline.points(report), bars=bars.draw(report), warps=_warps(report),
    )  # fmt: skip
    return destination.HTML.decode() + page + "\n"


def picture_style() -> str:
    """CSS of the pictures alone, for pages that show them without the rest of this one."""
    return _environment().get_template("charts.css.j2").render()


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        finalize=_safe, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.globals |= {"figures": figures, "measurement": measurement, "wording": wording}
    environment.globals |= {"mark": mark, "tone": tone}
    environment.filters |= {"nice": figures.nice, "extents": extents}
    return environment


def _safe(value: Any) -> Any:
    """Of whatever a template shows: no control characters. Jinja2 escapes the rest."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def extents(values: tuple[int, ...]) -> str:
    """(17, 32, 1) -> 17 x 32 x 1."""
    return " \N{MULTIPLICATION SIGN} ".join(map(str, values))


def mark(verdict: Verdict) -> str:
    """A sign beside the word, for those who do not see the colour."""
    return _MARKS.get(verdict, "\N{MULTIPLICATION X}")


def tone(verdict: Verdict) -> str:
    """The class that colours a verdict."""
    return "good" if verdict is Verdict.ACCEPTED else "warn" if verdict is Verdict.UNSUPPORTED else "bad"


def _now() -> str:
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _facts(report: Report, date: str) -> list[tuple[str, str]]:
    """What it was judged with; those that are not known are left out."""
    ceilings = report.ceilings
    facts = [
        ("problem", report.problem),
        ("submission", report.submission),
        ("date", date),
        ("device", report.device),
        ("card", measurement.card(ceilings).removeprefix("on ") if ceilings else ""),
        ("ceilings", "; ".join(measurement.peaks(ceilings)) if ceilings else ""),
        ("benchmarks", "; ".join(filter(None, (measurement.set_against(report), *measurement.conditions(report))))),
        ("type", wording.track(report) or report.dtype),
        ("seed", str(report.seed)),
        ("schedule", "" if report.schedule is None else str(report.schedule)),
        ("judged in", f"{report.seconds:.1f} s"),
        ("compiled in", f"{report.compile.seconds:.1f} s" if report.compile.ok else ""),
    ]
    return [(name, value) for name, value in facts if value]


@dataclass(frozen=True)
class _Shown:
    """A finding as the page shows it."""

    kind: str
    verdict: Verdict
    cases: str
    message: str
    code: str
    who: tuple[str, ...]
    other: str
    other_code: str
    picture: Markup
    caption: str


def _findings(report: Report, source: str) -> list[_Shown]:
    groups = group_findings(report)[:_MOST_FINDINGS]
    pictures = finding_pictures.of_groups(report, groups)
    return [_shown(group, source, *picture) for group, picture in zip(groups, pictures, strict=True)]


def _shown(group: Group, source: str, picture: Markup, caption: str) -> _Shown:
    finding, other = group.finding, group.finding.other
    return _Shown(
        finding.kind, verdict_of(finding.kind), wording.names(group.cases), finding.message, _code(source, finding, 2),
        tuple(wording.who(finding)), wording.other(other) if other else "", _code(source, other, 1) if other else "",
        picture, caption,
    )  # fmt: skip


def _code(source: str, place: Finding | Access, around: int) -> str:
    return "\n".join(excerpt(source, place.line, printable(place.file), around)) if place.line else ""


def _printed(report: Report) -> tuple[str, str] | None:
    """The first case that printed anything, and the beginning of that; one case tells, the JSON report has the rest."""
    for case in report.cases:
        if case.stdout.strip():
            lines = printable(case.stdout).rstrip().split("\n")
            more = [f"... {len(lines) - _MOST_PRINTED} more lines"] if len(lines) > _MOST_PRINTED else []
            return case.name, "\n".join(lines[:_MOST_PRINTED] + more)
    return None


def _warps(report: Report) -> tuple[CaseResult, list[warp_pictures.Picture]] | None:
    """The case that was traced, and its drawings."""
    case = warp_pictures.traced(report)
    return None if case is None else (case, warp_pictures.of_case(case))
