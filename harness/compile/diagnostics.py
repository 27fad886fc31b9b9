"""The compiler's log as a user may see it: file name and line as written, nothing of this machine, a bounded size."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

MAX_LOG = 64 * 1024
DECLARATION = "<declaration of solve>"  # the file name of what is put before the submission
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOISE = (
    "opt: Unknown command line argument '-enable-scalar-pre=false'",
    'Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"',
)
_ELSEWHERE = re.compile(r"^(/[^(:]*)\(\d+\): ")  # a message about a file that is neither the user's nor a header
_ASSEMBLER = re.compile(r"^ptxas .*?, line (\d+); (\w+)\s*: (.*)$")
_LOC = re.compile(r"\.loc\s+(\d+) (\d+) \d+")


def clean(log: str, name: str, include: Sequence[Path]) -> str:
    """The log without control bytes, noise and machine paths, cut in the middle to MAX_LOG characters."""
    for folder in sorted(map(str, include), key=len, reverse=True):
        log = re.sub(re.escape(folder) + r"/([\w./+-]+)", r"<\1>", log)
    lines = (_CONTROL.sub("", line) for line in log.replace("\r", "").split("\n"))
    kept = "\n".join(_without_foreign_text(line for line in lines if not any(noise in line for noise in _NOISE)))
    return _cut(re.sub(r"\n{3,}", "\n\n", kept).strip("\n") + "\n" if kept.strip() else "")


def _without_foreign_text(lines: Iterator[str]) -> Iterator[str]:
    """Messages about other files of this machine lose the path and the source lines that they quote."""
    foreign = False
    for line in lines:
        if line and not line[0].isspace():
            foreign = _ELSEWHERE.match(line) is not None
        elif foreign:
            continue
        yield "error: in a file that is not part of the submission" if foreign else line


def _cut(log: str) -> str:
    if len(log) <= MAX_LOG:
        return log
    half = MAX_LOG // 2 - 64
    return f"{log[:half]}\n... {len(log) - 2 * half} characters left out ...\n{log[-half:]}"


def without_paths(ptx: str, include: Sequence[Path], headers: Collection[str]) -> str:
    """The PTX with its .file names as the user knows them: "my.cu", "<cuda_fp16.h>". `headers` are the in-memory
    ones; like the submission, the compiler places them in the working directory."""
    here = os.getcwd().rstrip("/") + "/"
    folders = sorted((f"{folder}/" for folder in include), key=len, reverse=True)

    def short(match: re.Match[str]) -> str:
        path = match.group(2).removeprefix(here)
        for folder in folders:
            if path.startswith(folder):
                return f'{match.group(1)}"<{path.removeprefix(folder)}>"'
        return f'{match.group(1)}"<{path}>"' if path in headers else f'{match.group(1)}"{path}"'

    return re.sub(r'^(\s*\.file\s+\d+ )"([^"]*)"', short, ptx, flags=re.M)


def names_assembler(log: str) -> bool:
    """Whether the assembler refused the code, whose messages count the lines of the PTX."""
    return any(_ASSEMBLER.match(line) for line in log.splitlines())


def locate_assembler(log: str, ptx: str, name: str) -> str:
    """The log with the assembler's messages at the user's lines; `ptx` is what it was given."""
    lines = ptx.splitlines()
    file = next(iter(re.findall(rf'^\s*\.file\s+(\d+) "(?:[^"]*/)?{re.escape(name)}"', ptx, re.M)), "1")

    def located(line: str) -> str:
        message = _ASSEMBLER.match(line)
        if not message:
            return line
        number, severity, text = message.groups()
        own = _own_line(lines[: int(number)], file)
        return f"{name}({own}): {severity}: {text} (assembler)" if own else line

    return "\n".join(map(located, log.split("\n")))


def _own_line(before: Sequence[str], file: str) -> int:
    for line in reversed(before):
        found = _LOC.search(line)
        if found and found.group(1) == file:
            return int(found.group(2))
    return 0
