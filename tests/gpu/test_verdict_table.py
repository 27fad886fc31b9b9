"""The table's own logic; needs no card."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.verdict import Verdict
from tests.gpu import verdict_table
from tests.gpu.verdict_table import NO_REPORT, NOT_RUN, TIMED_OUT, Entry, Outcome, Row, build, entries, judge, summary

ENTRY = Entry("solutions/p/01_idea.cu", "p", Path("01_idea.cu"), "accepted")


def test_every_entry_names_a_file_and_a_verdict() -> None:
    found = list(entries())
    assert found
    for entry in found:
        assert entry.source.is_file(), entry.label
        assert entry.expected in set(Verdict), entry.label


def test_a_fixture_may_name_another_problem_source_and_cases(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "submissions" / "general"
    folder.mkdir(parents=True)
    text = "verdict: data_race\nproblem: merge\nsource: a/b.cu\ncases: [one, two]\nemulator_only: true\nwhy: did not bite\n"
    (folder / "race.expect.yaml").write_text(text)
    (entry,) = entries(tmp_path)
    label = "tests/submissions/general/race"
    assert entry == Entry(label, "merge", tmp_path / "a/b.cu", "data_race", "one,two", "did not bite")


@pytest.mark.parametrize(
    ("cpu", "gpu", "emulator_only", "agrees"),
    [
        ("accepted", "accepted", "", True),
        ("accepted", "wrong_answer", "", False),
        ("wrong_answer", "wrong_answer", "", False),
        ("accepted", "wrong_answer", "a race that did not bite", True),
        ("data_race", "accepted", "a race that did not bite", False),
    ],
)
def test_a_row_agrees_when_every_due_device_says_what_is_declared(
    cpu: str, gpu: str, emulator_only: str, agrees: bool
) -> None:
    row = Row(replace(ENTRY, emulator_only=emulator_only), {"cpu": Outcome(cpu), "gpu": Outcome(gpu)})
    assert row.agrees() is agrees
    assert ("DIFFERS" in row.text()) is not agrees


def script(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    command = [sys.executable, "-c", text]
    monkeypatch.setattr(verdict_table, "_command", lambda entry, device, report, *_: [*command, str(report)])


def test_a_judging_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, "import time; time.sleep(60)")
    begun = time.monotonic()
    assert judge(ENTRY, "gpu", 0.3).verdict == TIMED_OUT
    assert time.monotonic() - begun < 30
    assert judge(ENTRY, "gpu", 0.0).verdict == NOT_RUN


def test_a_judging_without_a_report_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, "import sys; sys.exit('no such device')")
    outcome = judge(ENTRY, "gpu", 30)
    assert outcome.verdict == NO_REPORT and "no such device" in outcome.note


def test_verdict_and_findings_come_from_the_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = {"verdict": "accepted", "compile": {"log": ""}, "findings": [], "cases": [
        {"findings": [{"kind": "note", "message": "two threads wrote the same value"}]}]}  # fmt: skip
    script(monkeypatch, f"import json, sys; json.dump({report!r}, open(sys.argv[1], 'w'))")
    (row,) = build([ENTRY], ["cpu", "gpu"], {"cpu": 1, "gpu": 1}, each=30, total=60)
    assert {outcome.verdict for outcome in row.outcomes.values()} == {"accepted"}
    assert row.outcomes["gpu"].findings == ("note",)
    assert capsys.readouterr().out.count("01_idea.cu") == 1
    assert summary([row]) == "1 of 1 as declared"
