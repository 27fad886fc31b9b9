"""Benchmarks at a terminal and in JSON."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from harness.events import BenchmarkStarted, Calibrating
from harness.measure.records import Baseline, Benchmark, Ceilings, Timing
from harness.report import figures, terminal
from harness.report import json as json_report
from harness.results import Report
from harness.verdict import Verdict
from tests import sample_reports as samples

MEASURED_COLUMNS = """\
                                         time                        of its  speed of
case                                   median  GB/s  TFLOP/s        ceiling     light  score
heads_32_seq_4096_d64         6.42 ms +- 0.4 %  20.9     21.4   17 % compute   1.09 ms   17.0
  torch SDPA, efficient               4.00 ms  33.6     34.4  1.60x as fast
  torch SDPA, cuDNN, bfloat16          220 us     -      625  29.2x as fast  (bf16 instead of float32)
  FlashInfer prefill, bfloat16: not installed
heads_32_seq_4096_d64_causal  5.10 ms +- 0.4 %  26.3     13.5   11 % compute    546 us   10.7
  torch SDPA, efficient               4.00 ms  33.6     17.2  1.28x as fast
one_head_latency              12.4 us +- 3.1 %  84.6     5.41  4.3 % compute    533 ns    4.3  NOISY
  torch SDPA, efficient               14.9 us  70.4     4.50  0.83x as fast
"""


def _printed(report: Report, width: int = 120) -> str:
    out = io.StringIO()
    terminal.print_report(Console(file=out, width=width), report, samples.SOURCE, "python judge.py ...")
    return out.getvalue()


def _words(text: str) -> list[str]:
    """Without the alignment, which is tested by itself."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_table_has_a_row_for_each_benchmark_and_each_baseline() -> None:
    lines = _words(_printed(samples.measured()))
    begin = lines.index("benchmarks") + 1
    assert lines[begin : begin + 10] == _words(MEASURED_COLUMNS)
    assert lines[begin + 10].startswith("NOISY: the interval of the median")


def test_columns_stand_below_their_heads() -> None:
    lines = _printed(samples.measured()).splitlines()
    head, *rows = lines[lines.index("benchmarks") + 2 :][:8]
    for name, cells in {"median": ("0.4 %", "3.1 %"), "GB/s": ("20.9", "84.6"), "light": ("1.09 ms", "533 ns")}.items():
        ends = {line.index(cell) + len(cell) for cell in cells for line in rows if cell in line}
        assert ends == {head.index(name) + len(name)}


def test_the_score_its_tier_and_the_card_are_told() -> None:
    text = _printed(samples.measured())
    assert "\nscore 13.4 (pass)  geometric mean of 3 benchmarks\n" in text
    card = (
        "on NVIDIA H200, driver 580.159: copy 4300 GB/s, read 4360 GB/s, float32 62.0 TFLOP/s, tf32 380 TFLOP/s, "
        "bf16 790 TFLOP/s; set against 4360 GB/s and 126 TFLOP/s, clocks 1755-1980 MHz, 45-61 C, held back by power cap"
    )
    assert card in " ".join(_words(text))
    known = replace(samples.H200, cached=True)
    assert "ceilings measured 2026-11-29" in _printed(samples.measured(ceilings=known))
    assert "accepted  5 of 5 cases passed" in text and "modelled" not in text


def test_benchmarks_that_were_not_accepted_are_rows_among_the_tests() -> None:
    text = _printed(samples.failing())
    assert "heads_32_seq_4096_d64  policy_violation" in text and "benchmarks\n" not in text
    assert "\nno score: not all tests are accepted\n" in text
    refused = samples.measured().cases[2]
    wrong = samples.measured(cases=(replace(refused, verdict=Verdict.WRONG_ANSWER),), score=None)
    assert "17.0" not in _printed(wrong) and "wrong_answer" in _printed(wrong)


@pytest.mark.parametrize("width", [80, 110])
def test_a_modelled_report_says_so_in_title_heads_and_score(width: int) -> None:
    lines = _words(_printed(samples.modelled(), width))
    title = lines.index("modelled benchmarks")
    assert lines[title + 1] == " ".join(["modelled"] * 6)
    assert lines[title + 2].removeprefix("case ") == "time GB/s TFLOP/s of ceiling speed of light score"
    assert "modelled score 47.1 geometric mean of 2 modelled benchmarks" in lines
    assert any(line.startswith("modelled on the data sheet of NVIDIA H100") for line in lines)
    assert "emulated with num_seqs 2 of 64; moved 2.1 GB, fewest 537.0 MB" in lines
    assert not any(line.startswith(("score", "benchmarks")) or "+-" in line for line in lines)


def test_one_modelled_time_makes_the_whole_table_modelled() -> None:
    cases = samples.measured().cases
    one = replace(cases[3], benchmark=replace(samples.benchmark(1 << 27, 1 << 36, 5e-3), modelled=True))
    assert "modelled benchmarks" in _printed(samples.measured(cases=(*cases[:3], one)))


