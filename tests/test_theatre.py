"""The online-softmax page: its numbers are softmax's, its mistakes are mistakes, and every address gives a sound page."""

from __future__ import annotations

import math
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from tests import theatre_kit
from web.theatre import pictures, play, recurrence, snippets
from web.theatre.examples import KEYS, Example
from web.theatre.pictures import DASH, MINUS, Words
from web.theatre.query import Complaint, Query, parse
from web.theatre.recurrence import Mistake, merge, plain, run

EPSILON = float(np.finfo(np.float32).eps)
WORDS = Words("a title", "a description")
SCORE = st.one_of(st.just(-math.inf), st.floats(-1000, 1000, width=32))
ROWS = st.lists(SCORE, min_size=1, max_size=40).filter(lambda row: max(row) > -math.inf)


def values_for(row: list[float]) -> np.ndarray:
    return np.random.default_rng(len(row)).standard_normal((len(row), 3)).astype(np.float32)


def bound(values: np.ndarray) -> float:
    """A weight is off by a few roundings a step, and of at most 40 keys all may be: far below what any mistake does."""
    return 8 * len(values) * EPSILON * float(np.abs(values).max())


@given(ROWS, st.integers(1, 41))
def test_the_recurrence_is_softmax_at_every_step(row: list[float], tile: int) -> None:
    scores, values = np.array(row, np.float32), values_for(row)
    for step in run(scores, values, tile):
        seen = scores[: step.last + 1]
        assert step.maximum == seen.max()
        if step.plain is None:
            assert seen.max() == -np.inf and step.after.total == 0 and not step.after.output.any()
        else:
            assert step.error is not None and step.error <= bound(values)
            weights = np.exp(seen.astype(np.float64) - seen.max())
            assert step.plain == pytest.approx(weights @ values[: len(seen)] / weights.sum(), abs=1e-12)


@given(ROWS, st.lists(st.integers(0, 40), max_size=5), st.integers(1, 41))
def test_parts_merge_to_the_whole_however_the_keys_are_cut(row: list[float], cuts: list[int], tile: int) -> None:
    scores, values = np.array(row, np.float32), values_for(row)
    edges = sorted({0, len(row), *(cut for cut in cuts if cut < len(row))})
    parts = [run(scores[a:b], values[a:b], tile)[-1].after for a, b in pairwise(edges)]
    merged, whole = merge(parts), plain(scores, values)
    assert whole is not None and recurrence.distance(merged.result, whole) <= 2 * bound(values)
    assert merged.maximum == scores.max() and sum(merged.weights) == pytest.approx(1, abs=1e-5)


def test_two_steps_by_hand() -> None:
    first, second = run(np.log(np.array([1, 4], np.float32)), np.array([[1.0], [2.0]]), 1)
    assert first.before.blind and first.correction == 0
    assert first.weights[0] == 1 and first.after.total == 1
    assert second.correction == pytest.approx(1 / 4) and second.rescaled.output[0] == pytest.approx(1 / 4)
    assert second.after.total == pytest.approx(5 / 4) and second.after.output[0] == pytest.approx(9 / 4)
    assert second.after.result[0] == pytest.approx(9 / 5)  # (1 * 1 + 4 * 2) / 5


@pytest.mark.parametrize(("mistake", "result"), [(Mistake.KEEP_OUTPUT, 3 / 1.25), (Mistake.KEEP_SUM, 2.25 / 2)])
def test_what_is_not_rescaled_by_hand(mistake: Mistake, result: float) -> None:
    *_, last = run(np.log(np.array([1, 4], np.float32)), np.array([[1.0], [2.0]]), 1, mistake)
    assert last.after.result[0] == pytest.approx(result)


SHOWN = {
    Mistake.KEEP_OUTPUT: set(Example) - {Example.EQUAL},
    Mistake.KEEP_SUM: set(Example) - {Example.EQUAL},
    Mistake.ZERO_MAXIMUM: {Example.LOW},
    Mistake.NO_MAXIMUM: {Example.LARGE, Example.LOW},
    Mistake.NO_GUARD: {Example.PADDED},
}


@pytest.mark.parametrize("mistake", SHOWN)
def test_each_mistake_shows_where_the_page_says_so(mistake: Mistake) -> None:
    errors = play.errors(4)[mistake]
    assert {example for example, error in errors.items() if not recurrence.harmless(error)} == SHOWN[mistake]


def test_overflow_and_masked_tiles_end_in_nan() -> None:
    errors = play.errors(4)
    assert math.isnan(errors[Mistake.NO_MAXIMUM][Example.LARGE]) and math.isnan(errors[Mistake.ZERO_MAXIMUM][Example.LOW])
    assert math.isnan(errors[Mistake.NO_GUARD][Example.PADDED])
    assert recurrence.harmless(play.errors(16)[Mistake.NO_GUARD][Example.PADDED])  # its only tile has a key to see


