"""The store: what is acknowledged is on the disk, a verdict is written once, and bad databases are told of."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import OperationalError

from harness import cards
from harness.errors import UsageError
from harness.measure import ceilings
from harness.results import CaseResult, CompileResult, ErrorStats, Finding, Report
from harness.verdict import FindingKind, Verdict
from tests import sample_reports
from web.store import engine as database
from web.store import judgings, migrate, models, rankings, submissions
from web.store.lock import SiteLock
from web.store.records import Claim, Kind, Request, State, Submission

REQUEST = Request("doubling", "// source\n", Kind.RUN, "my.cu")
FINDING = Finding(FindingKind.MISMATCH, "Off by one.", "my.cu", 3, "out", (0, 1))
STATS = ErrorStats("out", 1.0, (0,), 2.0, 2.0, float("nan"), (1.0, 1.0, 1.0), 1, float("nan"))
REPORT = Report(
    "doubling", "my.cu", "emulator", "float32", 7, Verdict.WRONG_ANSWER, CompileResult(True, 0.1),
    cases=(CaseResult("one", Verdict.WRONG_ANSWER, (STATS,), (FINDING,), 0.5), CaseResult("two", Verdict.ACCEPTED)),
    variant="base", seconds=1.5,
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of the database."""
    return tmp_path / "judge.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[Engine]:
    """A new one."""
    engine = database.connect(f"sqlite:///{path}")
    migrate.upgrade(engine)
    yield engine
    engine.dispose()


def _add(store: Engine, **changes: object) -> Submission:
    return submissions.add(store, dataclasses.replace(REQUEST, **changes), 1000)[0]  # type: ignore[arg-type]


def _claim(store: Engine, owner: str = "site") -> Claim:
    claim = judgings.claim(store, owner)
    assert claim
    return claim


def _now(store: Engine, sent: Submission) -> Submission:
    found = submissions.get(store, sent.id)
    assert found
    return found


def _types(store: Engine, sent: Submission) -> list[str]:
    return [step.type for step in judgings.events_after(store, sent.run_id, 0)]


def test_a_commit_is_on_the_disk_before_it_returns(store: Engine) -> None:
    with store.connect() as connection:
        found = {name: connection.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "synchronous", "foreign_keys")}
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_migrations_lead_to_the_models_and_do_nothing_twice(store: Engine) -> None:
    with store.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, models.Base.metadata) == []
    sent = _add(store)
    with store.connect() as connection:
        before = list(connection.execute(text("SELECT name, sql FROM sqlite_master ORDER BY name")))
    migrate.upgrade(store)
    with store.connect() as connection:
        assert list(connection.execute(text("SELECT name, sql FROM sqlite_master ORDER BY name"))) == before
    assert submissions.source(store, sent.id) == REQUEST.source


def test_a_newer_judges_database_is_refused(store: Engine) -> None:
    with store.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UsageError, match="is it of a newer judge"):
        migrate.upgrade(store)


@pytest.mark.parametrize("damage", [b"not a database at all, but a text\n" * 200, b"SQLite format 3\0" + bytes(4096)])
def test_a_damaged_database_is_told_of(path: Path, damage: bytes) -> None:
    path.write_bytes(damage)
    engine = database.connect(f"sqlite:///{path}")
    with pytest.raises(UsageError, match="cannot use this database"):
        migrate.upgrade(engine)
    engine.dispose()
    assert path.read_bytes() == damage


@pytest.mark.parametrize("url", ["judge.sqlite3", "mysql+nothing://host/db", "oracle://", "sqlite:///file:x?uri=true"])
def test_what_is_no_database_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="cannot use the database"):
        database.connect(url)


def test_a_key_that_comes_again_is_the_same_submission(store: Engine) -> None:
    first, new = submissions.add(store, dataclasses.replace(REQUEST, idempotency_key="k"), 1)
    again, newer = submissions.add(store, dataclasses.replace(REQUEST, idempotency_key="k"), 1)
    assert (new, newer) == (True, False) and first.id == again.id
    assert judgings.waiting(store) == 1


def test_the_queue_is_bounded(store: Engine) -> None:
    _add(store)
    with pytest.raises(submissions.QueueFull):
        submissions.add(store, REQUEST, 1)
    _claim(store)
    assert submissions.add(store, REQUEST, 1)[1]


