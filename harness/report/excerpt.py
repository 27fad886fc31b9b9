"""Lines of the submission around a place, and text made safe to print."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_TAB = 4


def printable(text: str) -> str:
    """The text without anything that could steer a terminal: control characters become `\\x1b`, tabs spaces."""
    unified = text.replace("\r\n", "\n").expandtabs(_TAB)
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", unified)


def excerpt(source: str, line: int, name: str = "", around: int = 1) -> list[str]:
    """`file:line` and the line between its neighbours with its code underlined; nothing for a line not in the source.

    For line 12 of my.cu:

         --> my.cu:12
          11 |   int i = threadIdx.x;
          12 |   out[i] = q[i + n];
             |   ^~~~~~~~~~~~~~~~~~
          13 | }
    """
    lines = printable(source).split("\n")
    if not 1 <= line <= len(lines):
        return []
    first, last = max(1, line - around), min(len(lines), line + around)
    width = len(str(last))
    shown = [f"{'':{width}}--> {name}:{line}"] if name else []
    for number in range(first, last + 1):
        text = lines[number - 1].rstrip()
        shown.append(f" {number:>{width}} | {text}".rstrip())
        if number == line and text.strip():
            indent = len(text) - len(text.lstrip())
            shown.append(f" {'':{width}} | {' ' * indent}^{'~' * (len(text.strip()) - 1)}")
    return shown
