"""Files are held to what they declare: each way to surprise, workers that die, interrupts, many at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness import streams
from harness.errors import UsageError
from harness.grading import judging
from harness.grading.declaration import Declaration
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status, differences
from harness.grading.judging import Settings
from harness.grading.session import Session, session
from harness.problem import Problem
from harness.results import Access, CaseResult, CompileResult, Finding, Report
from harness.verdict import FindingKind, Verdict
from tests.grade_kit import OPTIONS, entries, graded, only
from tests.sample_reports import DATA_SHEET, H200

pytestmark = pytest.mark.usefixtures("nothing_left")


REPORT = Report("p", "a.cu", "H200", "float32", 1, Verdict.ACCEPTED, CompileResult(True))
RACE = Finding(FindingKind.DATA_RACE, "Two threads touch x[0].", "a.cu", 2, other=Access(3))
NOTE = Finding(FindingKind.NOTE, "Worth saying.", "a.cu", 1)
RACED = replace(
    REPORT, verdict=Verdict.DATA_RACE, findings=(NOTE,), cases=(CaseResult("one", Verdict.DATA_RACE, findings=(RACE,)),)
)
BROKEN = replace(
    REPORT, verdict=Verdict.COMPILE_ERROR, compile=CompileResult(False, log='a.cu(3): error: identifier "y"\n  y = 1\n')
)
SOURCE = "// title\nx[0] = 1;\ny = 1;\n"


@pytest.mark.parametrize(
    ("report", "declared", "reason"),
    [
        (REPORT, Declaration(), ""),
        (RACED, Declaration(), "must be accepted: got data_race"),
        (RACED, Declaration(where="a.cu:1"), "declared accepted, got data_race"),
        (REPORT, Declaration(verdict=Verdict.DATA_RACE, finding="data_race"), "declared data_race, got accepted"),
        (RACED, Declaration(verdict=Verdict.DATA_RACE), ""),
        (RACED, Declaration(verdict=Verdict.DATA_RACE, finding="data_race", line_contains="x[0]"), ""),
        (RACED, Declaration(verdict=Verdict.DATA_RACE, line_contains="title"), ""),
        (RACED, Declaration(verdict=Verdict.DATA_RACE, finding="deadlock"), "declared a finding deadlock, got none"),
        (RACED, Declaration(verdict=Verdict.DATA_RACE, finding="data_race", line_contains="title"), "at a line with 'title'"),
        (RACED, Declaration(verdict=Verdict.DATA_RACE, message_contains=("threads", "Worth")), ""),
        (RACED, Declaration(verdict=Verdict.DATA_RACE, finding="data_race", message_contains=("Worth",)), "says 'Worth'"),
        (BROKEN, Declaration(verdict=Verdict.COMPILE_ERROR, line_contains="y = 1", message_contains=("identifier",)), ""),
        (BROKEN, Declaration(verdict=Verdict.COMPILE_ERROR, line_contains="x[0]"), "at a line with 'x[0]'"),
    ],
)  # fmt: skip
def test_a_report_is_compared_with_its_declaration(report: Report, declared: Declaration, reason: str) -> None:
    found = list(differences(declared, report, SOURCE))
    assert len(found) == bool(reason) and (not reason or reason in found[0])


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (replace(REPORT, score=40.0, ceilings=H200), ""),
        (replace(REPORT, score=39.96, ceilings=H200), "declared a score of at least 40, got 39.96"),
        (replace(REPORT, score=float("nan"), ceilings=H200), "declared a score of at least 40, got nan"),
        (replace(REPORT, score_note="a benchmark is not accepted"), "at least 40, got none: a benchmark is not accepted"),
        (REPORT, "at least 40, got none: nothing was timed"),
        (replace(REPORT, score=99.0, ceilings=DATA_SHEET), "a modelled one of 99"),
    ],
)
def test_the_least_score_counts_where_times_are_measured(report: Report, reason: str) -> None:
    declared = Declaration(score=40.0)
    assert list(differences(declared, report, "")) == []
    found = list(differences(declared, report, "", measured=True))
    assert len(found) == bool(reason) and (not reason or reason in found[0])


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("// judge: verdict=wrong_answer cases=t*\n@run wrong@2", Status.OK, ""),
        ("@run unsupported", Status.SURPRISE, "must be accepted: got unsupported"),
        ("", Status.SURPRISE, "must be accepted: got compile_error"),
        ("@run raise", Status.JUDGE_ERROR, "the judge itself failed"),
        ("@compile usage", Status.JUDGE_ERROR, "no compiler here"),
    ],
)
def test_a_file_is_held_to_its_declaration(doubling: Problem, tmp_path: Path, text: str, status: Status, reason: str) -> None:
    (entry,) = entries(tmp_path, doubling, a=text)
    result = judging.grade(entry, Settings(OPTIONS), lambda step: None)
    assert (result.status, len(result.reasons)) == (status, bool(reason)), result
    assert not reason or reason in result.reasons[0]
    (tmp_path / "a.cu").unlink()


def test_a_file_that_cannot_be_opened_is_its_authors_surprise(doubling: Problem, tmp_path: Path) -> None:
    """Whatever it declares, and also where it vanished after it was found."""
    (tmp_path / "a.cu").symlink_to("/etc/passwd")
    (tmp_path / "a.expect.yaml").write_text("verdict: compile_error")
    for entry in (entries(tmp_path, doubling)[0], Entry("b.cu", tmp_path / "b.cu", doubling, Declaration())):
        result = judging.grade(entry, Settings(OPTIONS), lambda step: None)
        assert (result.status, result.verdict) == (Status.SURPRISE, Verdict.COMPILE_ERROR) and result.reasons
        assert "root:" not in repr(result)
        result = judging.grade(entry, Settings(OPTIONS, report_only=True), lambda step: None)
        assert (result.status, result.verdict) == (Status.REPORTED, Verdict.COMPILE_ERROR)


def test_a_score_takes_all_cases_and_only_on_a_gpu() -> None:
    gpu, cpu = Settings(replace(OPTIONS, device="gpu")), Settings(OPTIONS)
    assert judging.options(Declaration(score=40.0), gpu).cases == "benchmarks"
    assert judging.options(Declaration(score=40.0), cpu).cases is None
    assert judging.options(Declaration(), gpu).cases is None
    assert judging.options(Declaration(), replace(cpu, benchmarks=True)).cases == "benchmarks"
    assert judging.options(Declaration(cases="one"), replace(cpu, benchmarks=True)).cases == "one"


def test_what_only_the_emulator_sees_is_skipped_on_a_gpu(doubling: Problem, tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, doubling, a='// judge: verdict=data_race emulator_only=true why="it may not bite"')
    result = judging.grade(entry, Settings(replace(OPTIONS, device="gpu")), lambda step: None)
    assert (result.status, result.verdict) == (Status.SKIPPED, None)
    assert result.reasons == ("declared for the emulator only: it may not bite",)
    assert judging.grade(entry, Settings(OPTIONS), lambda step: None).status is Status.SURPRISE
    (tmp_path / "a.cu").unlink()


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((Status.OK, Status.SKIPPED), 0),
        ((Status.REPORTED, Status.REPORTED), 0),
        ((Status.SURPRISE, Status.OK), 1),
        ((Status.SURPRISE, Status.JUDGE_ERROR), 3),
    ],
)
def test_exit_codes(doubling: Problem, tmp_path: Path, statuses: tuple[Status, ...], code: int) -> None:
    made = Session(entries(tmp_path, doubling, a="x", b="x"), Settings(OPTIONS), 1)
    made.results.update(dict(enumerate(map(Graded, statuses))))
    assert made.exit_code == code


def test_nothing_is_a_surprise_in_a_list_of_verdicts(doubling: Problem, tmp_path: Path) -> None:
    made = graded(tmp_path, doubling, report_only=True, a="x", b="@run wrong", c="@compile refuse")
    assert [result.verdict for _, result in made.rows] == ["accepted", "wrong_answer", "compile_error"]
    assert (set(made.counts), made.exit_code) == ({Status.REPORTED}, 0)


def test_many_at_once_come_out_as_one_after_the_other(doubling: Problem, tmp_path: Path) -> None:
    texts = {"a": "@run wrong", "b": "x", "c": "@run race", "d": "@compile refuse"}
    one, several = (graded(tmp_path, doubling, jobs, False, **texts) for jobs in (1, 2))
    same = [[replace(result, seconds=0.0) for _, result in made.rows] for made in (one, several)]
    assert same[0] == same[1] and one.jobs == 1 and several.jobs == 2
    assert [result.verdict for result in same[0]] == ["wrong_answer", "accepted", "data_race", "compile_error"]


def test_steps_are_told_before_each_result(doubling: Problem, tmp_path: Path) -> None:
    made = session(entries(tmp_path, doubling, a="x", b="x"), Settings(OPTIONS), 2)
    told: dict[str, list[str | Graded]] = {}
    made.run(lambda entry, message: told.setdefault(Path(entry.name).name, []).append(message))
    for messages in told.values():
        assert messages[0] == "starting" and "case 2/3  two" in messages
        assert [isinstance(message, Graded) for message in messages] == [False] * (len(messages) - 1) + [True]


def test_a_worker_that_dies_takes_no_other_file_with_it(
    doubling: Problem, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = entries(tmp_path, doubling, a="x", b="x", c="x")
    made = session(found, Settings(OPTIONS), 1)

    def kill(entry: Entry, message: str | Graded) -> None:
        if Path(entry.name).name == "b.cu" and message != "starting" and isinstance(message, str):
            for worker in _children():
                os.kill(worker, signal.SIGKILL)

    made.run(kill)
    assert [result.status for _, result in made.rows] == [Status.OK, Status.JUDGE_ERROR, Status.OK]
    assert "ended unasked (exit code -9)" in made.rows[1][1].reasons[0]
    capfd.readouterr()


def _children() -> list[int]:
    """Workers of this process."""
    return [child.pid for child in multiprocessing.active_children() if child.pid]


def test_an_interrupt_ends_what_runs_and_keeps_what_is_known(doubling: Problem, tmp_path: Path) -> None:
    made = session(entries(tmp_path, doubling, a="x", b="@run fork", c="x"), Settings(replace(OPTIONS, seconds=60)), 1)

    def interrupt(entry: Entry, message: str | Graded) -> None:
        if Path(entry.name).name == "b.cu" and message == "case 1/3  one":
            time.sleep(0.5)  # until it has forked
            raise streams.Stopped(signal.SIGINT)

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        made.run(interrupt)
    assert time.monotonic() - begun < 30 and made.interrupted
    assert [result.status for _, result in made.rows] == [Status.OK, Status.NOT_RUN, Status.NOT_RUN]


def test_all_files_get_one_seed_and_share_the_cores(doubling: Problem, tmp_path: Path) -> None:
    found = entries(tmp_path, doubling, a="x", b="x")
    cores = len(os.sched_getaffinity(0))
    made = session(found, Settings(replace(OPTIONS, seed=None)), 0)
    assert made.settings.options.seed is not None and made.jobs == min(2, max(1, cores // 2))
    assert made.settings.options.threads == max(1, cores // made.jobs)
    assert session(found, Settings(OPTIONS), 64).jobs == 2


def test_a_gpu_that_is_not_there_is_told_at_once(doubling: Problem, tmp_path: Path) -> None:
    toolchain = replace(OPTIONS.toolchain, gpu="tests.grade_kit:AbsentDevice")
    with pytest.raises(UsageError, match="no such device here: gpu: no card"):
        session(entries(tmp_path, doubling, a="x"), Settings(replace(OPTIONS, device="gpu", toolchain=toolchain)))


def test_a_session_without_results_has_rows(doubling: Problem, tmp_path: Path) -> None:
    made = Session(entries(tmp_path, doubling, a="x"), Settings(OPTIONS), 1)
    assert only(made).status is Status.NOT_RUN
