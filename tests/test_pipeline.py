"""judge() as a stream: its order, what each case's verdict comes from, and when it stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.errors import UsageError
from harness.events import CaseFinished, CaseStarted, Compiled, Compiling, DeviceReady, Event, Finished
from harness.pipeline import Options, judge
from harness.prefetch import Prefetch
from harness.problem import Problem
from harness.results import Report
from harness.submission import from_bytes
from harness.verdict import FindingKind, Verdict, verdict_of
from tests.fake_toolchain import TOOLCHAIN

Judge = Callable[..., Report]
pytestmark = pytest.mark.usefixtures("nothing_left")


def test_a_good_submission_step_by_step(events_of: Callable[..., list[Event]]) -> None:
    events = events_of("// nothing to say")
    cases = [CaseStarted, CaseFinished] * 3
    assert [type(event) for event in events] == [Compiling, Compiled, DeviceReady, *cases, Finished]
    started = [event for event in events if isinstance(event, CaseStarted)]
    assert [(e.name, e.number, e.total) for e in started] == [("one", 1, 3), ("two", 2, 3), ("five", 3, 3)]
    report = events[-1].report  # type: ignore[union-attr]
    assert (report.verdict, report.device, report.seed, report.problem) == (Verdict.ACCEPTED, "fake", 7, "doubling")
    assert report.compile.ok and report.compile.seconds == 0.5
    assert [case.seconds for case in report.cases] == [0.25] * 3


@pytest.mark.parametrize(
    ("order", "verdict", "kinds"),
    [
        ("wrong", Verdict.WRONG_ANSWER, [FindingKind.MISMATCH]),
        ("nan", Verdict.WRONG_ANSWER, [FindingKind.MISMATCH]),
        ("race", Verdict.DATA_RACE, [FindingKind.DATA_RACE]),
        ("note", Verdict.ACCEPTED, [FindingKind.NOTE]),
        ("unsupported", Verdict.UNSUPPORTED, [FindingKind.UNSUPPORTED]),
    ],
)
def test_the_verdict_of_a_case(report_of: Judge, order: str, verdict: Verdict, kinds: list[FindingKind]) -> None:
    report = report_of(f"@run {order}@2")
    assert [case.verdict for case in report.cases] == [Verdict.ACCEPTED, verdict, Verdict.ACCEPTED]
    assert [finding.kind for finding in report.cases[1].findings] == kinds
    assert report.verdict is verdict


def test_a_cause_outranks_the_mismatch_that_followed(report_of: Judge) -> None:
    (case,) = report_of("@run wrong\n@run race", cases="one").cases
    assert case.verdict is Verdict.DATA_RACE
    assert [finding.kind for finding in case.findings] == [FindingKind.DATA_RACE, FindingKind.MISMATCH]


def test_an_unsupported_instruction_is_never_a_wrong_answer(report_of: Judge) -> None:
    (case,) = report_of("@run wrong\n@run unsupported", cases="one").cases
    assert case.verdict is Verdict.UNSUPPORTED
    assert not case.errors


def test_the_child_is_restarted_after_a_death_and_the_next_case_is_judged(report_of: Judge) -> None:
    report = report_of("@run crash@2\n@run say")
    assert [case.verdict for case in report.cases] == [Verdict.ACCEPTED, Verdict.JUDGE_ERROR, Verdict.ACCEPTED]
    assert "SIGSEGV" in report.cases[1].findings[0].message
    assert report.cases[2].stdout.startswith("run 1 of")
    assert report.verdict is Verdict.JUDGE_ERROR


def test_cases_share_one_child_until_its_device_breaks(report_of: Judge) -> None:
    said = [case.stdout.split(" of ") for case in report_of("@run say\n@run broken@2").cases]
    assert [run for run, _ in said] == ["run 1", "run 2", "run 1"]
    assert said[0][1] == said[1][1] != said[2][1]


def test_two_lost_cases_are_enough(report_of: Judge) -> None:
    report = report_of("@run crash")
    assert [case.name for case in report.cases] == ["one", "two"]
    assert [finding.message for finding in report.findings] == ["Not run: five, since 2 cases ended the run."]


def test_one_case_out_of_time_is_enough(report_of: Judge) -> None:
    """An endless loop is endless in every case: the learner waits for it once."""
    report = report_of("@run time@1")
    assert [(case.name, case.verdict) for case in report.cases] == [("one", Verdict.TIME_LIMIT)]
    assert [finding.message for finding in report.findings] == ["Not run: two, five, since one ran out of time."]
    assert not report_of("@run time@5").findings


@pytest.mark.parametrize(
    "kind",
    ["out_of_bounds", "misaligned", "read_only_write", "barrier_divergence", "deadlock", "invalid_shuffle", "trap",
     "invalid_launch", "host_error", "time_limit", "memory_limit", "unsupported"],
)  # fmt: skip
def test_a_run_that_stopped_is_not_compared(report_of: Judge, kind: str) -> None:
    (case,) = report_of(f"@run nothing\n@run {kind}", cases="one").cases
    assert ([finding.kind for finding in case.findings], case.errors) == ([kind], ())
    assert case.verdict is verdict_of(FindingKind(kind))


@pytest.mark.parametrize("kind", ["data_race", "uninitialized_read", "async_hazard"])
def test_a_hazard_does_not_hide_what_was_left_out(report_of: Judge, kind: str) -> None:
    (case,) = report_of(f"@run nothing\n@run {kind}", cases="one").cases
    assert [finding.kind for finding in case.findings] == [kind, FindingKind.UNWRITTEN_OUTPUT]


def test_what_the_process_prints_belongs_to_its_case(report_of: Judge) -> None:
    said = [case.stdout for case in report_of("@run print@2").cases]
    assert said == ["", "hello from the submission\n", ""]


def test_a_compile_error_ends_it(events_of: Callable[..., list[Event]]) -> None:
    events = events_of("@compile refuse")
    assert [type(event) for event in events] == [Compiling, Compiled, Finished]
    report = events[-1].report  # type: ignore[union-attr]
    assert (report.verdict, report.compile.log, report.cases) == (Verdict.COMPILE_ERROR, "my.cu(1): error: no\n", ())


def test_what_stops_every_case_alike_ends_it(report_of: Judge) -> None:
    report = report_of("@run refuse@2")
    assert [case.name for case in report.cases] == ["one"]
    assert report.verdict is Verdict.UNSUPPORTED
    assert [finding.message for finding in report.findings] == ["no wgmma here"]
    assert report.compile.ok


def test_a_gpu_that_was_asked_for_and_is_absent_is_said(report_of: Judge) -> None:
    with pytest.raises(UsageError, match=r"no CUDA driver.*doctor"):
        report_of("//", device="gpu")


def test_auto_falls_back_to_the_emulator(report_of: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.sandbox.supervisor.find_spec", lambda name: object())
    assert report_of("//", device="auto").device == "fake"


def test_unknown_cases_are_refused_before_anything_starts(report_of: Judge) -> None:
    with pytest.raises(UsageError, match="no case 'six'"):
        report_of("//", cases="six")


def test_the_seed_is_fresh_unless_given(report_of: Judge) -> None:
    first, second = (report_of("//", cases="one", seed=None).seed for _ in range(2))
    assert first != second


def test_closing_the_stream_midway_leaves_nothing(doubling: Problem) -> None:
    options = Options(seed=1, cache=False, toolchain=TOOLCHAIN, device="cpu")
    events = judge(doubling, from_bytes("my.cu", b"@run sleep"), options)
    while not isinstance(next(events), CaseStarted):
        pass
    events.close()


def test_the_cache_answers_the_second_time_and_keeps_no_failures(
    report_of: Judge, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    assert [report_of("@compile warn", cache=True).compile.cached for _ in range(2)] == [False, True]
    assert report_of("@compile warn", cache=True).compile.log == "my.cu(1): warning: hm\n"
    refused = [report_of("@compile refuse", cache=True) for _ in range(2)]
    assert [(r.compile.ok, r.compile.cached) for r in refused] == [(False, False)] * 2


def test_prefetch_is_one_ahead_and_hands_exceptions_over_in_place() -> None:
    built = []

    def source() -> Iterator[int]:
        for number in range(5):
            built.append(number)
            if number == 2:
                raise ValueError("the third is broken")
            yield number

    with Prefetch(source()) as ahead:
        items = iter(ahead)
        assert next(items) == 0
        assert max(built) <= 1
        assert next(items) == 1
        with pytest.raises(ValueError, match="third"):
            next(items)
