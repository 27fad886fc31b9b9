"""Files of people who may wish the judge ill: which of them may be read at all, and reading no more than is needed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from harness.submission import MAX_BYTES, open_without_waiting

_REASONS = {
    errno.ENOENT: "a link to a file that is not there",
    errno.ELOOP: "a link that leads back to itself",
}


def fault(file: Path, folder: Path, ending: str) -> str:
    """Why a file in `folder` must not be opened, in words; "" where it may be. A pipe would be waited for without end,
    a device be read without end; a link may lead to what the report must not quote: out of the folder, into a hidden
    one in it, or to what does not end in `ending`."""
    try:
        real, root = Path(os.path.realpath(file, strict=True)), Path(os.path.realpath(folder, strict=True))
        mode = real.stat().st_mode
    except OSError as error:
        return _REASONS.get(error.errno or 0, "") or f"cannot be read: {error.strerror or error}"
    except ValueError as error:
        return f"cannot be read: {error}"
    if not real.is_relative_to(root):
        return f"it leads out of the folder {folder}; put a copy there"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    hidden = any(part.startswith(".") for part in real.relative_to(root).parts[:-1])
    if hidden or not real.name.endswith(ending):
        return f"it leads into a hidden folder, or to a file that does not end in {ending}; put a copy there"
    return ""


def text(file: Path, most: int = MAX_BYTES) -> str:
    """The first bytes of a file as text; "" where it cannot be read, which judging will say."""
    try:
        with open(file, "rb", opener=open_without_waiting) as stream:
            return stream.read(most).decode("utf-8-sig", errors="replace")
    except OSError:
        return ""
