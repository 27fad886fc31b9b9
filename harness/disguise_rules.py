"""What a Disguise (harness/disguise.py) must keep to, so that it can be undone without rounding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.disguise import Disguise

_MOST_AXES = 4  # that the device's code walks over
_FIELDS = ("gather", "scale", "replace")


@dataclass(frozen=True)
class Form:
    """What a tensor looks like; `given`: an input, which a disguise may replace."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    given: bool


def without(disguise: Any, names: Set[str]) -> Any:
    """What a reference returned, without these tensors; what is no disguise at all is left to `complaint`."""
    if isinstance(disguise, Disguise):
        return Disguise(**{name: _without(getattr(disguise, name), names) for name in _FIELDS})
    if isinstance(disguise, Mapping):
        return {field: _without(tensors, names) for field, tensors in disguise.items()}
    return disguise


def _without(tensors: Any, names: Set[str]) -> Any:
    return {n: v for n, v in tensors.items() if n not in names} if isinstance(tensors, Mapping) else tensors


def complaint(disguise: object, forms: Mapping[str, Form]) -> str:
    """The first thing that is wrong with what a reference returned, a Disguise or a dict of its fields; "" when
    nothing is. `forms`: all tensors of the problem."""
    if isinstance(disguise, Disguise):
        fields: Mapping[Any, Any] = {name: getattr(disguise, name) for name in _FIELDS}
    elif isinstance(disguise, Mapping) and set(disguise) <= set(_FIELDS):
        fields = disguise
    else:
        return f"must return a Disguise, or a dict of {', '.join(_FIELDS)}, found {type(disguise).__name__}"
    return next(_complaints(fields, forms), "")


def _complaints(fields: Mapping[str, Any], forms: Mapping[str, Form]) -> Iterator[str]:
    for field, tensors in fields.items():
        if not isinstance(tensors, Mapping):
            yield f"{field} must be a dict by tensor, found {type(tensors).__name__}"
            return
        for name, value in tensors.items():
            if name not in forms:
                yield f"{field} names {name!r}, which is no tensor; tensors: {', '.join(forms)}"
            elif field == "replace":
                yield from _replacement(name, value, forms[name], fields)
            else:
                yield from _by_axis(field, name, value, forms[name])


def _replacement(name: str, value: object, form: Form, fields: Mapping[str, Any]) -> Iterator[str]:
    if not form.given:
        yield f"replace: {name} is an output, whose values nobody knows beforehand"
    if any(name in fields.get(other, {}) for other in ("gather", "scale")):
        yield f"replace: {name} is also gathered or scaled; which comes first would not be clear"
    yield from _array(f"replace: {name}", value, form.shape, form.dtype)


def _by_axis(field: str, name: str, axes: object, form: Form) -> Iterator[str]:
    if not isinstance(axes, Mapping):
        yield f"{field}: {name} must be a dict by axis, found {type(axes).__name__}"
        return
    if len(form.shape) > _MOST_AXES:
        yield f"{field}: {name} has {len(form.shape)} axes, at most {_MOST_AXES} can be disguised"
    if field == "scale" and form.dtype.kind == "i":
        yield f"scale: {name} holds integers, which have no factors"
    for axis, values in axes.items():
        if type(axis) is not int or not 0 <= axis < len(form.shape):
            yield f"{field}: {name} has no axis {axis!r}; axes are 0 to {len(form.shape) - 1}"
            continue
        yield from _values(field, f"{field}: axis {axis} of {name}", values, form.shape[axis])


def _values(field: str, what: str, values: Any, size: int) -> Iterator[str]:
    wrong = list(_array(what, values, (size,), np.dtype(np.int32 if field == "gather" else np.float32)))
    yield from wrong
    if wrong:
        return
    if field == "gather" and not np.array_equal(np.sort(values), np.arange(size)):
        yield f"{what} is no permutation of 0 to {size - 1}"
    if field == "scale" and not _powers_of_two(values):
        yield f"{what} holds a factor that is no power of two with a sign"


def _array(what: str, value: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[str]:
    if not isinstance(value, np.ndarray):
        yield f"{what} must be an array, found {type(value).__name__}"
    elif value.shape != shape or value.dtype != dtype or not value.flags.c_contiguous:
        yield f"{what} must be a C-contiguous array of {dtype} {shape}, found {value.dtype} {value.shape}"


def _powers_of_two(factors: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(factors).all() and (np.abs(np.frexp(factors)[0]) == 0.5).all())
