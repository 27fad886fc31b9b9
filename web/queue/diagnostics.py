"""The compiler's log -> what an editor marks: line, column, severity and message of each diagnostic in the submission.

NVRTC writes `name(line): error: text`, lines that go on with the text, the source line behind two spaces, and a caret
under the column; an empty line ends it. harness/compile/diagnostics.py has cleaned the log before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_SEVERITY = {"error": "error", "warning": "warning", "remark": "info", "note": "info"}
_CARET = re.compile(r"\s*\^\s*\Z")
_QUOTE_INDENT = 2
_GOES_ON = " " * 10  # the compiler indents by at least as much what goes on with a message
_MOST = 200  # of one log; more marks help nobody


def diagnostics(log: str, name: str) -> list[dict[str, Any]]:
    """Each once, in the log's order: {"line", "column", "severity", "message"}, both counted from 1; column 0 where the
    log has no caret. `name` is the submission's."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for mark in _marks(log.split("\n"), name):
        found.setdefault(tuple(mark.values()), mark)
    return list(found.values())[:_MOST]


def _marks(lines: Sequence[str], name: str) -> Iterator[dict[str, Any]]:
    head = re.compile(rf"{re.escape(name)}\((\d+)\): (?:catastrophic )?({'|'.join(_SEVERITY)})\b[^:]*: (.*)")
    for at, line in enumerate(lines):
        if match := head.match(line):
            number, severity, text = match.groups()
            more, column = _rest(lines, at + 1)
            message = " ".join([text, *more]).strip()
            yield {"line": int(number), "column": column, "severity": _SEVERITY[severity], "message": message}


def _rest(lines: Sequence[str], start: int) -> tuple[list[str], int]:
    """What goes on with the message that began above `start`, and the column under which the caret stands."""
    for at in range(start, len(lines)):
        if not lines[at][:1].isspace():
            return [line.strip() for line in lines[start:at] if line.startswith(_GOES_ON)], 0  # without the code
        if _CARET.match(lines[at]):
            return [line.strip() for line in lines[start : at - 1]], lines[at].index("^") - _QUOTE_INDENT + 1
    return [], 0