def test_runs_are_claimed_first_then_by_age_and_as_asked(store: Engine) -> None:
    submit, on_gpu, run = _add(store, kind=Kind.SUBMIT), _add(store, kind=Kind.SUBMIT, device="gpu"), _add(store)
    assert judgings.claim(store, "site", [Kind.SUBMIT], ["gpu"]) == Claim(on_gpu.run_id, 1, on_gpu.id, "doubling", Kind.SUBMIT, "gpu")
    assert judgings.claim(store, "site", [Kind.SUBMIT], ["gpu"]) is None
    assert _claim(store).submission_id == run.id
    assert _claim(store).submission_id == submit.id
    old, _ = _add(store, kind=Kind.SUBMIT), _add(store)
    by_age = judgings.claim(store, "site", by_age=True)
    assert by_age and by_age.submission_id == old.id


def test_a_verdict_is_kept_with_all_that_belongs_to_it(store: Engine) -> None:
    sent = _add(store)
    claim = _claim(store)
    assert judgings.begin(store, claim)
    assert judgings.add_events(store, claim, [("compiling", {"seed": 7}), ("case_finished", {"ratio": float("nan")})])
    assert judgings.finish(store, claim, REPORT)
    now = _now(store, sent)
    assert (now.state, now.verdict, now.passed, now.total) == (State.FINISHED, "wrong_answer", 1, 2)
    assert (now.seed, now.dtype, now.variant, now.device, now.modelled) == (7, "float32", "base", "emulator", False)
    steps = judgings.events_after(store, sent.run_id, 0)
    assert [(step.seq, step.type) for step in steps] == [
        (1, "queued"), (2, "compiling"), (3, "case_finished"), (4, "finished")
    ]  # fmt: skip
    assert repr(submissions.report(store, sent.id)) == repr(REPORT)  # NaN is not equal to itself
    assert steps[2].data == {"ratio": "NaN"} and steps[3].data["passed"] == 1
    with store.connect() as connection:
        assert connection.scalar(text("SELECT message FROM finding WHERE case_name = 'one'")) == "Off by one."
        assert connection.scalar(text("SELECT count(*) FROM case_result")) == 2


def test_a_card_that_is_played_has_a_leaderboard_of_its_own(store: Engine) -> None:
    track: dict[str, Any] = {"problem": "doubling", "dtype": "float32", "variant": "base"}
    for card in (cards.get("H100"), cards.get("L4")):
        _add(store, kind=Kind.SUBMIT)
        played = dataclasses.replace(sample_reports.modelled(), ceilings=ceilings.datasheet(card), device="cpu", **track)
        assert judgings.finish(store, _claim(store), played)
    _add(store, kind=Kind.SUBMIT)
    assert judgings.finish(store, _claim(store), dataclasses.replace(sample_reports.measured(), device="a card", **track))
    boards = rankings.devices(store, **track)
    assert boards == [("a card", False), ("emulator (NVIDIA H100 80GB HBM3)", True), ("emulator (NVIDIA L4)", True)]
    assert [len(rankings.leaderboard(store, **track, device=name, modelled=how)) for name, how in boards] == [1, 1, 1]


def test_an_attempt_that_has_passed_writes_nothing(store: Engine) -> None:
    sent = _add(store)
    old = _claim(store)
    assert judgings.release(store, old, "a test")
    new = _claim(store)
    before = _types(store, sent)
    assert not judgings.begin(store, old)
    assert not judgings.add_events(store, old, [("compiling", {})])
    assert not judgings.finish(store, old, REPORT)
    assert not judgings.cancelled(store, old)
    assert not judgings.release(store, old, "again")
    assert judgings.died(store, old, "again", 3) == 0
    assert judgings.cancel_requested(store, old) and not judgings.still_mine(store, old)
    assert _types(store, sent) == before == ["queued", "restarted"]
    assert judgings.finish(store, new, REPORT) and not judgings.finish(store, new, REPORT)


def test_a_judging_is_begun_once_an_attempt(store: Engine) -> None:
    _add(store)
    claim = _claim(store)
    assert judgings.begin(store, claim) and not judgings.begin(store, claim)


def test_deaths_of_workers_are_counted_and_shutdowns_are_not(store: Engine) -> None:
    sent = _add(store)
    for _ in range(5):
        judgings.release(store, _claim(store), "shut down")
    assert judgings.died(store, _claim(store), "died", 2) == 1
    assert _now(store, sent).state is State.QUEUED
    assert judgings.died(store, claim := _claim(store), "died", 2) == 2
    assert _now(store, sent).state is State.RUNNING  # the caller ends it
    assert judgings.finish(store, claim, REPORT)


def test_what_waits_is_cancelled_at_once_and_what_runs_when_it_ends(store: Engine) -> None:
    sent = _add(store)
    assert judgings.request_cancel(store, sent.id) is State.CANCELLED
    assert judgings.request_cancel(store, sent.id) is State.CANCELLED
    assert judgings.claim(store, "site") is None
    running = _add(store)
    claim = _claim(store)
    assert judgings.request_cancel(store, running.id) is State.RUNNING
    assert judgings.cancel_requested(store, claim)
    assert judgings.cancelled(store, claim)
    assert _types(store, sent) == _types(store, running) == ["queued", "cancelled"]
    assert judgings.request_cancel(store, "nobody") is None


