"""A problem's solution ladder: one idea a rung, with what it costs and what was measured; then rung by rung the code
and what was changed in it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from web import catalogue
from web.errors import SiteError
from web.pages import preferences, rungs, templating
from web.pages.rungs import Result, Rung
from web.rendering.differences import diff

router = APIRouter(include_in_schema=False)


@router.get("/problems/{problem_id}/ladder")
def show(request: Request, problem_id: str, rung: str = "") -> HTMLResponse:
    """The whole ladder, its ideas folded; or one `rung` ("04") in full."""
    problem = catalogue.find(problem_id)
    ladder = rungs.ladder(problem.id)
    if not ladder:
        raise SiteError(404, "no_ladder", f"{problem.id} has no solution ladder", "its problem page has hints")
    measured = rungs.measured(problem.id)
    results = measured.results if measured else {}
    shared: dict[str, Any] = {
        "problem": problem, "ladder": ladder, "measured": measured, "results": results, "has_ladder": True,
    }  # fmt: skip
    if not rung:
        return templating.page(request, "ladder.html", **shared)
    place = next((n for n, each in enumerate(ladder) if each.key == rung.zfill(2)), None)
    if place is None:
        known = ", ".join(each.key for each in ladder)
        raise SiteError(404, "unknown_rung", f"{problem.id} has no rung {rung!r}", f"rungs: {known}")
    current, before = ladder[place], ladder[place - 1] if place else None
    after = ladder[place + 1] if place + 1 < len(ladder) else None
    return templating.page(
        request, "rung.html", **shared, rung=current, before=before, after=after,
        difference=_difference(before, current, preferences.language(request)),
        gains=gains(results.get(before.name) if before else None, results.get(current.name)),
    )  # fmt: skip


def _difference(before: Rung | None, after: Rung, words: str) -> str:
    names = (f"{before.name}.cu", f"{after.name}.cu") if before else ("", "")
    return diff(before.code, after.code, names, words=words) if before else ""


def gains(before: Result | None, after: Result | None) -> dict[str, float]:
    """By case, how many times as fast a rung is as the one before it; of cases that both have."""
    if before is None or after is None:
        return {}
    return {
        name: before.cases[name]["us"] / case["us"] for name, case in after.cases.items()
        if name in before.cases and case["us"] > 0
    }  # fmt: skip
