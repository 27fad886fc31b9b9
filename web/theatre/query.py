"""What the address of the page asks for: numbers beyond the end become the nearest, anything else is told of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from harness.report.excerpt import printable
from web.theatre.examples import KEYS, Example
from web.theatre.recurrence import Mistake

_SHOWN = 40  # characters of a wrong value that are repeated
_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True)
class Complaint:
    """A value that could not be read."""

    field: str
    value: str


@dataclass(frozen=True)
class Query:
    """What is played. `step` counts from 1."""

    example: Example = Example.LATE_PEAK
    tile: int = 4
    step: int = 1
    mistake: Mistake = Mistake.NONE

    @property
    def steps(self) -> int:
        return -(-KEYS // self.tile)

    def address(self, **changes: object) -> str:
        """The query string of this with some fields changed, named as in the address."""
        fields = {"data": self.example, "tile": self.tile, "mistake": self.mistake, "step": self.step} | changes
        return "?" + urlencode({name: str(value) for name, value in fields.items()})


def parse(given: Mapping[str, str]) -> tuple[Query, list[Complaint]]:
    """The nearest query to what is given, and a complaint for each value that had to be left aside."""
    complaints: list[Complaint] = []
    example = _choice(given, "data", Query.example, complaints)
    mistake = _choice(given, "mistake", Query.mistake, complaints)
    tile = _number(given, "tile", Query.tile, KEYS, complaints)
    steps = Query(tile=tile).steps
    return Query(example, tile, _number(given, "step", Query.step, steps, complaints), mistake), complaints


def _choice(given: Mapping[str, str], field: str, default: _Choice, complaints: list[Complaint]) -> _Choice:
    text = given.get(field, default.value)
    try:
        return type(default)(text)
    except ValueError:
        complaints.append(_complaint(field, text))
        return default


def _number(given: Mapping[str, str], field: str, default: int, largest: int, complaints: list[Complaint]) -> int:
    text = given.get(field, str(default))
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        complaints.append(_complaint(field, text))
        text = str(default)
    negative, digits = text.startswith("-"), text.lstrip("+-0")
    value = int(digits[:9] or 0)  # more digits are beyond any end all the same
    return 1 if negative else min(max(value, 1), largest)


def _complaint(field: str, text: str) -> Complaint:
    return Complaint(field, printable(text[:_SHOWN]) + ("..." if len(text) > _SHOWN else ""))