def test_a_mistake_is_hidden_where_the_largest_score_comes_first() -> None:
    scores = np.array([5, 1, 2, 3], np.float32)
    for mistake in (Mistake.KEEP_OUTPUT, Mistake.KEEP_SUM):
        assert recurrence.harmless(run(scores, values_for([0.0] * 4), 1, mistake)[-1].error)


def test_nothing_to_merge_is_refused() -> None:
    with pytest.raises(ValueError, match="no part saw a key"):
        merge([recurrence.start(3), recurrence.start(3)])


@pytest.mark.parametrize("tile", [0, 17])
def test_a_tile_beyond_the_row_is_refused(tile: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 16"):
        play.play(Example.NORMAL, tile, Mistake.NONE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Query()),
        ({"data": "padded", "tile": "5", "step": "2", "mistake": "no_guard"}, Query(Example.PADDED, 5, 2, Mistake.NO_GUARD)),
        ({"tile": "0", "step": "-3"}, Query(tile=1, step=1)),
        ({"tile": "99", "step": "2"}, Query(tile=16, step=1)),
        ({"tile": "3", "step": "6"}, Query(tile=3, step=6)),
        ({"tile": "3", "step": "007"}, Query(tile=3, step=6)),
        ({"step": "9" * 10000}, Query(step=4)),
    ],
)
def test_numbers_become_the_nearest(given: dict[str, str], expected: Query) -> None:
    assert parse(given) == (expected, [])


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"data": "nope"}, Complaint("data", "nope")),
        ({"mistake": "<b>"}, Complaint("mistake", "<b>")),
        ({"tile": "4.5"}, Complaint("tile", "4.5")),
        ({"tile": ""}, Complaint("tile", "")),
        ({"step": "two\x1b"}, Complaint("step", "two\\x1b")),
        ({"step": "x" * 5000}, Complaint("step", "x" * 40 + "...")),
        ({"step": "٣"}, Complaint("step", "٣")),
    ],
)
def test_what_cannot_be_read_is_told_of(given: dict[str, str], complaint: Complaint) -> None:
    assert parse(given) == (Query(), [complaint])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"), (1.0, "1"), (-0.12345, f"{MINUS}0.123"), (129.6, "130"), (-1234.5, f"{MINUS}1234"), (3.4e38, "3.4e38"),
        (7.6e-8, f"7.6e{MINUS}8"), (math.nan, "NaN"), (math.inf, "∞"), (-math.inf, f"{MINUS}∞"), (None, DASH),
    ],
)  # fmt: skip
def test_figures(value: float | None, words: str) -> None:
    assert pictures.number(value) == words


def shapes(drawing: str, tag: str, style: str) -> list[dict[str, float]]:
    """The numbers of all elements with exactly this class."""
    found = re.findall(rf'<{tag} ([^>]*)class="{style}"/>', drawing)
    return [{name: float(v) for name, v in re.findall(r'(\w+)="(-?[\d.]+)"', text)} for text in found]


def test_scores_are_pins_as_high_as_they_are() -> None:
    played = play.play(Example.LATE_PEAK, 4, Mistake.NONE)
    drawing = pictures.scores(played.steps[3], played.row, WORDS)
    heights = [-pin["cy"] for pin in shapes(drawing, "circle", "seen") + shapes(drawing, "circle", "now")]
    assert len(heights) == KEYS and len(shapes(drawing, "circle", "now")) == 4
    assert np.corrcoef(heights, played.row)[0, 1] > 0.9999
    assert len(shapes(pictures.scores(played.steps[0], played.row, WORDS), "circle", "seen")) == 0


def test_a_tile_on_the_chip_is_drawn_twice() -> None:
    played = play.play(Example.PADDED, 4, Mistake.NONE)
    drawing = pictures.load(played.steps[2], played.row, WORDS)
    count = {style: len(shapes(drawing, "rect", style)) for style in ("masked", "seen", "now", "later")}
    assert count == {"masked": 16, "seen": 0, "now": 16, "later": 8}


def test_rescaled_bars_are_shorter_by_the_correction() -> None:
    step = play.play(Example.LATE_PEAK, 4, Mistake.NONE).steps[1]
    drawing = pictures.rescale(step, WORDS)
    old, new = shapes(drawing, "rect", "was"), shapes(drawing, "rect", "now")
    assert new[0]["height"] / old[0]["height"] == pytest.approx(float(step.correction), abs=2e-3)
    step = play.play(Example.LATE_PEAK, 4, Mistake.KEEP_OUTPUT).steps[1]
    drawing = pictures.rescale(step, WORDS)
    old, new = shapes(drawing, "rect", "was"), shapes(drawing, "rect", "now")
    assert new[0]["height"] < old[0]["height"] and [b["height"] for b in new[1:]] == [b["height"] for b in old[1:]]


