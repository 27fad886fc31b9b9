"""What one call of solve() did: a list of steps that either device can replay.

solve() is never executed natively. The emulator runs its PTX with *opaque* pointers
(`address(buffer)`), records every runtime call here, and the plan is replayed on the emulator or on
a GPU. A 64-bit word of a launch's argument bytes that lies in a buffer's opaque range is a pointer
into that buffer (`locate`); nothing else a submission computes comes near these values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BUFFER_BITS = 40  # a buffer's opaque addresses: id << 40 | 1 << 39 + offset
_MIDDLE = 1 << (BUFFER_BITS - 1)
FIRST_TENSOR_ID = 1024  # ids below belong to the module's own variables (harness/emulator/memory.py)


def address(buffer_id: int) -> int:
    """Opaque address of a buffer's first byte; mid-range, so that negative offsets stay in the buffer's range."""
    return (buffer_id << BUFFER_BITS) + _MIDDLE


def locate(value: int) -> tuple[int, int]:
    """(buffer id, byte offset, possibly negative) of an opaque address."""
    return value >> BUFFER_BITS, (value & ((1 << BUFFER_BITS) - 1)) - _MIDDLE


@dataclass(frozen=True)
class Buffer:
    """Device memory known to the plan: a tensor of the problem, a module variable or scratch."""

    id: int
    name: str  # tensor name, variable name, or "scratch #1"
    nbytes: int
    line: int = 0  # of the cudaMalloc


@dataclass(frozen=True)
class Launch:
    """One <<<>>> or cudaLaunchKernel. `args` is the kernel's parameter block as laid out by the PTX ABI."""

    kernel: str  # mangled name
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: bytes
    line: int = 0
    cooperative: bool = False  # cudaLaunchCooperativeKernel: all blocks are resident together
    concurrent: tuple[int, ...] = ()  # numbers of earlier launches, on other streams, that need not be over


@dataclass(frozen=True)
class Memset:
    """cudaMemset: `nbytes` bytes of `value` from opaque address `dst`."""

    dst: int
    value: int
    nbytes: int
    line: int = 0


@dataclass(frozen=True)
class Copy:
    """cudaMemcpy device to device."""

    dst: int
    src: int
    nbytes: int
    line: int = 0


@dataclass(frozen=True)
class Upload:
    """cudaMemcpy host to device of bytes that solve() computed itself; also cudaMemcpyToSymbol."""

    dst: int
    data: bytes
    line: int = 0


Step = Launch | Memset | Copy | Upload


@dataclass(frozen=True)
class LaunchPlan:
    """Everything solve() asked of the device, in order (streams are ordered as issued)."""

    steps: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()  # cudaMalloc, allocated once per case, freed at its end
    variables: tuple[Buffer, ...] = ()  # __device__ and __constant__ variables that uploads may name
    dynamic_shared_limit: dict[str, int] = field(default_factory=dict)  # kernel -> cudaFuncSetAttribute bytes
    stdout: str = ""  # what solve() itself printed
