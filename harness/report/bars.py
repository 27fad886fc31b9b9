"""The bar chart: for each benchmark how near this submission, and each baseline, comes to the speed of light.

A full bar is 100 %. A bar that would be longer than the picture, as that of a baseline in a smaller type may be, ends
in an arrow. The figure stands behind each bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from harness.measure.records import Benchmark
from harness.report import figures, measurement, svg
from harness.results import Report

_WIDTH = 480.0
_LEFT, _RIGHT = 4.0, 344.0  # of the bars
_SHARE, _TIME = 408.0, 476.0  # where the figures end
_BAR, _NAME, _GROUP = 12.0, 22.0, 32.0  # heights of a bar, of the name above it, of what is between groups
_FULL = 1.1  # share of the speed of light at the right end
_ARROW = 7.0


@dataclass(frozen=True)
class _Bar:
    name: str
    seconds: float
    share: float
    style: str
    ends: tuple[float, float] | None = None  # the interval of the median, as shares


def draw(report: Report, name: str = "bars") -> Markup:
    """The chart as SVG; nothing without benchmarks. `name` is unique in the page."""
    groups = [(case.name, list(_bars(b, report))) for case, b in measurement.benchmarks(report)]
    groups = [(title, bars) for title, bars in groups if bars]
    if not groups:
        return Markup()
    parts: list[Markup] = []
    y = 14.0
    for title, bars in groups:
        parts += [svg.text(_LEFT, y, title, "group"), svg.text(_at(1), y, "100 %", "tick", "middle")]
        top = y + 5
        for bar in bars:
            parts += _draw(bar, y, name)
            y += _NAME + _BAR
        parts.append(svg.line(_at(1), top, _at(1), y + 5, "full"))
        y += _GROUP
    title = f"{'Modelled speed' if measurement.modelled(report) else 'Speed'} of {report.submission}, by case"
    return svg.picture(name, title, _description(groups), (_WIDTH, y - 16), parts)


def _bars(b: Benchmark, report: Report) -> Iterator[_Bar]:
    if not (math.isfinite(b.sol_seconds) and b.sol_seconds > 0):
        return
    interval = (b.sol_seconds / b.timing.high, b.sol_seconds / b.timing.low) if b.timing and b.timing.low > 0 else None
    noisy = ", noisy" if b.timing and b.timing.noisy else ""
    name = f"{report.submission}{', modelled' if b.modelled else noisy}"
    if b.seconds > 0:
        yield _Bar(name, b.seconds, b.sol_seconds / b.seconds, "hatched" if b.modelled else "solid", interval)
    for x in b.baselines:
        if x.seconds > 0:
            yield _Bar(measurement.baseline(x, report.dtype), x.seconds, b.sol_seconds / x.seconds, "hollow")


def _at(share: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * min(share, _FULL) / _FULL


def _draw(bar: _Bar, y: float, picture: str) -> Iterator[Markup]:
    hatch = picture if bar.style == "hatched" else ""
    end = _at(bar.share)
    top = y + _NAME
    yield svg.text(_LEFT, top - 5, bar.name[:54], "tick")
    if bar.share > _FULL:
        corners = [(_LEFT, top), (end, top), (end + _ARROW, top + _BAR / 2), (end, top + _BAR), (_LEFT, top + _BAR)]
        yield svg.polygon(corners, bar.style, hatch)
    else:
        yield svg.rectangle(_LEFT, top, end - _LEFT, _BAR, bar.style, hatch=hatch)
    if bar.ends and all(map(math.isfinite, bar.ends)):
        yield svg.line(_at(bar.ends[0]), top + _BAR / 2, _at(bar.ends[1]), top + _BAR / 2, "whisker")
    yield svg.text(_SHARE, top + _BAR - 1, figures.percent(bar.share), "label", "end")
    yield svg.text(_TIME, top + _BAR - 1, figures.nice(figures.seconds(bar.seconds)), "label", "end")


def _description(groups: list[tuple[str, list[_Bar]]]) -> str:
    each = (
        f"{title}: " + ", ".join(f"{b.name} {figures.percent(b.share)} in {figures.seconds(b.seconds)}" for b in bars)
        for title, bars in groups
    )
    return "Share of the speed of light. " + "; ".join(each) + "."
