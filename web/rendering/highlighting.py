"""Source text -> its lines as HTML, each token in a span whose class says what it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from markupsafe import Markup, escape
from pygments.token import STANDARD_TYPES, Name, Operator, Punctuation, Text, _TokenType

from harness.report.excerpt import printable
from web.rendering.lexer import LinearCudaLexer
from web.rendering.words import word

LINES = 10_000  # of a file that are coloured, and shown at once
COLUMNS = 1000  # of a line that are shown: more is no code that anybody reads
_CHARACTERS = 400_000  # that are coloured: a file of 256 KiB has more only if most of it is escapes
_KEPT = 64 * 1024  # characters of a file whose lines are remembered
_CUDA = frozenset(("cuda", "cu", "cpp", "c++", "c"))
_PLAIN = frozenset((Text, Name, Operator, Punctuation))  # written without a span
_Token = tuple[_TokenType, str]


def shown(text: str) -> str:
    """The text with what cannot be seen, or written in UTF-8, as escapes; tabs as spaces."""
    return printable(text).encode("utf-8", "backslashreplace").decode("utf-8")


def source_lines(text: str) -> list[str]:
    """The lines as they are shown and compared; a last end of line does not begin another one."""
    return shown(text).removesuffix("\n").split("\n")


def highlighted(text: str, language: str, words: str = "en") -> tuple[Markup, ...]:
    """The lines of source_lines(text) as HTML, cut after COLUMNS. What is no CUDA or C++, or has more than LINES lines,
    is not coloured. `words` is the language of the site."""
    return (_kept if len(text) <= _KEPT else _highlighted)(text, language, words)


def _highlighted(text: str, language: str, words: str) -> tuple[Markup, ...]:
    lines = source_lines(text)
    cut = [line[:COLUMNS] for line in lines]
    coloured = language.lower() in _CUDA and len(cut) <= LINES and sum(map(len, cut)) <= _CHARACTERS
    safe = _coloured(cut) if coloured else map(escape, cut)
    return tuple(
        part if len(line) <= COLUMNS else part + _rest(len(line) - COLUMNS, words)
        for part, line in zip(safe, lines, strict=True)
    )


_kept = lru_cache(maxsize=16)(_highlighted)  # a page shows excerpts of the file that it shows


def _rest(left_out: int, words: str) -> Markup:
    return Markup('<span class="cut">… {}</span>').format(word("more_columns", words, count=left_out))


def _coloured(lines: list[str]) -> Iterator[Markup]:
    tokens = LinearCudaLexer().get_tokens_unprocessed("\n".join(lines))
    for line in _by_line((kind, value) for _, kind, value in tokens):
        groups = groupby(line, lambda token: _class(token[0]))
        yield Markup("").join(_span(name, "".join(value for _, value in group)) for name, group in groups)


def _by_line(tokens: Iterable[_Token]) -> Iterator[list[_Token]]:
    """The tokens of each line; one that spans lines is cut."""
    line: list[_Token] = []
    for kind, value in tokens:
        first, *more = value.split("\n")
        line.append((kind, first))
        for part in more:
            yield line
            line = [(kind, part)]
    yield line


def _class(kind: _TokenType) -> str:
    return "" if kind in _PLAIN else STANDARD_TYPES[kind]


def _span(name: str, value: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(name, value) if name and value else escape(value)
