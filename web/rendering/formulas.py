"""LaTeX -> MathML, which browsers draw without any script.

latex2mathml does the translation. It leaves spacing to the browser, which knows an operator by its place in the row and
by its dictionary: `max` is not in it, and a bar may open or close. So the elements are gone over once more here, after
the rules that TeX sets mathematics by (The TeXbook, chapter 18: atoms that are operators, relations, openings, ...).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import lru_cache
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import convert_to_element
from markupsafe import Markup

_BESIDE = r"\qquad"  # what separates formulas that stand side by side
_THIN = "0.1667em"  # TeX's thin space, 3/18 em
_FUNCTIONS = frozenset(("arg", "cos", "det", "exp", "gcd", "inf", "lim", "ln", "log", "max", "min", "sin", "sup", "tan"))
_LIMITS_BELOW = frozenset(("\N{N-ARY SUMMATION}", "\N{N-ARY PRODUCT}", "det", "gcd", "inf", "lim", "max", "min", "sup"))
_BELOW = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
_OPENING, _CLOSING, _BARS = "([{⌊⌈⟨", ")]}⌋⌉⟩", "|‖"  # noqa: RUF001
_SIGNS = "+−±"  # noqa: RUF001
_AFTER_THESE_A_SIGN = _OPENING + _SIGNS + "=<>≤≥≈≠∈,;:·×⊕/"  # noqa: RUF001
_TAGS = frozenset(
    "math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd".split()
)
_ATTRIBUTES = frozenset(("display", "stretchy", "fence", "form", "width", "linethickness", "mathvariant", "columnalign"))


def formula(latex: str, display: bool = False) -> Markup:
    """The MathML of a formula, for a line of text or, with `display`, for a line of its own, where parts separated by
    \\qquad stand side by side as long as there is room. A formula that cannot be read is shown as it was written."""
    if not display:
        return _mathml(latex.strip(), "inline")
    return Markup("\n").join(_mathml(part, "block") for part in _side_by_side(latex))


@lru_cache(maxsize=2048)
def _mathml(latex: str, display: str) -> Markup:
    try:
        math = convert_to_element(latex, display=display)
    except Exception:  # the library's errors have no base class of their own
        return Markup('<code class="unread">{}</code>').format(latex)
    for element in math.iter():
        _clean(element)
    _space(math)
    return Markup(tostring(math, encoding="unicode", short_empty_elements=False))


def _side_by_side(latex: str) -> Iterator[str]:
    """What \\qquad separates outside of braces."""
    start = depth = 0
    for found in re.finditer(r"\\qquad(?![a-zA-Z])|\\.|[{}]", latex, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if found[0] == _BESIDE and not depth:
            yield latex[start : found.start()].strip()
            start = found.end()
    yield latex[start:].strip()


def _clean(element: Element) -> None:
    """Plain characters for references to them, as the text is escaped when it is written; only known tags and
    attributes, so that no formula brings a style or a link."""
    if element.tag not in _TAGS:
        element.tag = "mrow"
    element.attrib = {key: value for key, value in element.attrib.items() if key in _ATTRIBUTES}
    text = html.unescape(element.text or "")
    element.text = re.sub(r"\\([_%#&${} ])", r"\1", text) if element.tag == "mtext" else text
    element.tail = None
    if element.tag in ("mi", "mo"):
        _settle(element)


def _settle(element: Element) -> None:
    """Operators that are marked as such, and only they."""
    if element.text == "∞":
        element.tag = "mi"
    elif element.text in _FUNCTIONS:
        element.tag = "mo"
        element.attrib |= {"movablelimits": "true"} if element.text in _LIMITS_BELOW else {}
    elif element.text and element.text in _OPENING + _CLOSING:
        element.tag = "mo"
        element.attrib.setdefault("stretchy", "false")
    elif element.text == "~":
        element.text = "\N{SMALL TILDE}"


def _space(row: Element) -> None:
    """Spaces and forms of the operators in a row and in all that is in it."""
    open_bars: list[str] = []
    atoms = [_nucleus(child) for child in row]
    for place, (child, atom) in enumerate(zip(row, atoms, strict=True)):
        before = atoms[place - 1] if place else None
        after = atoms[place + 1] if place + 1 < len(atoms) else None
        _limits(child, atom)
        if atom.tag == "mo" and atom.text:
            _operator(atom, before, after, open_bars)
        _space(child)
    if row.tag == "mover" and len(row) == 2 and row[1].text == "\N{SMALL TILDE}":
        row.set("accent", "true")


def _nucleus(element: Element) -> Element:
    """What an element is built around: of x with a subscript it is x."""
    while element.tag in (*_BELOW, *_BELOW.values()) and len(element):
        element = element[0]
    return element


def _limits(element: Element, nucleus: Element) -> None:
    """Limits go below a sum where there is room (a browser moves them beside it in a line of text)."""
    if nucleus.text in _LIMITS_BELOW:
        element.tag = _BELOW.get(element.tag, element.tag)


def _operator(atom: Element, before: Element | None, after: Element | None, open_bars: list[str]) -> None:
    text = atom.text or ""
    if text in _FUNCTIONS:
        atom.set("lspace", _THIN if before is not None and _ends_operand(before) else "0")
        atom.set("rspace", "0" if after is None or (after.text or " ") in _OPENING else _THIN)
    elif text in _SIGNS:
        if before is None or (before.tag == "mo" and before.text and before.text in _AFTER_THESE_A_SIGN):
            atom.set("form", "prefix")
    elif text in _BARS:
        closes = bool(open_bars) and open_bars[-1] == text
        _ = open_bars.pop() if closes else open_bars.append(text)
        atom.set("form", "postfix" if closes else "prefix")
        atom.set("stretchy", "false")


def _ends_operand(atom: Element) -> bool:
    return atom.tag != "mo" or (atom.text or " ") in _CLOSING
