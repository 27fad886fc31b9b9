"""What to do about a submission that was judged in a track that is not its own, or has no solve(): for a browser, in
which a track is an address. The judge's own notes on it name options of the command line."""

from __future__ import annotations

from dataclasses import dataclass

from harness import tracks
from harness.problem import Problem
from harness.results import Report
from harness.verdict import Verdict
from web import catalogue
from web.errors import SiteError
from web.pages.links import link
from web.store.records import Submission

_NO_ENTRY = "defines no host entry point"  # in words of harness/compile/explain.py


@dataclass(frozen=True)
class Advice:
    """`fits`: the track, such as "bfloat16, lse", that the file is written for, at `url` with the file in the editor;
    "" where there is none, then `url` leads to what solve() takes. `instead_of` is the judge's note that says the
    same."""

    fits: str
    url: str
    instead_of: str


def of(sent: Submission, source: str, report: Report) -> Advice | None:
    """None where nothing is wrong with the track."""
    if report.verdict is not Verdict.COMPILE_ERROR:
        return None
    try:
        problem = catalogue.find(sent.problem)
        judged = catalogue.track(sent.problem, report.dtype or None, report.variant or None)
        match = tracks.find(problem, source, sent.asked_dtype, sent.asked_variant)
    except SiteError:  # the problem has changed since
        return None
    note = f"{match.note}." if match.note else ""
    free = tracks.find(problem, source)
    if free.exact and tracks.types_of(free.problem) != tracks.types_of(judged):
        return Advice(tracks.title(free.problem), _address(free.problem, source=sent.id), note)
    if note or any(_NO_ENTRY in finding.message for finding in report.findings):
        return Advice("", f"{_address(judged)}#signature", note)
    return None


def _address(track: Problem, **options: str) -> str:
    return link(f"/problems/{track.id}", dtype=track.dtype, variant=track.variant, **options)
