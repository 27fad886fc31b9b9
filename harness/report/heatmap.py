"""Where an output is wrong, as a picture: the tensor as a table of cells, coloured by how far off the worst element is.

Classes of the cells, whose colours are the page's: heat-within, heat-near (up to 10 times the limit), heat-far (up to
1000 times), heat-beyond, heat-nan, heat-unwritten.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from harness.patterns import axis_name
from harness.report import svg
from harness.results import MAP_CELLS, MismatchMap

_WIDTH = 380.0
_TALLEST, _WIDEST = 14.0, 24.0  # of a cell
_HIGHEST = 288.0  # of all cells
_TOP, _LINE = 23.0, 17.0  # space above the cells; of a line of words
_LETTER = 12 * svg.CHARACTER
_APART = 15.0, 32.0  # of the numbers beside the rows, and below the columns
_TIMES = "\N{MULTIPLICATION SIGN}"
_STYLES = dict(zip(MAP_CELLS, ("within", "near", "far", "beyond", "nan", "unwritten"), strict=True))
_WORDS = dict(zip(MAP_CELLS, (
    "within the limit", f"up to 10 {_TIMES} the limit", f"up to 1000 {_TIMES} the limit",
    f"over 1000 {_TIMES} the limit", "NaN or infinite", "never written",
), strict=True))  # fmt: skip


def draw(name: str, cells: MismatchMap) -> Markup:
    """The picture, as SVG of the class "chart compact"; `name` is unique in the page."""
    rows, columns = len(cells.cells), len(cells.column_starts)
    labels = [_label(cells, start) for start in cells.row_starts]
    left = min(max(map(len, labels)) * _LETTER + 8, _WIDTH / 2) if labels[-1] else 4.0
    across, down = min(_WIDEST, (_WIDTH - left - 2) / columns), min(_TALLEST, _HIGHEST / rows)
    scale = left, _TOP, across, down
    bottom = _TOP + rows * down
    legend = list(_legend(cells, bottom + 3 * _LINE))
    parts = [
        *_cells(cells, scale), *_gaps(cells, scale), svg.text(2, _TOP - 9, _leading(cells), "tick"),
        *_row_numbers(cells, labels, scale), *_column_numbers(cells, scale, bottom + 13),
        svg.text(left, bottom + 13 + _LINE, f"{_axis(cells, -1)} \N{RIGHTWARDS ARROW}", "tick"), *legend,
    ]  # fmt: skip
    height = bottom + (3 + (len(legend) // 2 + 1) // 2) * _LINE
    return svg.picture(name, f"Where {cells.tensor} is wrong", caption(cells), (_WIDTH, height), parts, "chart compact")


def caption(cells: MismatchMap) -> str:
    """The picture in words: which elements are wrong, where that is plain, and what a cell is."""
    shape = " \N{MULTIPLICATION SIGN} ".join(map(str, cells.shape))
    wrong = f", wrong: {cells.pattern}" if cells.pattern else ""
    smaller = {"row": "element", "tensor": "row"}.get(cells.limit_of)
    share = f" Each {smaller} alone is near; errors are set against an element's share of the {cells.limit_of}'s limit."
    return f"{cells.tensor} [{shape}]{wrong}. {_cell(cells)}{share * bool(smaller)}"


def _cell(cells: MismatchMap) -> str:
    rows, columns = (max(b - a for a, b in itertools.pairwise([*starts, end])) for starts, end in (
        (cells.row_starts, math.prod(cells.shape[:-1])), (cells.column_starts, cells.shape[-1])))  # fmt: skip
    if rows == columns == 1:
        return "Each cell is an element."
    return f"Each cell is the worst of up to {rows} \N{MULTIPLICATION SIGN} {columns} elements."


def _cells(cells: MismatchMap, scale: tuple[float, float, float, float]) -> Iterator[Markup]:
    """One outline for all cells of a kind."""
    for kind in MAP_CELLS:
        outline = "".join(
            f"M{start} {y}h{length}v1h-{length}z"
            for y, row in enumerate(cells.cells)
            for start, length in _runs(row, kind)
        )
        if outline:
            yield svg.path(outline, f"heat heat-{_STYLES[kind]}", scale)


def _runs(row: str, kind: str) -> Iterator[tuple[int, int]]:
    """Start and length of each run of a character."""
    start = 0
    for character, run in itertools.groupby(row):
        length = len(list(run))
        if character == kind:
            yield start, length
        start += length


def _gaps(cells: MismatchMap, scale: tuple[float, float, float, float]) -> Iterator[Markup]:
    """Lines between the indices of the outermost axis, where further axes are within."""
    left, top, across, down = scale
    right = left + across * len(cells.column_starts)
    for row in _group_starts(cells)[1:]:
        if len(_group_starts(cells)) < len(cells.row_starts):
            yield svg.line(left, top + row * down, right, top + row * down, "heat-gap")


def _group_starts(cells: MismatchMap) -> list[int]:
    """Rows of cells at which the index of the outermost axis that has several changes; the first among them."""
    outer = next((i for i, extent in enumerate(cells.shape[:-1]) if extent > 1), 0)
    inner = math.prod(cells.shape[outer + 1 : -1])
    return [row for row, start in enumerate(cells.row_starts) if start % inner == 0]


def _row_numbers(
    cells: MismatchMap, labels: Sequence[str], scale: tuple[float, float, float, float]
) -> Iterator[Markup]:
    """As many as have room, those of the outermost axis first."""
    left, top, _, down = scale
    step = _step(_APART[0] / down)
    groups = _group_starts(cells)
    between = [range(a, b, step) for a, b in itertools.pairwise([*groups, len(labels)])]
    chosen: list[int] = []
    for row in itertools.chain(groups, *between):
        if all(abs(row - other) * down >= _APART[0] for other in chosen):
            chosen.append(row)
    for row in chosen if labels[-1] else ():
        yield svg.text(left - 5, top + row * down + min(down, 10) / 2 + 4, labels[row], "tick", "end")


def _column_numbers(cells: MismatchMap, scale: tuple[float, float, float, float], y: float) -> Iterator[Markup]:
    left, _, across, _ = scale
    step = _step(_APART[1] / across)
    for column in range(0, len(cells.column_starts), step):
        yield svg.text(left + (column + 0.5) * across, y, str(cells.column_starts[column]), "tick", "middle")


def _step(least: float) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(0, math.ceil(math.log2(least)))


def _label(cells: MismatchMap, row: int) -> str:
    """The indices of a row on the leading axes; those with a single index are left out."""
    indices = []
    for extent in reversed(cells.shape[:-1]):
        row, index = divmod(row, extent)
        indices += [str(index)] * (extent > 1)
    return ", ".join(reversed(indices))


def _leading(cells: MismatchMap) -> str:
    return ", ".join(_axis(cells, axis) for axis, extent in enumerate(cells.shape[:-1]) if extent > 1)


def _axis(cells: MismatchMap, axis: int) -> str:
    return axis_name(cells.axes[axis], axis % len(cells.axes))


def _legend(cells: MismatchMap, y: float) -> Iterator[Markup]:
    """A swatch and words for each kind of cell that there is, in two columns."""
    kinds = [kind for kind in MAP_CELLS if any(kind in row for row in cells.cells)]
    for i, kind in enumerate(kinds):
        x, line = 2 + (i % 2) * _WIDTH / 2, y + (i // 2) * _LINE
        yield svg.path("M0 0h1v1h-1z", f"heat heat-{_STYLES[kind]}", (x, line - 10, 12, 12))
        yield svg.text(x + 18, line, _WORDS[kind], "tick")
