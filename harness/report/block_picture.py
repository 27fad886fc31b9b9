"""A picture of a tensor as a grid of cells, coloured by the block that touched each, or by how many did.

Where blocks keep to parts of their own, each cell has its block's colour, and the few cells that several touched have a
dot. Where most cells are shared, as those of keys and values are, the colour says how many blocks touched a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from markupsafe import Markup

from harness.report import figures, svg
from harness.report.excerpt import printable
from harness.report.request_words import plural
from harness.traces import BlockMap

COLOURS = 8  # of blocks; they repeat
_STEPS = (1, 2, 4, 8, 16, 64)  # blocks a cell, from which on it has the next colour
_WIDTH = 480.0
_LEFT, _RIGHT, _TOP = 4.0, 476.0, 18.0
_MAX_CELL, _MIN_HEIGHT, _MOST_HEIGHT = 26.0, 5.0, 340.0
_CHIP = 11.0
_VERBS = {"read": ("reads", "read"), "write": ("writes", "written")}


def caption(m: BlockMap) -> str:
    """The picture in one or two sentences."""
    touched = [count for count in m.blocks if count]
    left = len(m.blocks) - len(touched)
    verb, done = _VERBS[m.operation]
    if not touched:
        return f"{title(m)}: not {done} at all."
    if max(touched) == 1:
        one = f"the only block {verb} it" if m.total == 1 else f"each part is {done} by one block alone"
    elif _shared(m):
        mean, most = sum(touched) / len(touched), max(touched)
        count = f"{figures.significant(mean)} blocks on average, by {most} at most" if mean < most else f"{most} blocks"
        one = f"{'each' if mean == most else 'a'} part is {done} by {count}"
    else:
        several = sum(count > 1 for count in touched)
        one = f"blocks keep to parts of their own but for {several} of {plural(len(touched), 'cell')}"
    rest = f"; {_part(left, len(m.blocks))} are not {done}" if left else ""
    return f"{title(m)}: {one}{rest}."


def title(m: BlockMap) -> str:
    """`out [4, 32, 128], written by 128 blocks of decode`. How many they are is known where none share a cell; of
    others the grid is named."""
    shape = f" {list(m.shape)}" if m.shape else ""
    alone = max(m.blocks, default=0) <= 1
    numbers = plural(len({number for number in m.first if number}), "block")
    who = f"{numbers} of {m.kernel}" if alone else f"{m.kernel}, a grid of {plural(m.total, 'block')}"
    return printable(f"{m.tensor}{shape}, {_VERBS[m.operation][1]} by {who}")


def _part(count: int, total: int) -> str:
    """12 % of the cells, and never all of them where a cell is left."""
    share = count / total
    return f"{'more than 99 %' if 0.99 < share < 1 else figures.percent(share)} of the cells"


def draw(m: BlockMap, name: str) -> Markup:
    """The picture as SVG. `name` is unique in the page."""
    width = min(_MAX_CELL, (_RIGHT - _LEFT) / m.columns)
    height = max(_MIN_HEIGHT, min(_MAX_CELL * 0.7, _MOST_HEIGHT / m.rows))
    parts = [svg.text(_LEFT, _TOP - 6, _axes(m), "tick")]
    for row in range(m.rows):
        parts += _row(m, row, name, width, height)
    y = _TOP + m.rows * height + 8
    parts.append(svg.rectangle(_LEFT, _TOP, m.columns * width, m.rows * height, "line-of-128"))
    legend, y = _legend(m, name, y)
    return svg.picture(name, title(m), caption(m), (_WIDTH, y), [*parts, *legend], "chart wide")


def _shared(m: BlockMap) -> bool:
    """Whether most of what was touched was touched by several blocks."""
    touched = [count for count in m.blocks if count]
    return 2 * sum(count > 1 for count in touched) > len(touched)


def _axes(m: BlockMap) -> str:
    rows = plural(m.cell_rows, "row")
    return f"down: {rows} a cell; across: {m.cell_bytes} of a row's {m.row_bytes} bytes a cell"


def _row(m: BlockMap, row: int, name: str, width: float, height: float) -> Iterator[Markup]:
    """Neighbours that look alike are one shape."""
    shared = _shared(m)
    start = row * m.columns
    cells = list(zip(m.first[start : start + m.columns], m.blocks[start : start + m.columns], strict=True))
    y, x = _TOP + row * height, _LEFT
    for (first, count), run in groupby(cells):
        length = len(list(run))
        if not count:
            yield svg.rectangle(x, y, length * width, height, "untouched", hatch=name)
        else:
            style = f"sharing-{_step(count)}" if shared else _colour(m, first - 1)
            lowest = m.block(first - 1)
            words = f"block {lowest}" if count == 1 else f"{count} blocks, the first is {lowest}"
            yield svg.rectangle(x, y, length * width, height, style, words)
            if count > 1 and not shared:
                for k in range(length):
                    yield svg.circle(x + (k + 0.5) * width, y + height / 2, min(2.5, height / 3), "several")
        x += length * width


def _colour(m: BlockMap, number: int) -> str:
    """Each block its own where there are few; of many, neighbours along any axis of the grid differ."""
    x, y, z = m.block(number)
    few = m.total <= COLOURS
    return f"block-{number if few else (x + 3 * y + 5 * z) % COLOURS}"


def _step(count: int) -> int:
    return sum(count >= step for step in _STEPS) - 1


def _legend(m: BlockMap, name: str, y: float) -> tuple[list[Markup], float]:
    """Chips with words, as many in a line as fit; and where the picture ends."""
    shared = _shared(m)
    counts = [count for count in m.blocks if count]
    if shared:
        entries = [(f"sharing-{k}", _span(k)) for k in sorted({_step(count) for count in counts})]
    else:
        numbers = sorted({first - 1 for first in m.first if first})
        entries = [(_colour(m, n), f"block {m.block(n)}") for n in numbers[:COLOURS]]
        entries += [("", f"and {len(numbers) - COLOURS} more, in the same colours")] * (len(numbers) > COLOURS)
        entries += [("several", "touched by several blocks")] * (max(counts, default=0) > 1)
    entries += [("untouched", "touched by no block")] * (len(counts) < len(m.blocks))
    parts: list[Markup] = []
    x = _LEFT
    for style, words in entries:
        room = _CHIP + 10 + len(words) * 12 * svg.CHARACTER
        if x > _LEFT and x + room > _WIDTH:
            x, y = _LEFT, y + 18
        parts += _chip(x, y, style, name)
        parts.append(svg.text(x + (_CHIP + 5 if style else 0), y + 10, words, "tick"))
        x += room
    return parts, y + 18


def _chip(x: float, y: float, style: str, name: str) -> list[Markup]:
    if style == "untouched":
        return [svg.rectangle(x, y, _CHIP, _CHIP, "untouched", hatch=name)]
    if style == "several":
        return [svg.rectangle(x, y, _CHIP, _CHIP, "unmoved"), svg.circle(x + _CHIP / 2, y + _CHIP / 2, 2.5, "several")]
    return [svg.rectangle(x, y, _CHIP, _CHIP, style)] if style else []


def _span(step: int) -> str:
    low = _STEPS[step]
    high = _STEPS[step + 1] - 1 if step + 1 < len(_STEPS) else 0
    words = f"{low} or more" if not high else figures.span(low, high)
    return f"{words} {'block' if high == 1 else 'blocks'}"
