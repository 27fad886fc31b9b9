"""The list of problems, with how far the reader has come."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from harness.problem import DIFFICULTIES, Problem
from web import catalogue
from web.pages import rungs, templating
from web.store import rankings, submissions
from web.store.records import Progress

_STATES = ("new", "tried", "solved")
_LATEST = 6

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Entry:
    """A problem in the list. `state`: "new", "tried" or "solved"."""

    problem: Problem
    progress: Progress
    state: str
    rungs: int  # of its ladder


@router.get("/")
def home(request: Request, tag: str = "", difficulty: str = "", state: str = "") -> HTMLResponse:
    """All problems, or those with a tag, of a difficulty, in a state; a filter that is none is left out."""
    engine = request.app.state.engine
    entries = _entries(rankings.progress(engine))
    tags = sorted({tag for entry in entries for tag in entry.problem.tags})
    chosen = {
        "tag": tag if tag in tags else "",
        "difficulty": difficulty if difficulty in DIFFICULTIES else "",
        "state": state if state in _STATES else "",
    }
    return templating.page(
        request, "home.html", entries=[entry for entry in entries if _fits(entry, chosen)], every=entries, tags=tags,
        difficulties=DIFFICULTIES, states=_STATES, chosen=chosen, latest=submissions.latest(engine, limit=_LATEST),
    )  # fmt: skip


def _entries(progress: dict[str, Progress]) -> list[Entry]:
    """By difficulty, the easy ones first."""
    entries = []
    for problem in catalogue.problems():
        done = progress.get(problem.id, Progress(problem.id, 0, 0))
        state = "solved" if done.accepted else "tried" if done.attempts else "new"
        entries.append(Entry(problem, done, state, len(rungs.files(problem.id))))
    return sorted(entries, key=lambda entry: (DIFFICULTIES.index(entry.problem.difficulty), entry.problem.id))


def _fits(entry: Entry, chosen: dict[str, str]) -> bool:
    found = {"difficulty": entry.problem.difficulty, "state": entry.state}
    right = all(not chosen[name] or chosen[name] == value for name, value in found.items())
    return right and (not chosen["tag"] or chosen["tag"] in entry.problem.tags)
