"""What queries of the store answer with: frozen records, which outlive the session that read them."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Any


class Kind(enum.StrEnum):
    """What a submission is sent for."""

    RUN = "run"  # the problem's samples, to see what happens
    SUBMIT = "submit"  # all tests, and the benchmarks for a score


class State(enum.StrEnum):
    """Where a judging is; the last two are final."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (State.FINISHED, State.CANCELLED)


@dataclass(frozen=True)
class Request:
    """What somebody sends, checked by whoever took it in (web/api)."""

    problem: str
    source: str
    kind: Kind
    name: str = "solution.cu"
    dtype: str | None = None  # None: what solve() is written for
    variant: str | None = None
    device: str = "auto"
    idempotency_key: str | None = None  # the same key twice is the same submission


@dataclass(frozen=True)
class Submission:
    """A submission and the judging of it that counts, without its source and report."""

    id: str
    created: datetime.datetime
    problem: str
    kind: Kind
    name: str
    asked_dtype: str | None
    asked_variant: str | None
    asked_device: str
    run_id: int
    state: State
    cancel_requested: bool
    queued: datetime.datetime
    started: datetime.datetime | None
    finished: datetime.datetime | None
    verdict: str | None
    passed: int | None
    total: int | None
    seconds: float | None
    score: float | None
    modelled: bool | None
    tier: str | None
    seed: int | None
    device: str | None
    dtype: str | None
    variant: str | None


@dataclass(frozen=True)
class Claim:
    """A judging that a site has taken in hand, and may write to as long as it is at this attempt."""

    run_id: int
    attempt: int
    submission_id: str
    problem: str
    kind: Kind
    device: str  # that it was sent for: "auto", "cpu", "gpu"


@dataclass(frozen=True)
class StoredEvent:
    """A step of a judging; `data` has neither `seq` nor `type` in it."""

    seq: int
    type: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Ranked:
    """A row of a leaderboard: the best submission under one name."""

    rank: int
    submission_id: str
    name: str
    created: datetime.datetime
    device: str
    score: float
    tier: str
    seconds: float


@dataclass(frozen=True)
class Progress:
    """How far the reader has come with a problem: submissions of all tests, never runs of samples."""

    problem: str
    attempts: int
    accepted: int
    best_measured: float | None = None  # score
    best_modelled: float | None = None
