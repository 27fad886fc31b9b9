"""The life of a judging in the store: queued, claimed, begun by a worker, its events, its verdict, cancelled, taken up
again after a crash.

Whoever writes for a judging names the attempt that it is at (records.Claim). A worker that was thought dead, or that
outlives the site that started it, is at an attempt that has passed, and writes nothing: every write asks for the row in
the state `running` at that attempt. So a verdict is written once, whoever comes first.
"""

from __future__ import annotations

import datetime
import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Engine, Update, func, select, tuple_, update
from sqlalchemy.orm import Session

from harness.report import json as report_json
from harness.report import measurement
from harness.results import CaseResult, Report
from harness.verdict import Verdict
from web.store import engine as database
from web.store.models import CaseRow, EventRow, FindingRow, RunRow, SubmissionRow
from web.store.records import Claim, Kind, State, StoredEvent
from web.store.submissions import CURRENT, count_waiting


def claim(
    engine: Engine,
    owner: str,
    kinds: Collection[Kind] = tuple(Kind),
    devices: Collection[str] | None = None,
    by_age: bool = False,
) -> Claim | None:
    """Take the next waiting judging in hand, of these kinds, on these devices ("auto", "cpu", "gpu"; None: any): runs
    of samples first, or only `by_age`. None where no such judging waits."""
    wanted = [RunRow.state == State.QUEUED, SubmissionRow.kind.in_(kinds)]
    if devices is not None:
        wanted.append(SubmissionRow.device.in_(devices))
    order = [] if by_age else [SubmissionRow.kind == Kind.SUBMIT]
    query = (
        select(RunRow, SubmissionRow).join(SubmissionRow, SubmissionRow.id == RunRow.submission_id)
        .where(*wanted).order_by(*order, RunRow.queued, RunRow.id)
        .limit(1).with_for_update(of=RunRow, skip_locked=True)
    )  # fmt: skip
    with database.writing(engine) as session:
        found = session.execute(query).one_or_none()
        if found is None:
            return None
        run, submission = found
        run.state, run.owner, run.attempt = State.RUNNING, owner, run.attempt + 1
        run.started = run.started or _now()
        kind = Kind(submission.kind)
        return Claim(run.id, run.attempt, submission.id, submission.problem, kind, submission.device)


def begin(engine: Engine, claim: Claim) -> bool:
    """A worker begins a judging. False where the attempt counts no more, and where another worker has begun it: that
    one is thought dead, or the scheduler would not have handed its work on."""
    query = update(RunRow).where(*_mine(claim), RunRow.begun < claim.attempt).values(begun=claim.attempt)
    with database.writing(engine) as session:
        return _changed(session, query)


def still_mine(engine: Engine, claim: Claim) -> bool:
    """Whether what this attempt writes still counts."""
    with database.reading(engine) as session:
        return _counts(session, claim)


def cancel_requested(engine: Engine, claim: Claim) -> bool:
    """Whether somebody wants this judging to end. True also where the attempt counts no more."""
    with database.reading(engine) as session:
        wanted = session.scalar(select(RunRow.cancel_requested).where(*_mine(claim)))
        return wanted is None or wanted


def add_events(engine: Engine, claim: Claim, events: Iterable[tuple[str, Mapping[str, Any]]]) -> bool:
    """Append steps (type, data). False where the attempt counts no more, and nothing was written."""
    with database.writing(engine) as session:
        if not _counts(session, claim):
            return False
        for type_, data in events:
            _append(session, claim.run_id, type_, data)
        return True


