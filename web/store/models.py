"""The tables. Times are UTC; a report is the JSON of harness/report/json.py, compressed."""

from __future__ import annotations

import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator


class Utc(TypeDecorator[datetime.datetime]):
    """A point in time with its zone, also in SQLite, which knows none."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime.datetime | None, dialect: Dialect) -> Any:
        """To UTC, without the zone."""
        return value and value.astimezone(datetime.UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime.datetime | None, dialect: Dialect) -> datetime.datetime | None:
        """With the zone again."""
        return None if value is None else value.replace(tzinfo=datetime.UTC)


class Base(DeclarativeBase):
    """Of all tables."""


class SubmissionRow(Base):
    """What somebody sent. `current` is the number of the judging that counts."""

    __tablename__ = "submission"
    id: Mapped[str] = mapped_column(String(24), primary_key=True)
    created: Mapped[datetime.datetime] = mapped_column(Utc, index=True)
    problem: Mapped[str] = mapped_column(String(100))
    kind: Mapped[str] = mapped_column(String(8))
    name: Mapped[str] = mapped_column(String(200))
    source: Mapped[str] = mapped_column(Text, deferred=True)
    dtype: Mapped[str | None] = mapped_column(String(32))  # asked for; what solve() is written for, if None
    variant: Mapped[str | None] = mapped_column(String(64))
    device: Mapped[str] = mapped_column(String(8))
    idempotency_key: Mapped[str | None] = mapped_column(String(200), unique=True)
    current: Mapped[int] = mapped_column(default=1)
    __table_args__ = (Index("ix_submission_problem", "problem", "kind", "created"),)


class RunRow(Base):
    """One judging of a submission, from the queue to its verdict. `attempt` counts how often it was taken in hand: a
    worker that died may write no more, since the row has moved on to another attempt."""

    __tablename__ = "run"
    id: Mapped[int] = mapped_column(primary_key=True)
    submission_id: Mapped[str] = mapped_column(ForeignKey("submission.id", ondelete="CASCADE"))
    number: Mapped[int] = mapped_column(default=1)
    state: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int] = mapped_column(default=0)
    begun: Mapped[int] = mapped_column(default=0)  # the last attempt that a worker has begun
    deaths: Mapped[int] = mapped_column(default=0)  # of workers that had it in hand, and their failures
    owner: Mapped[str] = mapped_column(String(64), default="")  # the start of the site that has it in hand
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    queued: Mapped[datetime.datetime] = mapped_column(Utc)
    started: Mapped[datetime.datetime | None] = mapped_column(Utc)
    finished: Mapped[datetime.datetime | None] = mapped_column(Utc)
    # What it came to; the columns that lists and rankings need, and the report with everything.
    verdict: Mapped[str | None] = mapped_column(String(32))
    passed: Mapped[int | None]
    total: Mapped[int | None]
    seconds: Mapped[float | None]
    score: Mapped[float | None]
    modelled: Mapped[bool | None]  # the score and all times are a model's, nothing was timed
    tier: Mapped[str | None] = mapped_column(String(64))
    seed: Mapped[int | None] = mapped_column(BigInteger)
    device: Mapped[str | None] = mapped_column(String(200))  # what it ran on, or the card that was played
    dtype: Mapped[str | None] = mapped_column(String(32))  # of the track that was judged
    variant: Mapped[str | None] = mapped_column(String(64))
    report: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    __table_args__ = (
        UniqueConstraint("submission_id", "number", name="uq_run_number"),
        Index("ix_run_state", "state", "queued"),
        Index("ix_run_ranking", "verdict", "dtype", "score"),
    )


class EventRow(Base):
    """A step of a judging, as it is streamed: numbered from 1 within its run."""

    __tablename__ = "event"
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(String(32))
    data: Mapped[str] = mapped_column(Text)  # a JSON object


class CaseRow(Base):
    """One case of a finished judging."""

    __tablename__ = "case_result"
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    verdict: Mapped[str] = mapped_column(String(32))
    benchmark: Mapped[bool]
    ratio: Mapped[float | None]  # the worst error over its limit
    seconds: Mapped[float]
    score: Mapped[float | None]


class FindingRow(Base):
    """One finding of a finished judging; `case_name` is empty for those that belong to no case."""

    __tablename__ = "finding"
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    case_name: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(32), index=True)
    message: Mapped[str] = mapped_column(Text)
    line: Mapped[int]
    tensor: Mapped[str] = mapped_column(String(200))
