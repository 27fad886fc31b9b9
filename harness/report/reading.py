"""JSON text of harness/report/json.py -> Report: `read(json.render(report)) == report`.

The records themselves say what is due: types come from their annotations, so that a field that a record gains is read
without a word here, as long as json.py writes it under its own name. A field that the text lacks takes its default, if
it has one: texts outlive the version that wrote them, and fields are added without a new schema. For the same reason
names that no record has are passed over; among them are those that json.py derives.

    ReportFormatError   the text is no report of this schema; the message says where, as "cases[2].errors[0].ratio"
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from harness.results import SCHEMA, CaseResult, KernelResources, KernelUse, LaunchShape, LaunchUse, Occupancy, Report

_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_RENAMED: dict[type, dict[str, str]] = {  # fields whose name in JSON is another one
    CaseResult: {"seconds": "time"},
    KernelResources: {"name": "mangled", "readable": "kernel"},
    LaunchShape: {"shared_bytes": "dynamic_shared_bytes"},
    Occupancy: {"blocks": "blocks_per_sm", "warps": "warps_per_sm", "fraction": "occupancy"},
}
_FLAT: dict[type, tuple[str, ...]] = {  # records within a record whose fields stand beside its own
    KernelUse: ("kernel",),
    LaunchUse: ("shape", "occupancy"),
}


class ReportFormatError(ValueError):
    """A text that is no JSON report of this schema."""


def read(text: str) -> Report:
    """The report that `harness.report.json.render` wrote. Raises ReportFormatError."""
    try:
        raw = json.loads(text, parse_constant=_no_json)
    except RecursionError:
        raise ReportFormatError("not a JSON report: nested too deeply") from None
    except ValueError as error:
        raise ReportFormatError(f"not a JSON report: {error}") from None
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if schema != SCHEMA:
        due = f"schema {SCHEMA}, the one that this version reads"
        raise ReportFormatError(f"not a JSON report of {due}: {schema!r:.40}")
    report: Report = _value(Report, raw, "")
    return report


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _value(kind: Any, raw: Any, where: str) -> Any:
    """`raw` as a value of type `kind`; `where` it stands, for messages."""
    origin = get_origin(kind)
    if kind is object or kind is Any:
        return raw
    if origin in (Union, types.UnionType):
        return _optional(get_args(kind), raw, where)
    if origin is tuple:
        return _tuple(get_args(kind), raw, where)
    if origin is dict:
        return _dict(get_args(kind), raw, where)
    if dataclasses.is_dataclass(kind):
        return _record(kind, raw, where)
    return _scalar(kind, raw, where)


def _scalar(kind: Any, raw: Any, where: str) -> Any:
    if kind is float:
        raw = _NUMBERS.get(raw, raw) if isinstance(raw, str) else raw
        if isinstance(raw, (int, float)) and not isinstance(raw, bool):
            return float(raw)
    elif issubclass(kind, enum.Enum):
        if raw in [member.value for member in kind]:
            return kind(raw)
    elif type(raw) is kind:
        return raw
    raise ReportFormatError(f"{where}: {raw!r:.40} is no {kind.__name__}")


def _optional(kinds: tuple[Any, ...], raw: Any, where: str) -> Any:
    (kind,) = (kind for kind in kinds if kind is not types.NoneType)
    return None if raw is None else _value(kind, raw, where)


def _tuple(kinds: tuple[Any, ...], raw: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise ReportFormatError(f"{where}: {raw!r:.40} is no list")
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(raw)
    if len(kinds) != len(raw):
        raise ReportFormatError(f"{where}: {len(raw)} items, due are {len(kinds)}")
    return tuple(_value(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(kinds, raw, strict=True)))


def _dict(kinds: tuple[Any, ...], raw: Any, where: str) -> dict[Any, Any]:
    if not isinstance(raw, dict):
        raise ReportFormatError(f"{where}: {raw!r:.40} is no object")
    return {_key(kinds[0], name, where): _value(kinds[1], item, f"{where}.{name:.40}") for name, item in raw.items()}


def _key(kind: Any, name: str, where: str) -> Any:
    """A key, which JSON has as text whatever it was."""
    if kind is not int:
        return _value(kind, name, where)
    try:
        return int(name)
    except ValueError:
        raise ReportFormatError(f"{where}: the key {name!r:.40} is no int") from None


def _record(kind: Any, raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ReportFormatError(f"{where}: {raw!r:.40} is no {kind.__name__}")
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in _FLAT.get(kind, ()):
            values[field.name] = _value(_hints(kind)[field.name], raw, where)
            continue
        name = _RENAMED.get(kind, {}).get(field.name, field.name)
        place = f"{where}.{name}".removeprefix(".")
        if name in raw:
            values[field.name] = _value(_hints(kind)[field.name], raw[name], place)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ReportFormatError(f"{place} is missing")
    return kind(**values)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
