"""The Markdown of statements: CommonMark with tables, formulas between dollars and parts to unfold; no HTML, no images.

    <details><summary>What it is about</summary>

    Any Markdown.

    </details>

is the one piece of HTML that is read, as harness/report/folding.py reads it for the terminal.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape
from mdit_py_plugins.dollarmath import dollarmath_plugin

from web.rendering import code
from web.rendering.formulas import displayed, in_text
from web.rendering.text_drawing import drawing
from web.rendering.words import word

PREFIX = "statement-"  # of ids, so that no heading takes one that the page uses
LANGUAGE = "language"  # key of the environment of a parse: the language of the site
_PART = re.compile(r"<details><summary>(.+?)</summary>\s*\Z")
_PART_END = "</details>"
_LINK = re.compile(r"(#|https?://)[^\s\x00-\x1f]*\Z")
_OPENING = re.compile(r"[(\[“‘（《「]+\Z")  # noqa: RUF001
_CLOSING = re.compile(r"\A[)\],.;:!?%”’）》」，。；：！？、]+")  # noqa: RUF001
_Env = MutableMapping[str, Any]


def parser() -> MarkdownIt:
    """A parser with renderers for all that statements hold."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    markdown.validateLink = lambda url: bool(_LINK.match(url))  # type: ignore[method-assign]
    markdown.use(dollarmath_plugin, allow_labels=False, double_inline=True)
    markdown.block.ruler.before("fence", "part", _part, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


def words_of(inline: Token) -> str:
    """The words of a line of text, without any marks."""
    return "".join(" " if child.type == "softbreak" else child.content for child in inline.children or ())


def keep_together(inline: Token) -> None:
    """Brackets and commas right beside a formula become part of it: a browser would let a line end between them."""
    children = inline.children or []
    for place, token in enumerate(children):
        if token.type != "math_inline":
            continue
        if place and children[place - 1].type == "text":
            token.meta["before"], children[place - 1].content = _split(_OPENING, children[place - 1].content)
        if place + 1 < len(children) and children[place + 1].type == "text":
            token.meta["after"], children[place + 1].content = _split(_CLOSING, children[place + 1].content)


def _split(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """What the pattern finds, and the text without it."""
    found = pattern.search(text)
    return (found[0], text[: found.start()] + text[found.end() :]) if found else ("", text)


def _part(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A block rule: from <details> to the next </details>, each on a line of its own."""
    opening = _PART.match(_text(state, start))
    if not opening or state.is_code_block(start):
        return False
    last = next((line for line in range(start + 1, end) if _text(state, line).rstrip() == _PART_END), None)
    if last is None:
        return False
    if not silent:
        _push_part(state, opening[1], start, last)
    return True


def _push_part(state: StateBlock, about: str, start: int, last: int) -> None:
    state.push("details_open", "details", 1)
    state.push("summary_open", "summary", 1)
    inline = state.push("inline", "", 0)
    inline.content, inline.children, inline.map = about, [], [start, start + 1]
    state.push("summary_close", "summary", -1)
    line_max, state.lineMax = state.lineMax, last
    state.md.block.tokenize(state, start + 1, last)
    state.lineMax = line_max
    state.push("details_close", "details", -1)
    state.line = last + 1


def _text(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _language(env: _Env) -> str:
    return str(env.get(LANGUAGE, "en"))


def _fence(_: RendererHTML, tokens: Sequence[Token], place: int, __: OptionsDict, env: _Env) -> str:
    token = tokens[place]
    language = (token.info.split() or ["text"])[0]
    if language == "text":
        return drawing(token.content, _language(env))
    return code.code(token.content, language, lines=False, words=_language(env)) + "\n"


def _table_open(_: RendererHTML, __: Sequence[Token], ___: int, ____: OptionsDict, env: _Env) -> str:
    label = word("table", _language(env))
    return f'<div class="table" tabindex="0" role="group" aria-label="{escape(label)}">\n<table>\n'


def _link_open(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: OptionsDict, env: _Env) -> str:
    token = tokens[place]
    target = str(token.attrGet("href") or "")
    if target.startswith("#"):
        token.attrSet("href", "#" + PREFIX + target[1:])
    else:
        token.attrSet("rel", "noopener noreferrer")
    return renderer.renderToken(tokens, place, options, env)


def _formula_block(_: RendererHTML, tokens: Sequence[Token], place: int, __: OptionsDict, env: _Env) -> str:
    head = Markup('<div class="formula" tabindex="0" role="group" aria-label="{}">').format(
        word("formula", _language(env))
    )
    return head + displayed(tokens[place].content) + Markup("</div>\n")


def _formula(_: RendererHTML, tokens: Sequence[Token], place: int, __: OptionsDict, ___: _Env) -> str:
    token = tokens[place]
    return in_text(token.content, **token.meta)


_RULES = {
    "fence": _fence,
    "code_block": _fence,
    "table_open": _table_open,
    "table_close": lambda *_: "</table>\n</div>\n",
    "link_open": _link_open,
    "math_block": _formula_block,
    "math_inline": _formula,
    "math_inline_double": _formula,
}
