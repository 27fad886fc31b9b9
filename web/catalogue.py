"""The problems that the site offers: those of the judge's own folder, read again when their files change.

A name that comes from outside is only ever looked up among the ids, never taken for a path.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from harness import problem
from harness.problem import Problem
from web.errors import SiteError

ID = re.compile(r"[a-z][a-z0-9_]{0,99}\Z")


def ids() -> list[str]:
    """Of all problems, sorted."""
    return sorted(file.parent.name for file in problem.ROOT.glob("*/problem.yaml"))


def problems() -> list[Problem]:
    """All of them, each in its first track."""
    return [_current(name) for name in ids()]


def find(name: str) -> Problem:
    """The problem with this id, in its first track. Raises SiteError 404, which names the ids that there are."""
    if not ID.match(name) or not (problem.ROOT / name / "problem.yaml").is_file():
        raise SiteError(404, "unknown_problem", "there is no such problem", f"problems: {', '.join(ids())}")
    return _current(name)


def track(name: str, dtype: str | None, variant: str | None) -> Problem:
    """The problem with this id in a track; None: the first. Raises SiteError 404, and 422 for no such track."""
    found = find(name)
    dtypes, variants = found.dtypes, [each.name for each in found.variants]
    for what, wanted, known in (("dtype", dtype, dtypes), ("variant", variant, variants)):
        if wanted is not None and wanted not in known:
            raise SiteError(422, f"unknown_{what}", f"{name} has no such {what}", f"it has: {', '.join(known)}")
    return found.track(dtype, variant)


def _current(name: str) -> Problem:
    folder = problem.ROOT / name
    stamps = tuple(sorted((file.name, file.stat().st_mtime_ns) for file in folder.iterdir() if file.is_file()))
    return _read(folder, stamps)


@functools.lru_cache(maxsize=256)
def _read(folder: Path, stamps: tuple[tuple[str, int], ...]) -> Problem:
    """`stamps`: names of its files and when they were written, by which a change is seen."""
    return problem.load_directory(folder)
