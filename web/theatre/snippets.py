"""The lines of CUDA behind each panel: a thread that has a row to itself, and how each mistake writes them."""

from __future__ import annotations

from dataclasses import dataclass

from web.theatre.recurrence import Mistake


@dataclass(frozen=True)
class Line:
    """A line of code; `wrong` where it is the mistake."""

    text: str
    wrong: bool = False


_RIGHT = {
    "load": ["k_tile[j][d] = k[(first + j) * D + d];", "v_tile[j][d] = v[(first + j) * D + d];", "__syncthreads();"],
    "scores": [
        "float dot = 0.f;",
        "for (int d = 0; d < D; ++d) dot += q[d] * k_tile[j][d];",
        "s[j] = masked ? -INFINITY : dot;",
    ],
    "maximum": [
        "float m = -INFINITY;  // before the first tile",
        "float m_new = m;",
        "for (int j = 0; j < TILE; ++j) m_new = fmaxf(m_new, s[j]);",
        "const float base = m_new == -INFINITY ? 0.f : m_new;",
    ],
    "rescale": ["const float c = __expf(m - base);", "l *= c;", "for (int d = 0; d < D; ++d) o[d] *= c;"],
    "add": ["const float p = __expf(s[j] - base);", "l += p;", "for (int d = 0; d < D; ++d) o[d] += p * v_tile[j][d];"],
    "stand": ["m = m_new;", "// after the last tile:", "out[row * D + d] = o[d] / l;"],
    "merge": [
        "float m = -INFINITY, l = 0.f, acc = 0.f;",
        "for (int s = 0; s < parts; ++s) m = fmaxf(m, m_part[s]);",
        "for (int s = 0; s < parts; ++s) {",
        "  const float w = __expf(m_part[s] - m) * l_part[s];",
        "  l += w;",
        "  if (w > 0.f) acc += w * out_part[s];  // an empty part may hold NaN",
        "}",
        "out = acc / l;",
    ],
}
PANELS = ("load", "scores", "maximum", "rescale", "add", "stand")

# Panel and line, counted from 0, and what stands there instead.
_WRONG: dict[Mistake, dict[tuple[str, int], str]] = {
    Mistake.NONE: {},
    Mistake.KEEP_OUTPUT: {("rescale", 2): "// missing: o[d] *= c"},
    Mistake.KEEP_SUM: {("rescale", 1): "// missing: l *= c"},
    Mistake.ZERO_MAXIMUM: {("maximum", 0): "float m = 0.f;  // before the first tile"},
    Mistake.NO_MAXIMUM: {
        ("maximum", 0): "// missing: m",
        ("maximum", 1): "// missing: m_new",
        ("maximum", 2): "// missing: the loop for the maximum",
        ("maximum", 3): "const float base = 0.f;",
        ("rescale", 0): "const float c = 1.f;",
        ("stand", 0): "// missing: m",
    },
    Mistake.NO_GUARD: {("maximum", 3): "const float base = m_new;"},
}


def lines(panel: str, mistake: Mistake = Mistake.NONE) -> list[Line]:
    """What the panel's code looks like with the mistake."""
    wrong = _WRONG[mistake]
    return [Line(wrong.get((panel, i), text), (panel, i) in wrong) for i, text in enumerate(_RIGHT[panel])]


def touched(mistake: Mistake) -> set[str]:
    """Panels that the mistake is written in."""
    return {panel for panel, _ in _WRONG[mistake]}
