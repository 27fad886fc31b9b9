"""One .cu file, read and checked before anything compiles it."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from harness.errors import SubmissionError, UsageError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

MAX_BYTES = 256 * 1024
_BOM = b"\xef\xbb\xbf"
_UNSAFE_IN_NAMES = '"\\/'
_UNSAFE_AT_THE_START = "-@"  # the compiler would take the name for an option, or for a file of options


@dataclass(frozen=True)
class Submission:
    """A readable submission. `name` is the file name without folders, fit for messages and for #line (`safe_name`)."""

    name: str
    text: str
    sha256: str  # of the bytes as read, hexadecimal


def load(path: Path | str) -> Submission:
    """Read one submission. Raises UsageError where there is no such regular file, SubmissionError (compile_error) where
    the file is not CUDA source at all: empty, over MAX_BYTES, not UTF-8, or with NUL bytes."""
    path = Path(path)
    return from_bytes(path.name, _read(path))


def from_bytes(name: str, data: bytes) -> Submission:
    """The same for bytes that came another way. Raises SubmissionError as `load` does."""
    name = safe_name(name)
    _check_size(name, data)
    body = data.removeprefix(_BOM)
    text = _decode(name, body, offset=len(data) - len(body))
    if not text.strip():
        raise _refused(name, 0, f"{name} is empty; a submission needs at least a solve() function")
    nul = text.find("\0")
    if nul >= 0:
        line = text.count("\n", 0, nul) + 1
        raise _refused(name, line, f"{name}:{line} contains a NUL byte; save the file as plain UTF-8 text")
    return Submission(name, text.replace("\r\n", "\n"), hashlib.sha256(data).hexdigest())


def safe_name(name: str) -> str:
    """A file name with '_' for what would break out of a #line directive or of the PTX that repeats it, for what the
    compiler would take for an option, and for what does not print: control bytes, bidirectional marks, broken UTF-8."""
    shown = "".join(c if c.isprintable() and c not in _UNSAFE_IN_NAMES else "_" for c in name).strip()
    return ("_" + shown[1:] if shown[:1] in tuple(_UNSAFE_AT_THE_START) else shown) or "submission.cu"


def _read(path: Path) -> bytes:
    try:
        _check_regular(path, path.stat().st_mode)
        with open(path, "rb", opener=open_without_waiting) as file:
            _check_regular(path, os.fstat(file.fileno()).st_mode)
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}; name the .cu file to judge") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def open_without_waiting(path: str, flags: int) -> int:
    """An opener for open() that does not wait, should a pipe have come in the place of the file."""
    return os.open(path, flags | os.O_NONBLOCK)


def _check_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise UsageError(f"{path} is a directory; name one .cu file in it")
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is not a regular file; name the .cu file to judge")


def _check_size(name: str, data: bytes) -> None:
    if len(data) > MAX_BYTES:
        raise _refused(name, 0, f"{name} is larger than {MAX_BYTES // 1024} KiB, the most that a submission may have")


def _decode(name: str, body: bytes, offset: int) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        byte = body[error.start]
        place = f"byte {error.start + offset} (0x{byte:02x})"
        raise _refused(name, line, f"{name}:{line} is not UTF-8 text: {place}; save the file as UTF-8") from error


def _refused(name: str, line: int, message: str) -> SubmissionError:
    finding = Finding(FindingKind.NOTE, message, name, line)
    return SubmissionError(Verdict.COMPILE_ERROR, message, [finding], log=message)
