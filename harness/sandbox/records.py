"""Frozen records from their JSON, checked field by field: what a child sends may be hostile."""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from harness.sandbox.frames import FrameError

MAX_ITEMS = 4096  # of one tuple or dict
MAX_CHARACTERS = 4096  # of one name


def read(kind: Any, raw: Any, name: str) -> Any:
    """`raw` as a value of type `kind`: a dataclass, int, float, bool, str, tuple, dict[str, ...], or one of these or
    None. Integers are counts: not negative. Raises FrameError, which names the field, for anything else."""
    if get_origin(kind) in (Union, types.UnionType):
        (inner,) = (k for k in get_args(kind) if k is not type(None))
        return None if raw is None else read(inner, raw, name)
    if dataclasses.is_dataclass(kind):
        return _record(kind, raw, name)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), raw, name)
    if get_origin(kind) is dict:
        return {_text(key, name): read(get_args(kind)[1], item, name) for key, item in _sized(raw, dict, name).items()}
    if kind is str:
        return _text(raw, name)
    if kind is bool and isinstance(raw, bool):
        return raw
    if kind is int and type(raw) is int and 0 <= raw < 1 << 63:
        return raw
    if kind is float and type(raw) in (int, float) and math.isfinite(raw):
        return float(raw)
    raise FrameError(f"'{name}' is missing or of the wrong type")


def _record(kind: Any, raw: Any, name: str) -> Any:
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    if not isinstance(raw, dict) or set(raw) != set(names):
        raise FrameError(f"'{name}' does not have the fields of {kind.__name__}")
    return kind(**{field: read(hints[field], raw[field], field) for field in names})


def _tuple(kinds: tuple[Any, ...], raw: Any, name: str) -> tuple[Any, ...]:
    items = _sized(raw, (list, tuple), name)
    if kinds[-1] is Ellipsis:
        return tuple(read(kinds[0], item, name) for item in items)
    if len(items) != len(kinds):
        raise FrameError(f"'{name}' has {len(items)} items, due are {len(kinds)}")
    return tuple(read(kind, item, name) for kind, item in zip(kinds, items, strict=True))


def _sized(raw: Any, kind: Any, name: str) -> Any:
    if not isinstance(raw, kind) or len(raw) > MAX_ITEMS:
        raise FrameError(f"'{name}' is missing, of the wrong type or too long")
    return raw


def _text(raw: Any, name: str) -> str:
    if not isinstance(raw, str) or len(raw) > MAX_CHARACTERS:
        raise FrameError(f"'{name}' is no text, or too long")
    return raw
