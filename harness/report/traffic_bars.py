"""Bars of modelled traffic: what each line's requests cost against the ideal, and what was moved of each tensor against
the least possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.report import figures, svg
from harness.report.excerpt import printable
from harness.traffic import SECTOR_BYTES, CaseTraffic

_WIDTH = 480.0
_LEFT, _RIGHT = 4.0, 400.0  # of the bars
_FIGURE = 476.0  # where figures end
_NAME, _BAR, _GAP = 18.0, 11.0, 9.0
_MOST = 8  # bars
_VERBS = {"read": "reads", "write": "writes", "atomic": "updates"}


@dataclass(frozen=True)
class Bar:
    """An amount and the least that it could have been."""

    name: str
    amount: float
    ideal: float
    figure: str


def line_bars(traffic: CaseTraffic) -> list[Bar]:
    """Sectors per request of the lines that move most, the most first."""
    sums: dict[tuple[str, int, str, str], list[int]] = {}
    for x in (x for launch in traffic.launches for x in launch.lines):
        total = sums.setdefault((x.file, x.line, x.kind, x.tensor), [0, 0, 0])
        for k, value in enumerate((x.requests, x.sectors, x.ideal_sectors)):
            total[k] += value
    order = sorted(sums.items(), key=lambda item: -item[1][1])[:_MOST]
    return [
        _each(f"{_place(file, line)} {_VERBS[kind]} {tensor}", *total)
        for (file, line, kind, tensor), total in order
        if total[0]
    ]


def shared_bars(traffic: CaseTraffic) -> list[Bar]:
    """Passes per request of shared memory, of the lines that take most, the most first."""
    sums: dict[tuple[str, int, str], list[int]] = {}
    for x in (x for launch in traffic.launches for x in launch.shared):
        total = sums.setdefault((x.file, x.line, x.kind), [0, 0, 0])
        for k, value in enumerate((x.requests, x.passes, x.ideal_passes)):
            total[k] += value
    order = sorted(sums.items(), key=lambda item: -item[1][1])[:_MOST]
    return [
        _each(f"{_place(file, line)} {_VERBS[kind]} shared memory", *total)
        for (file, line, kind), total in order
        if total[0]
    ]


def tensor_bars(traffic: CaseTraffic) -> list[Bar]:
    """Bytes moved of each tensor, in sectors, and the bytes of it that were touched at all."""
    found = []
    for t in traffic.tensors:
        moved = SECTOR_BYTES * t.sectors
        least = t.read.distinct_bytes + t.write.distinct_bytes
        if moved and least:
            how = " and ".join(["read"] * bool(t.read.requests) + ["written"] * bool(t.write.requests))
            figure = f"{figures.scaled(moved)}B, {figures.significant(moved / least)}x"
            found.append(Bar(f"{t.tensor}, {how}", moved, least, figure))
    return found[:_MOST]


def caption(bars: Sequence[Bar], what: str) -> str:
    """One sentence: the bar that has most beyond its least. what: "sectors a request", "passes a request", "bytes"."""
    worst = max(bars, key=lambda b: b.amount - b.ideal, default=None)
    if worst is None:
        return f"No {what} were counted."
    if worst.amount <= 1.005 * worst.ideal:
        return f"All {what} are at their least."
    ratio = figures.significant(worst.amount / worst.ideal) if worst.ideal else figures.NOTHING
    return printable(f"Most {what} beyond the least: {worst.name}, {ratio} times as many.")


def draw(bars: Sequence[Bar], name: str, title: str, what: str) -> Markup:
    """The bars as SVG, each with a mark at its ideal; nothing without bars. `name` is unique in the page."""
    if not bars:
        return Markup()
    full = max(max(b.amount, b.ideal) for b in bars) or 1.0
    parts: list[Markup] = []
    y = 2.0
    for bar in bars:
        parts += _bar(bar, y, full)
        y += _NAME + _BAR + _GAP
    parts.append(svg.text(_LEFT, y + 8, "the mark in or at the end of a bar: the least possible", "tick"))
    said = f"{caption(bars, what)} " + "; ".join(f"{b.name}: {b.figure}" for b in bars) + "."
    return svg.picture(name, title, said, (_WIDTH, y + 14), parts)


def _bar(bar: Bar, y: float, full: float) -> Iterator[Markup]:
    room = (_RIGHT - _LEFT) / full
    top = y + _NAME
    yield svg.text(_LEFT, top - 5, _cut(bar.name), "tick")
    yield svg.rectangle(_LEFT, top, max(room * bar.amount, 1), _BAR, "wasted")
    yield svg.rectangle(_LEFT, top, max(room * min(bar.ideal, bar.amount), 1), _BAR, "needed")
    yield svg.line(_LEFT + room * bar.ideal, top - 2, _LEFT + room * bar.ideal, top + _BAR + 2, "full")
    yield svg.text(_FIGURE, top - 5, bar.figure, "label", "end")


def _cut(words: str) -> str:
    return words if len(words) <= 45 else words[:44] + "\N{HORIZONTAL ELLIPSIS}"


def _each(name: str, requests: int, units: int, ideal: int) -> Bar:
    amount, least = units / requests, ideal / requests
    return Bar(name, amount, least, f"{figures.significant(amount)}, ideal {figures.significant(least)}")


def _place(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file
