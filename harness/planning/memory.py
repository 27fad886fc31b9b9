"""The memory that solve() can name while it is evaluated: tensors, scratch and module variables.

Device addresses are opaque (harness/plan.py). This book keeps who owns which range, so that every copy and fill is
checked against exact bounds before it enters the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from harness.devices.base import Argument
from harness.errors import JudgeException
from harness.plan import FIRST_TENSOR_ID, Buffer, address, locate
from harness.results import Finding
from harness.verdict import FindingKind


class PlanFault(JudgeException):
    """solve() did what ends this case; `findings` say what and where, the first one being the cause."""

    def __init__(self, findings: Iterable[Finding]):
        self.findings = tuple(findings)
        super().__init__(self.findings[0].message if self.findings else "solve() failed")


@dataclass(frozen=True)
class Region:
    """One buffer, and whether solve() may write to it."""

    buffer: Buffer
    writable: bool


class DeviceMemory:
    """Buffers by id. `variable` finds the module variable at an address, or gives None."""

    def __init__(self, arguments: list[Argument], scratch_limit: int, variable: Callable[[int], Buffer | None]):
        self._live: dict[int, Region] = {}
        self._freed: dict[int, int] = {}  # buffer id -> line of its cudaFree
        self._variable = variable
        self._scratch_limit = scratch_limit
        self._scratch_bytes = 0
        self.scratch: list[Buffer] = []
        self.variables: dict[int, Buffer] = {}
        for index, argument in enumerate(arguments):
            if isinstance(argument.value, np.ndarray):
                buffer = Buffer(FIRST_TENSOR_ID + index, argument.name, argument.value.nbytes)
                self._live[buffer.id] = Region(buffer, argument.role != "in")
        self._next_id = FIRST_TENSOR_ID + len(arguments)

    def allocate(self, nbytes: int, line: int) -> int | None:
        """Opaque address of new scratch, or None where the case's limit is spent."""
        if self._scratch_bytes + nbytes > self._scratch_limit:
            return None
        buffer = Buffer(self._next_id, f"scratch #{len(self.scratch) + 1}", nbytes, line)
        self._next_id += 1
        self._scratch_bytes += nbytes
        self.scratch.append(buffer)
        self._live[buffer.id] = Region(buffer, True)
        return address(buffer.id)

    def over_limit(self, nbytes: int) -> str:
        """Why `allocate` refuses this, with the case's limit and what is spent of it."""
        before = f", after {self._scratch_bytes} bytes before" if self._scratch_bytes else ""
        return f"cudaMalloc of {nbytes} bytes{before}: a case may have {self._scratch_limit} bytes of scratch in all"

    def free(self, pointer: int, line: int) -> str:
        """Free scratch. Gives what is wrong with that, or an empty string."""
        buffer_id, offset = locate(pointer)
        if buffer_id in self._freed:
            return f"it was freed before, at line {self._freed[buffer_id]}"
        region = self._live.get(buffer_id)
        if region is None or offset:
            return "it is not the address of a cudaMalloc"
        if region.buffer not in self.scratch:
            return f"{region.buffer.name} belongs to the caller of solve()"
        del self._live[buffer_id]
        self._freed[buffer_id] = line
        return ""

    def freed_at(self, pointer: int) -> int:
        """Line of the cudaFree of the scratch that an address lies in; 0 where it was not freed."""
        return self._freed.get(locate(pointer)[0], 0)

    def is_device(self, pointer: int) -> bool:
        """Whether an address means device memory, live or freed."""
        buffer_id = locate(pointer)[0]
        return buffer_id in self._live or buffer_id in self._freed or self._find_variable(pointer) is not None

    def is_variable(self, pointer: int) -> bool:
        """Whether an address lies in a module variable."""
        return locate(pointer)[0] < FIRST_TENSOR_ID and self._variable(pointer) is not None

    def name(self, pointer: int) -> str:
        """Name of the buffer at an address, or an empty string."""
        region = self._region(pointer)
        return region.buffer.name if region else ""

    def problem(self, pointer: int, nbytes: int, write: bool) -> tuple[FindingKind, str] | None:
        """What is wrong with an access to device memory: its kind and the end of a sentence; None where it is fine."""
        if pointer == 0:
            return FindingKind.OUT_OF_BOUNDS, "the pointer is null"
        buffer_id, offset = locate(pointer)
        if buffer_id in self._freed:
            return FindingKind.OUT_OF_BOUNDS, f"the memory was freed at line {self._freed[buffer_id]}"
        region = self._region(pointer)
        if region is None:
            return FindingKind.OUT_OF_BOUNDS, f"0x{pointer:x} is no device memory"
        if offset < 0 or offset + nbytes > region.buffer.nbytes:
            where = f"bytes {offset} to {offset + nbytes} of {region.buffer.name}"
            return FindingKind.OUT_OF_BOUNDS, f"{where} are outside its {region.buffer.nbytes} bytes"
        if write and not region.writable:
            return FindingKind.READ_ONLY_WRITE, f"{region.buffer.name} is an input"
        return None

    def _region(self, pointer: int) -> Region | None:
        region = self._live.get(locate(pointer)[0])
        if region:
            return region
        variable = self._find_variable(pointer)
        return Region(variable, True) if variable else None

    def _find_variable(self, pointer: int) -> Buffer | None:
        found = self._variable(pointer)
        if found:
            self.variables[found.id] = found
        return found