@pytest.mark.parametrize("how", ["release", "died", "recover"])
def test_a_judging_that_was_to_be_cancelled_does_not_come_back(store: Engine, how: str) -> None:
    sent = _add(store)
    claim = _claim(store)
    judgings.request_cancel(store, sent.id)
    if how == "recover":
        assert judgings.recover(store, (), "") == 1
    else:
        assert judgings.release(store, claim, "") if how == "release" else judgings.died(store, claim, "", 3)
    assert _now(store, sent).state is State.CANCELLED


def test_what_nobody_has_in_hand_is_taken_up(store: Engine) -> None:
    sent, mine = _add(store), _add(store)
    gone, kept = _claim(store), _claim(store)
    passed = dataclasses.replace(gone, attempt=gone.attempt - 1)
    assert judgings.recover(store, [passed, kept], "it is gone") == 1
    assert (_now(store, sent).state, _now(store, mine).state) == (State.QUEUED, State.RUNNING)
    assert _types(store, sent) == ["queued", "restarted"]


def test_a_lock_is_waited_for(store: Engine, path: Path) -> None:
    """Of another connection: a call that is patient comes through once it is gone."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    tries = []

    def attempt() -> bool:
        tries.append(1)
        if len(tries) == 2:
            other.execute("COMMIT")
        with database.writing(store) as session:
            session.execute(text("SELECT 1"))
            return True

    with store.connect() as connection:  # which the pool gives again
        connection.exec_driver_sql("PRAGMA busy_timeout = 1")
    assert database.patiently(attempt)
    assert len(tries) == 2
    other.close()


def test_a_full_disk_refuses_a_submission_whole(store: Engine) -> None:
    kept = _add(store)
    with store.connect() as connection:
        pages = connection.scalar(text("PRAGMA page_count"))
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OperationalError, match="full"):
        _add(store, source="x" * 100_000)
    assert [each.id for each in submissions.latest(store)] == [kept.id]
    with store.connect() as connection:
        for table, count in (("submission", 1), ("run", 1), ("event", 1)):
            assert connection.scalar(text(f"SELECT count(*) FROM {table}")) == count


def test_every_commit_survives_the_loss_of_the_process(store: Engine, path: Path, tmp_path: Path) -> None:
    """The files as they lie after each commit are what a machine finds after it lost its power then."""
    copies: list[tuple[Path, int, int]] = []
    done = {"submission": 0, "finished": 0}

    def copy(_: object) -> None:
        folder = tmp_path / f"copy{len(copies)}"
        folder.mkdir()
        for file in (path, Path(f"{path}-wal")):
            shutil.copy(file, folder)
        copies.append((folder / path.name, done["submission"], done["finished"]))

    for _ in range(3):
        _add(store)
        done["submission"] += 1
        copy(None)
    event.listen(store, "commit", copy)  # before each: nothing of it may be there
    for _ in range(3):
        claim = _claim(store)
        judgings.add_events(store, claim, [("compiling", {"seed": 1})])
        judgings.finish(store, claim, REPORT)
        done["finished"] += 1
        copy(None)
    event.remove(store, "commit", copy)
    assert len(copies) > 12
    for file, sent, finished in copies:
        with sqlite3.connect(file) as found:
            assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert found.execute("SELECT count(*) FROM submission").fetchone() == (sent,)
            counts = [
                found.execute(query).fetchone()[0]
                for query in (
                    "SELECT count(*) FROM run WHERE state = 'finished'",
                    "SELECT count(*) FROM event WHERE type = 'finished'",
                    "SELECT count(DISTINCT run_id) FROM case_result",
                )
            ]
            assert counts == [finished] * 3
        found.close()


def test_one_site_a_store(store: Engine) -> None:
    lock = SiteLock(store)
    with pytest.raises(UsageError, match=r"another site is using this store \(pid \d+\)"):
        SiteLock(store)
    lock.close()
    SiteLock(store).close()


def test_a_file_is_the_same_store_under_all_its_names(
    store: Engine, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For processes in other directories, and for the lock."""
    link = tmp_path / "link.sqlite3"
    link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    lock = SiteLock(store)
    for url in ("sqlite:///judge.sqlite3", "sqlite:///./judge.sqlite3", f"sqlite:///{link}", "sqlite:///link.sqlite3"):
        named = database.connect(url)
        assert named.url.database == str(path.resolve())
        with pytest.raises(UsageError, match="another site"):
            SiteLock(named)
        named.dispose()
    lock.close()
