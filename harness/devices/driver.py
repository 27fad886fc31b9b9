"""The few CUDA driver calls that the GPU device needs, so that its logic can be tested without a card.

`harness/devices/gpu.py` implements this over PyCUDA; the tests implement it over host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

Dim3 = tuple[int, int, int]
Slots = Sequence[tuple[int, int]]  # (offset, size) in bytes of each kernel parameter


class DriverError(Exception):
    """A driver call failed.

    `code` is the CUresult, -1 where it could not be told; `call` the driver function, as in "cuCtxSynchronize";
    `text` the driver's own words.
    """

    def __init__(self, code: int, call: str, text: str):
        super().__init__(f"{call}: {text} (CUDA error {code})")
        self.code = code
        self.call = call
        self.text = text


class Driver(Protocol):
    """One context on one card. Addresses are device addresses, sizes are bytes. Every call raises DriverError,
    also for an earlier launch that failed meanwhile."""

    def load(self, cubin: bytes, cooperative: bool = False) -> Any:
        """Load a module; its variables hold their initial values. cooperative: some of its launches will be."""

    def unload(self, module: Any) -> None:
        """Forget a module."""

    def function(self, module: Any, name: str) -> Any:
        """The kernel of that mangled name."""

    def variable(self, module: Any, name: str) -> tuple[int, int]:
        """(address, size) of a `__device__` or `__constant__` variable."""

    def local_bytes(self, function: Any) -> int:
        """Local memory of one thread of the kernel."""

    def allow_shared(self, function: Any, nbytes: int) -> None:
        """Let launches of the kernel ask for so much dynamic shared memory."""

    def allocate(self, nbytes: int) -> int:
        """Address, aligned to 256, of fresh device memory."""

    def free(self, address: int) -> None:
        """Give memory back."""

    def upload(self, address: int, data: np.ndarray | bytes) -> None:
        """Copy host bytes to the card."""

    def download(self, address: int, nbytes: int) -> np.ndarray:
        """Bytes on the card, as uint8."""

    def fill(self, address: int, word: int, words: int) -> None:
        """Set 32-bit words; the address is aligned to 4."""

    def memset(self, address: int, value: int, nbytes: int) -> None:
        """Set bytes."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the card."""

    def launch(self, function: Any, grid: Dim3, block: Dim3, shared_bytes: int, args: bytes,
               together: Slots | None = None) -> None:  # fmt: skip
        """Start a kernel with this parameter block; returns before it has finished. together: where its parameters lie,
        for a cooperative launch, which needs a module that was loaded for that."""

    def wait(self, seconds: float) -> bool:
        """Wait for everything started; False if it still runs after so many seconds."""

    def flush_output(self) -> None:
        """Push what kernels printed out to the process's stdout."""


class TimedDriver(Driver, Protocol):
    """A driver that can also time, and say what it runs on: what measuring needs."""

    def create_event(self) -> Any:
        """A mark in the order of what the card does, with the time at which it was reached."""

    def record(self, event: Any) -> None:
        """Let the event happen once everything started before is done."""

    def happened(self, event: Any) -> bool:
        """Whether the card has come to the event's latest record."""

    def elapsed(self, begin: Any, end: Any) -> float:
        """Seconds on the card between two events that have happened; a resolution of about 0.5 us."""

    def memory(self) -> tuple[int, int]:
        """(free, all) bytes of the card."""

    def forget_persisting(self) -> None:
        """Make what was to persist in the L2 cache ordinary, and let nothing persist from now on."""

    def version(self) -> str:
        """Of NVIDIA's driver, as "580.159.04"."""

    def bus_id(self) -> str:
        """The card's PCI address, as "0000:3B:00.0"."""
