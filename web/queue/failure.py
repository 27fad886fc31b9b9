"""Judgings that come to no judgement: the judge's own fault, and workers that die. Needs nothing of the pipeline, so
that the site and its Dask workers, which do not judge themselves, stay small."""

from __future__ import annotations

import logging

from sqlalchemy import Engine

from harness.results import CompileResult, Finding, Report
from harness.verdict import FindingKind, Verdict
from web.store import judgings
from web.store.records import Claim, Submission

_log = logging.getLogger(__name__)


def failed(claim: Claim, message: str, sent: Submission | None = None, unsupported: bool = False) -> Report:
    """The report of a judging that is no judgement: the judge's own fault, or that of how it was asked; or, where it is
    `unsupported`, nobody's: the machine lacks what it was asked for."""
    kind, verdict = FindingKind.NOTE, Verdict.JUDGE_ERROR
    if unsupported:
        kind, verdict = FindingKind.UNSUPPORTED, Verdict.UNSUPPORTED
    findings = (Finding(kind, message),)
    name = sent.name if sent else ""
    return Report(claim.problem, name, "", "", 0, verdict, CompileResult(ok=False), findings=findings)


def lost(engine: Engine, claim: Claim, attempts: int, error: str = "") -> int:
    """A worker died with this claim in hand, or could not go on for an error: back into the queue, or an end to it. How
    often that has happened to it; 0 where the attempt counts no more."""
    deaths = judgings.died(engine, claim, "the judge could not go on" if error else "its worker died", attempts)
    if deaths >= attempts:
        times = "once" if deaths == 1 else f"{deaths} times"
        said = f"the judge could not go on, {times}; the last time: {error}" if error else ""
        said = said or f"its judging ended {times} with its worker"
        _log.error("submission %s: %s", claim.submission_id, said)
        judgings.finish(engine, claim, failed(claim, said))
    return deaths
