"""Findings about wrong outputs, in words: which elements, what was expected, and what they have in common.

Every sentence states what was seen; a guess at the cause is put as a question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.results import Finding
from harness.verdict import FindingKind

if TYPE_CHECKING:
    from harness.check import Errors

_SHOWN = 5
_FIGURES = ("A, the row's largest error over its rms", "B, the row's error norm", "C, the whole tensor's error norm")


def unwritten(name: str, absent: np.ndarray, count: int) -> Finding:
    """`count` elements that no thread wrote: where `absent` is true, or unknown where it is false throughout."""
    places = np.argwhere(absent)
    index = tuple(int(i) for i in places[0]) if len(places) else ()
    first = f", the first is {_element(name, index)}" if index else ""
    message = f"{_count(count, absent.size)} of {name} {'was' if count == 1 else 'were'} never written{first}"
    return Finding(FindingKind.UNWRITTEN_OUTPUT, message, tensor=name, index=index)


def mismatch(name: str, found: np.ndarray, expected: np.ndarray, errors: Errors, axes: tuple[str, ...]) -> Finding:
    """What is wrong with one output that was not accepted; `axes` names its dimensions."""
    wrong = ~(errors.distance <= errors.allowed)
    if wrong.any():
        head, shown = _count_line(name, found, expected, wrong), np.argwhere(wrong)[:_SHOWN]
    else:
        head, shown = _figure_line(name, errors), _largest_of_worst_row(errors)
    lines = [head, *(_line(name, found, expected, errors, tuple(index)) for index in shown)]
    if errors.limits.kind == "rows":
        lines.append(_worst_row_line(name, found.shape, errors))
    lines += hints(name, found, expected, wrong, axes)
    return Finding(FindingKind.MISMATCH, "\n".join(lines), tensor=name, index=tuple(int(i) for i in shown[0]))


def _count_line(name: str, found: np.ndarray, expected: np.ndarray, wrong: np.ndarray) -> str:
    nan = int(np.isnan(found).sum())
    infinite = int((np.isinf(found) & (found != expected)).sum())
    odd = [f"{nan} NaN"] * bool(nan) + [f"{infinite} infinite"] * bool(infinite)
    differ = "differs" if wrong.sum() == 1 else "differ"
    tail = f" ({', '.join(odd)})" if odd else ""
    return f"{_count(int(wrong.sum()), wrong.size)} of {name} {differ} from the float64 reference{tail}"


def _figure_line(name: str, errors: Errors) -> str:
    """Every element keeps to its limit and still a norm does not: precision was lost over many elements."""
    a, b = errors.per_row.max(axis=0)
    figures = zip(_FIGURES, (a, b, errors.total), errors.limits.abc, strict=True)
    broken = [f"{text} is {value:.1e}, limit {limit:.1e}" for text, value, limit in figures if not value <= limit]
    return (
        f"{name} is too far from the float64 reference as a whole, though each element alone is near: "
        f"{'; '.join(broken)}. The largest errors of the worst row:"
    )


def _largest_of_worst_row(errors: Errors) -> np.ndarray:
    shape = errors.distance.shape
    row = int(errors.row_ratios.argmax())
    width = shape[-1]
    order = np.argsort(-errors.distance.reshape(-1, width)[row])[:_SHOWN]
    return np.stack(np.unravel_index(row * width + order, shape), axis=1)


def _line(name: str, found: np.ndarray, expected: np.ndarray, errors: Errors, index: tuple[int, ...]) -> str:
    limit = np.broadcast_to(errors.allowed, found.shape)[index]
    return (
        f"  {_element(name, index)}: expected {expected[index]:.6g}, found {float(found[index]):.6g} "
        f"(error {errors.distance[index]:.1e}, limit {limit:.1e})"
    )


def _worst_row_line(name: str, shape: tuple[int, ...], errors: Errors) -> str:
    row = np.unravel_index(int(errors.row_ratios.argmax()), shape[:-1]) if len(shape) > 1 else ()
    place = ", ".join([*(str(int(i)) for i in row), ":"])
    return f"  worst row: {name}[{place}], {errors.row_ratios.max():.3g} times its limit"


def hints(name: str, found: np.ndarray, expected: np.ndarray, wrong: np.ndarray, axes: tuple[str, ...]) -> list[str]:
    """What the wrong elements have in common, where they have something."""
    lines = [*_nan_hint(found, expected), *_constant_hint(name, found, expected)]
    return [f"  note: {line}" for line in lines + _axis_hints(wrong, axes)]


def _nan_hint(found: np.ndarray, expected: np.ndarray) -> list[str]:
    """NaN exactly where nothing is to be averaged."""
    nan = np.isnan(found)
    nothing = (expected == 0) | np.isinf(expected)
    if nan.any() and bool((nan <= nothing).all()):
        where = "every NaN stands where there is nothing to average (expected 0 or -inf)"
        return [f"{where}; is 0 / 0 or -inf - -inf computed there?"]
    return []


def _constant_hint(name: str, found: np.ndarray, expected: np.ndarray) -> list[str]:
    if expected.any() and not found.any():
        return [f"every element of {name} is 0"]
    finite = np.isfinite(found) & np.isfinite(expected)
    f, x = found[finite].astype(np.float64), expected[finite]
    if f.size < 2 * _SHOWN or not x.any():
        return []
    factor = float(f @ x / (x @ x))
    rest = np.linalg.norm(f - factor * x)
    if abs(factor - 1) > 0.01 and abs(factor) > 1e-3 and rest <= 1e-3 * np.linalg.norm(f):
        what = f"{name} is about {factor:.4g} times what it should be throughout"
        return [f"{what}; is a factor missing or applied twice?"]
    return []


def _axis_hints(wrong: np.ndarray, axes: tuple[str, ...]) -> list[str]:
    """For each axis on which only some indices have wrong elements, and in some order: which."""
    if not wrong.any():
        return []
    lines = []
    for axis, label in enumerate(axes):
        bad = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != axis)))
        where = _ranges(bad)
        if where and len(bad) < wrong.shape[axis]:
            lines.append(f"on the axis {label} of {wrong.shape[axis]}, wrong only at {where}")
    return lines


def _ranges(indices: np.ndarray) -> str:
    """Runs of consecutive indices, "0, 3..7, 9"; or an even stride, "0, 2, ..., 62"; empty where there is no order."""
    steps = np.diff(indices)
    runs = np.split(indices, np.flatnonzero(steps > 1) + 1)
    if len(runs) <= _SHOWN:
        return ", ".join(str(int(r[0])) if len(r) == 1 else f"{int(r[0])}..{int(r[-1])}" for r in runs)
    if (steps == steps[0]).all():
        return f"{int(indices[0])}, {int(indices[1])}, ..., {int(indices[-1])}"
    return ""


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(str(int(i)) for i in index)}]"


def _count(count: int, total: int) -> str:
    return f"{count:,} of {total:,} elements"
