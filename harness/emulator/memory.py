"""Device memory of one case: buffers by id, the table that generated code reads, poison and guard against overruns."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

from harness import plan
from harness.emulator.block_shadow import BlockShadows
from harness.emulator.layout import BlockShadow, BufferEntry
from harness.emulator.program import Program

# What never-written floats look like: a NaN with a payload of our own; of eight-bit ones, which have no payloads, every
# second one is NaN.
POISON = 0xFFF5FFF5
_POISON_BYTES = np.frombuffer(POISON.to_bytes(4, "little"), np.uint8)


def aligned(nbytes: int) -> np.ndarray:
    """Uninitialised bytes that start at a multiple of 64 and have 64 more behind them."""
    raw = np.empty(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


@dataclass
class Region:
    """One buffer's bytes. `shadow` has a byte for every 4: 1 where written; None where all is initialised."""

    buffer: plan.Buffer
    data: np.ndarray  # uint8
    writable: bool
    shadow: np.ndarray | None = None


@dataclass
class Memory:
    """All buffers that a plan's kernels can reach."""

    regions: dict[int, Region] = field(default_factory=dict)
    blocks: BlockShadows = field(default_factory=BlockShadows)
    _table: ctypes.Array[BufferEntry] | None = None
    _views: ctypes.Array[BlockShadow] | None = None

    def add(self, buffer: plan.Buffer, data: np.ndarray | None = None, writable: bool = True,
            tracked: bool = False, shared: bool = False) -> Region:  # fmt: skip
        """Make a buffer. `data` (any array) is copied; without it the buffer is poisoned.

        shared: use a contiguous array's own memory instead of a copy (for inputs, which nothing writes to);
        tracked: reads of bytes that no kernel, memset or copy wrote are reported."""
        if data is not None and shared and data.flags.c_contiguous:
            body = data.view(np.uint8).reshape(-1)
        elif data is not None:
            body = aligned(buffer.nbytes)
            body[:] = np.ascontiguousarray(data).view(np.uint8).reshape(-1)
        else:
            body = aligned(buffer.nbytes)
            whole = buffer.nbytes // 4 * 4
            body[:whole].view(np.uint32)[:] = POISON
            body[whole:] = _POISON_BYTES[: buffer.nbytes - whole]
        shadow = np.zeros((buffer.nbytes + 3) // 4 + 512, np.uint8) if tracked else None
        region = Region(buffer, body, writable, shadow)
        self.regions[buffer.id] = region
        self._table = None
        return region

    def table(self) -> tuple[int, int]:
        """(address, rows) of the table for generated code."""
        if self._table is None:
            rows = max(self.regions, default=0) + 1
            self._table, self._views = (BufferEntry * rows)(), (BlockShadow * rows)()
            for number, r in self.regions.items():
                entry = self._table[number]
                entry.base = plan.address(number)
                entry.size = r.buffer.nbytes
                entry.writable = entry.size if r.writable else 0
                entry.host = r.data.ctypes.data
                entry.shadow = r.shadow.ctypes.data if r.shadow is not None else 0
                watched = r.writable or r.shadow is not None
                entry.watch = ctypes.addressof(self._views[number]) if watched else 0
        return ctypes.addressof(self._table), len(self._table)

    def begin_launch(self, blocks: int, unit: int, communicates: bool) -> None:
        """Have the shadow that the search for races between blocks needs. unit: bytes of its entries."""
        self.table()
        assert self._views is not None
        searched = [(n, r.buffer.nbytes, self._views[n]) for n, r in self.regions.items() if r.writable]
        self.blocks.begin(searched, unit, communicates, blocks)

    def mark_written(self, region: Region, start: int, nbytes: int) -> None:
        if region.shadow is not None:
            region.shadow[start // 4 : (start + nbytes + 3) // 4] = 1


def unwritten(region: Region, itemsize: int) -> int:
    """How many elements of a tracked buffer nobody wrote. The shadow knows of words; in one that was written, an
    element of two bytes that still holds poison was not."""
    if region.shadow is None:
        return 0
    if itemsize == 2:
        return int(np.count_nonzero(region.data.view(np.uint16) == POISON & 0xFFFF))
    words = (region.buffer.nbytes + 3) // 4
    missing = int(words - np.count_nonzero(region.shadow[:words]))
    return min(missing * 4, region.buffer.nbytes) // itemsize


def load_variables(memory: Memory, program: Program) -> None:
    """Give the module's global and const variables their buffers and initial values."""
    for v in program.variables.values():
        data = bytearray(v.init.ljust(v.nbytes, b"\0")[: v.nbytes])
        for offset, symbol, addend in v.relocations:
            target = program.variables.get(symbol)
            value = plan.address(target.id) + addend if target else program.kernel_addresses.get(symbol, 0)
            data[offset : offset + 8] = value.to_bytes(8, "little")
        memory.add(
            plan.Buffer(v.id, v.name, v.nbytes, v.line),
            np.frombuffer(bytes(data), np.uint8),
            writable=v.space == "global",
        )
