"""The folder that a site keeps its things in: the store, the secret that signs its pages, the log of failures."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from harness.errors import UsageError

LOG = "errors.log"
_SECRET = "secret"
_BYTES = 32


def prepare(folder: Path) -> None:
    """Make the folder, for its user alone, and see that it takes files. Raises UsageError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")
    except FileExistsError:
        raise UsageError(f"cannot keep submissions in {folder}: it is no folder") from None
    except OSError as error:
        hint = "name another one with --folder"
        raise UsageError(f"cannot keep submissions in {folder}: {error.strerror}; {hint}") from None


def secret(folder: Path) -> bytes:
    """Of this folder, made where there is none yet: pages that are open stay good when the site starts again. Raises
    UsageError."""
    path = folder / _SECRET
    try:
        with contextlib.suppress(FileNotFoundError):
            found = path.read_bytes()
            if len(found) == _BYTES:
                return found
        made = secrets.token_bytes(_BYTES)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:  # readable by its user alone
            file.write(made)
        os.replace(file.name, path)
        return made
    except OSError as error:
        raise UsageError(f"cannot keep the site's secret in {path}: {error.strerror}") from None
