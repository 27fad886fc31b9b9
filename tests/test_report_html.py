"""The page: that it stands alone, says what the report says, lets nothing of a submission in, and is readable."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.measure.records import Baseline, Benchmark, Timing
from harness.report import bars, destination, html, roofline, svg
from harness.results import CaseResult, Report
from harness.verdict import Verdict
from tests import sample_reports as samples

ROOT = Path(__file__).resolve().parents[1]
REPORTS = {"measured": samples.measured(), "modelled": samples.modelled(), "failing": samples.failing()}
_VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Tags with their attributes, the text, and whether every tag is closed in its place."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def elements(self, tag: str, style: str = "") -> list[dict[str, str | None]]:
        found = [a for name, a in self.tags if name == tag]
        return [a for a in found if not style or style in (a.get("class") or "").split()]


def _render(report: Report, source: str = samples.SOURCE) -> str:
    return html.render(report, source, "python judge.py p my.cu --seed 7", "2026-11-29 12:00 UTC")


def _floats(element: dict[str, str | None], *names: str) -> tuple[float, ...]:
    return tuple(float(element[name] or "nan") for name in names)


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_the_page_stands_alone(report: Report) -> None:
    text = _render(report)
    page = Page(text)
    assert text.encode().startswith(destination.HTML)
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & {tag for tag, _ in page.tags}
    assert not [a for _, a in page.tags if {"src", "href", "style"} & a.keys()]
    assert "://" not in text and "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_names_of_elements_are_unique_and_references_resolve(report: Report) -> None:
    page = Page(_render(report))
    names = [a["id"] for _, a in page.tags if "id" in a]
    assert len(names) == len(set(names))
    referred = {name for _, a in page.tags for name in (a.get("aria-labelledby") or "").split()}
    assert referred <= set(names)


def test_the_page_tells_the_whole_run() -> None:
    text = Page(_render(samples.measured())).text
    for words in (
        "flash_attention", "my.cu", "✓ accepted", "5 of 5 cases passed", "13.4 pass", "geometric mean of 3 benchmarks",
        "NVIDIA H200, driver 580.159", "copy 4300 GB/s; read 4360 GB/s", "set against 4360 GB/s and 126 TFLOP/s",
        "clocks 1755-1980 MHz", "45-61 C", "held back by power cap", "2026-11-29 12:00 UTC", "seed 7",
        "python judge.py p my.cu --seed 7", "one_token ✓ accepted 0.040 0.25 s", "attend 40 24 B 1.3 kB 38 % 12",
    ):  # fmt: skip
        assert words in text
    assert "odelled" not in text


def test_the_table_of_benchmarks_has_every_figure() -> None:
    text = Page(_render(samples.measured())).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "heads_32_seq_4096_d64 6.42 ms ± 0.4 % 20.9 21.4 17 % compute 1.09 ms 17.0" in text
    assert "torch SDPA, efficient 4.00 ms 33.6 34.4 1.60\N{MULTIPLICATION SIGN} as fast" in text
    assert (
        "torch SDPA, cuDNN, bfloat16 220 µs - 625 29.2\N{MULTIPLICATION SIGN} as fast (bf16 instead of float32)" in text
    )
    assert "FlashInfer prefill, bfloat16 not installed" in text
    assert (
        text.count("one_head_latency NOISY 12.4 µs ± 3.1 %") == 1
        and "3: one_head_latency NOISY 64.0 5.41 4.3 %" in text
    )


def test_findings_show_their_lines_and_why_there_is_no_score() -> None:
    page = Page(_render(samples.failing()))
    assert "✕ data_race" in page.text and "no score: not all tests are accepted" in page.text
    code = "".join(page.words)
    assert " 4 |   tile[threadIdx.x] = q[threadIdx.x];\n   |   ^~~~" in code
    assert "the other access is a read by block (0, 0, 0), thread (0, 0, 0)" in page.text
    assert "called from my.cu:2" in page.text and "my.cu(3): warning: unused" in page.text and "said" in page.words
    assert not page.elements("svg") and "heads_32_seq_4096_d64 ✕ policy_violation" in page.text


def test_a_modelled_page_cannot_be_taken_for_a_measured_one() -> None:
    page = Page(_render(samples.modelled()))
    assert page.text.index("Nothing on this page was timed") < page.text.index("paged_decode my.cu")
    assert "modelled score 47.1 geometric mean of 2 modelled benchmarks" in page.text
    assert "Sizes of benchmarks were cut for the emulator" in page.text
    for head in ("time", "GB/s", "TFLOP/s", "share of its ceiling", "speed of light", "score"):
        assert f"modelled {head}" in page.text
    for title in ("Modelled benchmarks", "Modelled roofline", "Modelled speed by case"):
        assert title in page.text
    assert len([a for tag, a in page.tags if a.get("class") == "hatched"]) == 2 + 1 + 2  # points, legend, bars
    assert not [a for _, a in page.tags if a.get("class") == "solid"]
    assert "emulated with num_seqs 2 of 64" in page.text and "Traffic score (modelled) 12.8 of 100" in page.text
    assert "100 is no byte moved beyond the fewest" in page.text and "the fewest bytes over those moved" in page.text
    measured = Page(_render(samples.measured()))
    assert "100 is the speed of light" in measured.text and "that time over the measured one" in measured.text
    assert not [a for _, a in measured.tags if a.get("class") == "hatched"]


def test_measured_times_on_the_ceilings_of_a_data_sheet_say_which_figures_are_modelled() -> None:
    text = Page(_render(samples.measured(ceilings=replace(samples.H200, modelled=True)))).text
    assert "Modelled ceilings. Times were measured" in text and "modelled score 13.4" in text
    assert "modelled speed of light" in text and "modelled time" not in text


_EVIL = "<script>alert(1)</script>\"' onload=x \x1b[31m\x00\u202e\ud800{{ 777 * 777 }}&amp;"


def _evil(value: Any) -> Any:
    """The same record with that in the place of every text, names of parameters and rates included."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return _EVIL
    if isinstance(value, (tuple, list)):
        return type(value)(_evil(item) for item in value)
    if isinstance(value, dict):
        return {_evil(key): _evil(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _evil(getattr(value, f.name)) for f in dataclasses.fields(value)})
    return value


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
def test_no_text_of_a_report_can_become_part_of_the_page(report: Report) -> None:
    text = html.render(_evil(report), f"{_EVIL}\n" * 9, _EVIL, _EVIL)
    page = Page(text)
    good = [tag for known in REPORTS.values() for tag in Page(_render(known)).tags]
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in good}
    assert {name for _, a in page.tags for name in a} <= {name for _, a in good for name in a}
    assert text.count("&lt;script&gt;alert(1)") > 20 and "603729" not in page.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text) and "\\x1b[31m\\x00" in text
    assert Page(text.encode(errors="backslashreplace").decode()).text


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_a_page_with_a_sign_beside_its_colour(verdict: Verdict) -> None:
    text = Page(_render(samples.measured(verdict=verdict, cases=(), score=None, ceilings=None))).text
    assert re.search(rf"[✓✕?!] {verdict}", text)


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 1e-300])
def test_odd_figures_are_shown_and_not_raised(value: float) -> None:
    changes: dict[str, Any] = {f.name: value for f in dataclasses.fields(Benchmark) if f.type == "float"}
    timing = Timing(value, value, value, (value, value), value, 0, 0, 0, 1, True)
    baselines = (Baseline("x", value, "float32"),)
    for size in (0, 1 << 20):
        odd = replace(samples.benchmark(size, size, 1e-3), timing=timing, baselines=baselines, **changes)
        case = replace(samples.measured().cases[2], benchmark=odd)
        text = _render(samples.measured(cases=(case, samples.measured().cases[3]), score=value))
        assert "heads_32" in Page(text).text and not re.search(r'="(nan|inf|-inf)"', text)


