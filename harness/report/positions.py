"""Where the two threads of a finding stand in their block, as a picture: a line of 32 for each warp, the two marked.

    1   the thread that the finding is about
    2   the other side of a race, or a thread that a barrier or a shuffle waits for (hollow)

Classes, whose colours are the page's: threads, thread-gap, thread-one, thread-two, thread-missing, thread-number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.report import svg
from harness.report.request_words import plural
from harness.results import Finding, LaunchShape

_WARP = 32
_WIDTH, _LEFT = 380.0, 56.0
_LANE, _ROW = 10.0, 13.0  # width and height of a thread
_HEAD, _APART = 36.0, 14.0  # above a block's warps, and between two blocks
_ALL_SHOWN = 8  # warps; of more than these, those near the two threads
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?=\s*(?:<.*>)?\s*(?:\(.*\))?$)")

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class _Mark:
    """A thread that is marked, in a block of these extents."""

    number: str
    block: Index3
    thread: Index3
    extents: Index3
    style: str

    @property
    def linear(self) -> int:
        x, y, z = self.thread
        return x + self.extents[0] * (y + self.extents[1] * z)

    @property
    def warp(self) -> int:
        return self.linear // _WARP

    @property
    def lane(self) -> int:
        return self.linear % _WARP


def draw(name: str, finding: Finding, launches: Sequence[LaunchShape]) -> Markup:
    """The picture, as SVG of the class "chart compact"; nothing where the finding has no other side that is known, or
    where the launches of its case leave open how large its block was. `name` is unique in the page."""
    marks = _marks(finding, launches)
    if not marks:
        return Markup()
    parts: list[Markup] = []
    y = 0.0
    for block in dict.fromkeys(mark.block for mark in marks):
        drawn, height = _block(block, [mark for mark in marks if mark.block == block], y)
        parts += drawn
        y += height + _APART
    title = "The two threads in their block" if len(marks) > 1 else "The missing thread in its block"
    return svg.picture(name, title, caption(finding, launches), (_WIDTH, y - _APART), parts, "chart compact")


def caption(finding: Finding, launches: Sequence[LaunchShape]) -> str:
    """The picture in words; "" where there is none."""
    marks = _marks(finding, launches)
    if not marks:
        return ""
    threads = math.prod(marks[0].extents)
    said = [_words(mark, finding) for mark in marks]
    size = f"{plural(threads, 'thread')} in {plural(-(-threads // _WARP), 'warp')}"
    return f"{' '.join(said)} A line is a warp; the block has {size}."


def _words(mark: _Mark, finding: Finding) -> str:
    other = finding.other
    assert other is not None
    line = finding.line if mark.number == "1" else other.line
    at = f" at line {line}" if line else ""
    if mark.number == "1":
        what = "waits" if other.missing else "is here"
    else:
        what = "is missing, last seen" if other.missing else "wrote" if other.write else "read"
        what = "is missing" if other.missing and not line else what
    where = f"thread {mark.thread} of block {mark.block}, lane {mark.lane} of warp {mark.warp}"
    return f"{mark.number}: {where}, {what}{at}."


def _marks(finding: Finding, launches: Sequence[LaunchShape]) -> list[_Mark]:
    other, block = finding.other, finding.block
    if other is None or other.thread is None or block is None:
        return []
    extents = _extents(finding, launches)
    if extents is None or (finding.thread is None and not other.missing):
        return []
    one = [_Mark("1", block, finding.thread, extents, "thread-one")] if finding.thread else []
    style = "thread-missing" if other.missing else "thread-two"
    return [*one, _Mark("2", other.block or block, other.thread, extents, style)]


def _extents(finding: Finding, launches: Sequence[LaunchShape]) -> Index3 | None:
    """Of the block, if all launches that the finding can be of agree on it."""
    other = finding.other
    threads = [finding.thread, other.thread if other else None]
    blocks = [finding.block, other.block if other else None]
    fitting = [shape for shape in launches if _within(threads, shape.block) and _within(blocks, shape.grid)]
    found = _IDENTIFIER.search(finding.kernel)
    mangled = re.compile(rf"(?<!\d){len(found[0])}{found[0]}" if found else "$^")
    own = [shape for shape in fitting if mangled.search(shape.kernel) or shape.kernel == finding.kernel]
    extents = {shape.block for shape in own or fitting}
    return extents.pop() if len(extents) == 1 else None


def _within(indices: Sequence[Index3 | None], extents: Index3) -> bool:
    return all(i < extent for index in indices if index for i, extent in zip(index, extents, strict=True))


def _block(block: Index3, marks: Sequence[_Mark], top: float) -> tuple[list[Markup], float]:
    """One block with its marked threads, and its height."""
    extents = marks[0].extents
    threads = math.prod(extents)
    rows = _shown(-(-threads // _WARP), [mark.warp for mark in marks])
    heights = [top + _HEAD + i * _ROW for i in range(len(rows) + 1)]
    parts = [svg.text(_LEFT, top + 13, f"block {block}", "label"), *_lanes(top + _HEAD - 5)]
    lines = list(zip(rows, heights, strict=False))
    parts += [_threads(min(_WARP, threads - warp * _WARP), y) for warp, y in lines if warp is not None]
    parts += [_gap(_LEFT + lane * _LANE, heights) for lane in range(1, min(_WARP, threads))]
    parts += [_name(warp, y) for warp, y in lines]
    for mark in marks:
        parts += _marked(mark, heights[rows.index(mark.warp)])
    return parts, heights[-1] - top + 4


def _shown(warps: int, marked: Sequence[int]) -> list[int | None]:
    """The warps that are drawn; None for those left out between two of them."""
    near = {warp + i for warp in marked for i in (-1, 0, 1)} | {0, warps - 1}
    shown = [warp for warp in range(warps) if warps <= _ALL_SHOWN or warp in near]
    rows: list[int | None] = []
    for warp, after in zip(shown, [*shown[1:], warps], strict=True):
        rows += [warp] if after == warp + 1 else [warp, None]
    return rows


def _lanes(y: float) -> Iterator[Markup]:
    yield svg.text(_LEFT - 5, y, "lane", "tick", "end")
    for lane in (0, 8, 16, 24, 31):
        yield svg.text(_LEFT + (lane + 0.5) * _LANE, y, str(lane), "tick", "middle")


def _threads(count: int, y: float) -> Markup:
    return svg.rectangle(_LEFT, y + 1, count * _LANE, _ROW - 2, "threads")


def _gap(x: float, heights: Sequence[float]) -> Markup:
    """Between two lanes, through all warps."""
    return svg.line(x, heights[0], x, heights[-1], "thread-gap")


def _name(warp: int | None, y: float) -> Markup:
    if warp is None:
        return svg.text(_LEFT + 2, y + _ROW - 3, "\N{MIDLINE HORIZONTAL ELLIPSIS}", "tick")
    return svg.text(_LEFT - 5, y + _ROW - 3, f"warp {warp}", "tick", "end")


def _marked(mark: _Mark, y: float) -> Iterator[Markup]:
    x = _LEFT + mark.lane * _LANE
    yield svg.rectangle(x, y, _LANE, _ROW, mark.style)
    yield svg.text(x + _LANE / 2, y + _ROW - 3, mark.number, f"thread-number on-{mark.style}", "middle")
