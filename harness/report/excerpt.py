"""Lines of the submission around a place, and text made safe to print."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

# What steers a terminal or the order of a line, and what takes no room, so that two texts look the same or one hides in
# another: of Unicode's categories Cc and Cf and of the property Default_Ignorable_Code_Point, all but the signs that
# scripts write with and the selectors that choose between forms of a character (FE00..FE0F, E0100..E01EF).
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff"
    r"\U000e01f0-\U000e0fff]"
)
_TAB = 4
_CUT = "..."
_LEAST = 8  # columns of code that are shown however narrow the terminal is


def printable(text: str) -> str:
    """The text without anything that steers a terminal or cannot be seen: control characters become `\\x1b`, invisible
    ones `\\x200b`, tabs spaces."""
    unified = text.replace("\r\n", "\n").expandtabs(_TAB)
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", unified)


def excerpt(source: str, line: int, name: str = "", around: int = 1, columns: int = 0) -> list[str]:
    """`file:line` and the line between its neighbours with its code underlined; nothing for a line not in the source.

    Lines longer than `columns` (0: of any length) are cut, never wrapped, so that the underline stays below its code.
    For line 12 of my.cu:

         --> my.cu:12
          11 |   int i = threadIdx.x;
          12 |   out[i] = q[i + n];
             |   ^~~~~~~~~~~~~~~~~~
          13 | }
    """
    lines = [text.rstrip() for text in printable(source).split("\n")]
    if not 1 <= line <= len(lines):
        return []
    first, last = max(1, line - around), min(len(lines), line + around)
    width = len(str(last))
    left, room = _window(lines[line - 1], columns - width - len("  | ") if columns else 0)
    shown = [f"{'':{width}}--> {name}:{line}"] if name else []
    for number in range(first, last + 1):
        text = _cropped(lines[number - 1], left, room)
        shown.append(f" {number:>{width}} | {text}".rstrip())
        if number == line and text:
            shown.append(f" {'':{width}} | {_underline(text)}")
    return shown


def _window(marked: str, room: int) -> tuple[int, int]:
    """How many columns of indentation to leave out, so that code far to the right is still seen, and how many to show
    (0: all)."""
    if room <= 0:
        return 0, 0
    room = max(room, _LEAST)
    indent = len(marked) - len(marked.lstrip())
    return (indent if indent > room // 2 else 0), room


def _cropped(text: str, left: int, room: int) -> str:
    text = text[min(left, len(text) - len(text.lstrip())) :]
    if not room or cell_len(text) <= room:
        return text
    return set_cell_size(text, room - len(_CUT)).rstrip() + _CUT


def _underline(text: str) -> str:
    code = text.lstrip()
    return " " * cell_len(text[: len(text) - len(code)]) + "^" + "~" * (cell_len(code) - 1)
