"""A plain sentence beside the compiler's own words, where learners need one: solve() with the wrong shape, a header or
a runtime function that is not offered here, a mistyped launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.compile import declarations, offered
from harness.compile.declarations import Declaration
from harness.errors import SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

_ABOUT_SOLVE = re.compile(r'error\b[^\n]*"solve["(]|error\b[^\n]*distinguished by return type alone\n[^\n]*\bsolve\b')


def compile_error(log: str, name: str, text: str, declaration: str, include: Sequence[Path] = ()) -> SubmissionError:
    """The exception for a log with errors over `text`, the file called `name`; `include` are the toolkit's header
    folders. Its message is our own sentence where there is one, else the compiler's first error. The verdict is
    compile_error, or unsupported for what nvcc would take and this judge cannot."""
    log = offered.at_the_users_line(log, name, text)
    line = _line(log, name)
    hint = _wrong_solve(log, text, declaration)
    missing = None if hint else offered.missing(log, name, text, include)
    if missing:
        return _error(missing.message, name, missing.line or line, log, missing.verdict)
    if hint:
        return _error(hint, name, line, log, first=True)
    hint = _launch_brackets(text, line) or _constant_data(log)
    if hint:
        return _error(hint, name, line, log)
    first = re.search(r"^.*?\berror\b.*$", log, re.M)
    message = first.group().strip() if first else "the compiler refused the file without an error message"
    return SubmissionError(Verdict.COMPILE_ERROR, message, log=log)


def no_entry(log: str, name: str, text: str, declaration: str) -> SubmissionError:
    """The exception for a file that compiles, but without a solve() that can be called."""
    expected, found = _likeliest(declaration), _likeliest(text)
    if found is None:
        message = f"{name} defines no host entry point; add: {one_line(declaration)} {{ ... }}"
    elif not _same(expected, found):
        message = _both_lists(expected, found)
    else:
        message = f"solve() must be visible: not static, not in a namespace, but {one_line(declaration)} {{ ... }}"
    return _error(message, name, found.line if found else 0, log)


def _error(
    message: str, name: str, line: int, log: str, verdict: Verdict = Verdict.COMPILE_ERROR, first: bool = False
) -> SubmissionError:
    """`first`: before the compiler's own words, which speak of what the judge puts before the submission."""
    kind = FindingKind.UNSUPPORTED if verdict is Verdict.UNSUPPORTED else FindingKind.NOTE
    said = f"{name}({line}): {message}\n" if line else f"{message}\n"
    shown = log if message in log else "\n".join(filter(None, (said, log) if first else (log, said)))
    return SubmissionError(verdict, message, [Finding(kind, message, name, line)], log=shown)


def _line(log: str, name: str) -> int:
    """Line of the user's file that the first error is about."""
    found = re.search(rf"^{re.escape(name)}\((\d+)\):[^\n]*\berror\b", log, re.M)
    return int(found.group(1)) if found else 0


def _likeliest(text: str) -> Declaration | None:
    return next(iter(declarations.declared(text)), None)


def _same(expected: Declaration | None, found: Declaration) -> bool:
    return expected is None or (found.types, found.constant) == (expected.types, expected.constant)


def _wrong_solve(log: str, text: str, declaration: str) -> str:
    """The ways in which a definition of solve() contradicts the problem's declaration."""
    if not _ABOUT_SOLVE.search(log):
        return ""
    twice = declarations.defined_twice(text)
    if twice:
        return f"solve() is defined twice, lines {twice[0]} and {twice[1]}; keep one: {one_line(declaration)}"
    expected, every = _likeliest(declaration), declarations.declared(text)
    wrong = [each for each in every if each.external or each == every[0]]
    found = next((each for each in wrong if not _same(expected, each)), None)
    if found is not None:
        return _both_lists(expected, found)
    return f"solve() must be declared exactly as: {one_line(declaration)}"


def _both_lists(expected: Declaration | None, found: Declaration) -> str:
    wanted, written = (", ".join(each.parameters) if each else "" for each in (expected, found))
    return f"solve() has the wrong parameters:\n  expected ({wanted})\n  found    ({written})"


def _launch_brackets(text: str, line: int) -> str:
    """A launch on the line of the first error that lacks one of its brackets."""
    shown = text.split("\n")[line - 1] if line else ""
    opening = re.search(r"\w\s*<<(?!<)[^<;]*>>>\s*\(", shown)
    closing = re.search(r"<<<[^>;]*(?<!>)>>(?!>)\s*\(", shown)
    lacking = "'<'" if opening else "'>'" if closing else ""
    return f"a launch is written kernel<<<grid, block>>>(arguments); here a {lacking} is missing" if lacking else ""


def _constant_data(log: str) -> str:
    found = re.search(r"too much global constant data \(0x(\w+) bytes, 0x(\w+) max\)", log)
    if not found:
        return ""
    size, most = (int(digits, 16) for digits in found.groups())
    return f"the __constant__ variables take {size} bytes, {most} at most; keep large tables in device memory"


def one_line(declaration: str) -> str:
    """The declaration of solve() itself, without #include lines, on one line and without the ';'."""
    lines = [line for line in declaration.splitlines() if not line.lstrip().startswith("#")]
    return " ".join(" ".join(lines).split()).rstrip("; ")
