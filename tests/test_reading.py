"""The JSON report read back: nothing is lost, and nothing that is no report passes for one."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from harness import problem as problems
from harness import submission
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.report import json as json_report
from harness.report.reading import ReportFormatError, read
from harness.results import SCHEMA, CaseResult, Report
from harness.verdict import Verdict
from tests import sample_reports as samples

ROOT = Path(__file__).resolve().parents[1]
_SUBMISSIONS = "tests/submissions"


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("solutions/split_k_merge/01_naive.cu", Verdict.ACCEPTED),
        (f"{_SUBMISSIONS}/split_k_merge/weights_without_m.cu", Verdict.WRONG_ANSWER),
        (f"{_SUBMISSIONS}/split_k_merge/lse_unwritten.cu", Verdict.WRONG_ANSWER),
        (f"{_SUBMISSIONS}/split_k_merge/missing_sync.cu", Verdict.DATA_RACE),
        (f"{_SUBMISSIONS}/general/divergent_barrier.cu", Verdict.RUNTIME_ERROR),
        (f"{_SUBMISSIONS}/general/undefined_name.cu", Verdict.COMPILE_ERROR),
        (f"{_SUBMISSIONS}/general/printf_once.cu", Verdict.ACCEPTED),
    ],
    ids=lambda value: Path(value).stem,
)
@pytest.mark.usefixtures("quick_compiler")
def test_real_reports_come_back_whole(path: str, verdict: Verdict) -> None:
    report = _judged(path, cases="two_splits,rows_32_splits_32")
    assert report.verdict is verdict
    assert bool(report.score_note) == (verdict is Verdict.ACCEPTED)  # the benchmark ran, one of many
    assert read(json_report.render(report)) == report


def _judged(path: str, **options: Any) -> Report:
    text = submission.load(ROOT / path)
    *_, last = judge(problems.load("split_k_merge"), text, Options(device="cpu", seed=7, resource_seconds=0, **options))
    assert isinstance(last, Finished)
    return last.report


@pytest.mark.parametrize("report", [samples.measured(), samples.modelled(), samples.failing()])
def test_measured_and_modelled_figures_come_back_whole(report: Report) -> None:
    assert read(json_report.render(report)) == report


def test_every_field_of_every_record_comes_back() -> None:
    """Also of records that the report is going to gain: json.py must write them, in a form that is read."""
    report = replace(_filled(Report), schema=SCHEMA)
    assert read(json_report.render(report)) == report


def _filled(kind: Any) -> Any:
    """A value of a type, and within it, that is no field's default."""
    origin, inner = get_origin(kind), [item for item in get_args(kind) if item not in (Ellipsis, types.NoneType)]
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: _filled(hints[field.name]) for field in dataclasses.fields(kind)})  # type: ignore[operator]
    if origin is types.UnionType:
        return _filled(inner[0])
    if origin is tuple:
        return tuple(map(_filled, inner * 2 if Ellipsis in get_args(kind) else inner))
    if origin is dict:
        return {_filled(inner[0]): _filled(inner[1])}
    if issubclass(kind, enum.Enum):
        return list(kind)[-1]
    return {str: "\N{GREEK SMALL LETTER LAMDA}\x00\u2028", int: 2**62, float: 0.1, bool: True, object: [1, "x"]}[kind]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -0.0])
def test_numbers_come_back_to_the_last_bit(number: float) -> None:
    error = replace(samples.GOOD, ratio=number, limits=(number, 0.5, 0.25))
    report = samples.measured(cases=(CaseResult("one", Verdict.WRONG_ANSWER, (error,)),))
    assert repr(read(json_report.render(report))) == repr(report)


def test_a_kernel_keeps_the_name_that_it_was_launched_by() -> None:
    """That of an anonymous namespace differs between the compilation that runs and the one that is measured."""
    use = samples.resources()
    launch = replace(use.launches[0], shape=replace(use.launches[0].shape, kernel="_ZN12_GLOBAL__N_16attendEv"))
    report = samples.measured(resources=(replace(use, launches=(launch,)),))
    assert read(json_report.render(report)) == report


def _changed(change: Callable[[Any], object]) -> str:
    raw = json.loads(json_report.render(samples.failing()))
    change(raw)
    return json.dumps(raw)


def test_texts_of_before_a_field_was_added_and_of_after_are_read() -> None:
    older = _changed(lambda raw: [case.pop("launches") for case in raw["cases"]])
    newer = _changed(lambda raw: raw["cases"][0].update(mood="good"))
    assert read(older) == read(newer) == samples.failing()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw.update(schema=SCHEMA + 1), f"of schema {SCHEMA}, the one that this version reads: {SCHEMA + 1}"),
        (lambda raw: raw.update(schema=True), "schema"),
        (lambda raw: raw.pop("schema"), "None"),
        (lambda raw: raw.pop("verdict"), "verdict is missing"),
        (lambda raw: raw["cases"][1].pop("name"), "cases[1].name is missing"),
        (lambda raw: raw.update(verdict="splendid"), "verdict: 'splendid' is no Verdict"),
        (lambda raw: raw.update(verdict=["accepted"]), "verdict: ['accepted'] is no Verdict"),
        (lambda raw: raw.update(seed=1.0), "seed: 1.0 is no int"),
        (lambda raw: raw.update(seed=True), "seed: True is no int"),
        (lambda raw: raw.update(seconds="soon"), "seconds: 'soon' is no float"),
        (lambda raw: raw.update(seconds=False), "seconds: False is no float"),
        (lambda raw: raw.update(seconds=None), "seconds: None is no float"),
        (lambda raw: raw.update(cases=None), "cases: None is no list"),
        (lambda raw: raw["cases"].append(3), "cases[3]: 3 is no CaseResult"),
        (lambda raw: raw["cases"][0].update(parameters=[]), "cases[0].parameters: [] is no object"),
        (lambda raw: raw["cases"][1]["findings"][0].update(thread=[1, 2]), "findings[0].thread: 2 items, due are 3"),
        (lambda raw: raw["cases"][1]["findings"][0]["other"].update(line="5"), "other.line: '5' is no int"),
        (lambda raw: raw["resources"][0].pop("mangled"), "resources[0].mangled is missing"),
        (lambda raw: raw["resources"][0]["launches"][0].update(waves="0.3"), "launches[0].waves: '0.3' is no float"),
        (lambda raw: raw["ceilings"]["rates"].update(fma=None), "ceilings.rates.fma: None is no float"),
    ],
)
def test_what_is_no_report_is_told_with_its_place(change: Callable[[Any], object], words: str) -> None:
    with pytest.raises(ReportFormatError) as told:
        read(_changed(change))
    assert words in str(told.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"', '{"schema": NaN}', "[" * 100_000, '{"schema": 1' + "0" * 5000])
def test_what_is_not_even_an_object_is_told(text: str) -> None:
    with pytest.raises(ReportFormatError, match="not a JSON report"):
        read(text)
