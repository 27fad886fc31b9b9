"""Compile results on disk, so that a file judged again is not compiled again. Only the supervisor writes here.

An entry is its payload behind a SHA-256 of it; what does not match, for whatever reason, is a miss, and so is what
another user could have put there. A cache that cannot be written is no error: the judge works without one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.compile import nvrtc
from harness.errors import UsageError

FORMAT = "1"  # raised when entries of older versions must not be used
MAX_BYTES = 256 << 20
_NAME = "cuda-attention-judge"
_DIGEST_BYTES = 32
_HERE = Path(__file__).parent


def directory() -> Path:
    """Where entries are: $XDG_CACHE_HOME or ~/.cache, or the temporary directory for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the specification says to ignore a relative one
        return Path(base) / _NAME / "compile"
    try:
        return Path.home() / ".cache" / _NAME / "compile"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"{_NAME}-{os.getuid()}" / "compile"


def key(text: str, name: str, declaration: str, *target: str) -> str:
    """Name of the entry for this source: a digest of it, of the `target` (card, architecture, options), of the
    compiler that would be used and of our own headers and code around it."""
    return digest(FORMAT, text, name, declaration, *target, _compiler(), files_digest(_HERE.rglob("*")))


def digest(*parts: str) -> str:
    """SHA-256 of a sequence of texts, hexadecimal; no two sequences have the same bytes."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def _compiler() -> str:
    """The compiler's identity without loading it."""
    try:
        library = nvrtc.find_toolkit().library
    except UsageError:
        return "none"
    status = library.stat()
    return f"{library} {status.st_size} {status.st_mtime_ns}"


def files_digest(paths: Iterable[Path]) -> str:
    """A digest of the names and contents of files of ours; of directories and byte code nothing."""
    found = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts):
        data, name = path.read_bytes(), str(path.relative_to(_HERE.parent)).encode()
        found.update(b"%d %d\0" % (len(name), len(data)) + name + data)
    return found.hexdigest()


def get(key: str) -> bytes | None:
    """The payload under this key, or None: absent, damaged, or not certainly this user's own."""
    try:
        if not _is_private(directory().stat()):
            return None
        with open(directory() / key, "rb", opener=_open) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_private(status):
                return None
            entry = file.read()
            os.utime(file.fileno())  # eviction takes the least recently used
    except OSError:
        return None
    payload = entry[_DIGEST_BYTES:]
    return payload if hashlib.sha256(payload).digest() == entry[:_DIGEST_BYTES] else None


def _open(path: str, flags: int) -> int:
    """Neither through a link nor waiting for a pipe's other end."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_private(status: os.stat_result) -> bool:
    """Whether only this user can have written there: what is kept may be native code."""
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def put(key: str, payload: bytes) -> None:
    """Keep a payload. An entry appears whole or not at all, also under several judges at once."""
    with contextlib.suppress(OSError):  # a full or read-only disk only costs the next compilation
        folder = directory()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(folder.stat()):
            return
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".new-", delete=False) as file:
            file.write(hashlib.sha256(payload).digest() + payload)
        os.replace(file.name, folder / key)
        _evict(folder)


def _evict(folder: Path) -> None:
    """Remove the least recently used entries over MAX_BYTES."""
    entries = sorted(_entries(folder), reverse=True)
    total = 0
    for _, size, path in entries:
        total += size
        if total > MAX_BYTES:
            path.unlink(missing_ok=True)


def _entries(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """(time of last use, bytes, path)"""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another judge may evict at the same time
            status = path.stat()
            yield status.st_mtime_ns, status.st_size, path
