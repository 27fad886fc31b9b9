"""A plain sentence beside the compiler's own words, where learners need one: solve() with the wrong shape, a header or
a runtime function that is not offered here, a mistyped launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.compile import offered
from harness.errors import SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

_ABOUT_SOLVE = re.compile(r'error\b[^\n]*"solve["(]|error\b[^\n]*distinguished by return type alone\n[^\n]*\bsolve\b')
_SCALARS = r"const|volatile|unsigned|signed|bool|char|short|int|long|float|double|void|size_t|\w+_t|__half|__nv_\w+"


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
    hint = hint or _launch_brackets(text, line) or _constant_data(log)
    if hint:
        return _error(hint, name, line, log)
    first = re.search(r"^.*?\berror\b.*$", log, re.M)
    message = first.group().strip() if first else "the compiler refused the file without an error message"
    return SubmissionError(Verdict.COMPILE_ERROR, message, log=log)


def no_entry(log: str, name: str, text: str, declaration: str) -> SubmissionError:
    """The exception for a file that compiles, but without a solve() that can be called."""
    expected, found = parameters(declaration), parameters(text)
    if found is None:
        message = f"{name} defines no host entry point; add: {one_line(declaration)} {{ ... }}"
    elif _types(found) != _types(expected or []):
        message = _both_lists(expected or [], found)
    else:
        message = f"solve() must be visible: not static, not in a namespace, but {one_line(declaration)} {{ ... }}"
    return _error(message, name, _definition_line(text), log)


def _error(message: str, name: str, line: int, log: str, verdict: Verdict = Verdict.COMPILE_ERROR) -> SubmissionError:
    kind = FindingKind.UNSUPPORTED if verdict is Verdict.UNSUPPORTED else FindingKind.NOTE
    place = f"{name}({line}): " if line else ""
    shown = log if message in log else f"{log}\n{place}{message}\n" if log else f"{place}{message}\n"
    return SubmissionError(verdict, message, [Finding(kind, message, name, line)], log=shown)


def _line(log: str, name: str) -> int:
    """Line of the user's file that the first error is about."""
    found = re.search(rf"^{re.escape(name)}\((\d+)\):[^\n]*\berror\b", log, re.M)
    return int(found.group(1)) if found else 0


def _definition_line(text: str) -> int:
    found = re.search(r"\bsolve\s*\(", text)
    return text.count("\n", 0, found.start()) + 1 if found else 0


def _wrong_solve(log: str, text: str, declaration: str) -> str:
    """The ways in which a definition of solve() contradicts the problem's declaration."""
    if not _ABOUT_SOLVE.search(log):
        return ""
    expected, found = parameters(declaration) or [], parameters(text)
    if found is not None and _types(found) != _types(expected):
        return _both_lists(expected, found)
    return f"solve() must be declared exactly as: {one_line(declaration)}"


def _both_lists(expected: Sequence[str], found: Sequence[str]) -> str:
    shown = f"  expected ({', '.join(expected)})\n  found    ({', '.join(found)})"
    return f"solve() has the wrong parameters:\n{shown}"


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


def parameters(text: str) -> list[str] | None:
    """The parameter list of the last 'solve(...) {' or 'solve(...);' in `text`; None where there is none."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    found = re.findall(r"\bsolve\s*\(([^(){};]*)\)\s*(?:\{|;)", bare)
    if not found:
        return None
    return [" ".join(parameter.split()) for parameter in found[-1].split(",") if parameter.strip()]


def _types(items: Sequence[str]) -> list[str]:
    """Types alone, spacing made uniform: 'const float * q' and 'const float *x' are the same parameter."""
    plain = [re.sub(r"\s*([*&])\s*", r"\1 ", item.replace("__restrict__", " ")).strip() for item in items]
    return [re.sub(rf"\s*\b(?!(?:{_SCALARS})\b)\w+$", "", item).strip() for item in plain]
