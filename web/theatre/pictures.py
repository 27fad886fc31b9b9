"""The six drawings of a step. They hold symbols and figures only; titles and descriptions are the page's words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
from markupsafe import Markup

from harness.report import svg
from web.theatre.recurrence import Step, harmless

WIDTH, HEIGHT = 320.0, 170.0
_TALL = 112.0  # of the strip that bars have
MINUS, TIMES, DASH = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"


@dataclass(frozen=True)
class Words:
    """What a screen reader says of a drawing."""

    title: str
    description: str


def number(given: SupportsFloat | None) -> str:
    """Three significant digits, with a minus as long as a plus; a dash for nothing."""
    if given is None:
        return DASH
    value = float(given)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", MINUS)
    return (f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}").replace("-", MINUS)


def load(step: Step, row: np.ndarray, words: Words) -> Markup:
    """K and V in memory above, the tile on the chip below."""
    left, cell, top = 32.0, 17.0, 34.0
    parts: list[Markup] = []
    for y, name in ((top, "K"), (top + 24, "V")):
        parts.append(svg.text(left - 8, y + 13, name, "label", "end"))
        parts += [svg.rectangle(left + j * cell, y, cell - 2, 18, _kind(step, row, j)) for j in range(len(row))]
    for j in (step.first, step.last):
        parts.append(svg.text(left + (j + 0.5) * cell - 1, top - 8, str(j), "tick", "middle"))
    count = step.last - step.first + 1
    chip = left + (len(row) - count) / 2 * cell  # where the tile lies on the chip
    for j, x in ((step.first, chip), (step.last + 1, chip + count * cell - 2)):
        parts.append(svg.line(left + j * cell - (2 if j > step.last else 0), top + 44, x, 112, "lead"))
    parts.append(svg.rectangle(chip - 6, 110, count * cell + 10, 50, "chip"))
    parts += [svg.rectangle(chip + i * cell, y, cell - 2, 18, "now") for i in range(count) for y in (115, 137)]
    return _picture(step, "load", words, parts)


def scores(step: Step, row: np.ndarray, words: Words) -> Markup:
    """The scores known so far as pins; those of this tile stand out."""
    axis = _Axis.of(row[: step.last + 1])
    return _picture(step, "scores", words, [*axis.frame(), *_pins(step, row, axis)])


def maximum(steps: Sequence[Step], step: Step, row: np.ndarray, words: Words) -> Markup:
    """The scores again under the stairs that the running maximum climbs."""
    so_far = steps[: step.number]
    axis = _Axis.of([*row[: step.last + 1], *(s.maximum for s in so_far), step.before.maximum])
    parts = [*axis.frame(), *_pins(step, row, axis)]
    for s in so_far:
        if np.isfinite(s.maximum):
            y, style = axis.y(s.maximum), "stair now-line" if s is step else "stair"
            parts.append(svg.line(axis.x(s.first) - 7, y, axis.x(s.last) + 7, y, style))
    if np.isfinite(step.before.maximum) and step.before.maximum != step.maximum:
        y = axis.y(step.before.maximum)
        parts.append(svg.line(axis.x(step.first) - 7, y, axis.x(step.last) + 7, y, "stair was"))
    parts.append(svg.text(WIDTH - 6, 14, f"m: {number(step.before.maximum)} → {number(step.maximum)}", "label", "end"))
    return _picture(step, "maximum", words, parts)


def rescale(step: Step, words: Words) -> Markup:
    """l and o before and after they are multiplied by the correction."""
    before, after = [step.before.total, *step.before.output], [step.rescaled.total, *step.rescaled.output]
    parts = [svg.text(WIDTH / 2, 16, f"{TIMES} {number(step.correction)}", "label", "middle")]
    return _picture(step, "rescale", words, [*parts, *_pairs(before, after, 24.0, _names(len(after) - 1))])


def add(step: Step, words: Words) -> Markup:
    """The weights of this tile on the left; l and o before and after them on the right."""
    room, left = 96.0, 14.0
    weights = [float(w) for w in step.weights]
    largest = max([w for w in weights if math.isfinite(w)] + [1.0])
    wide = room / len(weights)
    parts = [svg.text(left + room / 2, 16, "p", "label", "middle"), svg.line(left, 140, left + room, 140, "axis")]
    for i, weight in enumerate(weights):
        if math.isfinite(weight):
            height = 112 * weight / largest
            parts.append(svg.rectangle(left + i * wide, 140 - height, max(wide - 2, 3), height, "now"))
        else:
            parts.append(svg.text(left + (i + 0.5) * wide, 136, number(weight)[:1], "off-text", "middle"))
    ends = {step.first: left + wide / 2, step.last: left + room - wide / 2}
    parts += [svg.text(x - 1, 156, str(key), "tick", "middle") for key, x in ends.items()]
    before, after = [step.rescaled.total, *step.rescaled.output], [step.after.total, *step.after.output]
    return _picture(step, "add", words, [*parts, *_pairs(before, after, 126.0, _names(len(after) - 1))])


def stand(step: Step, words: Words) -> Markup:
    """o / l as bars, and plain softmax over the same keys as rings."""
    result = step.after.result
    style = "now" if step.plain is None or harmless(step.error) else "off"
    known = [float(v) for v in ([] if step.plain is None else step.plain)]
    most = 3 * max(map(abs, known), default=0.0)  # wrong bars may stand out so far, and are cut off beyond
    room = Bars.of([*known, *(min(max(float(v), -most), most) for v in result if np.isfinite(v))])
    parts = [svg.line(24, room.zero, WIDTH - 8, room.zero, "axis")]
    for i, value in enumerate(result):
        x = 52 + i * 70.0
        parts += room.bar(x, 26, float(value), style, step.plain is not None)
        if step.plain is not None:
            beside = 13 if np.isfinite(value) else 38  # the name of what is no number stands where the bar would
            parts.append(svg.circle(x + beside, room.y(float(step.plain[i])), 7, "ring"))
        parts.append(svg.text(x + 13, 164, f"out{SUBSCRIPTS[i]}", "tick", "middle"))
    return _picture(step, "stand", words, parts)


@dataclass(frozen=True)
class _Axis:
    """Where scores and keys lie in the second and third drawing."""

    low: float
    high: float
    empty: bool = False  # no finite score yet

    @classmethod
    def of(cls, values: Iterable[SupportsFloat]) -> _Axis:
        finite = _finite(values)
        low, high = min(finite, default=0.0), max(finite, default=0.0)
        return cls(low if high > low else low - 1, high, not finite)

    def y(self, value: SupportsFloat) -> float:
        return 126 - 98 * (float(value) - self.low) / (self.high - self.low)

    def x(self, key: int) -> float:
        return 52 + 16.7 * key

    def frame(self) -> Iterator[Markup]:
        yield svg.line(44, 140, WIDTH - 8, 140, "axis")
        for value in () if self.empty else (self.high, self.low):
            yield svg.text(40, self.y(value) + 4, number(value), "tick", "end")


def _pins(step: Step, row: np.ndarray, axis: _Axis) -> Iterator[Markup]:
    for j in range(len(row)):
        x, kind = axis.x(j), _kind(step, row, j)
        if kind == "later":
            continue
        if np.isfinite(row[j]):
            y = axis.y(row[j])
            yield svg.line(x, 140, x, y, f"stem {kind}-line")
            yield svg.circle(x, y, 4.5, kind)
        else:
            yield svg.text(x, 138, TIMES, f"{kind}-text", "middle")
    for j in sorted({step.first, step.last}):
        yield svg.text(axis.x(j), 157, str(j), "tick", "middle")


@dataclass(frozen=True)
class Bars:
    """Bars up and down from zero, in a strip of fixed height; values beyond its ends are cut off there."""

    top: float
    zero: float
    scale: float

    @classmethod
    def of(cls, values: Iterable[SupportsFloat], top: float = 26) -> Bars:
        finite = _finite(values)
        high, low = max([0.0, *finite]), min([0.0, *finite])
        scale = _TALL / ((high - low) or 1)
        return cls(top, top + high * scale if high > low else top + _TALL, scale)

    def y(self, value: float) -> float:
        return min(max(self.zero - value * self.scale, self.top - 4), self.top + _TALL + 8)

    def bar(self, x: float, width: float, value: float, style: str, expected: bool = True) -> Iterator[Markup]:
        """One bar; where the value is none, its name, loud if a value was expected."""
        if math.isfinite(value):
            top, bottom = sorted((self.zero, self.y(value)))
            yield svg.rectangle(x, top, width, bottom - top, style)
        else:
            shown = "off-text" if expected else "tick"
            yield svg.text(x + width / 2, self.zero - 4, number(value) if expected else DASH, shown, "middle")


def _pairs(before: Sequence[float], after: Sequence[float], left: float, names: Sequence[str]) -> Iterator[Markup]:
    """For each name a hollow bar, how it was, and a filled one, how it is."""
    room = Bars.of([*before, *after])
    group = (WIDTH - 8 - left) / len(names)
    wide = min(group * 0.36, 18)
    yield svg.line(left, room.zero, WIDTH - 8, room.zero, "axis")
    for i, name in enumerate(names):
        middle = left + (i + 0.5) * group
        if math.isfinite(before[i]):
            yield from room.bar(middle - wide - 1, wide, float(before[i]), "was")
        yield from room.bar(middle + 1, wide, float(after[i]), "now")
        yield svg.text(middle, 164, name, "tick", "middle")


def _finite(values: Iterable[SupportsFloat]) -> list[float]:
    return [float(v) for v in values if math.isfinite(v)]


def _names(dims: int) -> list[str]:
    return ["l", *(f"o{SUBSCRIPTS[i]}" for i in range(dims))]


def _kind(step: Step, row: np.ndarray, key: int) -> str:
    """How a key is drawn: in hand, seen, masked, or not there yet."""
    if key > step.last:
        return "later"
    if key >= step.first:
        return "now"
    return "seen" if np.isfinite(row[key]) else "masked"


def _picture(step: Step, name: str, words: Words, parts: Iterable[Markup]) -> Markup:
    return svg.picture(f"{name}-{step.number}", words.title, words.description, (WIDTH, HEIGHT), parts)
