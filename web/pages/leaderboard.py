"""The best submissions of a problem in one track. What was measured and what was modelled stand apart, and so does each
device; the ladder's results on its card are there to compare with."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from harness.problem import Problem
from web import catalogue
from web.pages import rungs, templating
from web.pages.rungs import Result, Rung
from web.store import rankings
from web.store.records import Ranked

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Board:
    """One ranking."""

    device: str
    modelled: bool
    rows: list[Ranked]


@router.get("/problems/{problem_id}/leaderboard")
def show(request: Request, problem_id: str, dtype: str = "", variant: str = "") -> HTMLResponse:
    """All rankings of a track, the problem's first if none is asked for."""
    problem = catalogue.track(problem_id, dtype or None, variant or None)
    engine, where = request.app.state.engine, (problem.id, problem.dtype, problem.variant)
    boards = [
        Board(device, modelled, rankings.leaderboard(engine, *where, device, modelled))
        for device, modelled in rankings.devices(engine, *where)
    ]
    measured = rungs.measured(problem.id)
    return templating.page(
        request, "leaderboard.html", problem=problem, boards=boards, measured=measured,
        reference=reference(problem, measured), has_ladder=bool(rungs.files(problem.id)),
    )  # fmt: skip


def reference(problem: Problem, measured: rungs.Measured | None) -> list[tuple[Rung, Result]]:
    """The rungs of the ladder that are for this track and have a score, the best first."""
    if measured is None:
        return []
    found = [(rung, measured.results[rung.name]) for rung in rungs.ladder(problem.id) if rung.name in measured.results]
    scored = [
        (result.score, rung, result) for rung, result in found
        if result.score is not None and (rung.dtype, rung.variant) == (problem.dtype, problem.variant)
    ]  # fmt: skip
    return [(rung, result) for _, rung, result in sorted(scored, key=lambda row: -row[0])]
