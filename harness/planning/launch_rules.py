"""What the CUDA runtime refuses to launch, and how many blocks fit on a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol

from harness.cards import KIB, Card
from harness.occupancy import occupancy
from harness.planning.cuda_errors import CudaError

Dim3 = tuple[int, int, int]


class KernelFacts(Protocol):
    """What the rules need to know of a kernel; harness.emulator.ptx.Kernel has it."""

    @property
    def static_shared_bytes(self) -> int: ...

    @property
    def max_threads(self) -> int: ...


@dataclass(frozen=True)
class Refusal:
    """Why a launch does nothing: the code that cudaGetLastError gives afterwards, and the reason in words."""

    code: CudaError
    reason: str


def refusal(
    kernel: KernelFacts, grid: Dim3, block: Dim3, dynamic_shared: int, shared_limit: int, card: Card
) -> Refusal | None:
    """The refusal of this launch on this card, or None. `shared_limit` is what the kernel may have as dynamic shared
    memory, in bytes: `default_shared_limit`, or the value given to cudaFuncSetAttribute."""
    bad_shape = _shape("grid", grid, card.max_grid) or _shape("block", block, card.max_block)
    threads = prod(block)
    if bad_shape:
        return Refusal(CudaError.INVALID_CONFIGURATION, bad_shape)
    if threads > card.threads_per_block:
        reason = f"a block of {_dims(block)} = {threads} threads; the most is {card.threads_per_block}"
        return Refusal(CudaError.INVALID_CONFIGURATION, reason)
    if kernel.max_threads and threads > kernel.max_threads:
        reason = f"a block of {threads} threads, but its __launch_bounds__ promise at most {kernel.max_threads}"
        return Refusal(CudaError.INVALID_VALUE, reason)
    return _shared(kernel, dynamic_shared, shared_limit, card)


def cooperative_refusal(
    kernel: KernelFacts, grid: Dim3, block: Dim3, dynamic_shared: int, card: Card
) -> Refusal | None:
    """The refusal of a cooperative launch: all of its blocks must be resident at the same time."""
    each = blocks_per_sm(kernel, prod(block), dynamic_shared, card)
    if prod(grid) <= each * card.sms:
        return None
    reason = (
        f"{prod(grid)} blocks, but {card.name} holds {each * card.sms} of them at once "
        f"({each} on each of {card.sms} multiprocessors); the grid of a cooperative launch must fit"
    )
    return Refusal(CudaError.COOPERATIVE_LAUNCH_TOO_LARGE, reason)


def default_shared_limit(kernel: KernelFacts, card: Card) -> int:
    """Dynamic shared memory in bytes that a launch may ask for without cudaFuncSetAttribute."""
    return max(card.shared_per_block - kernel.static_shared_bytes, 0)


def optin_shared_limit(kernel: KernelFacts, card: Card) -> int:
    """The most that cudaFuncSetAttribute grants, in bytes."""
    return card.shared_per_block_optin - kernel.static_shared_bytes


def _shape(what: str, dims: Dim3, limits: Dim3) -> str:
    for axis, size, limit in zip("xyz", dims, limits, strict=True):
        if size == 0:
            return f"a {what} of {_dims(dims)}: {what}.{axis} is 0"
        if size > limit:
            return f"a {what} of {_dims(dims)}: {what}.{axis} is over {limit}"
    return ""


def _shared(kernel: KernelFacts, dynamic: int, limit: int, card: Card) -> Refusal | None:
    if dynamic <= limit:
        return None
    static = kernel.static_shared_bytes
    beside = f" beside {static} bytes of static shared memory" if static else ""
    if dynamic > optin_shared_limit(kernel, card):
        what_next = f"a block on {card.name} has at most {card.shared_per_block_optin // KIB} KiB"
    else:
        what_next = (
            f"over {card.shared_per_block // KIB} KiB it first needs "
            "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)"
        )
    return Refusal(CudaError.INVALID_VALUE, f"{dynamic} bytes of dynamic shared memory{beside}; {what_next}")


def _dims(dims: Dim3) -> str:
    x, y, z = dims
    return f"({x}, {y}, {z})"


def blocks_per_sm(kernel: KernelFacts, threads: int, dynamic_shared: int, card: Card) -> int:
    """Resident blocks by threads, blocks and shared memory. A model: registers, known only to the assembler of a full
    compilation, are left out, so a register-bound kernel gets a number that is too high."""
    if threads < 1 or threads > card.threads_per_block:
        return 0
    return occupancy(card, threads, 0, kernel.static_shared_bytes + dynamic_shared).blocks
