"""Leaderboards and progress. A score that was measured on a card and one that was modelled stand in different lists,
and so do different cards, dtypes and variants: a ranking compares like with like."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, Integer, case, func, select

from web.store import engine as database
from web.store.models import RunRow, SubmissionRow
from web.store.records import Kind, Progress, Ranked, State
from web.store.submissions import CURRENT

_ACCEPTED = "accepted"


def devices(engine: Engine, problem: str, dtype: str, variant: str) -> list[tuple[str, bool]]:
    """(device, whether its scores are modelled) for which there is a leaderboard in this track, measured ones first."""
    query = (
        select(RunRow.device, RunRow.modelled).join(SubmissionRow, CURRENT)
        .where(*_scored(problem, dtype, variant)).distinct().order_by(RunRow.modelled, RunRow.device)
    )  # fmt: skip
    with database.reading(engine) as session:
        return [(device or "", bool(modelled)) for device, modelled in session.execute(query)]


def leaderboard(
    engine: Engine, problem: str, dtype: str, variant: str, device: str, modelled: bool, limit: int = 100
) -> list[Ranked]:
    """The best submission under each name, best first; equal scores share a rank, the earlier one stands first."""
    query = (
        select(SubmissionRow, RunRow).join(RunRow, CURRENT)
        .where(*_scored(problem, dtype, variant), RunRow.device == device, RunRow.modelled == modelled)
        .order_by(RunRow.score.desc(), SubmissionRow.created, SubmissionRow.id)
    )  # fmt: skip
    ranked: list[Ranked] = []
    seen: set[str] = set()
    with database.reading(engine) as session:
        for submission, run in session.execute(query):
            if submission.name in seen:
                continue
            seen.add(submission.name)
            score = run.score or 0.0
            rank = ranked[-1].rank if ranked and ranked[-1].score == score else len(ranked) + 1
            who = submission.id, submission.name, submission.created
            ranked.append(Ranked(rank, *who, device, score, run.tier or "", run.seconds or 0.0))
            if len(ranked) == limit:
                break
    return ranked


def progress(engine: Engine) -> dict[str, Progress]:
    """By problem, for those that something was submitted to."""
    accepted = case((RunRow.verdict == _ACCEPTED, 1), else_=0)
    query = (
        select(
            SubmissionRow.problem, func.count(), func.sum(accepted).cast(Integer),
            func.max(case((RunRow.modelled.is_(False), RunRow.score))),
            func.max(case((RunRow.modelled.is_(True), RunRow.score))),
        )
        .join(RunRow, CURRENT).where(SubmissionRow.kind == Kind.SUBMIT, RunRow.state == State.FINISHED)
        .group_by(SubmissionRow.problem)
    )  # fmt: skip
    with database.reading(engine) as session:
        return {row[0]: Progress(*tuple(row)) for row in session.execute(query)}


def _scored(problem: str, dtype: str, variant: str) -> tuple[Any, ...]:
    return (
        SubmissionRow.problem == problem, SubmissionRow.kind == Kind.SUBMIT, RunRow.state == State.FINISHED,
        RunRow.verdict == _ACCEPTED, RunRow.score.is_not(None), RunRow.dtype == dtype, RunRow.variant == variant,
    )  # fmt: skip
