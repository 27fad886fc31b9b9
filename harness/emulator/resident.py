"""Blocks that wait for each other: as many as the card holds at once take turns on one host thread.

A block whose warps can only give way is put aside, with everything that it consists of in its worker (worker.py), and
another one runs; a new block starts where the card has room for one more. Hence spinning on another block's flag, a
grid-wide barrier and look-back come to an end as they do on a card.

If nothing but waiting happens in a whole round, and the memory and all warps are in the same state behind it as before,
they always will be: a deadlock. (Kernels that read a clock may still wait for it to change.)
"""

from __future__ import annotations

import ctypes
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from harness.emulator import layout as L
from harness.emulator.worker import NO_BLOCK, Worker

MAX_BYTES = 256 << 20  # of the workers of blocks that are set aside
_QUIET_ROUNDS = 16  # before the state is looked at; doubled each time


@dataclass(frozen=True)
class Waiting:
    """A warp that had not returned when a launch was given up, and the instruction at which it last gave way."""

    block: int
    warp: int
    insn: int


@dataclass
class _Watch:
    """When to compare the state with the one before: in two rounds behind each other, and then less and less often."""

    quiet: int = 0  # turns since a block ended or started
    patience: int = _QUIET_ROUNDS
    before: int | None = None

    def round_is_over(self, blocks: int) -> bool:
        self.quiet += 1
        rounds, rest = divmod(self.quiet, blocks)
        return rest == 0 and rounds >= self.patience

    def stands_still(self, state: int) -> bool:
        if self.before is None:
            self.before, self.patience = state, self.patience + 1
            return False
        same, self.before, self.patience = state == self.before, None, 2 * self.patience
        return same


@dataclass
class Residents:
    """Runs one launch. `spawn` makes one more worker; `limit` is how many blocks may be resident."""

    run_blocks: Callable[[int], int]
    spawn: Callable[[], Worker]
    left: Callable[[], int]  # blocks that have not started
    budget: int
    limit: int
    regions: Iterable[np.ndarray]  # what kernels can write
    reads_clock: bool = False
    workers: list[Worker] = field(default_factory=list)
    short_of_memory: bool = False
    _bytes: int = 0

    def run(self) -> Worker | None:
        """To the end of the launch, or to a fault: the worker that has it."""
        turns = deque([self._start()])
        watch, used = _Watch(), 0
        while turns:
            w = turns.popleft()
            used -= w.context.used
            code = self.run_blocks(ctypes.addressof(w.context))
            used += w.context.used
            if code == L.FAULT:
                return w
            if code == L.DONE:
                watch.quiet = 0
                continue
            turns.append(w)
            if used > self.budget:
                w.context.fault_kind = L.F_BUDGET
                return w
            if self._may_start() and (fresh := self._another()):
                turns.appendleft(fresh)
                watch.quiet = 0
            elif not self.reads_clock and watch.round_is_over(len(turns)) and watch.stands_still(self._state(turns)):
                return self._deadlock(turns[0])
        return None

    def waiting(self) -> list[Waiting]:
        """The warps that have not returned, of all blocks that have started."""
        found = []
        for w in self.workers:
            if w.context.block != NO_BLOCK:
                running = ((n, x.wait_insn) for n, x in enumerate(w.warps) if x.state != L.EXITED)
                found += [Waiting(w.context.block, n, insn) for n, insn in running]
        return sorted(found, key=lambda x: (x.block, x.warp))

    def _start(self) -> Worker:
        self.workers.append(self.spawn())
        self._bytes += self.workers[-1].nbytes
        return self.workers[-1]

    def _another(self) -> Worker | None:
        try:
            return self._start()
        except MemoryError:
            self.limit, self.short_of_memory = len(self.workers), True
            return None

    def _may_start(self) -> bool:
        if self.left() <= 0 or len(self.workers) >= self.limit:
            return False
        if self._bytes + self.workers[0].nbytes > MAX_BYTES:
            self.limit, self.short_of_memory = len(self.workers), True
            return False
        return True

    def _state(self, turns: Iterable[Worker]) -> int:
        """A check sum of everything that decides what happens next, except for clocks."""
        value = 1
        for data in (*self.regions, *(part for w in turns for part in w.state())):
            value = zlib.crc32(data.data, value)
        return value

    def _deadlock(self, w: Worker) -> Worker:
        c = w.context
        first = next(n for n, x in enumerate(w.warps) if x.state != L.EXITED)
        c.fault_kind, c.fault_warp, c.fault_insn = L.F_BLOCKS_WAIT, first, w.warps[first].wait_insn
        return w
