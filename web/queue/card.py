"""Whether this machine has a GPU that judgings can use: only where PyCUDA opens one, in a child, as judgings do."""

from __future__ import annotations

import contextlib

from harness.errors import JudgeException
from harness.sandbox.limits import gpu_limits
from harness.sandbox.supervisor import RunProcess, Toolchain


def require(toolchain: Toolchain) -> None:
    """Raises UsageError where there is none, in the words of `judge.py --device gpu`."""
    with RunProcess(toolchain.candidates("gpu"), {"gpu": gpu_limits()}) as runner:
        runner.opened()


def is_here(toolchain: Toolchain) -> bool:
    """Whether there is one."""
    if "gpu" not in toolchain.candidates("auto"):
        return False
    with contextlib.suppress(JudgeException):
        require(toolchain)
        return True
    return False
