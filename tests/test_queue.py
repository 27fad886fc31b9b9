"""The queue with its real processes: what is acknowledged is judged once, whoever is killed meanwhile.

The toolchain is the fake one of fake_toolchain.py behind gates (queue_site.py), so that a judging can be held at a
stage; but for the last test, whose verdicts are the command line's.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from harness.errors import UsageError
from harness.problem import ROOT as PROBLEMS
from harness.problem import Problem
from tests.attacks.fixtures import attacks
from tests.queue_kit import ROOT, Site, parent_of, wait_for
from tests.queue_site import TOOLCHAIN
from web.queue import dispatcher
from web.queue.dispatcher import Dispatcher
from web.queue.failure import failed
from web.queue.manner import of_site
from web.queue.process import _COMMAND
from web.settings import Settings
from web.store import judgings, submissions
from web.store.engine import connect
from web.store.records import Kind, State

_PROCESS = "web.queue.process"  # in the command line of a judging process
_CHILD = "run_child"


@pytest.fixture(scope="module")
def folder(doubling: Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Problems: `doubling` of conftest.py, with time to stand at a gate."""
    top = tmp_path_factory.mktemp("site_problems")
    copy = shutil.copytree(doubling.directory, top / "doubling") / "problem.yaml"
    copy.write_text(copy.read_text().replace("seconds: 2.0", "seconds: 120.0"))
    return top


