"""The problems that the site shows, read again only when one of their files has changed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from fastapi import HTTPException

from harness import problem
from harness.errors import UsageError
from harness.problem import Problem


def every() -> tuple[Problem, ...]:
    """All of them, by id, each in its first track."""
    return tuple(_load(directory, _changed(directory)) for directory in _directories())


def get(problem_id: str) -> Problem | None:
    """The problem with this id, in its first track."""
    directory = next((path for path in _directories() if path.name == problem_id), None)
    return _load(directory, _changed(directory)) if directory else None


def asked_for(problem_id: str, dtype: str = "", variant: str = "") -> Problem:
    """The problem in the track that an address names. Raises HTTPException 404 where there is none."""
    found = get(problem_id)
    if found is None:
        raise HTTPException(404, f"There is no problem called {problem_id!r}.")
    try:
        return found.track(dtype or None, variant or None)
    except UsageError as error:
        raise HTTPException(404, f"{error}.") from None


def _directories() -> list[Path]:
    return sorted(file.parent for file in problem.ROOT.glob("*/problem.yaml"))


def _changed(directory: Path) -> tuple[int, ...]:
    return tuple(file.stat().st_mtime_ns for file in sorted(directory.glob("*.*")))


@lru_cache(maxsize=256)
def _load(directory: Path, _: tuple[int, ...]) -> Problem:
    return problem.load_directory(directory)
