"""What one host thread needs to run blocks: context, warps, shared memory and its shadow, frames, local memory."""

from __future__ import annotations

import ctypes

import numpy as np

from harness.emulator import layout as L
from harness.emulator.layout import BulkCopy, Context, CopyRecord, DeferredArrival, Hazard, Warp
from harness.emulator.memory import aligned
from harness.emulator.program import Compiled

MAX_HAZARDS = 64
FUEL_SLICE = 1 << 18  # warp-instructions that a warp may run before the others get their turn
NO_BLOCK = (1 << 64) - 1  # Context.block between blocks
_SLACK_WORDS = 160  # behind shared memory: masked vector accesses start, but touch nothing, there
_TOUCHED_PART = 4  # one page in so many, as a rule
CLOCK_BYTES = 4 * L.LANES  # of one vector clock


class Worker:
    """Everything is allocated once for a kernel, a block size and an amount of dynamic shared memory."""

    def __init__(self, kernel: Compiled, block: tuple[int, int, int], dynamic_shared: int):
        self.kernel = kernel
        self.context = Context()
        self._clocks: list[np.ndarray] = []
        self._lists: list[np.ndarray] = []
        self._make_shared(kernel.dynamic_offset + dynamic_shared if dynamic_shared else kernel.static_shared)
        self._make_warps(block)
        self._make_records()
        c = self.context
        c.local_bytes = kernel.local_bytes
        c.ntid_x, c.ntid_y, c.ntid_z = block
        c.dynamic_shared = dynamic_shared
        c.fuel_slice = FUEL_SLICE
        c.order_step = c.warp_step = 1
        c.block = NO_BLOCK

    def _make_shared(self, nbytes: int) -> None:
        words = (nbytes + 3) // 4 + _SLACK_WORDS
        self._shared = aligned(words * 4)
        self._shared[:] = 0xFF  # NaN, should anything get past the checks
        granules = words * 4 // self.kernel.granule
        self._shadow = [_zeros(granules * 4) for _ in range(6)]
        c = self.context
        c.shadow_bytes = granules * 4
        if self.kernel.exact:
            self._clocks = [_zeros(size * CLOCK_BYTES) for size in (granules, granules, L.MAX_BARRIERS + L.SYNC_SLOTS)]
            c.rclock, c.rsite, c.sync_clocks = (s.ctypes.data for s in self._clocks)
        c.shared, c.shared_bytes = self._shared.ctypes.data, nbytes
        c.wtag, c.winsn, c.rtag, c.rinsn, c.plain_wtag, c.plain_winsn = (s.ctypes.data for s in self._shadow)

    def _make_warps(self, block: tuple[int, int, int]) -> None:
        """The warps' state; each has a frame, its lanes' local memory, and a word of shadow for each of their words."""
        threads = block[0] * block[1] * block[2]
        count = (threads + L.LANES - 1) // L.LANES
        sizes = (self.kernel.frame_bytes, self.kernel.local_bytes * L.LANES, self.kernel.local_bytes)
        frame, local, shadow = ((n + 127) // 64 * 64 for n in sizes)
        self._memory = aligned((frame + local + shadow) * count)
        self.warps = (Warp * count)()
        for number, warp in enumerate(self.warps):
            warp.number = number
            warp.frame = self._memory.ctypes.data + number * (frame + local + shadow)
            warp.local, warp.local_shadow = warp.frame + frame, warp.frame + frame + local
            _place_threads(warp, block, threads)
        if self.kernel.copies:
            self._make_copies(count)
        c = self.context
        c.warps, c.warp_stride, c.nwarps = ctypes.addressof(self.warps), ctypes.sizeof(Warp), count

    def _make_copies(self, count: int) -> None:
        """Room for asynchronous copies under way."""
        self._copies = _zeros(ctypes.sizeof(CopyRecord) * L.MAX_COPIES * count)
        for number, warp in enumerate(self.warps):
            warp.copies = self._copies.ctypes.data + number * ctypes.sizeof(CopyRecord) * L.MAX_COPIES
        rows = [aligned(ctypes.sizeof(row) * L.MAX_DEFERRED) for row in (DeferredArrival, BulkCopy)]
        self.context.deferred, self.context.bulk = (a.ctypes.data for a in rows)
        self._lists = [self._copies, *rows]

    def _make_records(self) -> None:
        instructions = len(self.kernel.instructions) + 1
        self.hazards = (Hazard * MAX_HAZARDS)()
        self._history = np.zeros((instructions, 4), np.int64)
        self._seen = (ctypes.c_uint32 * instructions)()
        c = self.context
        c.hazards, c.max_hazards = ctypes.addressof(self.hazards), MAX_HAZARDS
        c.history = self._history.ctypes.data
        c.seen = ctypes.addressof(self._seen)

    @property
    def nbytes(self) -> int:
        """Of the arrays whose size depends on the block."""
        filled = sum(part.nbytes for part in (self._memory, self._shared, *self._shadow))
        # Of tables and lists a kernel touches a part; pages that nobody touches are not there.
        return int(filled + sum(part.nbytes for part in (*self._clocks, *self._lists)) // _TOUCHED_PART)

    def state(self) -> list[np.ndarray]:
        """What decides how the block goes on: warps (less their clocks), frames, local and shared memory."""
        warps = np.ctypeslib.as_array(self.warps).view(np.uint8).reshape(len(self.warps), -1)
        return [np.ascontiguousarray(warps[:, : Warp.mine.offset]), self._memory, self._shared]

    def begin(self) -> None:
        """Forget the last launch's findings and counts."""
        c = self.context
        c.used = c.nhazards = c.fault_kind = c.print_used = 0
        c.block = NO_BLOCK
        ctypes.memset(ctypes.addressof(self._seen), 0, ctypes.sizeof(self._seen))


def _zeros(nbytes: int) -> np.ndarray:
    """Zeroed bytes that start at a multiple of 64; pages come into being when they are touched."""
    raw = np.zeros(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def _place_threads(warp: Warp, block: tuple[int, int, int], threads: int) -> None:
    """Thread indices of the lanes; x varies fastest."""
    x, y, _ = block
    first = warp.number * L.LANES
    warp.initial = (1 << min(L.LANES, threads - first)) - 1
    for lane in range(L.LANES):
        t = first + lane
        warp.tid_x[lane], warp.tid_y[lane], warp.tid_z[lane] = t % x, t // x % y, t // (x * y)
    warp.tid_x0, warp.tid_y0, warp.tid_z0 = warp.tid_x[0], warp.tid_y[0], warp.tid_z[0]
