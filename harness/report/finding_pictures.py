"""The picture that goes with a finding, if there is one: where the output is wrong, or where the two threads stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from harness.report import heatmap, positions
from harness.report.grouping import Group
from harness.results import CaseResult, Finding, Report
from harness.verdict import FindingKind

_MOST = 24  # in one page
_OUTPUTS = (FindingKind.MISMATCH, FindingKind.UNWRITTEN_OUTPUT)


def of_groups(report: Report, groups: Sequence[Group]) -> Iterator[tuple[Markup, str]]:
    """For each group its picture and caption, both empty where there is none: of the first case that it was seen in,
    and each output once."""
    cases = {case.name: case for case in reversed(report.cases)}
    shown: set[str] = set()
    for number, group in enumerate(groups):
        picture, caption = Markup(), ""
        if group.cases and len(shown) < _MOST:
            picture, caption = of_finding(f"finding-{number}", group.finding, cases[group.cases[0]])
        if caption in shown:
            picture, caption = Markup(), ""
        shown |= {caption} - {""}
        yield picture, caption


def of_finding(name: str, finding: Finding, case: CaseResult) -> tuple[Markup, str]:
    """The picture of a case's finding and its caption; both empty where there is none. `name` is unique in the page."""
    if finding.kind in _OUTPUTS:
        for cells in case.mismatches:
            if cells.tensor == finding.tensor:
                return heatmap.draw(name, cells), f"{case.name}: {heatmap.caption(cells)}"
        return Markup(), ""
    picture, caption = positions.draw(name, finding, case.launches), positions.caption(finding, case.launches)
    return picture, f"{case.name}: {caption}" if caption else ""
