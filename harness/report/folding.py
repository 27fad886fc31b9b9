"""The parts of a statement that a reader unfolds, hints and answers, for a terminal, which has nothing to click on.

In Markdown such a part is written so, as GitHub and browsers show it folded:

    <details><summary>What it is about</summary>

    Any Markdown.

    </details>
"""

from __future__ import annotations

import re
from collections.abc import Collection

from harness.errors import UsageError

ALL = "all"
_PART = re.compile(r"^<details><summary>(.+?)</summary>\n(.*?)^</details>$", re.MULTILINE | re.DOTALL)


def chosen(text: str, which: str) -> frozenset[int]:
    """The numbers, from 1, of the parts of `text` that `which` names: "all", or numbers separated by commas; none for
    "". Raises UsageError for a part that it does not have."""
    count = len(_PART.findall(text))
    if which == ALL:
        return frozenset(range(1, count + 1))
    words = [word.strip() for word in which.split(",") if word.strip()]
    unknown = [word for word in words if not (word.isdecimal() and len(word) < 9 and 1 <= int(word) <= count)]
    if unknown:
        raise UsageError(f"--unfold {unknown[0]}: there are parts 1 to {count}, or {ALL}")
    return frozenset(map(int, words))


def folded(text: str, but: Collection[int] = ()) -> str:
    """Of each part its number and what it is about; those of the numbers `but` in full, without the tags."""
    numbers = iter(range(1, len(text)))

    def shown(part: re.Match[str]) -> str:
        number = next(numbers)
        return f"[-{number}] **{part[1]}**\n\n{part[2].strip()}" if number in but else f"[+{number}] {part[1]}"

    return _PART.sub(shown, text)
