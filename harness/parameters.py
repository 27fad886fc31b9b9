"""The parameters that a problem's cases may set: their types, defaults and bounds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from harness.document import Section

KINDS = ("int", "float", "str", "ints")  # ints: a list of whole numbers; [number, count] stands for as many of it
_LONGEST_LIST = 5  # runs that are shown one by one
_TYPES: dict[str, type] = {"int": int, "float": float, "str": str, "ints": list}


@dataclass(frozen=True)
class CaseParameter:
    """One name that a case may set. `default` None: every case must."""

    name: str
    kind: str
    default: object = None
    low: float | None = None
    choices: tuple[object, ...] = ()
    about: str = ""

    def read(self, case: Section) -> object:
        """This parameter's value in one case. Raises ProblemError."""
        kind = _TYPES[self.kind]
        value: object = case.take(self.name, kind) if self.default is None else case.take(self.name, kind, self.default)
        if self.kind == "ints":
            value = _spelled_out(value)
        message = self.complaint(value)
        if message:
            raise case.error(message, self.name)
        return value

    def complaint(self, value: object) -> str:
        """What is wrong with a value of the right type; empty when nothing is."""
        items: list[Any] = value if isinstance(value, list) else [value]
        if self.kind == "ints" and not (items and all(type(item) is int for item in items)):
            return f"must be a list of at least one whole number or [number, count], found {value!r}"
        if self.choices and value not in self.choices:
            return f"found {value!r}, allowed: {', '.join(map(str, self.choices))}"
        if self.low is not None and not all(item >= self.low for item in items):
            return f"found {value!r}, must be at least {self.low:g}"
        return ""


def in_short(value: object) -> str:
    """A value as a table shows it: "0.5", "31 x 4096 + 65536"; a long list by its bounds: "33 (1001 to 2999)"."""
    if not isinstance(value, list):
        return f"{value:g}" if isinstance(value, float) else str(value)
    runs = [(item, len(list(same))) for item, same in itertools.groupby(value)]
    if len(runs) > _LONGEST_LIST:
        return f"{len(value)} ({min(value)} to {max(value)})"
    return " + ".join(f"{count} x {item}" if count > 1 else f"{item}" for item, count in runs)


def _spelled_out(value: Any) -> list[Any]:
    """Pairs written out; what is no pair of numbers stays for `complaint`."""
    items: list[Any] = []
    for item in value:
        pair = isinstance(item, list) and len(item) == 2 and all(type(number) is int for number in item)
        items += [item[0]] * item[1] if pair and item[1] > 0 else [item]
    return items


def read_case_parameter(name: str, section: Section) -> CaseParameter:
    """One entry of `case_parameters`. Raises ProblemError."""
    kind = section.choice("type", KINDS)
    default = section.take_if_there("default", _TYPES[kind])
    low = section.take_if_there("min", float)
    choices = tuple(section.take("choices", list, []))
    about = section.take("about", str, "")
    section.finish()
    if kind == "str" and low is not None:
        raise section.error("a text has no least value", "min")
    parameter = CaseParameter(name, kind, default, low, choices, about)
    message = parameter.complaint(default) if default is not None else ""
    if message:
        raise section.error(message, "default")
    return parameter