def finish(engine: Engine, claim: Claim, report: Report) -> bool:
    """Write the verdict with everything that belongs to it, in one transaction. False where the attempt counts no more.

    The `finished` event is made here, so that whoever reads it finds the verdict in the store."""
    cases = list(report.cases)
    passed = sum(case.verdict is Verdict.ACCEPTED for case in cases)
    modelled = measurement.modelled(report)
    values = {
        "state": State.FINISHED, "finished": _now(), "verdict": str(report.verdict), "passed": passed,
        "total": len(cases), "seconds": report.seconds, "score": report.score, "modelled": modelled,
        "tier": report.tier or None, "seed": report.seed, "device": _device(report, modelled) or None,
        "dtype": report.dtype or None, "variant": report.variant or None,
        "report": zlib.compress(report_json.render(report).encode()),
    }  # fmt: skip
    with database.writing(engine) as session:
        if not _changed(session, update(RunRow).where(*_mine(claim)).values(values)):
            return False
        session.add_all(_case(claim.run_id, position, case) for position, case in enumerate(cases, 1))
        session.add_all(_findings(claim.run_id, report))
        _append(session, claim.run_id, "finished", _finished(report, passed, len(cases), modelled))
        return True


def request_cancel(engine: Engine, submission_id: str) -> State | None:
    """Ask for the end of a judging: at once where it waits, soon where it runs. The state that it is in
    afterwards; None where there is no such submission."""
    with database.writing(engine) as session:
        run = _current(session, submission_id)
        if run is None:
            return None
        if run.state == State.QUEUED:
            _end_cancelled(session, run)
        elif run.state == State.RUNNING:
            run.cancel_requested = True
        return State(run.state)


def cancelled(engine: Engine, claim: Claim) -> bool:
    """A running judging has ended since it was asked to. False where the attempt counts no more."""
    with database.writing(engine) as session:
        run = session.scalar(select(RunRow).where(*_mine(claim)))
        if run is None:
            return False
        _end_cancelled(session, run)
        return True


def release(engine: Engine, claim: Claim, why: str) -> bool:
    """Back into the queue, or to its end if that was wanted: the site shuts down. The stream is told to forget what it
    had. False where the attempt counts no more."""
    with database.writing(engine) as session:
        run = session.scalar(select(RunRow).where(*_mine(claim)))
        if run is None:
            return False
        _put_back(session, run, why)
        return True


def died(engine: Engine, claim: Claim, why: str, most: int) -> int:
    """The same, since the worker died or failed: how often one has, with this judging in hand. At the `most`-th time
    it is left running, for the caller to finish it. 0 where the attempt counts no more."""
    with database.writing(engine) as session:
        run = session.scalar(select(RunRow).where(*_mine(claim)))
        if run is None:
            return 0
        run.deaths += 1
        if run.deaths < most or run.cancel_requested:
            _put_back(session, run, why)
        return run.deaths


def recover(engine: Engine, in_hand: Collection[Claim], why: str) -> int:
    """For the one site of the store: what runs and is not `in_hand`, is nobody's. It goes back into the queue, or ends
    if that was wanted. How many there were."""
    kept = {(claim.run_id, claim.attempt) for claim in in_hand}
    with database.writing(engine) as session:
        running = session.scalars(select(RunRow).where(RunRow.state == State.RUNNING))
        lost = [run for run in running if (run.id, run.attempt) not in kept]
        for run in lost:
            _put_back(session, run, why)
        return len(lost)


def events_after(engine: Engine, run_id: int, seq: int, limit: int = 500) -> list[StoredEvent]:
    """Steps of a judging behind number `seq`, in order."""
    query = select(EventRow).where(EventRow.run_id == run_id, EventRow.seq > seq).order_by(EventRow.seq).limit(limit)
    with database.reading(engine) as session:
        return [StoredEvent(row.seq, row.type, json.loads(row.data)) for row in session.scalars(query)]


def last_event(engine: Engine, run_id: int) -> StoredEvent | None:
    """The latest step of a judging."""
    query = select(EventRow).where(EventRow.run_id == run_id).order_by(EventRow.seq.desc()).limit(1)
    with database.reading(engine) as session:
        row = session.scalar(query)
        return StoredEvent(row.seq, row.type, json.loads(row.data)) if row else None


