"""The paths of a command line -> the files to judge, each with its problem and its declaration.

Everything that can be wrong before anything is judged is found here, and told at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import cases, problem, tracks
from harness.errors import UsageError
from harness.grading import declaration
from harness.grading.declaration import SIDECAR, Declaration
from harness.problem import Problem

_MAX_COMPLAINTS = 10


@dataclass(frozen=True)
class Entry:
    """One file to judge. `name` is its path as it was given or found; of a file that a sidecar names, the sidecar's."""

    name: str
    source: Path
    problem: Problem
    declared: Declaration


def find(paths: Sequence[Path], named: str = "", trusted: bool = True) -> list[Entry]:
    """The entries under `paths`, in their order, those of a folder by name.

    named: the problem of every file, an id or a directory; "": the file declares it, or a folder above it is named
    after it. trusted: whether declarations are read; where not, every file must be accepted.

    Raises UsageError with all complaints: no such path, no file in it, a malformed declaration, an unknown problem.
    """
    the_problem = problem.load(named) if named else None
    complaints: list[str] = []
    stems: dict[Path, Path] = {}  # by absolute path, so that a file that is named twice is judged once
    for path in paths:
        with _noting(complaints):
            stems |= {stem.absolute(): stem for stem in _stems(path, trusted)}
    entries = []
    for stem in stems.values():
        with _noting(complaints):
            entries.append(_entry(stem, the_problem, trusted))
    if complaints:
        raise UsageError(_together(complaints))
    return entries


@contextlib.contextmanager
def _noting(complaints: list[str]) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        complaints.append(str(error))


def _together(complaints: list[str]) -> str:
    if len(complaints) == 1:
        return complaints[0]
    more = len(complaints) - _MAX_COMPLAINTS
    lines = complaints[:_MAX_COMPLAINTS] + ([f"and {more} more"] if more > 0 else [])
    return f"nothing was judged, since {len(complaints)} things are wrong:\n  " + "\n  ".join(lines)


def _stems(path: Path, trusted: bool) -> list[Path]:
    """Paths without .cu or .expect.yaml."""
    endings = (".cu", SIDECAR) if trusted else (".cu",)
    if path.is_dir():
        found = sorted({_stem(file) for file in _walk(path) if file.name.endswith(endings)})
        if not found:
            raise UsageError(f"{path}: there is no .cu file in this folder, nor in those below it")
        return found
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}")
    if not path.name.endswith(endings):
        raise UsageError(f"{path}: a file to grade ends in {' or in '.join(endings)}; or give a folder")
    return [_stem(path)]


def _stem(file: Path) -> Path:
    return file.with_name(file.name.removesuffix(SIDECAR).removesuffix(".cu"))


def _walk(folder: Path) -> Iterator[Path]:
    """All files but hidden ones and those in hidden folders, such as .git; links to folders are not followed."""

    def complain(error: OSError) -> None:
        raise UsageError(f"cannot read the folder {error.filename}: {error.strerror}") from None

    for place, below, names in os.walk(folder, onerror=complain):
        below[:] = [name for name in below if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _entry(stem: Path, the_problem: Problem | None, trusted: bool) -> Entry:
    own = stem.with_name(stem.name + ".cu")
    source, declared = declaration.read(stem) if trusted else (own, Declaration())
    shown = own if source == own else stem.with_name(stem.name + SIDECAR)
    chosen = the_problem or _problem(shown, declared)
    _check(chosen, source, declared)
    return Entry(str(shown), source, chosen, declared)


def _problem(file: Path, declared: Declaration) -> Problem:
    if declared.problem:
        return _declared_problem(file.parent, declared)
    for folder in file.absolute().parents:
        if (folder / "problem.yaml").is_file():
            return _load(str(folder))
        if folder.name in _ids():
            return _load(folder.name)
    ids = ", ".join(sorted(_ids()))
    hint = "give --problem ID, or say `// judge: problem=ID` in its first line"
    raise UsageError(f"{file}: for which problem is it? No folder above is named after one ({ids}); {hint}")


def _declared_problem(folder: Path, declared: Declaration) -> Problem:
    """A problem's id, or the path of its directory from the file's folder."""
    beside = folder / declared.problem
    try:
        return _load(str(beside.resolve()) if (beside / "problem.yaml").is_file() else declared.problem)
    except UsageError as error:
        raise UsageError(f"{declared.where}: problem: {error}") from None


@cache
def _ids() -> frozenset[str]:
    return frozenset(known.id for known in problem.list_problems())


@cache
def _load(name: str) -> Problem:
    return problem.load(name)


def _check(chosen: Problem, source: Path, declared: Declaration) -> None:
    """What the declaration asks of the problem must be there, in the track that the file is for."""
    if not (declared.cases or declared.dtype or declared.variant):
        return
    text = source.read_text(encoding="utf-8", errors="replace")
    try:
        track = tracks.find(chosen, text, declared.dtype or None, declared.variant or None).problem
        cases.select(track, declared.cases or None)
    except UsageError as error:
        raise UsageError(f"{declared.where}: {error}") from None
