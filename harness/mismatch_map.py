"""A wrong output in at most 64 x 64 cells, each by its worst element: few enough to keep, enough to show an order.

The tensor is a table: a row for each combination of the leading axes, a column for each index of the last one. Cells
are runs of rows and of columns. As many leading axes as fit have a cell for each index; the next one is cut into runs
of equal length, and further axes lie within a cell, so that no cell reaches from one head, say, into the next.

An element's error is set against the limit that the output broke (harness/check.py): against its own where elements
are wrong one by one; where only norms of rows are too large, against LB times the rms of its row, since a row that
breaks LB must have an element beyond that; and else against LC times the rms of the tensor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from harness.patterns import describe
from harness.results import MAP_CELLS, MismatchMap

if TYPE_CHECKING:
    from harness.check import Errors

_MOST = 64  # cells along a side
_STEPS = (1.0, 10.0, 1000.0)  # of error over limit; beyond the last is the fourth of MAP_CELLS
_NOT_FINITE, _NEVER_WRITTEN = 4, 5  # places in MAP_CELLS


def draw(
    name: str, found: np.ndarray, expected: np.ndarray, errors: Errors, absent: np.ndarray, axes: tuple[str, ...]
) -> MismatchMap:
    """The map of one output that was not accepted. `errors` are those of `found`, where elements that were never
    written (`absent`) hold what is expected."""
    limit_of, allowed = _allowed(errors, expected)
    levels = np.zeros(found.shape, np.uint8)
    for step in _STEPS:
        levels += errors.distance > step * allowed
    levels[np.isinf(errors.distance) & ~np.isfinite(found)] = _NOT_FINITE
    levels[absent] = _NEVER_WRITTEN
    rows, columns = row_starts(found.shape[:-1]), _starts(found.shape[-1], _MOST)
    table = np.maximum.reduceat(levels.reshape(-1, found.shape[-1]), rows, axis=0)
    cells = np.maximum.reduceat(table, columns, axis=1)
    return MismatchMap(
        name, axes, found.shape, limit_of, rows, columns, tuple("".join(MAP_CELLS[i] for i in row) for row in cells),
        _pattern(errors, limit_of, levels, axes),
    )  # fmt: skip


def _allowed(errors: Errors, expected: np.ndarray) -> tuple[str, np.ndarray]:
    """Whose limit was broken, "element", "row" or "tensor", and what it leaves to each element."""
    one_by_one = errors.limits.kind == "elements" or not (errors.distance <= errors.allowed).all()
    if one_by_one or errors.ratio <= 1:  # or nothing but never written
        return "element", errors.allowed
    la, lb, lc = errors.limits.abc
    if (errors.row_ratios > 1).any():
        return "row", errors.allowed * (lb / la)
    return "tensor", np.asarray(lc * np.sqrt(np.square(expected).mean()))


def _pattern(errors: Errors, limit_of: str, levels: np.ndarray, axes: tuple[str, ...]) -> str:
    """What is wrong has in common; of a row that is too far off as a whole, all of it is."""
    if limit_of == "tensor":
        return ""
    wrong = levels > 0
    if limit_of == "row":
        broken = (errors.row_ratios > 1).reshape(*levels.shape[:-1], 1)
        wrong = np.broadcast_to(broken, levels.shape) | (levels == _NEVER_WRITTEN)
    return describe(wrong, axes)


def row_starts(leading: tuple[int, ...]) -> tuple[int, ...]:
    """The first row of each row of cells, of a table whose rows are numbered over these extents."""
    exact = 1
    for axis, extent in enumerate(leading):
        if exact * extent > _MOST:
            inner = math.prod(leading[axis + 1 :])
            starts = _starts(extent, _MOST // exact)
            return tuple((outer * extent + start) * inner for outer in range(exact) for start in starts)
        exact *= extent
    return tuple(range(exact))


def _starts(extent: int, most: int) -> tuple[int, ...]:
    """At most so many runs of equal length, the last perhaps shorter."""
    return tuple(range(0, extent, -(-extent // most)))
