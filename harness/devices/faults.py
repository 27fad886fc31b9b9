"""What a CUDA error number means for the submission: a finding, or a failure of our own.

A number that is not listed is the judge's failure: better an honest `judge_error` than a false accusation.
Most device-side faults are sticky: the context fails every later call, and only a new process helps.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.devices.driver import DriverError
from harness.errors import JudgeError
from harness.plan import Launch
from harness.results import Finding
from harness.verdict import FindingKind

_SEE_LINE = "run with --device cpu to see the line"

# CUresult -> (kind, what happened, what to do next). These are the kernel's own doing, whichever call reports them.
_KERNEL_FAULTS = {
    700: (FindingKind.OUT_OF_BOUNDS, "illegal memory access", _SEE_LINE),
    702: (FindingKind.TIME_LIMIT, "the driver stopped it because it ran too long", "make it faster, or end its loop"),
    710: (FindingKind.TRAP, "an assert() failed", _SEE_LINE),
    714: (FindingKind.TRAP, "the call stack is corrupted or too deep", _SEE_LINE),
    715: (FindingKind.TRAP, "illegal instruction", _SEE_LINE),
    716: (FindingKind.MISALIGNED, "misaligned address", f"a float4 needs an address divisible by 16; {_SEE_LINE}"),
    717: (FindingKind.OUT_OF_BOUNDS, "address outside of the memory space that the instruction names", _SEE_LINE),
    718: (FindingKind.TRAP, "invalid program counter", _SEE_LINE),
    719: (FindingKind.TRAP, "stopped by a trap or by a bad shared-memory access", _SEE_LINE),
}

# These count only where a launch reports them: elsewhere the arguments are the judge's.
_LAUNCH_REFUSALS = {
    1: (FindingKind.INVALID_LAUNCH, "invalid argument", "see the card's limits for grid, block and shared memory"),
    2: (FindingKind.MEMORY_LIMIT, "out of memory", "the kernel's local arrays need more memory than the card has"),
    9: (FindingKind.INVALID_LAUNCH, "invalid configuration argument", "check grid and block against the card's limits"),
    98: (FindingKind.INVALID_LAUNCH, "invalid device function", "the kernel was not compiled for this card"),
    701: (FindingKind.INVALID_LAUNCH, "too many resources requested for launch", "use fewer threads a block"),
    720: (FindingKind.INVALID_LAUNCH, "the grid is too large for a cooperative launch", "launch fewer blocks"),
}
_LAUNCH_CALLS = ("cuLaunch", "cuFuncSet")

_NO_BINARY = 209


@dataclass(frozen=True)
class Where:
    """The launch during which an error came up, for the message."""

    file: str
    kernel: str = ""
    line: int = 0


def where(file: str, launch: Launch | None, kernel: str = "") -> Where:
    """The place of a launch; of nothing in particular where `launch` is None."""
    return Where(file, kernel, launch.line) if launch else Where(file)


def is_sticky(code: int) -> bool:
    """Whether the context is unusable after this error. Numbers not listed here count as sticky: a fresh process is
    cheap."""
    return code not in _LAUNCH_REFUSALS and code != _NO_BINARY


def finding_of(error: DriverError, place: Where) -> Finding:
    """The finding that a driver error amounts to.

    Raises JudgeError where the submission cannot have caused it (46, 100, 214, 999, and every unknown number).
    """
    if error.code in _KERNEL_FAULTS:
        kind, what, then = _KERNEL_FAULTS[error.code]
    elif error.code in _LAUNCH_REFUSALS and error.call.startswith(_LAUNCH_CALLS):
        kind, what, then = _LAUNCH_REFUSALS[error.code]
    elif error.code == _NO_BINARY:
        kind, what, then = FindingKind.UNSUPPORTED, "the kernels do not fit this card", "compile for its architecture"
    else:
        raise JudgeError(f"the GPU failed, not the submission: {error}; look at nvidia-smi") from error
    subject = f"{place.kernel}: " if place.kernel else ""
    message = f"{subject}{what} (CUDA error {error.code}, {error.text}); {then}."
    return Finding(kind, message, file=place.file, line=place.line, kernel=place.kernel)


def too_long(seconds: float, place: Where) -> Finding:
    """The finding for a kernel that still runs after its time."""
    message = f"{place.kernel} still ran after {seconds:g} s; does its loop end, does every thread reach the barrier?"
    return Finding(FindingKind.TIME_LIMIT, message, file=place.file, line=place.line, kernel=place.kernel)