def test_ceilings_of_a_data_sheet_mark_what_rests_on_them() -> None:
    text = _printed(samples.measured(ceilings=replace(samples.H200, modelled=True)))
    lines = _words(text)
    title = lines.index("modelled benchmarks")
    assert lines[title + 1] == "time modelled modelled modelled"
    assert lines[title + 2] == "case median GB/s TFLOP/s of ceiling speed of light score"
    assert "modelled score 13.4 (pass) geometric mean of 3 benchmarks" in lines


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("report", [samples.measured(), samples.modelled()], ids=["measured", "modelled"])
def test_no_line_is_too_wide_and_no_figure_is_broken(width: int, report: Report) -> None:
    text = _printed(report, width)
    assert max(map(cell_len, text.splitlines())) <= width
    rows = re.findall(r"[\d.]+ [mu]s(?: \+- [\d.]+ %)?(?: +[\d.]+){2} +[\d.]+ % \w+ +[\d.]+ [mun]s +([\d.]+)", text)
    assert rows == [f"{case.benchmark.score:.1f}" for case in report.cases if case.benchmark]
    assert report.ceilings and f"read {report.ceilings.read / 1e9:.0f} GB/s" in text


def test_narrow_terminals_fold_instead_of_cutting() -> None:
    text = _printed(samples.measured(), 30)
    assert max(map(cell_len, [x for x in text.splitlines() if not x.startswith("repeat")])) <= 30
    assert {"6.42", "20.9", "21.4", "17.0"} <= set(text.split())


def test_names_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J"
    report = samples.measured(ceilings=replace(samples.H200, card=f"card{evil}"), tier=evil)
    case = report.cases[2]
    assert case.benchmark
    baselines = (Baseline(f"a{evil}", 1e-3, evil, evil), Baseline("b", 0, "", evil))
    case = replace(case, name=f"x{evil}", benchmark=replace(case.benchmark, baselines=baselines))
    text = _printed(replace(report, cases=(case,)))
    assert "\x1b" not in text and text.count("\\x1b[2J") >= 6


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_odd_figures_are_shown_and_not_raised(value: float) -> None:
    names = [f.name for f in dataclasses.fields(Benchmark) if f.type == "float"]
    timing = Timing(value, value, value, (value, value), value, 0, 0, 0, 1, True)
    changes: dict[str, Any] = dict.fromkeys(names, value)
    odd = replace(samples.benchmark(0, 0, 1e-3), timing=timing, **changes)
    odd = replace(odd, baselines=(Baseline("x", value, "float32"),))
    case = replace(samples.measured().cases[2], benchmark=odd)
    report = samples.measured(cases=(case,), score=value, ceilings=Ceilings("", "", value, value, {"fma": value}))
    assert "heads_32" in _printed(report)
    json.loads(json_report.render(report), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_json_has_every_field_of_the_measurement() -> None:
    report = json.loads(json_report.render(samples.measured()))
    assert (report["score"], report["tier"], report["score_note"], report["modelled"]) == (13.4, "pass", "", False)
    assert set(report["ceilings"]) == {f.name for f in dataclasses.fields(Ceilings)}
    assert report["ceilings"]["rates"]["bf16"] == 790e12
    test, found = report["cases"][0], report["cases"][2]["benchmark"]
    assert test["benchmark"] is None and test["time"] == 0.25
    assert set(found) == {f.name for f in dataclasses.fields(Benchmark)}
    assert set(found["timing"]) == {f.name for f in dataclasses.fields(Timing)} | {"half_width"}
    assert found["timing"]["half_width"] == pytest.approx(0.004) and found["timing"]["sm_clock_mhz"] == [1755, 1980]
    assert found["baselines"][0] == {"name": "torch SDPA, efficient", "seconds": 4e-3, "dtype": "float32", "note": ""}


def test_json_of_a_modelled_report_has_no_timing() -> None:
    report = json.loads(json_report.render(samples.modelled()))
    assert report["modelled"] is True and report["ceilings"]["modelled"] is True
    assert report["cases"][1]["benchmark"]["timing"] is None and report["cases"][1]["benchmark"]["modelled"] is True


def test_json_without_a_score_says_why() -> None:
    report = json.loads(json_report.render(samples.failing()))
    assert (report["score"], report["tier"]) == (None, "") and report["score_note"] == "not all tests are accepted"


def test_the_status_line_follows_the_measurement() -> None:
    assert terminal.progress_line(Calibrating()) == "measuring the card's ceilings"
    assert terminal.progress_line(BenchmarkStarted("one_head", 3, 9)) == "benchmark 3/9  one_head"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.25, "1.25 s"), (6.42e-3, "6.42 ms"), (41.6e-6, "41.6 us"), (253.4e-6, "253 us"), (8e-9, "8.00 ns"),
     (0, "-"), (-1, "-"), (math.nan, "-"), (math.inf, "-")],
)  # fmt: skip
def test_times_have_the_unit_that_suits_them(value: float, text: str) -> None:
    assert figures.seconds(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.351, "35 %"), (0.0341, "3.4 %"), (0.0002, "0.02 %"), (1.034, "103 %"), (0, "0 %"), (0.0996, "10 %")],
)
def test_shares_have_two_digits_that_count(share: float, text: str) -> None:
    assert figures.percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(4110.4, "4110"), (62.34, "62.3"), (8.149, "8.15"), (0.0021, "0.0021"), (0, "0.00"), (99.96, "100")],
)
def test_rates_have_three_digits_that_count(value: float, text: str) -> None:
    assert figures.significant(value) == text
