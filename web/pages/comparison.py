"""Two submissions compared: what was changed in the source, and what came of it case by case."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from harness.results import CaseResult, Report
from harness.traffic import AccessTraffic, CaseTraffic
from web.pages import preferences, templating
from web.pages.submission_page import existing
from web.rendering.differences import diff
from web.store import submissions

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class CaseChange:
    """One case on both sides; None where a side lacks it."""

    name: str
    before: CaseResult | None
    after: CaseResult | None

    @property
    def changed(self) -> bool:
        """Whether its verdict is another one."""
        return not (self.before and self.after and self.before.verdict is self.after.verdict)


@dataclass(frozen=True)
class TrafficChange:
    """Reads or writes of one tensor on both sides."""

    tensor: str
    write: bool
    before: AccessTraffic
    after: AccessTraffic


@router.get("/submissions/{after}/compare/{before}")
def show(request: Request, after: str, before: str) -> HTMLResponse:
    """The submission `after` as a change of the submission `before`."""
    engine = request.app.state.engine
    found = [existing(engine, each) for each in (before, after)]
    sources = [submissions.source(engine, each.id) or "" for each in found]
    reports = [submissions.report(engine, each.id) for each in found]
    language = preferences.language(request)
    return templating.page(
        request, "compare.html", before=found[0], after=found[1], cases=cases(*reports), traffic=traffic(*reports),
        difference=diff(sources[0], sources[1], (found[0].name, found[1].name), words=language),
    )  # fmt: skip


def cases(before: Report | None, after: Report | None) -> list[CaseChange]:
    """The cases of both, in the order of the second; those that only the first has come last."""
    old, new = ({case.name: case for case in report.cases} if report else {} for report in (before, after))
    return [CaseChange(name, old.get(name), new.get(name)) for name in new | old]


def traffic(before: Report | None, after: Report | None) -> tuple[str, list[TrafficChange]]:
    """The case that moved most among those that both sides counted, and its tensors; "" where there is none."""
    counted = [
        (change.name, change.before.traffic, change.after.traffic) for change in cases(before, after)
        if change.before and change.after and change.before.traffic and change.after.traffic
    ]  # fmt: skip
    if not counted:
        return "", []
    name, old, new = max(counted, key=lambda item: item[2].sector_bytes)
    return name, _tensors(old, new)


def _tensors(before: CaseTraffic, after: CaseTraffic) -> list[TrafficChange]:
    old, new = ({t.tensor: t for t in side.tensors} for side in (before, after))
    changes = []
    for name in new | old:
        for write in (False, True):
            sides = [_access(tensors.get(name), write) for tensors in (old, new)]
            if any(side.requests for side in sides):
                changes.append(TrafficChange(name, write, *sides))
    return changes


def _access(tensor: object, write: bool) -> AccessTraffic:
    found = getattr(tensor, "write" if write else "read", AccessTraffic())
    assert isinstance(found, AccessTraffic)
    return found