def _points(report: Report) -> tuple[Page, list[tuple[float, ...]]]:
    page = Page(roofline.draw(report))
    return page, [_floats(a, "cx", "cy") for a in page.elements("circle", "solid")][:-1]  # the last is the legend's


def _with(*benchmarks: Benchmark, name: str = "case") -> Report:
    cases = tuple(CaseResult(f"{name}_{n}", Verdict.ACCEPTED, benchmark=b) for n, b in enumerate(benchmarks, 1))
    return samples.measured(cases=cases)


def test_points_stand_by_intensity_and_rate_and_their_distance_to_the_roof_is_drawn() -> None:
    slow, fast = samples.benchmark(1 << 28, 1 << 38, 8e-3), samples.benchmark(1 << 28, 1 << 38, 4e-3)
    memory = [samples.benchmark(1 << 30, 1 << 31, seconds) for seconds in (1e-3, 5e-4)]
    page, ((x1, y1), (x2, y2), (x3, y3), (x4, y4)) = _points(_with(slow, fast, *memory))
    assert x1 == x2 > x3 == x4 and y1 > y2 and y4 > y2
    assert y1 - y2 == pytest.approx(y3 - y4, abs=0.2)  # twice as fast is as far up everywhere
    drops = [_floats(a, "x1", "y1", "x2", "y2") for a in page.elements("line", "drop")]
    level = max(_floats(a, "y2")[0] for a in page.elements("line", "roof")[1:])
    assert [(x, y) for x, y, _, _ in drops] == [(x1, y1), (x2, y2), (x3, y3), (x4, y4)]
    assert drops[0][3] == drops[1][3] == level < y2
    assert level < drops[2][3] == drops[3][3] < y4


