"""What people and programs read at the end."""

from __future__ import annotations

import io
import json
import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from harness.report import json as json_report
from harness.report import terminal
from harness.report.excerpt import excerpt, printable
from harness.report.grouping import group_findings
from harness.results import SCHEMA, Access, CaseResult, CompileResult, ErrorStats, Finding, Report
from harness.verdict import FindingKind, Verdict
from tests.fake_toolchain import FINDINGS

SOURCE = "__shared__ float s[4];\n\ts[0] = 1;\nint main() {}\n"
GOOD = ErrorStats("out", 1e-7, (0,), 1e-6, 2e-6, 3e-7, (2e-4, 5e-5, 1e-5), 0, 0.04)
MISMATCH = Finding(FindingKind.MISMATCH, "out[0]: expected 1, found 2", tensor="out")


def _report(*cases: CaseResult, verdict: Verdict = Verdict.DATA_RACE, **changes: object) -> Report:
    report = Report("doubling", "my.cu", "fake", "float32", 7, verdict, CompileResult(True, 0.5), cases, seconds=1.25)
    return replace(report, **changes)  # type: ignore[arg-type]


def _printed(report: Report, source: str = SOURCE, width: int = 80, **console: object) -> str:
    out = io.StringIO()
    terminal.print_report(Console(file=out, width=width, **console), report, source, "python judge.py ...")  # type: ignore[arg-type]
    return out.getvalue()


RACE = CaseResult("two", Verdict.DATA_RACE, (GOOD,), (FINDINGS["race"], MISMATCH), 0.5, "said\n")
FINE = CaseResult("one", Verdict.ACCEPTED, (GOOD,), (), 0.25)


def test_the_terminal_report_tells_where_and_who() -> None:
    text = _printed(_report(FINE, RACE))
    assert "one   accepted" in text and "error / limit" in text and "0.040  0.25 s" in text
    assert "data_race  in two" in text
    assert "--> my.cu:1\n" in text and " 1 | __shared__ float s[4];\n   | ^~~~~~~~~~" in text
    assert "kernel double_it, block (0, 0, 0), thread (1, 0, 0)" in text
    assert "called from my.cu:3" in text
    assert "the other access is a write by block (0, 0, 0), thread (2, 0, 0)" in text
    assert " 2 |     s[0] = 1;\n   |     ^~~~~~~~~" in text
    assert "printed in two:\n  said" in text
    assert text.rstrip().endswith(
        "data_race  1 of 2 cases passed  on fake  in 1.2 s  seed 7\nrepeat: python judge.py ..."
    )


def test_causes_stand_before_symptoms() -> None:
    text = _printed(_report(FINE, RACE))
    assert "s[0], block" in _printed(_report(replace(RACE, findings=(replace(FINDINGS["race"], message="A race."),))))
    assert text.index("Two threads write") < text.index("expected 1, found 2")


def test_the_same_mistake_in_many_cases_is_shown_once() -> None:
    cases = [replace(RACE, name=f"case{number}") for number in range(9)]
    groups = group_findings(_report(*cases))
    assert [(group.finding.kind, len(group.cases)) for group in groups] == [("data_race", 9), ("mismatch", 9)]
    assert "in 9 cases: case0, case1, case2, ..." in _printed(_report(*cases))


@pytest.mark.parametrize("width", [20, 40, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = replace(FINDINGS["race"], message="word " * 60, kernel="k" * 150)
    text = _printed(_report(replace(RACE, name="x" * 50, findings=(long,))), width=width)
    lines = [line for line in text.splitlines() if not line.startswith("repeat: ")]
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("indent", [2, 70])
def test_long_lines_of_source_are_cut_and_stay_over_their_underline(width: int, indent: int) -> None:
    wide = "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 60
    source = f"// {'before ' * 40}\n{' ' * indent}out[i] = {'x + ' * 50}y;  // {wide}\n}}\n"
    lines = excerpt(source, 2, "my.cu", columns=width)
    code, underline = lines[2], lines[3]
    assert max(map(cell_len, lines)) <= width and code.endswith("...")
    assert "out[i]"[:8] in code and underline.index("^") == code.index("out[i]")
    assert cell_len(underline) == cell_len(code)
    finding = Finding(FindingKind.OUT_OF_BOUNDS, "Out.", "my.cu", 2)
    text = _printed(_report(replace(RACE, findings=(finding,))), source=source, width=width)
    assert "\n".join(lines[1:]) in text
    assert excerpt(source, 2)[1].endswith("y;  // " + wide)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0, "0"), (1e-9, "< 0.001"), (0.04, "0.040"), (1.5, "1.500"), (18100, "1.81e+04"), (math.inf, "inf")],
)
def test_the_error_is_a_multiple_of_its_limit_for_every_kind_of_output(ratio: float, text: str) -> None:
    rows, elements = replace(GOOD, ratio=ratio), replace(GOOD, tensor="lse", limits=(1, 0, 0), row_max=0, ratio=0)
    assert re.search(
        rf"data_race +{re.escape(text)}  0.50 s", _printed(_report(replace(RACE, errors=(elements, rows))))
    )


def test_an_output_that_was_not_written_is_called_so_in_the_table() -> None:
    unwritten = Finding(FindingKind.UNWRITTEN_OUTPUT, "4 elements.", tensor="out")
    stats = replace(GOOD, nan_count=4, ratio=math.inf)
    text = _printed(_report(replace(RACE, findings=(unwritten,), errors=(stats,))))
    assert "out unwritten" in text and "NaN" not in text


