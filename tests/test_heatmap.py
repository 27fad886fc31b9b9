"""Where an output is wrong: the cells, the words for their order, and the picture."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from harness import cases, check, mismatch_map, patterns
from harness.check import ErrorLimits
from harness.devices.base import Argument
from harness.report import heatmap, html
from harness.report import json as json_report
from harness.report.reading import read
from harness.results import CaseResult, Finding, MismatchMap, Report
from harness.verdict import FindingKind, Verdict
from tests import sample_reports as samples

ROWS = ErrorLimits("rows", (2e-4, 5e-5, 1e-5))
ELEMENTS = ErrorLimits("elements", (1.0, 0.0, 0.0))
AXES = ("num_seqs", "num_heads", "head_dim")
_SVG = "{http://www.w3.org/2000/svg}"


def _maps(
    expected: np.ndarray, change: Callable[[np.ndarray], object], limits: ErrorLimits = ROWS, unwritten: int = 0
) -> list[MismatchMap]:
    """Of an output that is right before `change`."""
    found = expected.astype(np.float32)
    change(found)
    empty = np.empty(expected.shape, np.float32)
    case = cases.Case(
        "case", {}, [Argument("out", empty, "out", "float")], {"out": expected}, {"out": limits},
        {"out": AXES[-expected.ndim :]}, cases.Cost(1, 1),
    )  # fmt: skip
    return check.compare(case, {"out": found}, {"out": unwritten}).mismatches


def _map(expected: np.ndarray, change: Callable[[np.ndarray], object], *more: Any) -> MismatchMap:
    (only,) = _maps(expected, change, *more)
    return only


def _expected(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape)


def _set(index: Any, value: Any) -> Callable[[np.ndarray], None]:
    def change(out: np.ndarray) -> None:
        out[index] = value

    return change


def test_a_right_output_has_no_map() -> None:
    assert _maps(_expected(3, 4, 64), lambda out: None) == []


def test_every_kind_of_cell() -> None:
    expected = np.ones((1, 7))
    bad = [1, 1 + 1.5e-5, 1 + 1e-4, 2, np.nan, np.inf, -7]  # the limit on each is 1.1e-5; of -7 see below
    cells = _map(expected, _set((0, slice(None)), np.array(bad)), ELEMENTS)
    assert cells.cells == (".++XNNX",)
    far = _map(expected, _set((0, 0), 1 + 5e-3), ELEMENTS)
    assert (far.cells, far.limit_of, far.pattern) == (("x......",), "element", "a single element")


def test_an_infinity_that_is_expected_is_within_and_a_number_in_its_place_is_not() -> None:
    expected = np.array([-np.inf, -np.inf, -np.inf, 1.0])
    cells = _map(expected, _set(slice(1, 3), np.array([-1e30, np.nan])), ELEMENTS)
    assert cells.cells == (".XN.",)


def test_what_was_never_written_shows_above_what_is_wrong() -> None:
    def change(out: np.ndarray) -> None:
        out[0] = 0
        out[1, 2:] = np.nan

    cells = _map(np.ones((2, 4)), change, ROWS, 2)
    assert cells.cells == ("XXXX", "..--")


def test_an_output_that_is_right_where_it_was_written_has_a_map() -> None:
    cells = _map(np.ones((3, 4)), _set(1, np.nan), ROWS, 4)
    assert (cells.cells, cells.pattern) == (("....", "----", "...."), "all of head 1")


def test_what_was_never_written_needs_a_place_to_be_shown() -> None:
    assert _maps(_expected(2, 64), lambda out: None, unwritten=3) == []


def test_a_cell_is_as_bad_as_its_worst_element() -> None:
    cells = _map(_expected(1000, 200), _set((517, 123), np.nan))
    assert (len(cells.cells), len(cells.column_starts)) == (63, 50)
    (row,), (column,) = (
        [i for i, (a, b) in enumerate(itertools.pairwise([*starts, 10**6])) if a <= index < b]
        for starts, index in ((cells.row_starts, 517), (cells.column_starts, 123))
    )
    for y, x in itertools.product(range(63), range(50)):
        assert cells.cells[y][x] == ("N" if (y, x) == (row, column) else ".")


@pytest.mark.parametrize(
    "leading", [(), (1,), (64,), (65,), (3, 97), (4, 32), (8, 1000), (65, 2), (2, 3, 1000), (5000,), (64, 64), (7, 1, 11)]
)
def test_cells_are_few_and_none_reaches_from_one_head_into_the_next(leading: tuple[int, ...]) -> None:
    rows = int(np.prod(leading, dtype=int))
    starts = mismatch_map.row_starts(leading)
    assert starts[0] == 0 and list(starts) == sorted(set(starts)) and len(starts) <= 64 and starts[-1] < rows
    if rows <= 64:
        assert starts == tuple(range(rows))
    for axis in range(len(leading)):
        outer, inner = int(np.prod(leading[:axis], dtype=int)), int(np.prod(leading[axis:], dtype=int))
        if outer <= 32:  # half of the cells, so that each index of the outer axes has some of its own
            assert set(range(0, rows, inner)) <= set(starts)


def test_a_row_that_only_its_norm_condemns_is_shown_by_shares_of_that_limit() -> None:
    expected = _expected(4, 6, 64)
    limits = ErrorLimits("rows", (1.0, 1e-3, 1.0))
    cells = _map(expected, lambda out: out[2].__imul__(1.01), limits)
    assert (cells.limit_of, cells.pattern) == ("row", "all of seq 2")
    assert all(("+" in row or "x" in row) == (12 <= i < 18) for i, row in enumerate(cells.cells))
    assert "Each element alone is near" in heatmap.caption(cells)


def test_a_tensor_that_is_off_as_a_whole_still_shows_where() -> None:
    limits = ErrorLimits("rows", (1.0, 1.0, 1e-4))
    cells = _map(_expected(4, 64), lambda out: out[3].__imul__(1.01), limits)
    assert (cells.limit_of, cells.pattern) == ("tensor", "")
    assert [set(row) <= {"."} for row in cells.cells] == [True, True, True, False]
    assert "Each row alone is near" in heatmap.caption(cells)


def test_a_tensor_that_must_be_zero_has_a_map() -> None:
    assert _map(np.zeros((2, 64)), _set((1, 3), 1.0)).cells == ("." * 64, "..." + "X" + "." * 60)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (np.s_[:], "every element"),
        (np.s_[1, 2, 3], "a single element"),
        (np.s_[2], "all of seq 2"),
        (np.s_[:, 3], "all of head 3"),
        (np.s_[:, 2:4], "all of heads 2..3"),
        (np.s_[:, :, 64:], "all of dims from 64 on"),
        (np.s_[1, 7:, :32], "all of seq 1, heads from 7 on, dims 0..31"),
        (np.s_[:, 3::4], "every 4th head from 3 on"),
        (np.s_[:, :, 1::2], "every 2nd dim from 1 on"),
        (np.s_[0, :, 2::3], "all of seq 0, every 3rd dim from 2 on"),
    ],
)
def test_a_plain_order_is_named(index: Any, words: str) -> None:
    wrong = np.zeros((4, 9, 128), bool)
    wrong[index] = True
    assert patterns.describe(wrong, AXES) == words


def test_rows_are_counted_over_all_leading_axes_where_that_is_plain() -> None:
    wrong = np.zeros((5, 7, 64), bool)
    wrong.reshape(35, 64)[3::4] = True
    assert patterns.describe(wrong, AXES) == "every 4th row from 3 on, counted over seq and head together"
    wrong[:] = False
    wrong.reshape(35, 64)[20:] = True
    assert patterns.describe(wrong, AXES) == "all of rows from 20 on, counted over seq and head together"


def test_halves_of_a_warp_and_the_end_of_memory_are_named() -> None:
    wrong = np.zeros((3, 128), bool)
    wrong[:, np.arange(128) % 32 >= 16] = True
    assert patterns.describe(wrong, ("rows", "head_dim")) == "all of dims 16..31 of every 32"
    wrong = np.arange(3 * 128).reshape(3, 128) >= 200
    assert patterns.describe(wrong, ("rows", "head_dim")) == "all elements from number 200 on, as they lie in memory"


def test_disorder_is_not_named() -> None:
    wrong = np.random.default_rng(1).random((6, 9, 64)) < 0.3
    assert patterns.describe(wrong, AXES) == ""
    wrong[:, 1:] = False
    assert patterns.describe(wrong, AXES) == "only in head 0"


def test_what_is_named_is_true() -> None:
    """The words are read as a statement and held against the elements."""
    named = 0
    for seed in range(400):
        rng = random.Random(seed)
        wrong = _random_box(rng)
        for _ in range(rng.choice([0, 0, 1, 3])):
            wrong.reshape(-1)[rng.randrange(wrong.size)] ^= True
        words = patterns.describe(wrong, AXES[-wrong.ndim :])
        if words == "a single element":
            assert wrong.sum() == 1
        elif words:
            said = _meant(words, wrong.shape, AXES[-wrong.ndim :])
            assert (said >= wrong).all() if words.startswith("only in") else (said == wrong).all(), (seed, words)
            named += 1
    assert named > 150


def _random_box(rng: random.Random) -> np.ndarray:
    shape = tuple(rng.choice([1, 2, 3, 5, 8, 12]) for _ in range(rng.choice([1, 2, 3])))
    wrong = np.ones(shape, bool)
    for axis, extent in enumerate(shape):
        i, one = np.arange(extent), rng.randrange(extent)
        chosen = rng.choice([i >= 0, i >= extent // 2, i % 4 == 3, i % 4 >= 2, i == one, i != 1])
        wrong &= chosen.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return wrong


def _meant(words: str, shape: tuple[int, ...], axes: tuple[str, ...]) -> np.ndarray:
    """The elements that a description speaks of."""
    everything = np.ones(shape, bool)
    if words == "every element":
        return everything
    if found := re.fullmatch(r"all elements from number (\d+) on, as they lie in memory", words):
        return np.asarray(np.arange(everything.size).reshape(shape) >= int(found[1]))
    if found := re.fullmatch(r"the first (\d+) elements, as they lie in memory", words):
        return np.asarray(np.arange(everything.size).reshape(shape) < int(found[1]))
    parts = re.sub(r"^(all of|only in) ", "", words)
    if ", counted over" in parts:
        rows = np.arange(everything.size // shape[-1]).reshape(*shape[:-1], 1)
        everything &= _indices(parts.split(", counted")[0], "row", rows)
        return everything
    for part in parts.split(", "):
        (axis,) = (i for i, name in enumerate(axes) if re.search(rf"\b{patterns.axis_name(name, i)}s?\b", part))
        indices = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        everything &= _indices(part, patterns.axis_name(axes[axis], axis), indices)
    return everything


def _indices(words: str, name: str, i: np.ndarray) -> Any:
    if found := re.fullmatch(rf"{name} (\d+)", words):
        return i == int(found[1])
    if found := re.fullmatch(rf"{name}s from (\d+) on", words):
        return i >= int(found[1])
    if found := re.fullmatch(rf"{name}s (\d+)\.\.(\d+)", words):
        return (int(found[1]) <= i) & (i <= int(found[2]))
    if found := re.fullmatch(rf"every (\d+)\w\w {name} from (\d+) on", words):
        return i % int(found[1]) == int(found[2])
    found = re.fullmatch(rf"{name}s (\d+)\.\.(\d+) of every (\d+)", words)
    assert found, words
    return (int(found[1]) <= i % int(found[3])) & (i % int(found[3]) <= int(found[2]))


@pytest.mark.parametrize(
    ("dimension", "name"),
    [("num_heads", "head"), ("rows", "row"), ("seq_len", "position"), ("seq_len_q", "position"), ("head_dim", "dim"),
     ("batch_heads", "batch_head"), ("n", "n"), ("gas", "ga"), ("mass", "mass"), ("rows / 2", "axis 1"), ("4", "axis 1")],
)  # fmt: skip
def test_an_index_is_called_by_what_it_counts(dimension: str, name: str) -> None:
    assert patterns.axis_name(dimension, 1) == name


def _reported(*maps: MismatchMap) -> Report:
    finding = Finding(FindingKind.MISMATCH, "It differs.", tensor="out")
    return samples.measured(cases=(CaseResult("one", Verdict.WRONG_ANSWER, (), (finding,), mismatches=maps),))


def test_the_map_is_in_the_json_report_and_small() -> None:
    noise = np.random.default_rng(3).random((40, 50, 128)) < 0.5
    cells = _map(_expected(40, 50, 128), lambda out: out.__imul__(1 + noise))
    report = _reported(cells)
    assert read(json_report.render(report)) == report
    assert len(json_report.render(report)) < 12_000


def _drawn(cells: MismatchMap) -> ElementTree.Element:
    text = str(heatmap.draw("map", cells))
    return ElementTree.fromstring(text.replace("<svg ", f'<svg xmlns="{_SVG[1:-1]}" ', 1))


def _painted(picture: ElementTree.Element) -> np.ndarray:
    """The cells as the outlines paint them, from the classes of the paths."""
    kinds = dict(zip(("within", "near", "far", "beyond", "nan", "unwritten"), ".+xXN-", strict=True))
    painted: dict[tuple[int, int], str] = {}
    for path in picture.iter(f"{_SVG}path"):
        if "scale(12.0000 12.0000)" in path.attrib["transform"]:
            continue  # of the legend
        (kind,) = (kinds[word[5:]] for word in path.attrib["class"].split() if word.startswith("heat-"))
        for x, y, length, back in re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path.attrib["d"]):
            assert length == back
            for i in range(int(length)):
                assert (int(y), int(x) + i) not in painted
                painted[int(y), int(x) + i] = kind
    rows, columns = (max(place[i] for place in painted) + 1 for i in (0, 1))
    return np.array([[painted[y, x] for x in range(columns)] for y in range(rows)])


def test_the_picture_paints_every_cell_once_in_its_kind() -> None:
    def change(out: np.ndarray) -> None:
        out[1, ::3, 64:] *= 1.5
        out[2, 4] = np.nan
        out[0, 3, :5] *= 1.0005

    cells = _map(_expected(4, 12, 128), change)
    assert ["".join(row) for row in _painted(_drawn(cells))] == list(cells.cells)


@pytest.mark.parametrize("shape", [(1,), (9,), (1000,), (1, 64), (5, 128), (3, 97, 64), (40, 50, 128), (1, 1, 2)])
def test_every_picture_says_what_it_shows_and_keeps_within_its_frame(shape: tuple[int, ...]) -> None:
    cells = _map(_expected(*shape), lambda out: out.__iadd__(1))
    picture = _drawn(cells)
    width, height = map(float, picture.attrib["viewBox"].split()[2:])
    words = [(text.text or "", text.attrib) for text in picture.iter(f"{_SVG}text")]
    assert picture.findtext(f"{_SVG}title") == "Where out is wrong"
    assert picture.findtext(f"{_SVG}desc") == heatmap.caption(cells)
    for text, place in words:
        x, y, wide = float(place["x"]), float(place["y"]), 7.2 * len(text)
        start = x - {"start": 0, "middle": wide / 2, "end": wide}[place["text-anchor"]]
        assert start >= -0.5 and start + wide <= width + 0.5 and 8 <= y <= height
    assert {"over 1000 \N{MULTIPLICATION SIGN} the limit"} <= {text for text, _ in words} and "NaN or infinite" not in {text for text, _ in words}


def test_numbers_beside_the_rows_are_indices_of_the_leading_axes() -> None:
    picture = _drawn(_map(_expected(3, 97, 64), _set((1, 50, 3), 9.0)))
    words = [text.text for text in picture.iter(f"{_SVG}text")]
    assert words[0] == "seq, head" and {"0, 0", "1, 0", "2, 0"} <= set(words)


def test_the_page_shows_the_map_beside_its_finding_in_words_too() -> None:
    cells = _map(_expected(3, 5, 64), _set((slice(None), 2), 9.0))
    page = html.render(_reported(replace(cells, axes=("<i>", "num_heads", "head_dim"))), samples.SOURCE, "", "now")
    assert "one: out [3 \N{MULTIPLICATION SIGN} 5 \N{MULTIPLICATION SIGN} 64], wrong: all of head 2. Each cell is an element." in page
    assert page.count('id="finding-0"') == 1 and "<i>" not in page


def test_a_page_of_many_outputs_has_a_bounded_number_of_pictures() -> None:
    noise = np.random.default_rng(3).random((40, 50, 128)) < 0.5
    cells = _map(_expected(40, 50, 128), lambda out: out.__imul__(1 + noise))
    names = [f"out{i}" for i in range(60)]
    result = CaseResult(
        "one", Verdict.WRONG_ANSWER, (), tuple(Finding(FindingKind.MISMATCH, "It differs.", tensor=name) for name in names),
        mismatches=tuple(replace(cells, tensor=name) for name in names),
    )  # fmt: skip
    page = html.render(samples.measured(cases=(result,)), samples.SOURCE, "", "now")
    assert page.count("<figcaption") < 30 and len(page) < 2_500_000
