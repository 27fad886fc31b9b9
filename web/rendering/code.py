"""A source file, or the lines around a place in it, as a page shows them: numbered, coloured, with marks.

Line numbers are links to themselves (#L12) and are not copied with the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from markupsafe import Markup

from web.rendering.highlighting import LINES, highlighted
from web.rendering.words import word

_SIGNS = {"error": "✗", "warning": "!", "info": "i", "other": "2"}  # so that a mark is more than a colour
_NO_MARKS: Mapping[int, str] = {}
_LINE = Markup(
    '<span class="{}"{}><a class="number" href="#L{}" tabindex="-1" aria-label="{}">{}</a>{}{}</span>'
)


def code(
    text: str, language: str = "cuda", lines: bool = True, marks: Mapping[int, str] = _NO_MARKS, words: str = "en"
) -> Markup:
    """The whole file, at most its first LINES lines. `marks` says for a line, from 1, that it is an "error", a
    "warning", "info", or the "other" place of one; `words` is the language of the site."""
    parts = highlighted(text, language, words)
    seen = parts[:LINES]
    if lines:
        width = len(str(len(seen)))
        seen = tuple(
            _line(number, width, part, marks.get(number, ""), words, here=True) for number, part in enumerate(seen, 1)
        )
    left = len(parts) - LINES
    more = Markup('<p class="more">{}</p>').format(word("more_lines", words, count=left)) if left > 0 else Markup()
    return _block(seen, words) + more


def excerpt(
    text: str, line: int, around: int = 2, kind: str = "error", language: str = "cuda", words: str = "en"
) -> Markup:
    """The line, marked as `kind`, between its neighbours; nothing for a line that the text does not have. Numbers link
    to the whole file where the same page shows it."""
    parts = highlighted(text, language, words)
    if not 1 <= line <= len(parts):
        return Markup()
    first, last = max(1, line - around), min(len(parts), line + around)
    width = len(str(last))
    return _block(
        (_line(n, width, parts[n - 1], kind if n == line else "", words) for n in range(first, last + 1)), words
    )


def _block(lines: Iterable[Markup], words: str) -> Markup:
    """Lines in a part of the page that scrolls by itself, by keyboard too."""
    head = Markup('<pre class="code" tabindex="0" role="group" aria-label="{}"><code>').format(word("code", words))
    return head + Markup("\n").join(lines) + Markup("</code></pre>")


def _line(number: int, width: int, part: Markup, kind: str, words: str, here: bool = False) -> Markup:
    """A numbered line; with `here` it is the one that #L12 leads to."""
    kind = kind if kind in _SIGNS else "info" if kind else ""
    return _LINE.format(
        f"line marked {kind}" if kind else "line",
        Markup(' id="L{}"').format(number) if here else "",
        number,
        word("line", words, line=number),
        f"{number:>{width}}",
        _sign(kind, words),
        part,
    )


def _sign(kind: str, words: str) -> Markup:
    if not kind:
        return Markup('<span class="sign">   </span>')
    return Markup('<span class="sign" role="img" aria-label="{}"> {} </span>').format(word(kind, words), _SIGNS[kind])
