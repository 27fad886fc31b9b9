"""The two threads of a finding in their block: which places are marked, and when nothing can be said."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from harness import problem as problems
from harness import submission
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.report import html, positions
from harness.results import Access, CaseResult, Finding, LaunchShape
from harness.verdict import FindingKind, Verdict
from tests import sample_reports as samples

_SVG = "{http://www.w3.org/2000/svg}"
_KERNEL = "attend<128>(const float*, float*)"
OTHER = Access(5, (0, 0, 0), (2, 0, 0), True)
RACE = Finding(
    FindingKind.DATA_RACE, "Two threads touch it.", "my.cu", 4, "tile", (1,), (0, 0, 0), (63, 0, 0), OTHER, _KERNEL,
)  # fmt: skip


def _launch(block: tuple[int, int, int], kernel: str = "_Z6attendILi128EEvPKfPf") -> LaunchShape:
    return LaunchShape(kernel, (4, 4, 1), block)


def _drawn(finding: Finding, *launches: LaunchShape) -> ElementTree.Element:
    text = str(positions.draw("threads", finding, launches))
    return ElementTree.fromstring(text.replace("<svg ", f'<svg xmlns="{_SVG[1:-1]}" ', 1))


def _marked(picture: ElementTree.Element, style: str) -> list[tuple[float, str]]:
    """Lane and warp of each marked thread, read off the words beside it."""
    names = {float(t.attrib["y"]): t.text or "" for t in picture.iter(f"{_SVG}text") if (t.text or "").startswith("warp")}
    found = []
    for box in picture.iter(f"{_SVG}rect"):
        if box.attrib["class"] == style:
            (name,) = (name for y, name in names.items() if y == float(box.attrib["y"]) + 10)
            found.append(((float(box.attrib["x"]) - 56) / 10, name))
    return found


def _words(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{_SVG}text")]


def test_both_threads_are_marked_at_their_warp_and_lane() -> None:
    picture = _drawn(RACE, _launch((128, 1, 1)))
    assert _marked(picture, "thread-one") == [(31, "warp 1")]
    assert _marked(picture, "thread-two") == [(2, "warp 0")]
    assert [word for word in _words(picture) if word.startswith("warp")] == [f"warp {i}" for i in range(4)]
    assert picture.findtext(f"{_SVG}desc") == (
        "1: thread (63, 0, 0) of block (0, 0, 0), lane 31 of warp 1, is here at line 4. 2: thread (2, 0, 0) of block "
        "(0, 0, 0), lane 2 of warp 0, wrote at line 5. A line is a warp; the block has 128 threads in 4 warps."
    )


def test_threads_of_a_block_with_three_axes_are_numbered_as_cuda_does() -> None:
    finding = replace(RACE, thread=(7, 1, 2), other=replace(OTHER, thread=(0, 0, 1)))
    picture = _drawn(finding, _launch((8, 3, 4)))
    assert _marked(picture, "thread-one") == [(31, "warp 1")]  # 7 + 8 * (1 + 3 * 2) = 63
    assert _marked(picture, "thread-two") == [(24, "warp 0")]


def test_the_last_warp_has_no_more_lanes_than_threads() -> None:
    picture = _drawn(RACE, _launch((72, 1, 1)))
    assert [float(box.attrib["width"]) for box in picture.iter(f"{_SVG}rect") if box.attrib["class"] == "threads"] == [
        320, 320, 80,
    ]  # fmt: skip


def test_two_blocks_are_drawn_where_the_threads_are_in_two() -> None:
    picture = _drawn(replace(RACE, other=replace(OTHER, block=(3, 1, 0))), _launch((64, 1, 1)))
    assert [word for word in _words(picture) if word.startswith("block")] == ["block (0, 0, 0)", "block (3, 1, 0)"]
    assert len(_marked(picture, "thread-one")) == len(_marked(picture, "thread-two")) == 1


def test_of_a_large_block_the_warps_near_the_two_are_drawn() -> None:
    finding = replace(RACE, thread=(1023, 0, 0), other=replace(OTHER, thread=(500, 0, 0)))
    words = _words(_drawn(finding, _launch((1024, 1, 1))))
    shown = [0, 14, 15, 16, 30, 31]
    assert [word for word in words if word.startswith("warp")] == [f"warp {i}" for i in shown]
    assert words.count("\N{MIDLINE HORIZONTAL ELLIPSIS}") == 2


def test_a_missing_thread_is_marked_as_missing() -> None:
    missing = Access(9, (0, 0, 0), (16, 0, 0), missing=True)
    waits = replace(RACE, kind=FindingKind.BARRIER_DIVERGENCE, other=missing)
    picture = _drawn(waits, _launch((64, 1, 1)))
    assert _marked(picture, "thread-missing") == [(16, "warp 0")] and not _marked(picture, "thread-two")
    assert "waits at line 4. 2: " in positions.caption(waits, [_launch((64, 1, 1))])
    assert "is missing, last seen at line 9." in positions.caption(waits, [_launch((64, 1, 1))])
    alone = replace(waits, thread=None, other=replace(missing, line=0))
    picture = _drawn(alone, _launch((64, 1, 1)))
    assert _marked(picture, "thread-missing") == [(16, "warp 0")] and not _marked(picture, "thread-one")
    assert positions.caption(alone, [_launch((64, 1, 1))]).startswith(
        "2: thread (16, 0, 0) of block (0, 0, 0), lane 16 of warp 0, is missing. "
    )


@pytest.mark.parametrize(
    ("launches", "threads"),
    [
        ([_launch((64, 1, 1)), _launch((256, 1, 1), "_Z5mergePKf")], 64),  # that of the kernel by its name
        ([_launch((64, 1, 1)), _launch((256, 1, 1), "_Z16attend_in_splitsPKf")], 64),
        ([_launch((32, 1, 1)), _launch((64, 1, 1))], 64),  # in the other, thread 63 is not
        ([_launch((96, 1, 1)), _launch((96, 1, 1))], 96),
        ([_launch((96, 1, 1), "something_else")], 96),
        ([_launch((64, 1, 1)), _launch((128, 1, 1))], 0),  # either may be the one
        ([_launch((32, 1, 1))], 0),
        ([], 0),
    ],
)
def test_the_blocks_extents_are_those_of_the_launch_it_must_be_of(launches: list[LaunchShape], threads: int) -> None:
    assert bool(positions.draw("threads", RACE, launches)) == bool(threads)
    assert f"the block has {threads} threads" in positions.caption(RACE, launches) or not threads


@pytest.mark.parametrize(
    "finding",
    [
        replace(RACE, other=None), replace(RACE, other=replace(OTHER, thread=None)), replace(RACE, block=None),
        replace(RACE, thread=None),
    ],
)  # fmt: skip
def test_without_two_places_there_is_no_picture(finding: Finding) -> None:
    launches = [_launch((64, 1, 1))]
    assert (positions.draw("threads", finding, launches), positions.caption(finding, launches)) == ("", "")


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize(
    ("path", "one", "two", "style"),
    [
        ("split_k_merge/missing_sync", "(63, 0, 0)", "(0, 0, 0)", "thread-two"),
        ("general/divergent_barrier", "(0, 0, 0)", "(16, 0, 0)", "thread-missing"),
    ],
)
def test_real_findings_are_drawn_on_the_page(path: str, one: str, two: str, style: str) -> None:
    loaded = submission.load(problems.ROOT.parent / "tests" / "submissions" / f"{path}.cu")
    options = Options(device="cpu", cases="two_splits", seed=7, resource_seconds=0)
    *_, last = judge(problems.load("split_k_merge"), loaded, options)
    assert isinstance(last, Finished)
    page = html.render(last.report, loaded.text, "", "now")
    assert f"two_splits: 1: thread {one} of block (0, 0, 0)" in page and f"2: thread {two} of block" in page
    assert page.count(f'class="{style}"') == 1


def test_one_place_is_shown_once_on_a_page() -> None:
    case = CaseResult("one", Verdict.DATA_RACE, (), (RACE, replace(RACE, tensor="other")), launches=(_launch((64, 1, 1)),))
    page = html.render(samples.measured(cases=(case,)), samples.SOURCE, "", "now")
    assert page.count("<figcaption") - page.count('class="muted">What') - page.count('class="muted">Share') == 1