@pytest.fixture(scope="module")
def site(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One that judges two at once."""
    with Site(tmp_path_factory.mktemp("site"), folder).running() as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Closed."""
    path = tmp_path / "gate"
    path.touch()
    return path


def _is_judged_once(site: Site, sent: submissions.Submission, verdict: str = "accepted") -> None:
    now = site.wait_final(sent)
    assert (now.state, now.verdict) == (State.FINISHED, verdict)
    events = site.events(sent)
    assert [event.type for event in events if event.type in ("finished", "cancelled")] == ["finished"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_steps_of_a_run_are_stored_in_order(site: Site) -> None:
    sent = site.send("@compile warn\n@run say\n@run wrong@2")
    _is_judged_once(site, sent, "wrong_answer")
    cases = [step for name in ("one", "two", "five") for step in (("case_started", name), ("case_finished", name))]
    seen = [(event.type, event.data.get("name", "")) for event in site.events(sent)]
    before = [("queued", ""), ("compiling", ""), ("compiled", ""), ("device_ready", "fake")]
    assert seen == [*before, *cases, ("finished", "")]
    compiled = site.events(sent, "compiled")[0].data
    assert compiled["ok"] and compiled["log"] == "my.cu(1): warning: hm\n"
    assert compiled["diagnostics"] == [{"line": 1, "column": 0, "severity": "warning", "message": "hm"}]
    second = site.events(sent, "case_finished")[1].data
    assert (second["number"], second["total"], second["verdict"]) == (2, 3, "wrong_answer")
    assert second["ratio"] > 1 and second["findings"][0]["kind"] == "mismatch" and "run 2" in second["stdout"]
    last = site.events(sent, "finished")[0].data
    assert (last["verdict"], last["passed"], last["total"]) == ("wrong_answer", 2, 3)


def test_a_submit_has_benchmarks_and_a_score(site: Site) -> None:
    sent = site.send("// doubles", Kind.SUBMIT)
    _is_judged_once(site, sent)
    assert [event.data["name"] for event in site.events(sent, "benchmark_finished")] == ["big"]
    assert site.now(sent).total == 4


@pytest.mark.parametrize(
    ("source", "problem", "verdict", "says"),
    [
        ("  \n", "doubling", "compile_error", "my.cu is empty"),
        ("// x", "dubbing", "judge_error", "no problem 'dubbing'; there are: doubling"),
        ("// x", "../site_problems/doubling", "judge_error", "no problem"),
        ("@compile raise", "doubling", "judge_error", "ZeroDivisionError"),
        ("@compile refuse", "doubling", "compile_error", "refused"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_has_a_verdict_that_says_why(
    site: Site, source: str, problem: str, verdict: str, says: str
) -> None:
    sent = site.send(source, problem=problem)
    _is_judged_once(site, sent, verdict)
    assert any(says in finding["message"] for finding in site.events(sent, "finished")[0].data["findings"])


def test_nobody_else_may_talk_to_the_workers(site: Site) -> None:
    """All that listens does so on the loopback address, and the scheduler and both workers want a certificate."""
    addresses = site.listening()
    assert {host for host, _ in addresses} == {"127.0.0.1"}
    answers: list[str | None] = []
    for _, port in addresses:  # HTTP servers without pages are among them, which wait for more and never answer
        threading.Thread(target=_ask_as_a_stranger, args=(port, answers), daemon=True).start()
    wait_for(lambda: answers.count("TLSV13_ALERT_CERTIFICATE_REQUIRED") >= 3, "the refusal of three")


def _ask_as_a_stranger(port: int, answers: list[str | None]) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            with context.wrap_socket(plain) as channel:
                channel.recv(1)
        except ssl.SSLError as error:
            answers.append(error.reason)
        except OSError:
            answers.append(None)


@pytest.mark.parametrize(
    ("database", "scheduler", "says"),
    [
        ("sqlite://", "", "in the memory of this process"),
        ("", "tcp://10.0.0.1:8786", "cannot reach a store in SQLite"),
        ("", "cluster.example:8786", "cannot reach a store in SQLite"),
    ],
)
def test_a_store_that_workers_cannot_reach_is_refused(
    tmp_path: Path, database: str, scheduler: str, says: str
) -> None:
    settings = Settings(tmp_path, database=database, scheduler=scheduler)
    with pytest.raises(UsageError, match=says):
        Dispatcher(settings, connect(settings.url)).start()


def test_runs_pass_submits_that_take_long(site: Site, gate: Path) -> None:
    submits = [site.send(f"@gate_run {gate}", Kind.SUBMIT) for _ in range(3)]
    site.wait_event(submits[0], "case_started")
    _is_judged_once(site, site.send("// quick"))
    assert [site.now(submit).state for submit in submits] == [State.RUNNING, State.QUEUED, State.QUEUED]
    gate.unlink()
    for submit in submits:
        _is_judged_once(site, submit)


def test_cancelling_ends_what_waits_and_what_runs(site: Site, gate: Path) -> None:
    sent = [site.send(f"@gate_run {gate}", Kind.SUBMIT) for _ in range(2)]
    site.wait_event(sent[0], "case_started")
    assert judgings.request_cancel(site.engine, sent[1].id) is State.CANCELLED
    assert judgings.request_cancel(site.engine, sent[0].id) is State.RUNNING
    for each in sent:
        assert site.wait_final(each).state is State.CANCELLED
        assert site.events(each)[-1].type == "cancelled"
    assert not site.processes(_CHILD)
    _is_judged_once(site, site.send("// the next one finds a process"))


def test_a_worker_that_is_killed_has_its_work_done_again(site: Site, gate: Path) -> None:
    sent = site.send(f"@gate_run {gate}")
    site.wait_event(sent, "case_started")
    child = site.processes(_CHILD)[0]
    os.kill(parent_of(parent_of(child)), signal.SIGKILL)  # the Dask worker
    site.wait_event(sent, "restarted")
    gate.unlink()
    _is_judged_once(site, sent)
    assert len(site.events(sent, "compiled")) == 2
    wait_for(lambda: len(site.processes(_PROCESS)) == 2, "a new judging process")
    wait_for(lambda: not site.processes(_CHILD), "the end of the killed one's child")


def test_what_kills_its_workers_is_ended_and_the_queue_goes_on(site: Site, gate: Path) -> None:
    sent = site.send(f"@gate_run {gate}")
    for times in range(1, 4):
        wait_for(lambda n=times: len(site.events(sent, "case_started")) == n, f"attempt {times}")  # type: ignore[misc]
        os.kill(parent_of(site.processes(_CHILD)[0]), signal.SIGKILL)
    _is_judged_once(site, sent, "judge_error")
    finding = site.events(sent, "finished")[0].data["findings"][0]
    assert finding["message"] == "its judging ended 3 times with its worker"
    _is_judged_once(site, site.send("// the next"))


def test_a_judging_process_removes_its_own_folder_and_no_other(tmp_path: Path) -> None:
    """Also where that takes no files, so that temporary ones go to the folder of everybody."""
    others = tmp_path / "others"
    others.mkdir()
    (others / "kept").touch()
    own = tmp_path / "gone"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, str(theirs.fileno()), str(own)], cwd=ROOT, pass_fds=[theirs.fileno()],
            env=os.environ | {"TMPDIR": str(own), "TEMP": str(others)},
        )  # fmt: skip
    assert process.wait(60) == 0  # since nobody is at the other end
    assert (others / "kept").exists()


class FailedFuture:
    """Of a task that is over before anybody asks."""

    status = "error"

    def exception(self) -> OSError:
        """Always the same."""
        return OSError("no space left")


class FailingCluster:
    """One worker, on which every task fails."""

    lost = False
    made = 0  # so many of them

    def __init__(self, *_: object) -> None:
        type(self).made += 1

    def close(self) -> None:
        """Nothing is open."""

    def slots(self) -> tuple[int, int]:
        """One, without a card."""
        return 1, 0

    def judge(self, claim: object, on_card: bool, done: Callable[[FailedFuture], None]) -> FailedFuture:
        """In vain."""
        future = FailedFuture()
        done(future)
        return future


@contextmanager
def _dispatcher(site: Site) -> Iterator[None]:
    """In this process."""
    settings = Settings(site.folder, device="cpu")
    queue = Dispatcher(settings, site.engine, replace(of_site(settings, site.engine), toolchain=TOOLCHAIN, attempts=3))
    queue.start()
    try:
        yield
    finally:
        queue.close()


def test_an_error_that_comes_again_and_again_is_a_verdict(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "Cluster", FailingCluster)
    monkeypatch.setattr(dispatcher, "_BACK_OFF", (0.01, 0.02))
    site = Site(tmp_path / "site", folder)
    sent = site.send("// doubles")
    with _dispatcher(site):
        _is_judged_once(site, sent, "judge_error")
    assert [event.type for event in site.events(sent)] == ["queued", "restarted", "restarted", "finished"]
    finding = site.events(sent, "finished")[0].data["findings"][0]
    assert finding["message"] == "the judge could not go on, 3 times; the last time: OSError: no space left"


@pytest.mark.parametrize("step", ["claim", "release"])
def test_a_store_that_fails_half_way_loses_no_judging(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    """A claim of which we never heard that it was written, and one that could not be given back when the workers were
    lost: both are taken up without a new start, and the log has a line for it."""
    own = Site(tmp_path / "site", folder)
    real, calls = getattr(judgings, step), list[str]()

    def failing(*arguments: object, **options: object) -> object:
        calls.append(step)
        found = real(*arguments, **options) if step == "claim" or len(calls) > 1 else None
        if len(calls) <= (3 if step == "claim" else 1):
            raise OperationalError("COMMIT", None, OSError("disk I/O error"))
        return found

    class Answering(FailingCluster):
        """Judges at once; but where `release` is to fail, the first one is lost with its work."""

        made = 0

        @property
        def lost(self) -> bool:  # type: ignore[override]
            return step == "release" and self.made == 1

        def judge(self, claim: Any, on_card: bool, done: Callable[[FailedFuture], None]) -> FailedFuture:
            if not self.lost:
                judgings.finish(own.engine, claim, failed(claim, "judged"))
            return FailedFuture()

    monkeypatch.setattr(judgings, step, failing)
    monkeypatch.setattr(dispatcher, "Cluster", Answering)
    monkeypatch.setattr(dispatcher, "_BACK_OFF", (0.01,))
    monkeypatch.setattr(dispatcher, "_STORE_SECONDS", 0.01)
    monkeypatch.setattr(dispatcher, "_POLL", 0.05)
    sent = own.send("// doubles")
    with _dispatcher(own):
        _is_judged_once(own, sent, "judge_error")
    again = ["restarted"] * (3 if step == "claim" else 1)
    assert [event.type for event in own.events(sent)] == ["queued", *again, "finished"]
    assert caplog.text.count("the store cannot be used") == (step == "claim")


def test_a_second_site_does_not_touch_the_store_of_the_first(site: Site, gate: Path) -> None:
    sent = site.send(f"@gate_run {gate}")
    site.wait_event(sent, "case_started")
    second = subprocess.run(site.command(), cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1 and "another site is using this store (pid " in second.stderr
    gate.unlink()
    _is_judged_once(site, sent)
    assert not site.events(sent, "restarted")


def test_a_killed_server_loses_nothing_at_any_stage(folder: Path, tmp_path: Path, gate: Path) -> None:
    """Killed after a claim, in the compiler, in a case, and after a verdict; at last it ends in good order."""
    site, closed = Site(tmp_path / "site", folder, jobs=1), tmp_path / "closed"
    closed.touch()
    abandoned = site.send("// in the hand of a site that is gone")
    assert judgings.claim(site.engine, "a site that is gone")
    sent = site.send(f"@gate_compile {gate}\n@gate_run {closed}")
    site.start()
    site.wait_event(sent, "compiling")
    site.kill()
    gate.unlink()
    site.start()
    site.wait_event(sent, "case_started")
    site.kill()
    assert site.temporary() == []
    closed.unlink()
    site.start()
    site.wait_final(sent)
    site.kill()
    closed.touch()
    site.start()
    unfinished = site.send(f"@gate_run {closed}")
    site.wait_event(unfinished, "case_started")
    site.end()
    wait_for(lambda: not site.processes(), "the end of all processes")
    assert site.temporary() == []
    _is_judged_once(site, abandoned)
    _is_judged_once(site, sent)
    whys = [event.data["why"] for event in site.events(sent, "restarted")]
    assert whys == ["the site was started again"] * 2
    assert site.now(unfinished).state is State.QUEUED
    assert site.events(unfinished)[-1].data == {"why": "the site was shut down"}


def test_attacks_get_the_verdicts_of_the_command_line(tmp_path: Path) -> None:
    chosen = list(attacks())[:3]
    with Site(tmp_path / "site", PROBLEMS, real=True).running() as site:
        sent = [site.send(each.source.read_text(), problem=each.problem) for each in chosen]
        for each, submission in zip(chosen, sent, strict=True):
            assert site.wait_final(submission).verdict in each.cpu.verdicts
