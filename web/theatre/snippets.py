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
    "load": ["k_tile[j][d] = k[key * D + d];", "v_tile[j][d] = v[key * D + d];", "__syncthreads();"],
    "scores": [
        "float dot = 0.f;",
        "for (int d = 0; d < D; ++d)",
        "  dot += q[d] * k_tile[j][d];",
        "s[j] = masked ? -INFINITY : dot;",
    ],
    "maximum": [
        "float m = -INFINITY;  // at first",
        "float m_new = m;",
        "for (int j = 0; j < TILE; ++j)",
        "  m_new = fmaxf(m_new, s[j]);",
        "float base = m_new;",
        "if (base == -INFINITY) base = 0.f;",
    ],
    "rescale": ["float c = __expf(m - base);", "l *= c;", "for (int d = 0; d < D; ++d)", "  o[d] *= c;"],
    "add": [
        "float p = __expf(s[j] - base);",
        "l += p;",
        "for (int d = 0; d < D; ++d)",
        "  o[d] += p * v_tile[j][d];",
    ],
    "stand": ["m = m_new;", "// after the last tile:", "out[d] = o[d] / l;"],
    "merge": [
        "float m = -INFINITY, l = 0.f, acc = 0.f;",
        "for (int s = 0; s < parts; ++s) m = fmaxf(m, m_part[s]);",
        "for (int s = 0; s < parts; ++s) {",
        "  if (l_part[s] == 0.f) continue;  // saw no key: its output may be NaN",
        "  float w = __expf(m_part[s] - m) * l_part[s];",
        "  l += w;",
        "  acc += w * out_part[s];",
        "}",
        "out = l > 0.f ? acc / l : 0.f;",
    ],
}
PANELS = ("load", "scores", "maximum", "rescale", "add", "stand")

# Panel and line, counted from 0, and what stands there instead.
_WRONG: dict[Mistake, dict[tuple[str, int], str]] = {
    Mistake.NONE: {},
    Mistake.KEEP_OUTPUT: {("rescale", 2): "// missing: o[d] *= c", ("rescale", 3): ""},
    Mistake.KEEP_SUM: {("rescale", 1): "// missing: l *= c"},
    Mistake.ZERO_MAXIMUM: {("maximum", 0): "float m = 0.f;  // at first"},
    Mistake.NO_MAXIMUM: {
        ("maximum", 0): "// missing: m and m_new",
        **{("maximum", line): "" for line in (1, 2, 3, 5)},
        ("maximum", 4): "float base = 0.f;",
        ("rescale", 0): "float c = 1.f;",
        ("stand", 0): "",
    },
    Mistake.NO_GUARD: {("maximum", 5): "// missing: base = 0 where it is -inf"},
}

# Tests of flash_attention that the lines with the mistake fail.
FOUND_BY = {
    Mistake.KEEP_OUTPUT: "needles_65",
    Mistake.KEEP_SUM: "needles_65",
    Mistake.ZERO_MAXIMUM: "offset_scores",
    Mistake.NO_MAXIMUM: "offset_scores",
}


def lines(panel: str, mistake: Mistake = Mistake.NONE) -> list[Line]:
    """What the panel's code looks like with the mistake."""
    wrong = _WRONG[mistake]
    written = [Line(wrong.get((panel, i), text), (panel, i) in wrong) for i, text in enumerate(_RIGHT[panel])]
    return [line for line in written if line.text]


def touched(mistake: Mistake) -> set[str]:
    """Panels that the mistake is written in."""
    return {panel for (panel, _), text in _WRONG[mistake].items() if text}
