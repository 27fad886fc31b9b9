"""Findings as a page shows them: what was seen, and the code of both sides next to each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from harness.report import finding_pictures, wording
from harness.report.grouping import Group, group_findings
from harness.results import Access, Finding, Report
from harness.verdict import FindingKind, Verdict, verdict_of
from web.rendering import code

MOST = 100  # in a page; the JSON report has all


@dataclass(frozen=True)
class Side:
    """One place in the code. `sign` is "1" or "2" where there are two of them; `line` 0: it is not known."""

    sign: str
    line: int
    file: str
    who: tuple[str, ...]
    code: Markup


@dataclass(frozen=True)
class Shown:
    """A group of findings. `picture` is SVG, empty where there is none."""

    kind: str
    verdict: Verdict
    cases: str
    message: str
    sides: tuple[Side, ...]
    picture: Markup
    caption: str


def shown(report: Report, source: str, words: str) -> list[Shown]:
    """All groups, causes first, at most MOST. `words` is the language of the site."""
    groups = group_findings(report)[:MOST]
    pictures = finding_pictures.of_groups(report, groups)
    return [_shown(group, source, words, *picture) for group, picture in zip(groups, pictures, strict=True)]


def marks(report: Report) -> dict[int, str]:
    """Which lines of the source findings name, and as what; a line that is one's own place is not another's second."""
    found: dict[int, str] = {}
    for group in reversed(group_findings(report)):
        finding = group.finding
        if finding.other and finding.other.line:
            found.setdefault(finding.other.line, "other")
        if finding.line:
            found[finding.line] = "info" if finding.kind is FindingKind.NOTE else "error"
    return found


def _shown(group: Group, source: str, words: str, picture: Markup, caption: str) -> Shown:
    finding = group.finding
    return Shown(
        str(finding.kind), verdict_of(finding.kind), wording.names(group.cases), finding.message,
        tuple(_sides(finding, source, words)), picture, caption,
    )  # fmt: skip


def _sides(finding: Finding, source: str, words: str) -> Iterator[Side]:
    other = finding.other
    who = tuple(wording.who(finding))
    kind = "info" if finding.kind is FindingKind.NOTE else "error"
    if finding.line or who or other:
        yield Side("1" if other else "", finding.line, finding.file, who, _code(finding, source, kind, words))
    if other:
        yield Side("2", other.line, other.file, (wording.other(other),), _code(other, source, "other", words))


def _code(place: Finding | Access, source: str, kind: str, words: str) -> Markup:
    return code.excerpt(source, place.line, 3, kind, words=words) if place.line else Markup()