def test_a_point_on_the_roof_has_no_distance() -> None:
    for nbytes, flops in ((1 << 30, 1 << 31), (1 << 28, 1 << 40)):
        sol = max(nbytes / samples.H200.bandwidth, flops / 126e12)
        page, _ = _points(_with(samples.benchmark(nbytes, flops, sol)))
        (drop,) = page.elements("line", "drop")
        assert drop["y1"] == drop["y2"] and "1: 100 %" in page.text


def test_labels_hide_neither_each_other_nor_points() -> None:
    crowd = [samples.benchmark(1 << 28, 1 << 29, 1e-4 * 1.3**n) for n in range(10)]
    page = Page(roofline.draw(_with(*crowd)))
    labels = page.elements("text", "label")
    assert len(labels) == 10
    width = len("10: 60 %") * 13 * svg.CHARACTER
    boxes = [(x, y - 10, x + width * 0.85, y + 2) for x, y in (_floats(a, "x", "y") for a in labels)]
    assert not [(a, b) for n, a in enumerate(boxes) for b in boxes[:n] if _overlap(a, b)]
    assert [box for box in boxes if box[0] < 0 or box[2] > 480] == []


def test_points_on_top_of_each_other_have_one_label() -> None:
    same = [samples.benchmark(1 << 28, 1 << 29, seconds) for seconds in (1e-4, 1e-4, 1.01e-4, 8e-4, 1e-4)]
    page = Page(roofline.draw(_with(*same)))
    assert len(page.elements("text", "label")) == 2
    assert re.search(r"\b1-3, 5: \d+-\d+ %", page.text) and re.search(r"\b4: [\d.]+ %", page.text)


def test_labels_leave_the_words_along_the_roof_free() -> None:
    near = [samples.benchmark(1 << 28, (1 << 28) * 2**n, 6e-5) for n in range(1, 6)]
    report = _with(*near)
    page = Page(roofline.draw(report))
    labels = [_floats(a, "x", "y") for a in page.elements("text", "label")]
    axes_words = re.search(r"translate\(([\d.]+) ([\d.]+)\) rotate\((-?[\d.]+)\)", str(roofline.draw(report)))
    assert axes_words and len(labels) == 5
    x, y, turn = map(float, axes_words.groups())
    half = len("4300 GB/s") * 13 * svg.CHARACTER / 2 - 8
    way = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    for along in range(-int(half), int(half), 2):
        at = x + along * way[0], y + along * way[1] - 3
        assert not [1 for left, foot in labels if left < at[0] < left + 40 and foot - 9 < at[1] < foot]


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def test_baselines_are_hollow_and_faster_units_appear_only_where_one_needs_them() -> None:
    page = Page(roofline.draw(samples.measured()))
    assert len(page.elements("polygon", "hollow")) == 4 + 2  # points, and a legend line for each name
    assert "bf16: 790 TFLOP/s" in page.text
    cases = tuple(
        replace(c, benchmark=c.benchmark and replace(c.benchmark, baselines=())) for c in samples.measured().cases
    )
    page = Page(roofline.draw(samples.measured(cases=cases)))
    assert not page.elements("polygon") and "bf16" not in page.text and "126 TFLOP/s" in page.text


