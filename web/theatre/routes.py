"""GET /theatre: the page. All words are in its templates."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from web.pages import templating
from web.theatre import examples, merge_picture, pictures, play, snippets
from web.theatre.query import Complaint, Query, parse
from web.theatre.recurrence import Mistake, harmless

router = APIRouter()


@router.get("/theatre", response_class=HTMLResponse, include_in_schema=False)
def theatre(request: Request) -> HTMLResponse:
    """The steps of a row; with status 400, and the nearest sensible, where the address holds what it should not."""
    query, complaints = parse(request.query_params)
    return templating.page(request, "theatre.html", 400 if complaints else 200, **context(query, complaints))


def context(query: Query, complaints: list[Complaint]) -> dict[str, Any]:
    """What the templates need."""
    return {
        "query": query,
        "complaints": complaints,
        "play": play.play(query.example, query.tile, query.mistake),
        "errors": play.errors(query.tile),
        "examples": list(examples.Example),
        "mistakes": list(Mistake),
        "keys": examples.KEYS,
        "split": play.SPLIT,
        "pictures": pictures,
        "merge_picture": merge_picture.draw,
        "snippets": snippets,
        "number": pictures.number,
        "harmless": harmless,
    }
