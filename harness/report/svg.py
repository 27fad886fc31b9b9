"""The few elements of SVG that charts are made of, as text. Colours are the page's: elements carry class names only.

Words are made safe here, so that a chart can be put into a page as it is. What a picture defines for itself, the hatch
that fills some of its shapes, has the picture's name in its id, and shapes name it in an attribute: pictures side by
side in a page keep their own, and no style sheet has to know them.
"""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from harness.report.excerpt import printable

CHARACTER = 0.6  # width of a letter, in sizes of the font: enough for most fonts, so that words do not collide


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> Markup:
    """Words whose baseline starts, ends or has its middle at a point."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return Markup(f'<text {place} class="{style}">{escape(printable(words))}</text>')


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> Markup:
    return Markup(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>')


def rectangle(
    x: float, y: float, width: float, height: float, style: str, words: str = "", hatch: str = ""
) -> Markup:
    """words: what is said of it where a pointer rests on it; hatch: the name of its picture, whose hatch fills it."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"'
    if words:
        return Markup(f'<rect {place}{_filled(hatch)} class="{style}"><title>{escape(printable(words))}</title></rect>')
    return Markup(f'<rect {place}{_filled(hatch)} class="{style}"/>')


def polygon(points: Iterable[tuple[float, float]], style: str, hatch: str = "") -> Markup:
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup(f'<polygon points="{corners}"{_filled(hatch)} class="{style}"/>')


def circle(x: float, y: float, radius: float, style: str, hatch: str = "") -> Markup:
    return Markup(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"{_filled(hatch)} class="{style}"/>')


def path(outline: str, style: str, scale: tuple[float, float, float, float]) -> Markup:
    """An outline in units of its own; `scale`: where its origin lies, and the size of a unit across and down."""
    x, y, across, down = scale
    place = f'transform="translate({x:.1f} {y:.1f}) scale({across:.4f} {down:.4f})"'
    return Markup(f'<path d="{escape(outline)}" {place} class="{style}"/>')


def picture(
    name: str, title: str, description: str, size: tuple[float, float], parts: Iterable[Markup], style: str = "chart"
) -> Markup:
    """The whole picture. `name` is unique in the page; title and description are what a screen reader says."""
    width, height = size
    body = "".join(parts)
    head = (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-labelledby="{name}-title {name}-text" class="{style}" id="{name}">'
        f'<title id="{name}-title">{escape(printable(title))}</title>'
        f'<desc id="{name}-text">{escape(printable(description))}</desc>{_hatch(name) if _filled(name) in body else ""}'
    )
    return Markup(head + body + "</svg>")


def _filled(hatch: str) -> str:
    """The attribute of a shape that the hatch of the picture of that name fills."""
    return f' fill="url(#{hatch}-hatch)"' if hatch else ""


def _hatch(name: str) -> str:
    """Stripes in the colours of the classes `ink` and `paper`."""
    size = 'width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    return (
        f'<defs><pattern id="{name}-hatch" {size}><rect width="5" height="5" class="paper"/>'
        '<rect width="2" height="5" class="ink"/></pattern></defs>'
    )
