"""A plain sentence beside the compiler's own words, where learners need one: solve() with the wrong shape, a header or
a runtime function that is not offered here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.errors import SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

_ABOUT_SOLVE = re.compile(r'error\b[^\n]*"solve["(]|error\b[^\n]*distinguished by return type alone\n[^\n]*\bsolve\b')
_SCALARS = r"const|volatile|unsigned|signed|bool|char|short|int|long|float|double|void|size_t|\w+_t|__half|__nv_\w+"


def compile_error(log: str, name: str, text: str, declaration: str) -> SubmissionError:
    """The exception for a log with errors over `text`, the file called `name`. Its message is our own sentence where
    there is one, else the compiler's first error."""
    hint = _wrong_solve(log, text, declaration) or _header(log) or _runtime_function(log)
    first = re.search(r"^.*?\berror\b.*$", log, re.M)
    message = hint or (first.group().strip() if first else "the compiler refused the file without an error message")
    return _error(message, name, _line(log, name, text), log, hinted=bool(hint))


def no_entry(log: str, name: str, text: str, declaration: str) -> SubmissionError:
    """The exception for a file that compiles, but without a solve() that can be called."""
    expected, found = parameters(declaration), parameters(text)
    if found is None:
        message = f"{name} defines no host entry point; add: {one_line(declaration)} {{ ... }}"
    elif _types(found) != _types(expected or []):
        message = _both_lists(expected or [], found)
    else:
        message = f"solve() must be visible: not static, not in a namespace, but {one_line(declaration)} {{ ... }}"
    return _error(message, name, _definition_line(text), log, hinted=True)


def _error(message: str, name: str, line: int, log: str, hinted: bool) -> SubmissionError:
    if not hinted:
        return SubmissionError(Verdict.COMPILE_ERROR, message, log=log)
    finding = Finding(FindingKind.NOTE, message, name, line)
    shown = f"{log}\n{message}\n" if log else f"{message}\n"
    return SubmissionError(Verdict.COMPILE_ERROR, message, [finding], log=shown)


def _line(log: str, name: str, text: str) -> int:
    """Line of the user's file that the first error is about, or of the #include that brought a refused header in."""
    found = re.search(rf"^{re.escape(name)}\((\d+)\):[^\n]*\berror\b", log, re.M)
    if found:
        return int(found.group(1))
    header = re.search(r"^([\w./]+)\(\d+\): [^\n]*#error", log, re.M)
    include = header and re.search(rf"^\s*#\s*include\s*[<\"]{re.escape(header.group(1))}", text, re.M)
    return text.count("\n", 0, include.end()) + 1 if include else 0


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


def _header(log: str) -> str:
    refused = re.search(r'#error directive: "?(<\w+> is not available[^"\n]*)', log)
    if refused:
        return refused.group(1)
    missing = re.search(r'cannot open source file "([^"]*)"', log)
    return f"there is no header {missing.group(1)} for a submission to include" if missing else ""


def _runtime_function(log: str) -> str:
    unknown = re.search(r'identifier "(cu(?:da)?[A-Z]\w*)" is undefined', log)
    return f"{unknown.group(1)} is not among the CUDA functions that solve() can use here" if unknown else ""


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
