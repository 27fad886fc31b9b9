"""What the wrong elements of a tensor have in common, in a few words, and only where it is plain.

Everything that is said holds for every element: "all of" where what is described is wrong and nothing else is, "only
in" where nothing outside of it is wrong. Nothing is said where the wrong elements follow none of these orders:

    box       on every axis some indices, wrong in all their combinations: one, a run of them, or every n-th
    rows      whole rows, numbered over all leading axes together: a run of them, or every n-th
    elements  a run of elements in the order of memory, up to the end, or from the start
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

_LONGEST_PERIOD = 128
_LEAST_PERIODS = 2  # that must be seen
_LENGTH, _DIMENSION = re.compile(r".*_len(_\w+)?"), re.compile(r"(.*_)?dim")


def describe(wrong: np.ndarray, axes: Sequence[str]) -> str:
    """Words for where `wrong` is true, as "all of head 3, dims from 64 on"; "" where there is no plain order. `axes`
    names its dimensions as problem.yaml does."""
    count = int(wrong.sum())
    if count == wrong.size:
        return "every element"
    if count <= 1:
        return "a single element" if count else ""
    names = [axis_name(axis, i) for i, axis in enumerate(axes)]
    touched = [_touched(wrong, axis) for axis in range(wrong.ndim)]
    said = [_indices(name, mask) for name, mask in zip(names, touched, strict=True) if not mask.all()]
    if count == math.prod(int(mask.sum()) for mask in touched) and all(said):
        return _all_of(", ".join(said))
    return _rows(wrong, names) or _elements(wrong) or (f"only in {', '.join(filter(None, said))}" if any(said) else "")


def axis_name(dimension: str, number: int) -> str:
    """What one index of a dimension is called: "head" for num_heads, "row" for rows, "position" for seq_len, "dim" for
    head_dim; "axis 1" for an expression."""
    if not dimension.isidentifier():
        return f"axis {number}"
    if _LENGTH.fullmatch(dimension):
        return "position"
    if _DIMENSION.fullmatch(dimension):
        return "dim"
    name = dimension.removeprefix("num_")
    return name[:-1] if len(name) > 2 and name.endswith("s") and not name.endswith("ss") else name


def _touched(wrong: np.ndarray, axis: int) -> np.ndarray:
    """[extent]: at which indices of an axis anything is wrong."""
    return np.asarray(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != axis)))


def _indices(name: str, mask: np.ndarray) -> str:
    """The indices of one axis at which something is wrong; not all of them are. "" without order."""
    several = f"{name}:" if " " in name else f"{name}s"
    places = np.flatnonzero(mask)
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == len(places):
        run = f"from {first} on" if last == len(mask) - 1 else f"{first}..{last}"
        return f"{name} {first}" if first == last else f"{several} {run}"
    first, last, period = _repeated(mask)
    if not period:
        return ""
    if first == last:
        return f"every {_ordinal(period)} {name} from {first} on"
    return f"{several} {first}..{last} of every {period}"


def _repeated(mask: np.ndarray) -> tuple[int, int, int]:
    """(first, last, period) where the indices first..last of every `period` are true and no others; period 0 without
    such an order."""
    for period in range(2, min(_LONGEST_PERIOD, len(mask) // _LEAST_PERIODS) + 1):
        if (mask[period:] == mask[:-period]).all():
            places = np.flatnonzero(mask[:period])
            consecutive = len(places) > 0 and places[-1] - places[0] + 1 == len(places)
            return (int(places[0]), int(places[-1]), period) if consecutive else (0, 0, 0)
    return 0, 0, 0


def _all_of(words: str) -> str:
    return words if words.startswith("every ") else f"all of {words}"


def _rows(wrong: np.ndarray, names: Sequence[str]) -> str:
    """Whole rows that are no box, since they are numbered over several axes."""
    rows = np.asarray(wrong.any(axis=-1))
    if wrong.ndim < 3 or not (wrong == rows[..., None]).all():
        return ""
    said = _indices("row", rows.reshape(-1))
    return f"{_all_of(said)}, counted over {' and '.join(names[:-1])} together" if said else ""


def _elements(wrong: np.ndarray) -> str:
    """The end or the beginning of the tensor."""
    places = np.flatnonzero(wrong)
    first, last = int(places[0]), int(places[-1])
    if wrong.ndim < 2 or last - first + 1 != len(places):
        return ""
    if last == wrong.size - 1:
        return f"all elements from number {first} on, as they lie in memory"
    return f"the first {last + 1} elements, as they lie in memory" if first == 0 else ""


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
