"""Drawings made of characters, which must stay in their columns whatever font shows them."""

from __future__ import annotations

import re

from markupsafe import Markup, escape
from rich.cells import cell_len

from web.rendering.highlighting import shown
from web.rendering.words import word

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def drawing(text: str, words: str = "en") -> Markup:
    """The drawing in a part of the page that scrolls by itself. Characters that take two columns, as Chinese ones do,
    are in a box of that width: no font is sure to make them twice as wide as the others."""
    safe = Markup(_NOT_ASCII.sub(_boxed, str(escape(shown(text).removesuffix("\n")))))
    head = Markup('<pre class="drawing" tabindex="0" role="group" aria-label="{}">').format(word("drawing", words))
    return head + safe + Markup("</pre>\n")


def _boxed(found: re.Match[str]) -> str:
    return f'<span class="wide">{found[0]}</span>' if cell_len(found[0]) == 2 else found[0]
