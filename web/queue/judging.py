"""One claim, judged: the submission from the store, its steps and its verdict into the store. Nothing stays here.

Runs in the main thread of a judging process (process.py), through the same pipeline and children as the command line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from harness import pipeline
from harness import problem as problems
from harness import submission as submissions
from harness.errors import JudgeException, NoDeviceError, StartError, SubmissionError, UsageError
from harness.events import Finished
from harness.problem import Problem
from harness.results import Report
from web.queue.events import as_stored
from web.queue.failure import failed, lost
from web.queue.manner import Manner
from web.store import judgings
from web.store import submissions as stored
from web.store.engine import patiently
from web.store.records import Claim, Kind
from web.store.records import Submission as Sent

_log = logging.getLogger(__name__)


def judge(engine: Engine, claim: Claim, manner: Manner) -> None:
    """Judge a submission to its end in the store. Whatever goes wrong in the judge itself is a verdict, too, but for
    the store: raises OperationalError where that takes nothing for long. Returns early where the attempt counts no
    more."""
    sent = patiently(lambda: stored.get(engine, claim.submission_id))
    source = patiently(lambda: stored.source(engine, claim.submission_id))
    if sent is None or source is None:  # it was deleted
        return
    try:
        report = _judged(engine, claim, manner, sent, source)
    except NoDeviceError as error:  # a card that has vanished, or that no worker has
        report = failed(claim, str(error), sent, unsupported=True)
    except StartError as error:  # somebody else may have killed it
        patiently(lambda error=error: lost(engine, claim, manner.attempts, str(error)))  # type: ignore[misc]
        return
    except JudgeException as error:
        report = failed(claim, str(error), sent)
    except OperationalError:
        raise
    except Exception as error:  # a mistake of the judge; whoever waits for a verdict must not wait for ever
        _log.exception("submission %s: the judge itself failed", claim.submission_id)
        report = failed(claim, f"the judge itself failed ({type(error).__name__}: {error})", sent)
    if report:
        patiently(lambda: judgings.finish(engine, claim, report))


def _judged(engine: Engine, claim: Claim, manner: Manner, sent: Sent, source: str) -> Report | None:
    """The report; None where the attempt counts no more."""
    problem = _problem(claim.problem, manner.problems or problems.ROOT)
    try:
        loaded = submissions.from_bytes(sent.name, source.encode(errors="surrogatepass"))
    except SubmissionError as error:
        return pipeline.refused(problem.id, sent.name, error)
    with contextlib.closing(pipeline.judge(problem, loaded, _options(sent, manner))) as steps:
        for step in steps:
            if isinstance(step, Finished):
                return step.report
            event = as_stored(step, loaded.name)
            if not patiently(lambda event=event: judgings.add_events(engine, claim, [event])):  # type: ignore[misc]
                return None
    raise AssertionError("the judging ended without a report")


def _problem(name: str, folder: Path) -> Problem:
    """The site's problems by their ids alone: a directory elsewhere would bring a reference.py of its own."""
    if not (name.isidentifier() and (folder / name / "problem.yaml").is_file()):
        ids = ", ".join(sorted(file.parent.name for file in folder.glob("*/problem.yaml")))
        raise UsageError(f"no problem {name!r}; there are: {ids or 'none'}")
    return problems.load_directory(folder / name)


def _options(sent: Sent, manner: Manner) -> pipeline.Options:
    """Runs show soon what happens; only submits wait for registers and spills. Pages draw what warps touched."""
    device = manner.device if sent.asked_device == "auto" else sent.asked_device
    options = pipeline.Options(
        device=device, dtype=sent.asked_dtype, variant=sent.asked_variant, cases="benchmarks", card=manner.card,
        cache=manner.cache, toolchain=manner.toolchain, trace=True,
    )  # fmt: skip
    if sent.kind is Kind.RUN:
        options = dataclasses.replace(options, cases="samples", resource_seconds=0.0)
    return options
