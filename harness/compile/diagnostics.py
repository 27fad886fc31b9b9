"""The compiler's log as a user may see it: file name and line as written, nothing of this machine, a bounded size."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

MAX_LOG = 64 * 1024
DECLARATION = "<declaration of solve>"  # the file name of what is put before the submission
_BUILT_IN = "__nv_nvrtc_builtin_header.h"  # the compiler's own, in memory
_FOREIGN = "in a file that is not part of the submission"
_RUBBISH = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]")  # with what was no UTF-8
_NOISE = (
    "opt: Unknown command line argument '-enable-scalar-pre=false'",
    'Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"',
)
# Ends in stray bytes, newlines among them; the planner says the same of the values themselves.
_STRAY = r"^[^\n]*A pointer to local memory was stored into the parameter buffer.*?(?=^{}\(|^ptxas |\Z)"
_HEAD = re.compile(r"^(\S.*?)(?:\(\d+\)|:\d+(?::\d+)?) ?: (?:[a-z]+ )?(error|warning|remark|note|Warning)\b")
_MENTION = re.compile(r"(at line \d+ of )(\"?)([^\"\n]{1,300}?)(\"?[)\]]?)$")
_ASSEMBLER = re.compile(r"^ptxas .*?, line (\d+); (\w+)\s*: (.*)$")
_LOC = re.compile(r"\.loc\s+(\d+) (\d+) \d+")


def clean(log: str, name: str, include: Sequence[Path], headers: Collection[str] = ()) -> str:
    """The log without control bytes, noise and machine paths, cut in the middle to MAX_LOG characters. Source lines
    are quoted of `name`, the submission, of `headers`, the in-memory ones, and of the `include` folders alone."""
    log = re.sub(_STRAY.format(re.escape(name)), "", log, flags=re.M | re.S)
    for folder in sorted(map(str, include), key=len, reverse=True):
        log = re.sub(re.escape(folder) + r"/([\w./+-]+)", r"<\1>", log)
    lines = (_RUBBISH.sub("", line) for line in log.replace("\r", "").split("\n"))
    known = {name, DECLARATION, _BUILT_IN, *headers}
    quiet = (line for line in lines if not any(noise in line for noise in _NOISE))
    kept = "\n".join(_without_foreign_text(quiet, known))
    return _cut(re.sub(r"\n{3,}", "\n\n", kept).strip("\n") + "\n" if kept.strip() else "")


def _without_foreign_text(lines: Iterator[str], known: Collection[str]) -> Iterator[str]:
    """Errors in other files of this machine lose the path and the source lines that they quote; milder words about
    them are left out."""
    foreign = said = False
    for line in lines:
        if line and not line[0].isspace():
            head = _HEAD.match(line)
            foreign = head is not None and not _is_known(head.group(1), known) and not _starts(line, known)
            if head and foreign and head.group(2) == "error" and not said:
                said = True
                yield f"error: {_FOREIGN}"
        if not foreign:
            yield _MENTION.sub(lambda found: _mention(found, known), line)


def _is_known(file: str, known: Collection[str]) -> bool:
    return file in known or (file.startswith("<") and file.endswith(">") and ".." not in file)


def _starts(line: str, known: Collection[str]) -> bool:
    """For a file name that looks like the head of a message itself."""
    return any(line.startswith(f"{file}(") for file in known)


def _mention(found: re.Match[str], known: Collection[str]) -> str:
    place, _, file, _ = found.groups()
    return found.group() if _is_known(file, known) else f"{place}a file that is not part of the submission"


def _cut(log: str) -> str:
    if len(log) <= MAX_LOG:
        return log
    half = MAX_LOG // 2 - 64
    return f"{log[:half]}\n... {len(log) - 2 * half} characters left out ...\n{log[-half:]}"


def without_paths(ptx: str, name: str, include: Sequence[Path], headers: Collection[str]) -> str:
    """The PTX with its .file names as the user knows them: "my.cu", "<cuda_fp16.h>". `headers` are the in-memory
    ones; like `name`, the submission, the compiler places them in the working directory."""
    here = os.getcwd().rstrip("/") + "/"
    folders = sorted((f"{folder}/" for folder in include), key=len, reverse=True)

    def short(path: str) -> str:
        own = path.removeprefix(here)
        if own in (name, DECLARATION):
            return own
        if own in headers or own == _BUILT_IN:
            return f"<{own}>"
        folder = next((folder for folder in folders if path.startswith(folder)), "")  # it may lie below `here`
        return f"<{path.removeprefix(folder)}>" if folder else f"<{_FOREIGN}>"

    return re.sub(r'^(\s*\.file\s+\d+ )"([^"]*)"', lambda file: f'{file[1]}"{short(file[2])}"', ptx, flags=re.M)


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