def test_findings_that_differ_in_numbers_alone_are_shown_once() -> None:
    cases = [
        replace(RACE, name=f"c{n}", findings=(Finding(FindingKind.OUT_OF_BOUNDS, f"Element {n} of {n}."),))
        for n in (1, 2)
    ]
    note = Finding(FindingKind.NOTE, "The judge failed.")
    groups = group_findings(_report(*cases, findings=(note, note)))
    assert [(group.finding.message, group.cases) for group in groups] == [
        ("Element 1 of 1.", ("c1", "c2")), ("The judge failed.", ()),
    ]  # fmt: skip


def test_colour_only_on_a_terminal_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in _printed(_report(RACE))
    assert "\x1b[1;31m" in _printed(_report(RACE), force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in _printed(_report(RACE), force_terminal=True, color_system="standard")


def test_what_a_submission_prints_cannot_steer_the_terminal_or_rich() -> None:
    case = replace(RACE, stdout="\x1b]0;title\x07 [red]not markup[/red] \x9b31m\r\n")
    finding = replace(FINDINGS["race"], message="\x1b[2J gone")
    text = _printed(_report(replace(case, findings=(finding,))))
    assert "\x1b" not in text and "\x9b" not in text and "\x07" not in text
    assert "[red]not markup[/red]" in text and "\\x1b[2J gone" in text


def test_the_compilers_log_is_shown_as_it_is() -> None:
    log = 'my.cu(3): error: identifier "q" is undefined\n\n1 error detected\n'
    report = _report(verdict=Verdict.COMPILE_ERROR, compile=CompileResult(False, log=log), device="")
    text = _printed(report)
    assert text.startswith(log.rstrip())
    assert "compile_error  in 1.2 s  seed 7" in text and "cases" not in text


def test_a_nan_is_named_instead_of_a_ratio() -> None:
    stats = replace(GOOD, nan_count=3, ratio=math.nan, row_max=math.nan)
    assert "3 NaN or Inf in out" in _printed(_report(replace(RACE, errors=(stats,))), width=120)


def test_excerpts_stay_inside_the_source() -> None:
    assert excerpt("a\nb\nc", 3) == [" 2 | b", " 3 | c", "   | ^"]
    assert excerpt("a", 1, "f.cu") == [" --> f.cu:1", " 1 | a", "   | ^"]
    assert excerpt("a", 2) == excerpt("a", 0) == excerpt("", 9) == []
    assert excerpt("a\n\nb", 2) == [" 1 | a", " 2 |", " 3 | b"]


@pytest.mark.parametrize(
    "code",
    [0x0, 0x1B, 0x7F, 0x9B, 0xAD, 0x34F, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070),
     0x115F, 0x1160, 0x180E, 0x3164, 0xFEFF, 0xFFA0, 0xFFF9, 0xE0001, 0xE0020, 0xE007F],
    ids=hex,
)  # fmt: skip
def test_what_cannot_be_seen_is_spelled_out(code: int) -> None:
    assert printable(f"a{chr(code)}b") == f"a\\x{code:02x}b"


def test_every_character_of_format_is_spelled_out_or_known() -> None:
    """Arabic and other signs around numbers are of that category, too, and are seen."""
    shown = {chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) == "Cf" and printable(chr(c)) == chr(c)}
    assert {unicodedata.name(c).split()[0] for c in shown} <= {"ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN"}


@pytest.mark.parametrize(
    "text", ["注意力、分块与在线 softmax。", "かな カナ 한국어", "naïve Zürich Ω ≤ ∞ µ", "葛\U000e0100 ❤\ufe0f 🙂", "a\u00a0b\u3000c"]
)
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_printable_keeps_text_and_line_ends() -> None:
    assert printable("é\tx\r\ny\x00\u202e") == "é   x\ny\\x00\\x202e"


def test_json_has_the_documented_fields_and_is_strict() -> None:
    stats = replace(GOOD, ratio=math.nan, row_max=math.inf, max_abs=-math.inf)
    raw = json_report.render(_report(FINE, replace(RACE, errors=(stats,))))
    report = json.loads(raw, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert list(report) == [
        "schema", "problem", "submission", "device", "dtype", "variant", "seed", "schedule", "verdict", "score", "tier",
        "score_note", "modelled", "ceilings", "cases",
        "findings", "compile", "resources", "resources_note", "seconds",
    ]  # fmt: skip
    assert (report["schema"], report["verdict"], report["seed"]) == (SCHEMA, "data_race", 7)
    case = report["cases"][1]
    (error,) = case["errors"]
    assert (case["error"], error["row_max"], error["max_abs"]) == ("NaN", "Infinity", "-Infinity")
    finding = case["findings"][0]
    assert (finding["kind"], finding["thread"]) == ("data_race", [1, 0, 0])
    assert (finding["line"], finding["other"]["line"]) == (1, 2)
    assert report["cases"][0]["error"] == 0.04 and report["cases"][0]["time"] == 0.25


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_can_be_shown(verdict: Verdict) -> None:
    assert f"\n{verdict}  " in _printed(_report(replace(FINE, verdict=verdict), verdict=verdict))


def test_a_finding_without_a_place_is_still_shown() -> None:
    finding = Finding(FindingKind.TRAP, "It stopped.", other=Access(0))
    assert "It stopped." in _printed(_report(replace(RACE, findings=(finding,))), source="")


def test_fake_events_have_progress_lines(events_of: Callable[..., list[object]]) -> None:
    lines = [terminal.progress_line(event) for event in events_of("// fine")]  # type: ignore[arg-type]
    assert [line for line in lines if line] == [
        "compiling my.cu", "running on fake", "case 1/3  one", "case 2/3  two", "case 3/3  five",
    ]  # fmt: skip
