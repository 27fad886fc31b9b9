"""What a child process may use, and the child's own first act: to put itself under these limits.

The child binds itself (before it has seen a byte of the submission) rather than the parent between fork and exec:
code there is not safe in a process with threads, and it would make every start of a child copy the parent's pages.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import resource
import signal
import sys
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1
MIB = 1 << 20


@dataclass(frozen=True)
class ProcessLimits:
    """Kernel-enforced limits of one child; 0 means none. Bytes and seconds."""

    address_space: int = 0
    data: int = 0  # private writable memory: heap, stacks, anonymous maps; near what can become resident
    cpu_seconds: int = 0
    file_bytes: int = 64 * MIB
    open_files: int = 256
    output_bytes: int = 64 * 1024  # of stdout and of stderr each; enforced by the supervisor


def compile_limits(seconds: float) -> ProcessLimits:
    """Limits for a compiler that may run for `seconds` of wall time."""
    return ProcessLimits(address_space=6144 * MIB, data=2048 * MIB, cpu_seconds=int(2 * seconds) + 2)


def run_limits(memory_bytes: int) -> ProcessLimits:
    """Limits for the emulator; it may hold `memory_bytes` of its own."""
    return ProcessLimits(address_space=memory_bytes + 16384 * MIB, data=memory_bytes, file_bytes=MIB)


def gpu_limits() -> ProcessLimits:
    """Limits for a process with a CUDA context, which reserves more address space than the machine has memory."""
    return ProcessLimits(open_files=1024, file_bytes=256 * MIB)


def bind_to_parent(parent_pid: int) -> None:
    """Die with the thread that spawned this process; exit at once if it is gone already."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "cannot set the parent death signal")
    if os.getppid() != parent_pid:
        os._exit(1)


def apply(limits: ProcessLimits) -> None:
    """Put this process and all its children under the limits; no core files. Its directory is private already."""
    os.umask(0o022)
    _lower(resource.RLIMIT_CORE, 0)
    for which, value in (
        (resource.RLIMIT_AS, limits.address_space),
        (resource.RLIMIT_DATA, limits.data),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
    ):
        if value:
            _lower(which, value)


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (ceiling, ceiling))


def as_json(limits: ProcessLimits) -> dict[str, int]:
    """For the command line of the child."""
    return dataclasses.asdict(limits)


def allow_cpu(seconds: float) -> None:
    """From now on this process may use `seconds` more of processor time; then SIGXCPU ends it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(usage.ru_utime + usage.ru_stime + seconds) + 1
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))
