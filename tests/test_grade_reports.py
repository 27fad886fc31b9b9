"""What a graded session looks like: the table, plain lines, JSON, Markdown, JUnit XML. And the command from outside."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.grading import markdown, record, table
from harness.grading.declaration import Declaration
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status
from harness.grading.judging import Settings
from harness.grading.session import Session
from harness.problem import Problem
from harness.report import junit
from harness.report.console import Console
from harness.report.grouping import Group
from harness.results import Finding
from harness.verdict import FindingKind, Verdict
from tests.grade_kit import OPTIONS

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "// title\nx[i + 1] = 0;\n"
RACE = Group(Finding(FindingKind.DATA_RACE, "Race on x[1]:\nthread 0 <and> thread 1.", "b.cu", 2), ("one", "two"))
OK = Graded(Status.OK, (), Verdict.ACCEPTED, "float32", "base", "H200", 41.25, False, 1.5)
LOG = 'c.cu(2): error: expected a ";"\n\n1 error\n'


@pytest.fixture
def mixed(doubling: Problem, tmp_path: Path) -> Session:
    """One file of every status, with names and texts that Markdown and XML could take amiss."""
    results = {
        "a.cu": OK,
        "b [x]|<b>.cu": Graded(
            Status.SURPRISE, ("must be accepted: got data_race",), Verdict.DATA_RACE, "bfloat16", "lse", "H200",
            seconds=0.5, findings=(RACE,),
        ),
        "c.cu": Graded(
            Status.SURPRISE, ("declared accepted, got compile_error",), Verdict.COMPILE_ERROR, "float32", log=LOG
        ),
        "d\x1b[2J\ufffe.cu": Graded(Status.JUDGE_ERROR, ("the emulator lost its way",), Verdict.JUDGE_ERROR),
        "e.cu": Graded(Status.SKIPPED, ("declared for the emulator only: it need not bite",)),
    }  # fmt: skip
    entries = []
    for name in [*results, "f.cu"]:
        (tmp_path / name).write_text(SOURCE)
        where = f"{name}:1" if name[0] in "ac" else ""  # of the others nothing is declared
        declared = Declaration(score=40.0 if name == "a.cu" else None, where=where)
        entries.append(Entry(name, tmp_path / name, doubling, declared))
    return Session(entries, Settings(OPTIONS), 1, dict(enumerate(results.values())), 12.5, interrupted=True)


def _listed(session: Session) -> Session:
    """The same as a list of verdicts: nothing is declared."""
    results = {0: Graded(Status.REPORTED, (), Verdict.ACCEPTED), 1: Graded(Status.REPORTED, (), Verdict.DATA_RACE)}
    return Session(session.entries[:2], Settings(OPTIONS, report_only=True), 1, results)


def _printed(session: Session) -> str:
    stream = io.StringIO()
    table.print_session(Console(file=stream, width=table.WIDTH), session)
    return stream.getvalue()


def test_the_table_has_a_row_for_each_file(mixed: Session) -> None:
    rows = [re.split(r"\s{2,}", line.strip()) for line in _printed(mixed).split("\n\n")[0].split("\n")]
    assert rows == [
        ["file", "problem", "dtype", "declared", "got", "score", "seconds"],
        ["a.cu", "doubling", "float32", "accepted, score>=40", "accepted", "41.2", "1.5", "OK"],
        ["b [x]|<b>.cu", "doubling", "bfloat16 lse", "accepted", "data_race", "-", "0.5", "FAILED"],
        ["c.cu", "doubling", "float32", "accepted", "compile_error", "-", "-", "SURPRISE"],
        ["d\\x1b[2J\ufffe.cu", "doubling", "-", "accepted", "judge_error", "-", "-", "JUDGE ERROR"],
        ["e.cu", "doubling", "-", "accepted", "-", "-", "-", "skipped"],
        ["f.cu", "doubling", "-", "accepted", "-", "-", "-", "not run"],
    ]  # fmt: skip


def test_below_the_table_each_surprise_shows_its_first_finding_and_line(mixed: Session) -> None:
    said = _printed(mixed)
    assert "FAILED  b [x]|<b>.cu: must be accepted: got data_race\n" in said
    assert "SURPRISE  c.cu: declared accepted, got compile_error  (declared in c.cu:1)\n" in said
    assert "b [x]|<b>.cu:2: data_race in one, two: Race on x[1]:\n  thread 0 <and> thread 1.\n" in said
    assert "   2 | x[i + 1] = 0;\n     | ^~~~~~~~~~~~~\n" in said
    assert 'c.cu(2): error: expected a ";"\n  1 error\n' in said and said.count("x[i + 1] = 0;") == 2
    assert "JUDGE ERROR  d\\x1b[2J\ufffe.cu: the emulator lost its way\n" in said and "\x1b" not in said
    assert "skipped e.cu: declared for the emulator only: it need not bite\n" in said
    assert "6 files: 1 as declared, 1 surprise, 1 failed, 1 skipped, 1 judge error, 1 not run  on H200  in 12.5 s  seed 7\n" in said


def test_what_the_judge_explains_comes_before_what_the_compiler_says(doubling: Problem, tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("x\n")
    wrong = "solve() has the wrong parameters:\n  expected (int n)\n  found    (float n)"
    note = Group(Finding(FindingKind.NOTE, "Other tracks: float16."), ())
    found = (note, Group(Finding(FindingKind.NOTE, wrong, "a.cu", 1), ()))
    log = "".join(f"a.cu(1): error: number {number}\n" for number in range(20)) + f"\na.cu(1): {wrong}\n"
    result = Graded(Status.SURPRISE, ("r",), Verdict.COMPILE_ERROR, findings=found, log=log)
    entry = Entry("a.cu", tmp_path / "a.cu", doubling, Declaration())
    made = Session([entry], Settings(OPTIONS), 1, {0: result})
    for said in (_printed(made), markdown.render(made), junit.render(made)):
        places = [said.index(word) for word in ("expected (int n)", "found    (float n)", "Other tracks", "number 0")]
        assert places == sorted(places) and said.count("wrong parameters") == 1
    assert "number 5" in _printed(made) and "number 6" not in _printed(made)


def test_names_of_files_forge_neither_rows_nor_commands(doubling: Problem, tmp_path: Path) -> None:
    names = ["a.cu  doubling  float32  accepted  0.7  OK\n::error::no\r\n.cu", "::warning::b\u2028.cu", "c\udcff##[error]\t.cu"]
    log = "  ::error::echoed\n##[error]too\n"
    entries = [Entry(name, tmp_path / name, doubling, Declaration(where=f"{name}:1")) for name in names]
    result = Graded(Status.SURPRISE, (f"cannot read {names[0]}",), Verdict.COMPILE_ERROR, log=log, findings=(RACE,))
    made = Session(entries, Settings(OPTIONS), 1, dict.fromkeys(range(3), result))
    stream = io.StringIO()
    with table.watching(Console(file=stream), made) as tell:
        for entry in entries:
            tell(entry, result)
    assert len(stream.getvalue().splitlines()) == 3
    rows = _printed(made).split("\n\n")[0].splitlines()
    assert len([row for row in rows if re.search(r"SURPRISE\s*$", row)]) == 3 and r".cu\x20" not in rows[0]
    cases = ElementTree.fromstring(junit.render(made)).findall(".//testcase")
    assert not [value for case in cases for value in case.attrib.values() if re.search(r"[\r\n]", value)]
    marked = markdown.render(made).splitlines()
    assert len([line for line in marked if line.startswith("| ")]) == 5
    for text in (stream.getvalue(), _printed(made)):
        assert not re.search(r"^\s*::|##\[|\r|\u2028", text, re.M) and r"\x0a" in text


def test_a_list_of_verdicts_holds_nobody_to_anything(mixed: Session) -> None:
    said = _printed(_listed(mixed))
    assert "declared" not in said and "SURPRISE" not in said and "1 accepted, 1 data_race  on cpu" in said
    assert "declared" not in markdown.render(_listed(mixed))
    assert ElementTree.fromstring(junit.render(_listed(mixed))).findall(".//failure") == []


def test_logs_get_a_line_for_each_file_that_is_done(mixed: Session) -> None:
    stream = io.StringIO()
    with table.watching(Console(file=stream), mixed) as tell:
        for entry, graded in mixed.rows[:2]:
            tell(entry, "starting")
            tell(entry, graded)
    assert stream.getvalue().splitlines() == [
        "[1/6] a.cu  OK  accepted  1.5 s", "[2/6] b [x]|<b>.cu  FAILED  data_race  0.5 s"
    ]  # fmt: skip


def test_a_terminal_shows_what_is_being_judged(mixed: Session) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with table.watching(console, mixed) as tell:
        tell(mixed.entries[1], "case 1/3  one")
        time.sleep(0.3)  # bars are drawn ten times a second
        shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "b [x]|<b>.cu" in shown and "case 1/3" in shown and "0/6" in shown


def test_json(mixed: Session) -> None:
    found = json.loads(record.render(mixed))
    assert list(found) == [
        "schema", "device", "seed", "report_only", "interrupted", "jobs", "seconds", "counts", "files"
    ]  # fmt: skip
    assert (found["schema"], found["seed"], found["interrupted"]) == (1, 7, True)
    assert found["counts"] == {"ok": 1, "surprise": 2, "reported": 0, "skipped": 1, "judge_error": 1, "not_run": 1}
    good, raced = found["files"][:2]
    assert good["declared"]["score"] == 40 and good["score"] == 41.25 and good["declared"]["where"] == "a.cu:1"
    assert (raced["problem"], raced["dtype"], raced["variant"]) == ("doubling", "bfloat16", "lse")
    assert (raced["verdict"], raced["status"]) == ("data_race", "surprise")
    assert raced["findings"][0]["line"] == 2 and raced["findings"][0]["cases"] == ["one", "two"]
    assert found["files"][5]["verdict"] is None


def test_junit(mixed: Session) -> None:
    text = junit.render(mixed)
    root = ElementTree.fromstring(text.encode())
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite") and text.startswith('<?xml version="1.0" encoding="utf-8"?>')
    for element in (root, suite):
        assert [element.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["6", "2", "1", "2"]
        assert float(element.get("time", "")) == 2.0
    cases = suite.findall("testcase")
    assert {case.get("classname") for case in cases} == {"doubling"}
    assert [case.get("name") for case in cases][:2] == ["a.cu", "b [x]|<b>.cu"]
    assert (cases[0].get("time"), list(cases[0])) == ("1.5", [])
    assert [[child.tag for child in case] for case in cases[1:]] == [["failure"], ["failure"], ["error"], ["skipped"], ["skipped"]]


def test_junit_tells_what_was_declared_what_came_and_where(mixed: Session) -> None:
    raced, broken = ElementTree.fromstring(junit.render(mixed)).findall(".//failure")
    source = mixed.entries[1].source
    assert (raced.get("message"), raced.get("type")) == ("must be accepted: got data_race", "data_race")
    assert raced.text == (
        "must be: accepted\ngot: data_race  bfloat16 lse\n"
        f"{source}:2: data_race in one, two: Race on x[1]:\nthread 0 <and> thread 1."
    )
    assert broken.text and "declared: accepted  (c.cu:1)\n" in broken.text and 'c.cu(2): error: expected a ";"' in broken.text


def test_markdown(mixed: Session) -> None:
    lines = markdown.render(mixed).split("\n")
    assert lines[1] == "### Grading: 6 files: 1 as declared, 1 surprise, 1 failed, 1 skipped, 1 judge error, 1 not run"
    rows = [line for line in lines if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 9 for row in rows) and len(rows) == 8
    assert rows[3].startswith("| b \\[x\\]\\|\\<b\\>.cu | doubling | bfloat16 lse | accepted | data\\_race | ")
    assert "    thread 0 <and> thread 1." in lines and "**Interrupted**: what follows is all that is known." in lines


# Runs judge.py with the fake toolchain in place of the real one, also in the processes that it starts.
_WITH_FAKES = """
import sys
sys.path.insert(0, {root!r})
import harness.sandbox.supervisor as supervisor
from tests.fake_toolchain import TOOLCHAIN as t
supervisor.Toolchain.__init__.__defaults__ = (t.compiler, t.gpu_compiler, t.meter, t.cpu, t.gpu)
import judge
sys.exit(judge.main())
"""


def _command(*words: str | Path) -> list[str]:
    code = _WITH_FAKES.format(root=str(ROOT))
    return [sys.executable, "-c", code, "grade", "--device", "cpu", "--no-cache", "--seed", "3", *map(str, words)]


def test_the_command_grades_and_writes(doubling: Problem, tmp_path: Path) -> None:
    for name, text in {"a.cu": "// judge: verdict=wrong_answer\n@run wrong", "b.cu": "@run race\n@run print\n"}.items():
        (tmp_path / name).write_text(text)
    words: list[str | Path] = ["a.cu", "b.cu", "--problem", doubling.directory, "--json", "o.json", "--junit", "o.xml", "--markdown", "o.md"]
    done = subprocess.run(_command(*words), cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, "2 files: 2 failed" in done.stdout) == (1, True), done.stderr
    assert [line[:10] for line in done.stderr.splitlines()] == ["[1/2] a.cu", "[2/2] b.cu"]
    assert [file["verdict"] for file in json.loads((tmp_path / "o.json").read_text())["files"]] == ["wrong_answer", "data_race"]
    assert len(ElementTree.parse(tmp_path / "o.xml").findall(".//failure")) == 2
    assert (tmp_path / "o.md").read_text().startswith(markdown.START.decode())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent"], "there is no file or folder absent"),
        (["a.cu"], "for which problem is it?"),
        (["a.cu", "--problem", "flash_atention"], "did you mean 'flash_attention'?"),
        (["a.cu", "--problem", "paged_decode", "--junit", "a.cu"], "cannot write the report to a.cu: it is the submission"),
        (["a.cu", "--problem", "paged_decode", "--junit", "notes.txt"], "a file that is no report is there"),
        (["a.cu", "--problem", "paged_decode", "--json", "x", "--markdown", "x"], "write to the same file"),
        (["a.cu", "--problem", "paged_decode", "--junit", "-"], "it goes to a file"),
        (["a.cu", "--jobs", "0"], "'0' is no whole number"),
        ([], "PATH"),
    ],
)
def test_usage_errors(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "a.cu").write_text("")
    (tmp_path / "notes.txt").write_text("by hand")
    done = subprocess.run(
        [sys.executable, str(ROOT / "judge.py"), "grade", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


def test_ctrl_c_prints_what_is_known(doubling: Problem, tmp_path: Path) -> None:
    """At a terminal, where it reaches every process of the group."""
    (tmp_path / "a.cu").write_text("// fine")
    (tmp_path / "b.cu").write_text("@run sleep")
    words: list[str | Path] = [".", "--problem", doubling.directory, "--jobs", "1", "--time-limit", "100", "--json", "o.json"]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        _command(*words), cwd=tmp_path, stdin=slave, stdout=subprocess.PIPE, stderr=slave, text=True,
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    shown = ""
    while "b.cu" not in shown or "case 1/3" not in shown.split("b.cu")[-1]:
        shown += os.read(master, 4096).decode(errors="replace")
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    with contextlib.suppress(OSError):  # which is how the end of a terminal shows
        while more := os.read(master, 4096):
            shown += more.decode(errors="replace")
    os.close(master)
    assert process.returncode == 130 and "interrupted; nothing is left running" in shown and "Traceback" not in shown
    assert "2 files: 1 accepted, 1 not run" in said
    assert json.loads((tmp_path / "o.json").read_text())["interrupted"] is True

