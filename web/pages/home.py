"""The list of problems, with how far the reader has come."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from harness.problem import list_problems
from web.pages import templating
from web.store import rankings

router = APIRouter(include_in_schema=False)


@router.get("/")
def home(request: Request) -> HTMLResponse:
    """All problems."""
    progress = rankings.progress(request.app.state.engine)
    return templating.page(request, "home.html", problems=list_problems(), progress=progress)