def position(engine: Engine, run_id: int) -> int | None:
    """The place of a judging in the queue by its age, from 1; None for one that does not wait. A run of samples may
    pass submits that are older."""
    own = select(RunRow.queued, RunRow.id).where(RunRow.id == run_id, RunRow.state == State.QUEUED)
    with database.reading(engine) as session:
        found = session.execute(own).one_or_none()
        if found is None:
            return None
        before = tuple_(RunRow.queued, RunRow.id) <= tuple(found)
        return session.scalar(select(func.count()).select_from(RunRow).where(RunRow.state == State.QUEUED, before))


def waiting(engine: Engine) -> int:
    """How many are queued."""
    with database.reading(engine) as session:
        return count_waiting(session)


def finding_as_json(finding: Any) -> dict[str, Any]:
    """A harness.results.Finding as events carry it."""
    other = finding.other
    plain = {
        "kind": str(finding.kind), "message": finding.message, "line": finding.line, "file": finding.file,
        "tensor": finding.tensor, "index": finding.index, "block": finding.block, "thread": finding.thread,
        "kernel": finding.kernel, "other": None,
    }  # fmt: skip
    if other:
        plain["other"] = {
            "line": other.line, "file": other.file, "block": other.block, "thread": other.thread, "write": other.write,
            "missing": other.missing,
        }  # fmt: skip
    return plain


def _mine(claim: Claim) -> tuple[Any, ...]:
    return RunRow.id == claim.run_id, RunRow.attempt == claim.attempt, RunRow.state == State.RUNNING


def _counts(session: Session, claim: Claim) -> bool:
    return session.scalar(select(RunRow.id).where(*_mine(claim))) is not None


def _changed(session: Session, query: Update) -> bool:
    return bool(session.execute(query).rowcount)  # type: ignore[attr-defined]


def _current(session: Session, submission_id: str) -> RunRow | None:
    return session.scalar(select(RunRow).join(SubmissionRow, CURRENT).where(SubmissionRow.id == submission_id))


def _append(session: Session, run_id: int, type_: str, data: Mapping[str, Any]) -> None:
    last = session.scalar(select(func.max(EventRow.seq)).where(EventRow.run_id == run_id)) or 0
    text = json.dumps(report_json.plain(dict(data)), allow_nan=False)
    session.add(EventRow(run_id=run_id, seq=last + 1, type=type_, data=text))
    session.flush()


def _end_cancelled(session: Session, run: RunRow) -> None:
    run.state, run.finished = State.CANCELLED, _now()
    _append(session, run.id, "cancelled", {})


def _put_back(session: Session, run: RunRow, why: str) -> None:
    if run.cancel_requested:
        _end_cancelled(session, run)
        return
    run.state, run.owner = State.QUEUED, ""
    _append(session, run.id, "restarted", {"why": why})


def _device(report: Report, modelled: bool) -> str:
    """What the judging ran on, for people. Modelled scores are decided by the card that the emulator played."""
    return f"emulator ({report.ceilings.card})" if modelled and report.ceilings else report.device


def _case(run_id: int, position: int, case: CaseResult) -> CaseRow:
    ratio = case.worst_ratio
    return CaseRow(
        run_id=run_id, position=position, name=case.name, verdict=str(case.verdict),
        benchmark=case.benchmark is not None, ratio=ratio if ratio is None or ratio == ratio else None,
        seconds=case.seconds, score=case.benchmark.score if case.benchmark else None,
    )  # fmt: skip


def _findings(run_id: int, report: Report) -> Iterable[FindingRow]:
    placed = [("", finding) for finding in report.findings]
    placed += [(case.name, finding) for case in report.cases for finding in case.findings]
    for position, (case, finding) in enumerate(placed, 1):
        yield FindingRow(
            run_id=run_id, position=position, case_name=case, kind=str(finding.kind), message=finding.message,
            line=finding.line, tensor=finding.tensor,
        )  # fmt: skip


def _finished(report: Report, passed: int, total: int, modelled: bool) -> dict[str, Any]:
    return {
        "verdict": str(report.verdict), "passed": passed, "total": total, "seconds": report.seconds,
        "score": report.score, "modelled": modelled, "tier": report.tier,
        "findings": [finding_as_json(finding) for finding in report.findings],
    }  # fmt: skip


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
