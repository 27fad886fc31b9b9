"""Where a report may go: never over a file that somebody wrote by hand."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError
from harness.problem import FILES

JSON = b"{"  # what a report of each kind starts with
HTML = b"<!doctype html>\n<!-- report of judge.py -->\n"


def check(target: Path, submission: Path, problem: Path, start: bytes) -> None:
    """Raises UsageError where `target` cannot be written, is the submission, is a file of the problem in the directory
    `problem`, or is any other file that is no report. An earlier report, which starts with `start`, an empty file and a
    device are fine."""
    try:
        why = _objection(target, submission, problem, start)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise UsageError(f"cannot write the report to {target}: {why}")


def save(path: str, text: str) -> None:
    """Write a report. Raises UsageError where that fails."""
    try:
        Path(path).write_bytes(text.encode(errors="backslashreplace"))  # half of a surrogate pair is no UTF-8
    except OSError as error:
        raise UsageError(f"cannot write the report to {path}: {error.strerror or error}") from error


def _objection(target: Path, submission: Path, problem: Path, start: bytes) -> str:
    directory = target.absolute().parent
    if target.is_dir() or not directory.is_dir():
        return "it is a directory, or its directory does not exist"
    if not os.access(target if target.exists() else directory, os.W_OK):
        return "permission denied"
    if not target.exists():
        return ""
    if submission.exists() and target.samefile(submission):
        return "it is the submission"
    if any(target.samefile(problem / name) for name in FILES):
        return "it is a file of the problem"
    if not _may_be_a_report(target, start):
        return "a file that is no report is there; remove it or give another name"
    return ""


def _may_be_a_report(target: Path, start: bytes) -> bool:
    """What is no regular file (/dev/null, a pipe) has nothing to lose."""
    if not target.is_file():
        return True
    with target.open("rb") as file:
        found = file.read(64).lstrip()
    return not found or found.startswith(start)
