"""The paths of a command line -> the files to judge, each with its problem and its declaration.

Everything that can be wrong before anything is judged is found here, and told at once.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import cases, problem, tracks
from harness.errors import UsageError
from harness.grading import declaration, files
from harness.grading.declaration import SIDECAR, Declaration
from harness.problem import Problem

_MAX_COMPLAINTS = 10
_LINES = re.compile(r"[\r\n]")


@dataclass(frozen=True)
class Entry:
    """One file to judge. `name` is its path as it was given or found; of a file that a sidecar names, the sidecar's."""

    name: str
    source: Path
    problem: Problem
    declared: Declaration
    fault: str = ""  # why it must not be opened; "": it may be


@dataclass(frozen=True)
class _Found:
    """A path without .cu or .expect.yaml, and the folder that was given: the file's own where a file was."""

    stem: Path
    folder: Path
    named: bool  # a file was given, not a folder


def find(paths: Sequence[Path], named: str = "", trusted: bool = True) -> list[Entry]:
    """The entries under `paths`, in their order, those of a folder by name.

    named: the problem of every file, an id or a directory; "": the file declares it, or a folder is named after it.
    trusted: whether declarations are read; where not, every file must be accepted. Code of a problem (reference.py) is
    never taken from below a given folder: files of others lie there. A file that must not be opened has a `fault`.

    Raises UsageError with all complaints: no such path, no file in it, a malformed declaration, an unknown problem.
    """
    the_problem = problem.load(named) if named else None
    complaints: list[str] = []
    stems: dict[Path, _Found] = {}  # by absolute path, so that a file that is named twice is judged once
    for path in paths:
        with _noting(complaints):
            for found in _stems(path, trusted):
                stems.setdefault(found.stem.absolute(), found)
    entries = []
    for found in stems.values():
        with _noting(complaints):
            entries.append(_entry(found, the_problem, trusted))
    if complaints:
        raise UsageError(_together(complaints))
    return entries


@contextlib.contextmanager
def _noting(complaints: list[str]) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        complaints.append(_LINES.sub(lambda match: f"\\x{ord(match[0]):02x}", str(error)))  # of names of files


def _together(complaints: list[str]) -> str:
    if len(complaints) == 1:
        return complaints[0]
    more = len(complaints) - _MAX_COMPLAINTS
    lines = complaints[:_MAX_COMPLAINTS] + ([f"and {more} more"] if more > 0 else [])
    return f"nothing was judged, since {len(complaints)} things are wrong:\n  " + "\n  ".join(lines)


def _stems(path: Path, trusted: bool) -> list[_Found]:
    """What a given path means. A link to nowhere is there, too: a pattern of the shell's may have found it."""
    endings = (".cu", SIDECAR) if trusted else (".cu",)
    if path.is_dir():
        found = sorted({_stem(file) for file in _walk(path) if file.name.endswith(endings)})
        if not found:
            raise UsageError(f"{path}: there is no .cu file in this folder, nor in those below it")
        return [_Found(stem, path, False) for stem in found]
    if not os.path.lexists(path):
        raise UsageError(f"there is no file or folder {path}")
    if not path.name.endswith(endings):
        raise UsageError(f"{path}: a file to grade ends in {' or in '.join(endings)}; or give a folder")
    return [_Found(_stem(path), path.parent, True)]


def _stem(file: Path) -> Path:
    return file.with_name(file.name.removesuffix(SIDECAR).removesuffix(".cu"))


def _walk(folder: Path) -> Iterator[Path]:
    """All files but hidden ones and those in hidden folders, such as .git; links to folders are not followed."""

    def complain(error: OSError) -> None:
        raise UsageError(f"cannot read the folder {error.filename}: {error.strerror}") from None

    for place, below, names in os.walk(folder, onerror=complain):
        below[:] = [name for name in below if not name.startswith(".")]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _entry(found: _Found, the_problem: Problem | None, trusted: bool) -> Entry:
    stem = found.stem
    own = stem.with_name(stem.name + ".cu")
    source, declared = declaration.read(stem, found.folder) if trusted else (own, Declaration())
    shown = own if source == own else stem.with_name(stem.name + SIDECAR)
    chosen = the_problem or _problem(shown, declared, found, trusted)
    fault = files.fault(source, found.folder, ".cu")
    if source != own and fault:  # a sidecar may also name a file of the problem's, such as its starter
        fault = files.fault(source, chosen.directory, ".cu") and f"source: {fault}"
    if not fault:
        _check(chosen, source, declared)
    return Entry(str(shown), source, chosen, declared, fault)


def _problem(file: Path, declared: Declaration, found: _Found, trusted: bool) -> Problem:
    """The one that the file declares; else that of the first folder that is named after one, or that is one itself and
    not below the given folder. The trusted are asked from the file upwards; for files of others the given folder comes
    first, then those below it from the outermost, which their authors have no hand in, then those above."""
    if declared.problem:
        return _declared_problem(file.parent, declared, found.folder)
    given = Path(os.path.abspath(found.folder))
    nearest = Path(os.path.abspath(file)).parents
    below = [folder for folder in nearest if folder != given and folder.is_relative_to(given)]
    for folder in [*below, given, *given.parents] if trusted else [given, *reversed(below), *given.parents]:
        # A pattern of the shell's may have named a file in a folder of others.
        may_be_one = folder not in below and (trusted or not found.named)
        if may_be_one and (folder / "problem.yaml").is_file():
            return _load(str(folder))
        if folder.name in _ids():
            return _load(folder.name)
    ids = ", ".join(sorted(_ids()))
    hint = "give --problem ID" + ", or say `// judge: problem=ID` in its first line" * trusted
    raise UsageError(f"{file}: for which problem is it? No folder above is named after one ({ids}); {hint}")


def _declared_problem(folder: Path, declared: Declaration, given: Path) -> Problem:
    """A problem's id, or the path of its directory from the file's folder."""
    try:
        if declared.problem in _ids():
            return _load(declared.problem)
        beside = folder / declared.problem
        path = beside if (beside / "problem.yaml").is_file() else Path(declared.problem)
        if _is_below(path, given):
            raise UsageError(f"{path} is below {given}, where files of others may lie; name it with --problem")
        return _load(str(path.resolve()) if path is beside else declared.problem)
    except (UsageError, OSError) as error:  # such as a name that is too long
        raise UsageError(f"{declared.where}: problem: {error}") from None


def _is_below(path: Path, given: Path) -> bool:
    """Whether a problem directory is below the given folder, or is reached through it."""
    if not (path / "problem.yaml").is_file():
        return False
    pairs = ((Path(os.path.abspath(path)), Path(os.path.abspath(given))), (path.resolve(), given.resolve()))
    return any(real != root and real.is_relative_to(root) for real, root in pairs)


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
    try:
        track = tracks.find(chosen, files.text(source), declared.dtype or None, declared.variant or None).problem
        cases.select(track, declared.cases or None)
    except UsageError as error:
        raise UsageError(f"{declared.where}: {error}") from None
