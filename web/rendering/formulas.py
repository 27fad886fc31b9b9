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
from markupsafe import Markup, escape

_BESIDE = r"\qquad"  # what separates formulas that stand side by side
_THIN = "0.1667em"  # TeX's thin space, 3/18 em
_EXTREMES = ("det", "gcd", "inf", "lim", "max", "min", "sup")
_FUNCTIONS = frozenset((*_EXTREMES, "arg", "cos", "exp", "ln", "log", "sin", "tan"))
_LIMITS_BELOW = frozenset((*_EXTREMES, "\N{N-ARY SUMMATION}", "\N{N-ARY PRODUCT}"))
_BELOW = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
_OPENING, _CLOSING, _BARS = "([{⌊⌈⟨", ")]}⌋⌉⟩", "|‖"
_PRIMES = "′″‴"  # noqa: RUF001
_SIGNS = "+−±"  # noqa: RUF001
_RELATIONS = "=<>≤≥≈≠∈"
_AFTER_THESE_A_SIGN = _OPENING + _SIGNS + _RELATIONS + ",;:·×⊕/"  # noqa: RUF001
_BREAK_AFTER = _RELATIONS + "+−"  # noqa: RUF001
_LONG = 16  # letters of a formula that may have to be broken
_SCRIPTS = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
_TAGS = frozenset(
    (*_SCRIPTS, "math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd")
)
_ATTRIBUTES = frozenset(("display", "stretchy", "fence", "form", "width", "linethickness", "mathvariant"))


def displayed(latex: str) -> Markup:
    """The MathML of a formula on a line of its own; parts separated by \\qquad stand side by side as long as there is
    room. A formula that cannot be read is shown as it was written, here and below."""
    return Markup("\n").join(part for piece in _side_by_side(latex) for part in _mathml(piece, "block"))


def in_text(latex: str, before: str = "", after: str = "", label: bool = False) -> Markup:
    """The MathML of a formula in a line of text, which may end only where TeX would end it within the formula. What
    stands right before and after it, as a bracket or a comma, is kept with it. With `label` it has its letters as a
    label."""
    parts = list(_mathml(latex.strip(), "inline"))
    parts = [_labelled(part) for part in parts] if label else parts
    parts[0] = escape(before) + parts[0]
    parts[-1] += escape(after)
    for place in {0: before, len(parts) - 1: after} if before or after else ():
        parts[place] = Markup('<span class="joined">{}</span>').format(parts[place])
    return Markup("<wbr>").join(parts)


def _labelled(part: Markup) -> Markup:
    """With its letters one by one as a label: not everything that reads a page aloud finds words in a formula."""
    letters = html.unescape(re.sub(r"<[^>]*>", " ", part)).split()
    opening = Markup('<math role="math" aria-label="{}" ').format(" ".join(letters))
    return Markup(str(part).replace("<math ", opening, 1))


@lru_cache(maxsize=2048)
def _mathml(latex: str, display: str) -> tuple[Markup, ...]:
    try:
        math = convert_to_element(latex, display=display)
    except Exception:  # the library's errors have no base class of their own
        return (Markup('<code class="unread">{}</code>').format(latex),)
    for element in math.iter():
        _clean(element)
    for element in math.iter("msup"):
        _prime(element)
    _space(math)
    parts = _breakable(math) if display == "inline" else [math]
    return tuple(Markup(tostring(part, encoding="unicode", short_empty_elements=False)) for part in parts)


def _side_by_side(latex: str) -> Iterator[str]:
    """What \\qquad separates outside of braces."""
    start = depth = 0
    for found in re.finditer(r"\\qquad(?![a-zA-Z])|\\.|[{}]", latex, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if found[0] == _BESIDE and not depth:
            yield latex[start : found.start()].strip()
            start = found.end()
    yield latex[start:].strip()


def _breakable(math: Element) -> list[Element]:
    """The formula in parts between which a line may end, as browsers do not break formulas: after the relations, sums
    and differences of its row."""
    (row,) = math
    if len("".join(math.itertext())) < _LONG:
        return [math]
    parts = [Element("mrow")]
    for atom in row:
        parts[-1].append(atom)
        if atom.tag == "mo" and atom.text and atom.text in _BREAK_AFTER and atom.get("form") != "prefix":
            atom.set("form", "infix")
            parts.append(Element("mrow"))
    return [_formula_of(part, math.attrib) for part in parts if len(part)]


def _formula_of(row: Element, attributes: dict[str, str]) -> Element:
    math = Element("math", attributes)
    math.append(row)
    return math


def _clean(element: Element) -> None:
    """Plain characters for references to them, as the text is escaped when it is written; only known tags and
    attributes, so that no formula brings a style or a link."""
    if element.tag not in _TAGS:
        element.tag = "mrow"
    element.attrib = {key: value for key, value in element.attrib.items() if key in _ATTRIBUTES}
    element.text = html.unescape(element.text or "")
    element.tail = None
    if element.tag == "mtext":
        _name(element)
    elif element.tag in ("mi", "mo"):
        _settle(element)


def _name(element: Element) -> None:
    """Words as names of variables, which they are: <mtext> counts as space, and swallows that of a sign beside it."""
    element.tag = "mi"
    element.text = re.sub(r"\\([_%#&${} ])", r"\1", element.text or "")
    element.attrib = {"mathvariant": "normal"} if len(element.text) == 1 else {}


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


def _prime(element: Element) -> None:
    """A prime stands beside its letter, as high as the font has it: as an exponent of an index nobody would see it."""
    prime = element[1]
    if prime.text and not prime.text.strip(_PRIMES):
        element.tag, prime.tag = "mrow", "mo"
        prime.attrib = {"lspace": "0", "rspace": "0"}


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
    while element.tag in _SCRIPTS and len(element):
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
    elif before is None and (after is None or text in _RELATIONS):
        atom.attrib |= {"lspace": "0"} | ({"rspace": "0"} if after is None else {})  # the text around has spaces
    elif text == "/":
        atom.attrib |= {"lspace": "0", "rspace": "0"}
    elif text in _BARS:
        closes = text in open_bars
        open_bars[:] = [] if closes else [*open_bars, text]
        atom.set("form", "postfix" if closes else "prefix")
        atom.set("stretchy", "false")


def _ends_operand(atom: Element) -> bool:
    return atom.tag != "mo" or (atom.text or " ") in _CLOSING
