"""A picture of one request of shared memory: its passes, one below the other, over the 32 banks.

A cell holds the lowest lane that the bank serves in that pass; a dot says that the same word goes to further lanes.
Banks with more than one word to give to a group of lanes are those that conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from harness.report import request_words, svg
from harness.traces import BANK_BYTES, BANKS, WarpRequest

_WIDTH = 480.0
_LEFT, _RIGHT = 38.0, 478.0
_TOP, _ROW = 22.0, 14.0
_MOST_ROWS = 10  # more passes are cut in the middle
_COLUMN = (_RIGHT - _LEFT) / BANKS


@dataclass(frozen=True)
class _Served:
    """A word that banks give in one pass, and the lanes that get it."""

    bank: int  # the first of those that it lies in
    lanes: tuple[int, ...]
    conflict: bool


def caption(r: WarpRequest) -> str:
    """The picture in one or two sentences."""
    return f"{request_words.place(r)}: {request_words.cost(r)}"


def draw(r: WarpRequest, name: str) -> Markup:
    """The picture as SVG. `name` is unique in the page."""
    rows = list(_passes(r))
    shown = rows if len(rows) <= _MOST_ROWS else [*rows[: _MOST_ROWS - 2], None, rows[-1]]
    parts = list(_header({word.bank for row in rows for word in row if word.conflict}))
    y = _TOP
    for number, row in zip(_numbers(len(rows)), shown, strict=True):
        if row is None:
            words = f"... {len(rows) - _MOST_ROWS + 1} more passes"
            parts.append(svg.text(_LEFT + 4, y + _ROW - 3, words, "tick"))
        else:
            parts += [svg.text(_LEFT - 4, y + _ROW - 3, str(number), "tick", "end"), *_row(row, r, y)]
        y += _ROW
    parts.append(svg.text(_LEFT, y + 14, _legend(rows), "tick"))
    said = f"{caption(r)} Shown is {request_words.who(r)}."
    return svg.picture(name, request_words.place(r), said, (_WIDTH, y + 20), parts, "chart wide")


def _numbers(count: int) -> list[int]:
    if count <= _MOST_ROWS:
        return list(range(1, count + 1))
    return [*range(1, _MOST_ROWS - 1), 0, count]


def _passes(r: WarpRequest) -> Iterator[list[_Served]]:
    """Each pass of each group of lanes: of every bank the next word that it has to give."""
    size = max(r.lane_bytes, BANK_BYTES)
    for group in r.groups:
        wanted: dict[int, dict[int, list[int]]] = {}  # bank -> word -> lanes
        for lane in group:
            offset = r.offsets[lane]
            if offset is not None:
                unit = (r.start + offset) // size
                bank = unit * size // BANK_BYTES % BANKS
                wanted.setdefault(bank, {}).setdefault(unit, []).append(lane)
        for turn in range(max(map(len, wanted.values()), default=0)):
            yield [
                _Served(bank, tuple(list(words.values())[turn]), len(words) > 1)
                for bank, words in sorted(wanted.items())
                if turn < len(words)
            ]


def _header(conflicting: set[int]) -> Iterator[Markup]:
    yield svg.text(_LEFT - 4, _TOP - 8, "bank", "tick", "end")
    for bank in range(BANKS):
        if bank % 4 == 0 or bank == BANKS - 1:
            yield svg.text(_LEFT + _COLUMN * (bank + 0.5), _TOP - 8, str(bank), "tick", "middle")
        if bank in conflicting:
            yield svg.rectangle(_LEFT + _COLUMN * bank + 1, _TOP - 5, _COLUMN - 2, 3, "conflict-mark")


def _row(row: list[_Served], r: WarpRequest, y: float) -> Iterator[Markup]:
    yield svg.rectangle(_LEFT, y, _RIGHT - _LEFT, _ROW, "unmoved")
    width = _COLUMN * max(r.lane_bytes, BANK_BYTES) / BANK_BYTES
    for word in row:
        x = _LEFT + _COLUMN * word.bank
        style = "bank-conflict" if word.conflict else "bank-served"
        lanes = ", ".join(map(str, word.lanes))
        yield svg.rectangle(x + 0.5, y + 0.5, width - 1, _ROW - 1, style, f"bank {word.bank}: lanes {lanes}")
        yield svg.text(x + width / 2, y + _ROW - 4, str(word.lanes[0]), "in-cell", "middle")
        if len(word.lanes) > 1:
            yield svg.circle(x + width - 3, y + 3, 1.5, "more-lanes")


def _legend(rows: list[list[_Served]]) -> str:
    several = any(len(word.lanes) > 1 for row in rows for word in row)
    return "rows: passes; numbers: lanes" + ("; dot: the word goes to further lanes" if several else "")
