"""The parts of a statement that a reader unfolds, hints and answers, for a terminal, which has nothing to click on.

In Markdown such a part is written so, as GitHub and browsers show it folded:

    <details><summary>What it is about</summary>

    Any Markdown.

    </details>
"""

from __future__ import annotations

import re

_PART = re.compile(r"^<details><summary>(.+?)</summary>\n(.*?)^</details>$", re.MULTILINE | re.DOTALL)


def folded(text: str) -> str:
    """Of each part only what it is about."""
    return _PART.sub(r"[+] \1", text)


def unfolded(text: str) -> str:
    """Each part in full, without the tags."""
    return _PART.sub(lambda part: f"[-] **{part[1]}**\n\n{part[2].strip()}", text)
