"""The statement of a problem as a part of a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from markdown_it.token import Token
from markupsafe import Markup

from harness.errors import UsageError
from harness.problem import Problem
from web.rendering import markdown
from web.rendering.highlighting import shown

ENGLISH = "en"
_PARSER = markdown.parser()


@dataclass(frozen=True)
class Statement:
    """What a page shows of a statement. `contents` are its sections: the id and the words of each second heading."""

    title: str  # its first heading, or "" where it has none; not in the html
    html: Markup
    contents: tuple[tuple[str, str], ...]
    language: str  # "en" where there was none in the language that was asked for


def statement(problem: Problem, language: str) -> Statement:
    """The statement in a language, or in English. Its headings are of the second level and below."""
    try:
        text = problem.statement_in(language)
    except UsageError:
        language, text = ENGLISH, problem.statement
    return rendered(text, language)


@lru_cache(maxsize=64)
def rendered(text: str, language: str = ENGLISH) -> Statement:
    """Markdown as web/rendering/markdown.py describes it."""
    env: dict[str, str] = {markdown.LANGUAGE: language}
    tokens = _PARSER.parse(shown(text), env)
    title = _without_title(tokens)
    contents = _name_headings(tokens)
    _name_parts(tokens)
    _prepare_tables(tokens)
    for token in tokens:
        markdown.keep_together(token)
    html = _PARSER.renderer.render(tokens, _PARSER.options, env)
    return Statement(title, Markup(html), contents, language)


def _without_title(tokens: list[Token]) -> str:
    """The words of a heading of the first level that the text begins with; it is taken out."""
    if not tokens or tokens[0].type != "heading_open" or tokens[0].tag != "h1":
        return ""
    title = markdown.words_of(tokens[1])
    del tokens[:3]
    return title


def _name_headings(tokens: list[Token]) -> tuple[tuple[str, str], ...]:
    """Ids for all headings, and those of the second level."""
    contents = []
    taken: set[str] = set()
    for place, token in enumerate(tokens):
        if token.type not in ("heading_open", "heading_close"):
            continue
        token.tag = max(token.tag, "h2")  # the page has a first heading of its own
        if token.type == "heading_open":
            words = markdown.words_of(tokens[place + 1])
            name = _unused(_slug(words), taken)
            token.attrSet("id", name)
            contents += [(name, words)] if token.tag == "h2" else []
    return tuple(contents)


def _slug(words: str) -> str:
    letters = "".join(letter if letter.isalnum() else " " for letter in words.lower())
    return markdown.PREFIX + ("-".join(letters.split()) or "section")


def _unused(name: str, taken: set[str]) -> str:
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    found = next(other for other in (name, *numbered) if other not in taken)
    taken.add(found)
    return found


def _name_parts(tokens: list[Token]) -> None:
    """Parts to unfold are numbered as `judge.py show --unfold` numbers them."""
    parts = (token for token in tokens if token.type == "details_open")
    for number, token in enumerate(parts, 1):
        token.attrSet("id", f"{markdown.PREFIX}part-{number}")


def _prepare_tables(tokens: list[Token]) -> None:
    """Alignment by class, as pages allow no style attributes; head cells say that they head columns, unless empty."""
    for place, token in enumerate(tokens):
        if token.type not in ("th_open", "td_open"):
            continue
        style = str(token.attrs.pop("style", ""))
        if style:
            token.attrSet("class", style.rpartition(":")[2].strip())
        if token.type == "th_open" and tokens[place + 1].content:
            _head_column(token, tokens[place + 1])
        elif token.type == "th_open":
            token.tag = tokens[place + 2].tag = "td"


def _head_column(cell: Token, inline: Token) -> None:
    """Formulas in it get labels: without words a head would count as empty."""
    cell.attrSet("scope", "col")
    for child in inline.children or ():
        if child.type == "math_inline":
            child.meta["label"] = True
