"""A store filled by judging real submissions, without the queue: what pages show."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sqlalchemy import Engine

from harness import problem as problems
from harness import submission as submission_files
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.results import Report
from web.store import judgings, submissions
from web.store.records import Kind, Request, Submission

SUBMISSIONS = Path(__file__).parent / "submissions"


def text_of(name: str) -> str:
    """A fixture under tests/submissions: "split_k_merge/good.cu"."""
    return (SUBMISSIONS / name).read_text()


def judged(engine: Engine, problem: str, source: str, name: str = "my.cu", kind: Kind = Kind.RUN, cases: str = "samples") -> Submission:
    """Send, judge in this process and write the verdict, as a worker would."""
    report = report_of(problem, source, name, cases)
    return written(engine, Request(problem, source, kind, name, device="cpu"), report)


def report_of(problem: str, source: str, name: str = "my.cu", cases: str = "samples") -> Report:
    """The judging of a text in the emulator, with a known seed."""
    options = Options(device="cpu", cases=cases, seed=7, resource_seconds=0.0)
    if "trace" in {field.name for field in dataclasses.fields(Options)}:
        options = dataclasses.replace(options, trace=True)
    loaded = submission_files.from_bytes(name, source.encode())
    for event in judge(problems.load(problem), loaded, options):
        if isinstance(event, Finished):
            return event.report
    raise AssertionError("no report")


def written(engine: Engine, request: Request, report: Report) -> Submission:
    """A submission whose judging has come to `report`."""
    sent, _ = submissions.add(engine, request, most_queued=100)
    claim = judgings.claim(engine, "test")
    assert claim and claim.submission_id == sent.id
    assert judgings.finish(engine, claim, report)
    found = submissions.get(engine, sent.id)
    assert found
    return found
