"""The roofline picture: rate over intensity, both logarithmic, with a numbered point for each benchmark.

The roof is the lower of what memory (a slope) and arithmetic (a level) allow; see S. Williams, A. Waterman,
D. Patterson, "Roofline: an insightful visual performance model", CACM 52 (2009). The broken line above a point is its
distance to the roof. Baselines are hollow, each with a shape of its own; modelled points are hatched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.report import figures, measurement, svg
from harness.results import Report

_WIDTH, _PLOT_HEIGHT = 480.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 474.0, 26.0, 44.0
_FONT = 13.0
_LEGEND = 20.0  # height of a line
_RADIUS = 5.0
_ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3": 1, "float8_e4m3fn": 1, "float8_e5m2": 1}
_SIDES = 4, 3, 5, 6  # corners of the baselines' shapes, by order of appearance
_MOST_NAMES = 8


@dataclass(frozen=True)
class Point:
    """One benchmark. `number` is its label; `share` is what it reaches of the roof above it."""

    number: int
    name: str
    intensity: float  # FLOPs over the fewest bytes
    rate: float  # FLOP/s
    share: float
    noisy: bool


@dataclass(frozen=True)
class _Baseline:
    name: str
    intensity: float
    rate: float


def points(report: Report) -> list[Point]:
    """Those that have a place in a logarithmic picture, numbered from 1."""
    bandwidth, rate = measurement.roof(report)
    found: list[Point] = []
    for case, b in measurement.benchmarks(report):
        if b.bytes > 0 and b.flops > 0 and math.isfinite(b.rate) and b.rate > 0:
            above = _roof(b.flops / b.bytes, bandwidth, rate)
            noisy = bool(b.timing and b.timing.noisy)
            found.append(Point(len(found) + 1, case.name, b.flops / b.bytes, b.rate, b.rate / above, noisy))
    return found


def draw(report: Report, name: str = "roofline") -> Markup:
    """The picture as SVG; nothing without points or without a roof. `name` is unique in the page."""
    shown = points(report)
    bandwidth, rate = measurement.roof(report)
    if not (shown and bandwidth > 0 and rate > 0):
        return Markup()
    baselines = _baselines(report)
    places = [(p.intensity, p.rate) for p in shown] + [(b.intensity, b.rate) for b in baselines]
    ridge = rate / bandwidth
    axes = _Axes.around([*places, (ridge, rate), (ridge / 3, rate)])  # some of the slope is always seen
    names = list(dict.fromkeys(b.name for b in baselines))[:_MOST_NAMES]
    modelled = measurement.modelled(report)
    look = ("hatched", name) if modelled else ("solid", "")
    roofs = _Roofs.of(axes, bandwidth, rate, _marked(report))
    parts = [
        *_grid(axes),
        *roofs.drawn(),
        *_higher_roofs(axes, report, rate, max(y for _, y in places)),
        *(_drop(axes, p, _roof(p.intensity, bandwidth, rate)) for p in shown),
        *(_shape(names.index(b.name), *axes.place(b.intensity, b.rate)) for b in baselines if b.name in names),
        *(svg.circle(*axes.place(p.intensity, p.rate), _RADIUS, *look) for p in shown),
        *_labels(axes, shown, [axes.place(b.intensity, b.rate) for b in baselines], roofs),
        *_legend(names, look),
    ]
    height = _PLOT_HEIGHT + _LEGEND * (1 + len(names)) + 6
    title = f"{'Modelled roofline' if modelled else 'Roofline'} of {report.submission}"
    return svg.picture(name, title, _description(shown, bandwidth, rate), (_WIDTH, height), parts)


def _roof(intensity: float, bandwidth: float, rate: float) -> float:
    return min(bandwidth * intensity, rate) if rate > 0 else bandwidth * intensity or math.inf


def _marked(report: Report) -> str:
    return " (data sheet)" if report.ceilings and report.ceilings.modelled else ""


def _description(shown: Sequence[Point], bandwidth: float, rate: float) -> str:
    roof = f"The roof is {figures.gigabytes(bandwidth)} GB/s and {figures.teraflops(rate)} TFLOP/s."
    each = (
        f" {p.number}, {p.name}: {figures.significant(p.intensity)} FLOP/byte, {figures.teraflops(p.rate)} TFLOP/s, "
        f"{figures.percent(p.share)} of the roof{', noisy' if p.noisy else ''}."
        for p in shown
    )
    return roof + "".join(each)


def _baselines(report: Report) -> list[_Baseline]:
    """Those that ran. The bytes of another type are in the ratio of the types' sizes."""
    found = []
    for _, b in measurement.benchmarks(report):
        for x in b.baselines:
            intensity = b.flops / (b.bytes * _ratio(x.dtype, report.dtype)) if b.bytes > 0 else 0
            if intensity > 0 and 0 < x.seconds < math.inf:
                found.append(_Baseline(measurement.baseline(x, report.dtype), intensity, b.flops / x.seconds))
    return found


def _ratio(dtype: str, usual: str) -> float:
    return _ITEM_BYTES.get(dtype or usual, 4) / _ITEM_BYTES.get(usual, 4)


