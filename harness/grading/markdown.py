"""A session as Markdown, for the summary page of a CI run ($GITHUB_STEP_SUMMARY) or a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.grading import wording
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status
from harness.grading.session import Session
from harness.report.excerpt import printable

START = b"<!-- judge.py grade -->"  # what a file of ours starts with
_MARKS = {Status.OK: "✅", Status.SURPRISE: "❌", Status.JUDGE_ERROR: "⚠️", Status.SKIPPED: "⏭️", Status.NOT_RUN: "⏭️"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")
_MAX_LINES = 8  # of what is said of one file


def render(session: Session) -> str:
    """Sums, a table, and a section for each surprise."""
    return "\n".join([START.decode(), *_lines(session)]) + "\n"


def _lines(session: Session) -> Iterator[str]:
    held, scored = not session.settings.report_only, any(graded.score is not None for _, graded in session.rows)
    yield f"### {'Grading' if held else 'Verdicts'}: {wording.counts(session) if held else wording.verdicts(session)}"
    yield ""
    if session.interrupted:
        yield "**Interrupted**: what follows is all that is known.\n"
    declares = wording.declares(session)
    columns = ["file", "problem", "dtype", *["declared"] * declares, "got", *["score"] * scored, "seconds"]
    columns += [""] * held
    yield _row(columns)
    yield _row(["---"] * len(columns))
    for entry, graded in session.rows:
        yield _row([_escaped(cell) for cell in _cells(entry, graded, held, scored, declares)])
    for entry, graded in session.rows:
        if graded.status in (Status.SURPRISE, Status.JUDGE_ERROR):
            yield from _section(entry, graded)
    yield ""
    yield f"Judged in {session.seconds:.0f} s, seed {session.settings.options.seed}."


def _cells(entry: Entry, graded: Graded, held: bool, scored: bool, declares: bool) -> Iterator[str]:
    yield from (wording.name(entry.name), entry.problem.id, wording.track(graded))
    if declares:
        yield wording.declared(entry.declared)
    yield wording.verdict(graded)
    if scored:
        yield wording.score(graded)
    yield f"{graded.seconds:.1f}"
    if held:
        yield f"{_MARKS[graded.status]} {wording.result(entry, graded)}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _section(entry: Entry, graded: Graded) -> Iterator[str]:
    said = [line for text in wording.explanation(entry, graded) for line in printable(text).split("\n")]
    yield f"\n**{_escaped(wording.name(entry.name))}**: {_escaped(wording.line('; '.join(graded.reasons)))}\n"
    more = [f"... {len(said) - _MAX_LINES} more lines"] if len(said) > _MAX_LINES else []
    yield from (f"    {line}" for line in said[:_MAX_LINES] + more)  # indented: nothing in it is Markdown


def _escaped(text: str) -> str:
    """Text of files and of their authors as text, not as Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))
