"""A problem: its statement, what solve() takes, how it is judged, and the editor beside all that."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from harness import cards, check
from harness.cards import Card
from harness.errors import UsageError
from harness.problem import Problem
from harness.report import benchmark_table
from harness.signature import Scalar, Tensor, declare
from web import catalogue
from web.pages import preferences, rungs, templating
from web.queue.base import Queue
from web.rendering.statements import statement
from web.store import submissions

router = APIRouter(include_in_schema=False)


@router.get("/problems/{problem_id}")
def show(
    request: Request, problem_id: str, dtype: str = "", variant: str = "", card: str = "", source: str = ""
) -> HTMLResponse:
    """The problem in one of its tracks, the first if none is asked for, with the speed of light on a card. The editor
    begins with the starter, or with the `source` of a submission."""
    problem = catalogue.track(problem_id, dtype or None, variant or None)
    settings = request.app.state.settings
    known = _card(card or settings.card)
    return templating.page(
        request, "problem.html", problem=problem, statement=statement(problem, preferences.language(request)),
        signature=signature(problem), tests=_tests(problem), card=known, cards=cards.names(),
        benchmarks=benchmark_table.rows(problem, known), basis=benchmark_table.basis(problem, known),
        floors=check.FLOORS[problem.dtype], log_sum_exp=check.LOG_SUM_EXP_FLOORS[problem.dtype],
        has_ladder=bool(rungs.files(problem.id)), starter=starter(problem), **_text(request, source),
        devices=devices(request.app.state.queue), max_bytes=settings.bounds.source_bytes,
        editor_url=request.app.state.editor.url,
    )  # fmt: skip


def devices(queue: Queue) -> tuple[str, ...]:
    """What a submission may choose from; there is no choice where no GPU can be used."""
    return ("auto", "cpu", "gpu") if queue.has_card() else ("auto",)


def _card(name: str) -> Card:
    try:
        return cards.get(name)
    except UsageError:
        return cards.get(cards.DEFAULT)


def _text(request: Request, submission_id: str) -> dict[str, Any]:
    """Text and file name of a submission; "" where there is none."""
    found = submissions.get(request.app.state.engine, submission_id) if submission_id else None
    text = submissions.source(request.app.state.engine, submission_id) or "" if found else ""
    return {"text": text, "text_name": found.name if found else ""}


def starter(problem: Problem) -> str:
    """The text to begin with in a track; where the problem has none, the signature with nothing in it."""
    try:
        return problem.starter_for(problem.dtype, problem.variant)
    except UsageError:
        return signature(problem).replace(");", ") {\n  // your code\n}") + "\n"


def signature(problem: Problem) -> str:
    """The declaration of solve(), a parameter a line, with the shape of each tensor beside it."""
    *headers, _ = problem.declaration().split("\n")
    parameters = problem.signature
    declared = [declare(p) + "," * (n < len(parameters)) for n, p in enumerate(parameters, 1)]
    width = max(map(len, declared))
    lines = [
        f"    {text:{width}}  // {_about(p)}".rstrip(" /") for text, p in zip(declared, parameters, strict=True)
    ]  # fmt: skip
    return "\n".join([*headers, 'extern "C" void solve(', *lines]) + "\n);"


def _about(parameter: Tensor | Scalar) -> str:
    return f"{parameter.role} [{', '.join(parameter.shape)}]" if isinstance(parameter, Tensor) else ""


def _tests(problem: Problem) -> list[tuple[str, str, bool]]:
    """(name, parameters that are not at their defaults, whether it is a sample) of the track's tests."""
    samples = set(problem.samples)
    return [(t.name, benchmark_table.parameters(problem, t), t.name in samples) for t in problem.tests]
