"""A folder of files for the doubling problem, graded with the fake toolchain."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from harness.grading import session as sessions
from harness.grading.discovery import Entry, find
from harness.grading.graded import Graded
from harness.grading.judging import Settings
from harness.grading.session import Session
from harness.pipeline import Options
from harness.problem import Problem
from tests.fake_toolchain import TOOLCHAIN

OPTIONS = Options(device="cpu", seed=7, cache=False, toolchain=TOOLCHAIN)


class AbsentDevice:
    """What a child finds on a machine without a card."""

    def __init__(self) -> None:
        raise UsageError("no card")


def entries(folder: Path, problem: Problem, **texts: str) -> list[Entry]:
    """One file for each text."""
    for name, text in texts.items():
        (folder / f"{name}.cu").write_text(text)
    return find([folder], str(problem.directory))


def graded(folder: Path, problem: Problem, jobs: int = 1, report_only: bool = False, **texts: str) -> Session:
    """The session over these files, run to its end."""
    made = sessions.session(entries(folder, problem, **texts), Settings(OPTIONS, report_only=report_only), jobs)
    made.run(lambda entry, message: None)
    return made


def only(session: Session) -> Graded:
    """The result of a session over one file."""
    ((_, result),) = session.rows
    return result
