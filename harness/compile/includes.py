"""What a submission may include: our own headers and the toolkit's, and no other file of this machine.

The compiler reads any path that an #include names, and in-memory headers come first: each path in the text at which it
would find a foreign file is covered by a header that refuses. What a directive computes cannot be known from the text,
so it must come down to a name that is written out there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.errors import SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

REFUSAL = "not for a submission to include"  # what the covering headers say
_MAX_PATH = 4096
_SPACE = r"(?:[ \t\v\f]|\\[ \t]*\n|/\*(?:[^*\n]|\*(?!/))*\*/)*"
_LINE = re.compile(rf"^({_SPACE})(?:#|%:)({_SPACE})(?:line\b|(?=\d))", re.M)
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)
_INCLUDE = re.compile(r"^[ \t]*(?:#|%:)[ \t]*include(?:_next)?\b[ \t]*(.*?)[ \t]*$", re.M)
_NAMED = re.compile(r'"[^"]*"|<[^>]*>')


def without_line_directives(text: str) -> str:
    """The text with every #line made a comment: messages count the lines of the file as it was sent, and name it."""
    return _LINE.sub(r"\1\2//", text)


def covered(text: str, include: Sequence[Path]) -> dict[str, str]:
    """In-memory headers that refuse, by the name in `text` at which the compiler would find a file outside of the
    `include` folders."""
    names = {name for name in re.split(r'[<>"\n]', _logical(text)) if 0 < len(name) <= _MAX_PATH and "\0" not in name}
    here = set(os.listdir())
    return {
        name: f"#error {REFUSAL}\n"
        for name in names
        if ("/" in name or name in here) and _is_foreign(name, [os.path.abspath(folder) for folder in include])
    }


def _is_foreign(name: str, folders: Sequence[str]) -> bool:
    """Whether the compiler would open a file outside of the folders: absolute, from here, or by climbing out."""
    places = [name] if os.path.isabs(name) else [os.path.join(folder, name) for folder in (".", *folders)]
    for path in map(os.path.abspath, places):
        if os.path.exists(path) and not any(path.startswith(f"{folder}/") for folder in folders):
            return True
    return False


def check(text: str, name: str) -> None:
    """Raises SubmissionError (compile_error) for an #include whose header the text does not spell out."""
    plain = _without_comments(_logical(text))
    fine: set[str] = set()
    for directive in _INCLUDE.finditer(plain):
        operand = directive.group(1)
        if operand in fine or operand[:1] in ("", '"', "<") or _spelled_out(operand, plain):
            fine.add(operand)
        else:
            line = plain.count("\n", 0, directive.start()) + 1
            message = f'{name}({line}): error: #include needs the header itself, as "name.h" or <name>'
            finding = Finding(FindingKind.NOTE, message, name, line)
            raise SubmissionError(Verdict.COMPILE_ERROR, message, [finding], log=message + "\n")


def _spelled_out(macro: str, text: str) -> bool:
    if macro == "__FILE__":
        return True
    defined = re.findall(rf"^[ \t]*(?:#|%:)[ \t]*define[ \t]+{re.escape(macro)}(?!\w)[ \t]*(.*?)[ \t]*$", text, re.M)
    return bool(defined) and all(_NAMED.fullmatch(body) for body in defined)


def directives(text: str) -> Iterator[tuple[int, str]]:
    """(line, header) of each #include that names its header."""
    plain = _without_comments(_logical(text))
    for found in _INCLUDE.finditer(plain):
        named = _NAMED.match(found.group(1))
        if named:
            yield plain.count("\n", 0, found.start()) + 1, named.group()[1:-1]


def _logical(text: str) -> str:
    """The text with lines that a backslash continues joined; the newlines follow, so that later lines keep theirs."""
    lines, joined, owed = [], "", 0
    for line in text.split("\n"):
        body = line.rstrip(" \t")
        if body.endswith("\\"):
            joined, owed = joined + body[:-1], owed + 1
        else:
            lines += [joined + line] + [""] * owed
            joined, owed = "", 0
    return "\n".join([*lines, joined] if owed else lines)


def _without_comments(text: str) -> str:
    def blank(token: re.Match[str]) -> str:
        return token.group() if token.group()[0] == '"' else re.sub(r"[^\n]", " ", token.group())

    return _TOKEN.sub(blank, text)