def test_pictures_are_described_in_words() -> None:
    for picture in (roofline.draw(samples.measured()), bars.draw(samples.measured())):
        page = Page(picture)
        (top,) = page.elements("svg")
        assert top["role"] == "img" and {"title", "desc"} <= {tag for tag, _ in page.tags}
        assert "heads_32_seq_4096_d64" in page.text and "17 %" in page.text
    assert (
        "1, heads_32_seq_4096_d64: 1024 FLOP/byte, 21.4 TFLOP/s, 17 % of the roof."
        in Page(roofline.draw(samples.measured())).text
    )
    assert roofline.draw(samples.failing()) == bars.draw(samples.failing()) == ""


@pytest.mark.parametrize("draw", [roofline.draw, bars.draw])
def test_a_hatch_is_its_pictures_own_and_only_there_where_something_is_hatched(
    draw: Callable[[Report, str], str],
) -> None:
    page = Page(draw(samples.modelled(), "one") + draw(samples.modelled(), "two"))
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids)) and {"one", "one-hatch", "two", "two-hatch"} <= set(ids)
    for name in ("one", "two"):
        filled = [a for _, a in Page(draw(samples.modelled(), name)).tags if a.get("fill") == f"url(#{name}-hatch)"]
        assert filled and all(a["class"] == "hatched" for a in filled)
    plain = Page(draw(samples.measured(), "three"))
    assert not plain.elements("defs") and not [a for _, a in plain.tags if a.get("fill")]


def test_the_style_sheet_of_charts_names_no_picture() -> None:
    assert "url(" not in html.picture_style() and "#roofline" not in html.picture_style()


def test_bars_are_as_long_as_their_share_and_cut_beyond_the_end() -> None:
    page = Page(bars.draw(samples.measured()))
    ours = page.elements("rect", "solid")[0]
    theirs = page.elements("rect", "hollow")[0]
    assert _floats(theirs, "width")[0] / _floats(ours, "width")[0] == pytest.approx(6.42 / 4.0, rel=0.01)
    full = _floats(page.elements("line", "full")[0], "x1")[0]
    start = _floats(ours, "x")[0]
    assert _floats(ours, "width")[0] / (full - start) == pytest.approx(0.17, abs=0.002)
    (cut,) = page.elements("polygon", "hollow")
    assert max(float(corner.split(",")[0]) for corner in (cut["points"] or "").split()) < 400
    assert "496 %" in page.text and "220 µs" in page.text


def _themes() -> Iterator[dict[str, str]]:
    style = (ROOT / "harness/report/templates/style.html.j2").read_text()
    for block in re.findall(r":root \{(.*?)\}", style, re.S):
        yield dict(re.findall(r"--(\w+): (#\w{6})", block))


def _luminance(colour: str) -> float:
    """Relative luminance as of WCAG 2.1."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_all_words_have_contrast_in_both_themes() -> None:
    light, dark = _themes()
    for theme in (light, dark):
        for paper in ("paper", "panel"):
            for ink in ("ink", "muted", "accent", "good", "warn", "bad"):
                low, high = sorted((_luminance(theme[paper]), _luminance(theme[ink])))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (paper, ink)
    assert light.keys() == dark.keys()


def test_templates_are_installed_with_the_package() -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["harness.report"]
    files = [f"templates/{path.name}" for path in (ROOT / "harness/report/templates").iterdir()]
    assert files and all(any(fnmatch.fnmatch(name, pattern) for pattern in data) for name in files)