def test_bars_end_in_their_rings_unless_wrong() -> None:
    step = play.play(Example.NORMAL, 4, Mistake.NONE).steps[-1]
    drawing = pictures.stand(step, WORDS)
    for bar, ring in zip(shapes(drawing, "rect", "now"), shapes(drawing, "circle", "ring"), strict=True):
        assert min(abs(ring["cy"] - bar["y"]), abs(ring["cy"] - bar["y"] - bar["height"])) < 0.2
    wrong = pictures.stand(play.play(Example.NORMAL, 4, Mistake.KEEP_OUTPUT).steps[-1], WORDS)
    assert len(shapes(wrong, "rect", "off")) == 4 and not shapes(wrong, "rect", "now")


def test_nan_is_said_where_a_bar_would_be() -> None:
    step = play.play(Example.PADDED, 4, Mistake.NO_GUARD).steps[-1]
    assert pictures.stand(step, WORDS).count(">NaN</text>") == 4


def test_words_of_drawings_are_escaped() -> None:
    played = play.play(Example.NORMAL, 4, Mistake.NONE)
    drawing = pictures.add(played.steps[0], Words("<b>", "a & b"))
    assert "&lt;b&gt;</title>" in drawing and "a &amp; b</desc>" in drawing


def test_code_is_marked_where_the_mistake_is() -> None:
    assert not any(line.wrong for panel in snippets.PANELS for line in snippets.lines(panel))
    for mistake in set(Mistake) - {Mistake.NONE}:
        marked = {panel for panel in snippets.PANELS if any(line.wrong for line in snippets.lines(panel, mistake))}
        assert marked and marked == snippets.touched(mistake)


class Page(HTMLParser):
    """Tags with their attributes; every tag must be closed in its place."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "link", "input"}:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(theatre_kit.app())


@pytest.mark.parametrize("example", Example)
def test_every_play_is_a_sound_page(client: TestClient, example: Example) -> None:
    for mistake in Mistake:
        for tile in (7, 16):  # three steps, the last of two keys, and one step
            response = client.get(f"/theatre?data={example}&tile={tile}&mistake={mistake}&step=2")
            assert response.status_code == 200
            page = Page(response.text)
            ids = Counter(a["id"] for _, a in page.tags if "id" in a)
            assert max(ids.values()) == 1
            assert not [a for _, a in page.tags if "style" in a or any(name.startswith("on") for name in a)]
            assert all(script == {"type": "module", "src": "/static/theatre.js"} for script in page.all("script"))
            shown = [a for a in page.all("section") if a.get("class") == "step" and "hidden" not in a]
            assert [a["data-step"] for a in shown] == [str(min(2, -(-KEYS // tile)))]
            assert len(page.all("svg")) == 6 * -(-KEYS // tile) + 1


def test_the_longest_page_is_bounded(client: TestClient) -> None:
    response = client.get("/theatre?data=large&tile=1&mistake=no_max")
    assert Page(response.text).all("svg") and len(response.content) < 300_000


def test_steps_are_linked_both_ways_and_end(client: TestClient) -> None:
    def moves(step: int) -> list[tuple[str | None, bool]]:
        links = Page(client.get(f"/theatre?data=causal&tile=4&step={step}&mistake=keep_l").text).all("a")
        return [(a["href"], "aria-disabled" in a) for a in links if a.get("class") == "move"]

    address = "?data=causal&tile=4&mistake=keep_l&step={}#player".format
    assert moves(1) == [(address(1), True), (address(2), False)]
    assert moves(2) == [(address(1), False), (address(3), False)]
    assert moves(4) == [(address(3), False), (address(4), True)]


def test_a_bad_address_is_answered_with_what_was_wrong(client: TestClient) -> None:
    response = client.get("/theatre", params={"data": "<script>", "step": "x"})
    assert response.status_code == 400
    assert "no scores by the name “&lt;script&gt;”" in response.text and "“x” is no number of a step" in response.text
    assert "<script>" not in response.text and 'class="panels"' in response.text


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("?data=late_peak", "that is rounding, nothing else"),
        ("?data=equal&mistake=keep_o", "a test with such data would pass"),
        ("?data=padded&mistake=no_guard", "the result ends NaN away from softmax"),
    ],
)
def test_the_page_says_how_far_off_it_ends(client: TestClient, address: str, words: str) -> None:
    assert words in client.get("/theatre" + address).text
