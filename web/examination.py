"""What `judge.py doctor` says of the site. Needs none of the packages that it looks for."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from importlib.util import find_spec

from harness.doctor import Finding
from web.editor import build
from web.settings import data_folder


def look(packages: Collection[str], install: str) -> Iterator[Finding]:
    """At its packages, which are modules here, at the editor, and at where submissions are kept. `install` is the
    command that installs the packages."""
    yield _packages(packages, install)
    yield _editor()
    yield _folder()


def _packages(names: Collection[str], install: str) -> Finding:
    missing = [name for name in sorted(names) if find_spec(name) is None]
    words = f"without {', '.join(missing)}; to install all: {install}" if missing else "python judge.py serve"
    return Finding("site", not missing, words, needed=False)


def _editor() -> Finding:
    built = build.bundle()
    words = str(built) if built else "a text area until it is built: python judge.py editor, or the first serve"
    return Finding("site editor", built is not None, words, needed=False)


def _folder() -> Finding:
    folder = data_folder()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding("site folder", True, str(folder), needed=False)
    words = f"{there} takes no files; name another one: python judge.py serve --folder FOLDER"
    return Finding("site folder", False, words, needed=False)
