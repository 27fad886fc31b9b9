"""All submissions, newest first, and the form that sends one without any script."""

from __future__ import annotations

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from web import catalogue
from web.api import intake
from web.pages import templating
from web.pages.submission_page import existing
from web.store import submissions
from web.store.records import Kind

PAGE = 50

router = APIRouter(include_in_schema=False)


@router.get("/submissions")
def history(request: Request, problem: str = "", kind: str = "", before: str = "") -> HTMLResponse:
    """A page of them: of a problem, of a kind, older than the one with the id `before`."""
    engine = request.app.state.engine
    wanted = Kind(kind) if kind in tuple(Kind) else None
    found = submissions.latest(engine, problem or None, wanted, before or None, PAGE + 1)
    shown = found[:PAGE]
    return templating.page(
        request, "submissions.html", shown=shown, older=shown[-1].id if len(found) > PAGE else "",
        chosen={"problem": problem, "kind": str(wanted or "")}, before=before, problems=catalogue.ids(),
        kinds=[str(kind) for kind in Kind],
    )  # fmt: skip


@router.get("/submissions/compare")
def compare(request: Request, before: str = "", after: str = "") -> RedirectResponse:
    """From the choice of two to the page that compares them; from half a choice back to the list."""
    engine = request.app.state.engine
    found = [submissions.get(engine, name) for name in (after, before)]
    if None in found:
        return RedirectResponse("/submissions", 303)
    return RedirectResponse(f"/submissions/{after}/compare/{before}", 303)


@router.post("/submissions")
def send(
    request: Request,
    problem: str = Form(""),
    source: str = Form(""),
    kind: str = Form("run"),
    name: str = Form(""),
    dtype: str = Form(""),
    variant: str = Form(""),
    device: str = Form(""),
    again: str = Form(""),
) -> RedirectResponse:
    """Take a submission in, or send an earlier one `again`, and go to its page."""
    if again:
        wanted = _once_more(request, again)
    else:
        text = source.replace("\r\n", "\n")  # as a form sends the ends of lines
        wanted = intake.Wanted(problem, text, kind, _file_name(name.strip() or problem), dtype, variant, device)
    taken, _ = intake.take(request.app.state, wanted)
    return RedirectResponse(f"/submissions/{taken.id}", 303)


def _file_name(name: str) -> str:
    """With .cu behind it, as the workbench sends it."""
    return name if name.endswith(".cu") else f"{name}.cu"


def _once_more(request: Request, submission_id: str) -> intake.Wanted:
    found = existing(request.app.state.engine, submission_id)
    source = submissions.source(request.app.state.engine, submission_id) or ""
    asked = found.asked_dtype, found.asked_variant, found.asked_device
    return intake.Wanted(found.problem, source, found.kind, found.name, *asked)
