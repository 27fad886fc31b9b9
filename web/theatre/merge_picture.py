"""The drawing of two parts of the keys that become one result."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from harness.report import svg
from web.theatre.pictures import SUBSCRIPTS, WIDTH, Bars, Words
from web.theatre.recurrence import Merge

_HEIGHT = 210.0
_PART = ("was", "seen")


def draw(merge: Merge, expected: np.ndarray, words: Words) -> Markup:
    """Above, how much each of two parts weighs; below, both results, what they merge to, and softmax as rings."""
    results = [[float(v) if w > 0 else 0.0 for v in p.result] for p, w in zip(merge.parts, merge.weights, strict=True)]
    room = Bars.of([*results[0], *results[1], *merge.result, *expected], 58)
    parts = [*_weights(merge), svg.line(24, room.zero, WIDTH - 8, room.zero, "axis")]
    for i, value in enumerate(merge.result):
        x = 36 + i * 72.0
        for part, (result, style) in enumerate(zip(results, _PART, strict=True)):
            if merge.weights[part] > 0:
                parts += room.bar(x + 17 * part, 15, result[i], style)
        parts += room.bar(x + 34, 19, float(value), "now")
        parts.append(svg.circle(x + 43.5, room.y(float(expected[i])), 6, "ring"))
        parts.append(svg.text(x + 26, _HEIGHT - 8, f"out{SUBSCRIPTS[i]}", "tick", "middle"))
    return svg.picture("merge", words.title, words.description, (WIDTH, _HEIGHT), parts)


def _weights(merge: Merge) -> list[Markup]:
    left, width = 24.0, WIDTH - 32
    parts = []
    for share, style, name in zip(merge.weights, _PART, ("w₀", "w₁"), strict=True):
        parts.append(svg.rectangle(left, 10, share * width, 14, style))
        if share > 0.08:
            parts.append(svg.text(left + share * width / 2, 40, name, "tick", "middle"))
        left += share * width
    return parts