@dataclass(frozen=True)
class _Axes:
    """Intensity and rate -> the picture's coordinates."""

    x: tuple[float, float]  # decimal logarithms of the ends
    y: tuple[float, float]

    @classmethod
    def around(cls, places: Sequence[tuple[float, float]]) -> _Axes:
        """With room around all places, at least a decade each way."""
        x, y = ((math.log10(min(values) / 2.5), math.log10(max(values) * 2.5)) for values in zip(*places, strict=True))
        return cls(x, y)

    def place(self, intensity: float, rate: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x, self.y
        across = (math.log10(intensity) - x0) / (x1 - x0)
        up = (math.log10(rate) - y0) / (y1 - y0)
        return _LEFT + across * (_RIGHT - _LEFT), _PLOT_HEIGHT - _BOTTOM - up * (_PLOT_HEIGHT - _BOTTOM - _TOP)


def _ticks(ends: tuple[float, float]) -> list[float]:
    """1, 2 and 5 of each decade, or powers of ten alone where there are many decades."""
    steps = (1, 2, 5) if ends[1] - ends[0] < 2.5 else (1,)
    decades = range(math.floor(ends[0]), math.ceil(ends[1]) + 1)
    return [s * 10.0**d for d in decades for s in steps if ends[0] <= math.log10(s * 10.0**d) <= ends[1]]


def _grid(axes: _Axes) -> Iterator[Markup]:
    bottom = _PLOT_HEIGHT - _BOTTOM
    for value in _ticks(axes.x):
        x, _ = axes.place(value, 1)
        yield svg.line(x, _TOP, x, bottom, "grid")
        yield svg.text(x, bottom + 17, f"{value:g}", "tick", "middle")
    for value in _ticks(axes.y):
        _, y = axes.place(1, value)
        yield svg.line(_LEFT, y, _RIGHT, y, "grid")
        yield svg.text(_LEFT - 6, y + 4, f"{value / 1e12:g}", "tick", "end")
    yield svg.line(_LEFT, _TOP, _LEFT, bottom, "axis")
    yield svg.line(_LEFT, bottom, _RIGHT, bottom, "axis")
    yield svg.text((_LEFT + _RIGHT) / 2, bottom + 37, "FLOP per byte", "tick", "middle")
    yield svg.text(_LEFT - 6, _TOP - 12, "TFLOP/s", "tick", "middle")


@dataclass(frozen=True)
class _Roofs:
    """The slope of memory and the level of arithmetic, each with its words, in the picture's coordinates."""

    start: tuple[float, float]
    ridge: tuple[float, float]
    memory: str
    arithmetic: str
    right: float  # where the level ends

    @classmethod
    def of(cls, axes: _Axes, bandwidth: float, rate: float, mark: str) -> _Roofs:
        start = max(10 ** axes.x[0], 10 ** axes.y[0] / bandwidth)
        return cls(
            axes.place(start, bandwidth * start), axes.place(rate / bandwidth, rate),
            f"{figures.gigabytes(bandwidth)} GB/s{mark}", f"{figures.teraflops(rate)} TFLOP/s{mark}",
            axes.place(10 ** axes.x[1], rate)[0],
        )  # fmt: skip

    def drawn(self) -> Iterator[Markup]:
        (x1, y1), (x2, y2) = self.start, self.ridge
        yield svg.line(x1, y1, x2, y2, "roof")
        yield svg.line(x2, y2, self.right, y2, "roof")
        yield svg.text(_RIGHT - 4, y2 - 7, self.arithmetic, "roof-name", "end")
        if self._has_room():
            (x, y), angle = self._middle(), math.degrees(math.atan2(y2 - y1, x2 - x1))
            words = svg.text(0, 0, self.memory, "roof-name", "middle")
            yield Markup('<g transform="translate({:.1f} {:.1f}) rotate({:.1f})">{}</g>').format(x, y, angle, words)

    def words_at(self) -> list[tuple[float, ...]]:
        """Boxes that hold the words; those along the slope are in many small ones."""
        (x1, y1), (x2, y2) = self.start, self.ridge
        level = (_RIGHT - 4 - _width(self.arithmetic), y2 - 20, _RIGHT, y2 + 2)
        if not self._has_room():
            return [level]
        (x, y), angle = self._middle(), math.atan2(y2 - y1, x2 - x1)
        half = int(_width(self.memory) / 2)
        steps = range(-half, half + 1, 4)
        up = _FONT / 3  # from the foot of a letter to its middle
        middles = [
            (x + n * math.cos(angle) + up * math.sin(angle), y + n * math.sin(angle) - up * math.cos(angle))
            for n in steps
        ]  # fmt: skip
        return [level, *((x - up, y - up, x + up, y + up) for x, y in middles)]

    def _has_room(self) -> bool:
        return math.dist(self.start, self.ridge) >= _width(self.memory)

    def _middle(self) -> tuple[float, float]:
        """Of the foot of the slope's words."""
        (x1, y1), (x2, y2) = self.start, self.ridge
        return (x1 + x2) / 2, (y1 + y2) / 2 - 8


def _width(words: str) -> float:
    return len(words) * _FONT * svg.CHARACTER


def _higher_roofs(axes: _Axes, report: Report, rate: float, highest: float) -> Iterator[Markup]:
    """The card's faster units, as far as some baseline is above the roof of this problem's type."""
    rates = report.ceilings.rates.items() if report.ceilings and highest > rate else ()
    for unit, level in rates:
        if rate * 1.05 < level and math.log10(level) < axes.y[1]:
            (left, y), (right, _) = axes.place(10 ** axes.x[0], level), axes.place(10 ** axes.x[1], level)
            yield svg.line(left, y, right, y, "other-roof")
            yield svg.text(left + 6, y - 4, f"{measurement.unit(unit)}: {figures.teraflops(level)} TFLOP/s", "tick")


def _drop(axes: _Axes, point: Point, above: float) -> Markup:
    x, y = axes.place(point.intensity, point.rate)
    return svg.line(x, y, x, axes.place(point.intensity, above)[1], "drop")


def _shape(order: int, x: float, y: float) -> Markup:
    """Hollow: a diamond, a triangle and so on, for the baselines in their order."""
    corners = _SIDES[order % len(_SIDES)]
    style = "hollow" if order < len(_SIDES) else "hollow dashed"
    turns = (2 * math.pi * n / corners for n in range(corners))
    return svg.polygon([(x + 6.5 * math.sin(t), y - 6.5 * math.cos(t)) for t in turns], style)


def _labels(
    axes: _Axes, shown: Sequence[Point], hollow: Sequence[tuple[float, float]], roofs: _Roofs
) -> Iterator[Markup]:
    """Numbers and share beside each group of points, moved until they hide neither each other nor a point, nor the
    words of the roofs."""
    places = [axes.place(p.intensity, p.rate) for p in shown]
    taken: list[tuple[float, ...]] = [(x - 7, y - 7, x + 7, y + 7) for x, y in (*places, *hollow)]
    taken += roofs.words_at()
    for (x, y), group in _groups(shown, places):
        words = _words(group)
        width = _width(words)
        left, top = _free(x, y, width, taken)
        taken.append((left, top, left + width, top + _FONT))
        if abs(top + _FONT / 2 - y) > _FONT or left > x + 24 or left + width < x - 24:
            near = left - 2 if left > x else left + width + 2 if left + width < x else x
            yield svg.line(x, y, near, top + _FONT / 2, "leader")
        yield svg.text(left, top + _FONT - 2.5, words, "label")


def _groups(
    shown: Sequence[Point], places: Sequence[tuple[float, float]]
) -> list[tuple[tuple[float, float], list[Point]]]:
    """Points that lie on top of each other have one label, at the place of the first of them."""
    found: list[tuple[tuple[float, float], list[Point]]] = []
    for point, place in zip(shown, places, strict=True):
        group = next((points for first, points in found if math.dist(first, place) < _RADIUS), None)
        if group is None:
            found.append((place, [point]))
        else:
            group.append(point)
    return found


def _words(group: Sequence[Point]) -> str:
    """1-5, 8: 97-99 %."""
    low, high = (figures.percent(end(p.share for p in group)) for end in (min, max))
    share = high if low == high else f"{low.removesuffix(' %')}-{high}"
    return f"{_numbers([p.number for p in group])}: {share}" + " noisy" * any(p.noisy for p in group)


def _numbers(numbers: Sequence[int]) -> str:
    """1, 2, 3, 5, 8, 9: 1-3, 5, 8, 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _free(x: float, y: float, width: float, taken: Sequence[tuple[float, ...]]) -> tuple[float, float]:
    """The upper left corner of a label near (x, y) that overlaps nothing; right of it where all are taken."""
    sides = (x + 10, x - 10 - width, x + 34, x - 34 - width, x - width / 2)
    for step in range(30):
        for down in (step * _FONT / 2, -step * _FONT / 2):
            for left in sides:
                top = y - _FONT / 2 + down
                box = (left, top, left + width, top + _FONT)
                if _inside(box) and not any(_overlap(box, other) for other in taken):
                    return left, top
    return x + 10, y - _FONT / 2


def _inside(box: tuple[float, ...]) -> bool:
    return box[0] > _LEFT and box[2] < _WIDTH and box[1] > 0 and box[3] < _PLOT_HEIGHT - _BOTTOM


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _legend(names: Sequence[str], look: tuple[str, str]) -> Iterator[Markup]:
    """`look`: class of the submission's points, and the picture whose hatch fills those that are modelled."""
    y = _PLOT_HEIGHT + 16
    yield svg.circle(_LEFT, y - 4, _RADIUS, *look)
    words = "this submission, modelled" if look[1] else "this submission"
    yield svg.text(_LEFT + 14, y, f"{words}: number of case, share of roof", "tick")
    for order, name in enumerate(names):
        y += _LEGEND
        yield _shape(order, _LEFT, y - 4)
        yield svg.text(_LEFT + 14, y, name[:54], "tick")
