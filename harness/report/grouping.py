"""The same mistake seen in many cases is one thing to read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.results import Finding, Report
from harness.verdict import FindingKind

_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class Group:
    """One finding, as first seen, and the names of the cases that it was seen in."""

    finding: Finding
    cases: tuple[str, ...]


def group_findings(report: Report) -> list[Group]:
    """Findings that agree in kind, place and tensor, in one group each: the report's own first, causes before
    symptoms (mismatch, unwritten output), and notes last. Without a line, they agree in their words but for numbers."""
    seen: dict[tuple[object, ...], tuple[Finding, list[str]]] = {}
    for finding in report.findings:
        seen.setdefault(("", *_key(finding)), (finding, []))
    for case in report.cases:
        for finding in case.findings:
            _, names = seen.setdefault(_key(finding), (finding, []))
            if case.name not in names:
                names.append(case.name)
    groups = [Group(finding, tuple(names)) for finding, names in seen.values()]
    return sorted(groups, key=lambda group: _order(group.finding))


def _key(finding: Finding) -> tuple[object, ...]:
    place: tuple[object, ...] = (finding.file, finding.line) if finding.line else (_NUMBER.sub("0", finding.message),)
    other = finding.other.line if finding.other else 0
    if finding.kind in (FindingKind.MISMATCH, FindingKind.UNWRITTEN_OUTPUT):
        place = ()
    return finding.kind, finding.tensor, other, *place


def _order(finding: Finding) -> int:
    symptoms = (FindingKind.MISMATCH, FindingKind.UNWRITTEN_OUTPUT, FindingKind.NOTE)
    return symptoms.index(finding.kind) + 1 if finding.kind in symptoms else 0
