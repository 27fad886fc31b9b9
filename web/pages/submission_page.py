"""A submission: how far its judging is, and then what came of it and why."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from sqlalchemy import Engine

from harness.problem import BASE
from harness.report import bars, measurement, roofline, traffic, warp_pictures
from harness.report.excerpt import printable
from harness.report.reading import ReportFormatError
from harness.results import Report
from web.api import intake
from web.pages import advice, findings, preferences, templating
from web.store import judgings, submissions
from web.store.records import Kind, StoredEvent, Submission

MOST_PRINTED = 400  # lines of a case's own output
_MOST_EVENTS = 10_000

router = APIRouter(include_in_schema=False)


@router.get("/submissions/{submission_id}")
def show(request: Request, submission_id: str) -> HTMLResponse:
    """Everything about it."""
    engine = request.app.state.engine
    found = existing(engine, submission_id)
    source = submissions.source(engine, submission_id) or ""
    report = _report(engine, submission_id)
    shared: dict[str, Any] = {
        "submission": found, "source": source, "repeat": repeat(found), "previous": _previous(engine, found),
    }
    if report is None:
        steps = Progress.of(judgings.events_after(engine, found.run_id, 0, _MOST_EVENTS))
        place = judgings.position(engine, found.run_id)
        return templating.page(request, "judging.html", **shared, progress=steps, position=place)
    language, warps = preferences.language(request), warp_pictures.traced(report)
    advised = advice.of(found, source, report)
    told = findings.without(report, advised.instead_of) if advised else report
    return templating.page(
        request, "submission.html", **shared, report=report, tests=measurement.tests(report),
        findings=findings.shown(told, source, language), advice=advised, most_findings=findings.MOST,
        log=findings.log(report),
        marks=findings.compiler_marks(report) | findings.marks(report), warps=warps,
        pictures=warp_pictures.of_case(warps) if warps else [], traffic=traffic.busiest(report.cases),
        printed=list(_printed(report)), roofline=roofline.draw(report), points=roofline.points(report),
        bars=bars.draw(report), facts=_facts(report),
    )  # fmt: skip


def _report(engine: Engine, submission_id: str) -> Report | None:
    """None before there is one, and for one that another version of the judge has written."""
    try:
        return submissions.report(engine, submission_id)
    except ReportFormatError:
        return None


@router.get("/submissions/{submission_id}/advice")
def advise(request: Request, submission_id: str) -> JSONResponse:
    """For the workbench: whether the file is written for another track; null where there is nothing to say."""
    engine = request.app.state.engine
    found, report = existing(engine, submission_id), _report(engine, submission_id)
    advised = advice.of(found, submissions.source(engine, submission_id) or "", report) if report else None
    return JSONResponse(dataclasses.asdict(advised) if advised else None)


@router.post("/submissions/{submission_id}/cancel")
def cancel(request: Request, submission_id: str) -> RedirectResponse:
    """Ask for the end of its judging, and look at it again."""
    intake.cancel(request.app.state, submission_id)
    return RedirectResponse(f"/submissions/{submission_id}", 303)


def existing(engine: Engine, submission_id: str) -> Submission:
    """The submission. Raises SiteError 404 where there is none."""
    found = submissions.get(engine, submission_id)
    if found is None:
        raise intake.unknown()
    return found


@dataclass(frozen=True)
class Progress:
    """How far a judging is, from its events since it was begun for the last time."""

    steps: tuple[StoredEvent, ...]  # all but those of cases
    cases: tuple[Mapping[str, Any], ...]  # that are finished
    total: int
    seq: int  # of the last event

    @classmethod
    def of(cls, events: Sequence[StoredEvent]) -> Progress:
        """Of all events, or of their beginning."""
        begun = max((n for n, event in enumerate(events) if event.type == "restarted"), default=0)
        current = events[begun:]
        cases = [event.data for event in current if event.type in ("case_finished", "benchmark_finished")]
        totals = [event.data["total"] for event in current if event.type in ("case_started", "benchmark_started")]
        steps = tuple(event for event in current if not event.type.startswith(("case_", "benchmark_")))
        return cls(steps, tuple(cases), totals[-1] if totals else 0, events[-1].seq if events else 0)


def _previous(engine: Engine, found: Submission) -> Submission | None:
    """The one before it of the same problem."""
    return next(iter(submissions.latest(engine, found.problem, before=found.id, limit=1)), None)


def repeat(found: Submission) -> str:
    """The command that judges the same file on the same inputs."""
    options = ["--cases", "samples"] if found.kind is Kind.RUN else ["--cases", "benchmarks"]
    if found.dtype:
        options += ["--dtype", found.dtype]
    if found.variant not in (None, BASE):
        options += ["--variant", str(found.variant)]
    if found.asked_device != "auto":
        options += ["--device", found.asked_device]
    if found.seed:  # 0 where it came to no input
        options += ["--seed", str(found.seed)]
    return shlex.join(["python", "judge.py", *options, "--", found.problem, printable(found.name)])


def _printed(report: Report) -> Iterator[tuple[str, str, int]]:
    """(case, the beginning of what it printed, how many lines were left out) of those that printed anything."""
    for case in report.cases:
        if case.stdout.strip():
            lines = case.stdout.rstrip().split("\n")
            yield case.name, "\n".join(lines[:MOST_PRINTED]), max(0, len(lines) - MOST_PRINTED)


def _facts(report: Report) -> dict[str, Any]:
    """Of the card, where benchmarks were set against one."""
    return {
        "against": measurement.set_against(report).removeprefix("set against ").replace(" and ", "; "),
        "conditions": measurement.conditions(report),
    }
