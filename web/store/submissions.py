"""Submissions: taking them in, finding them again."""

from __future__ import annotations

import datetime
import json
import secrets
import zlib

from sqlalchemy import Engine, Select, func, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from harness.report import reading
from harness.results import Report
from web.store import engine as database
from web.store.models import EventRow, RunRow, SubmissionRow
from web.store.records import Kind, Request, State, Submission

_ID_BYTES = 9  # 12 characters; too many to guess
CURRENT = (RunRow.submission_id == SubmissionRow.id) & (RunRow.number == SubmissionRow.current)  # to join them by


class QueueFull(Exception):
    """As many submissions wait as the site takes on."""


def add(engine: Engine, request: Request, most_queued: int) -> tuple[Submission, bool]:
    """Take a submission in; it is on the disk when this returns. Also whether it is new: a key that is known gives the
    submission that it came with. Raises QueueFull."""
    if known := _by_key(engine, request.idempotency_key):
        return known, False
    try:
        with database.writing(engine) as session:
            waiting = count_waiting(session)
            if waiting >= most_queued:
                raise QueueFull
            row = _insert(session, request, waiting + 1)
    except IntegrityError:  # the same key came twice at once
        if known := _by_key(engine, request.idempotency_key):
            return known, False
        raise
    found = get(engine, row)
    assert found
    return found, True


def count_waiting(session: Session) -> int:
    """How many judgings are queued."""
    return session.scalar(select(func.count()).select_from(RunRow).where(RunRow.state == State.QUEUED)) or 0


def _insert(session: Session, request: Request, position: int) -> str:
    now = datetime.datetime.now(datetime.UTC)
    submission = SubmissionRow(
        id=secrets.token_urlsafe(_ID_BYTES), created=now, problem=request.problem, kind=request.kind,
        name=request.name, source=request.source, dtype=request.dtype, variant=request.variant, device=request.device,
        idempotency_key=request.idempotency_key, current=1,
    )  # fmt: skip
    session.add(submission)
    session.flush()
    run = RunRow(submission_id=submission.id, number=1, state=State.QUEUED, queued=now)
    session.add(run)
    session.flush()
    session.add(EventRow(run_id=run.id, seq=1, type="queued", data=json.dumps({"position": position})))
    return submission.id


def _by_key(engine: Engine, key: str | None) -> Submission | None:
    if key is None:
        return None
    with database.reading(engine) as session:
        row = session.execute(_query().where(SubmissionRow.idempotency_key == key)).one_or_none()
        return _record(*row) if row else None


def get(engine: Engine, submission_id: str) -> Submission | None:
    """The submission with this id."""
    with database.reading(engine) as session:
        row = session.execute(_query().where(SubmissionRow.id == submission_id)).one_or_none()
        return _record(*row) if row else None


def source(engine: Engine, submission_id: str) -> str | None:
    """The text that was sent."""
    with database.reading(engine) as session:
        return session.scalar(select(SubmissionRow.source).where(SubmissionRow.id == submission_id))


def report_json(engine: Engine, submission_id: str) -> str | None:
    """The report of the judging that counts, as harness/report/json.py writes it; None before it is finished. Raises
    ReportFormatError for a damaged one."""
    with database.reading(engine) as session:
        query = select(RunRow.report).join(SubmissionRow, CURRENT).where(SubmissionRow.id == submission_id)
        packed = session.scalar(query)
    try:
        return zlib.decompress(packed).decode() if packed else None
    except (zlib.error, UnicodeDecodeError) as error:
        raise reading.ReportFormatError(f"damaged in the store: {error}") from None


def report(engine: Engine, submission_id: str) -> Report | None:
    """The same, as a record."""
    text = report_json(engine, submission_id)
    return reading.read(text) if text else None


def latest(
    engine: Engine,
    problem: str | None = None,
    kind: Kind | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[Submission]:
    """Submissions, newest first: of a problem, of a kind, older than the one with id `before`."""
    query = _query().order_by(SubmissionRow.created.desc(), SubmissionRow.id.desc()).limit(limit)
    if problem is not None:
        query = query.where(SubmissionRow.problem == problem)
    if kind is not None:
        query = query.where(SubmissionRow.kind == kind)
    with database.reading(engine) as session:
        if before is not None:
            anchor = select(SubmissionRow.created, SubmissionRow.id).where(SubmissionRow.id == before)
            found = session.execute(anchor).one_or_none()
            if found is None:
                return []
            query = query.where(tuple_(SubmissionRow.created, SubmissionRow.id) < tuple(found))
        return [_record(*row) for row in session.execute(query)]


def _query() -> Select[SubmissionRow, RunRow]:
    return select(SubmissionRow, RunRow).join(RunRow, CURRENT)


def _record(submission: SubmissionRow, run: RunRow) -> Submission:
    return Submission(
        id=submission.id, created=submission.created, problem=submission.problem, kind=Kind(submission.kind),
        name=submission.name, asked_dtype=submission.dtype, asked_variant=submission.variant,
        asked_device=submission.device, run_id=run.id, state=State(run.state), cancel_requested=run.cancel_requested,
        queued=run.queued, started=run.started, finished=run.finished, verdict=run.verdict, passed=run.passed,
        total=run.total, seconds=run.seconds, score=run.score, modelled=run.modelled, tier=run.tier, seed=run.seed,
        device=run.device, dtype=run.dtype, variant=run.variant,
    )  # fmt: skip
