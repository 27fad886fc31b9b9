"""Runs a compiled kernel over a grid, within its budgets: on all cores, or on one where the order of blocks matters."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.emulator import layout as L
from harness.emulator import order, sharing
from harness.emulator.counters import Counters, LaunchCounts, Maps, Touched
from harness.emulator.layout import Context, Hazard
from harness.emulator.memory import Memory
from harness.emulator.ops_memory import PRINT_RECORD
from harness.emulator.order import Shuffle
from harness.emulator.program import Compiled
from harness.emulator.ptx import Ins, Sym
from harness.emulator.resident import Residents, Waiting
from harness.emulator.uniform import Shape
from harness.emulator.worker import Worker

PRINT_BYTES = 1 << 20  # of printf records kept for each worker; the card's default FIFO has the same size
_RUNS_ON, _OUT_OF_TIME, _FAILED = range(3)  # values of the stop flag
_GIVEN_UP = (L.F_BLOCKS_WAIT, L.F_BUDGET, L.F_STOPPED)

Index3 = tuple[int, int, int]
_Buffer = ctypes.Array[ctypes.c_char]


def shape_of(block: Index3) -> Shape:
    """What the compiler may rely on for this block size."""
    x, y, z = block
    return Shape(whole_rows=x % 32 == 0 or y * z == 1, full_warps=(x * y * z) % 32 == 0)


@dataclass
class Outcome:
    """What a launch left behind: at most one fault, the hazards seen, and how much was run."""

    fault: Context | None
    hazards: list[Hazard]
    records: list[bytes]  # printf
    instructions: int  # warp-instructions
    counts: LaunchCounts
    workers: int = 1  # host threads; where there were several, findings may depend on their timing
    waiting: list[Waiting] = field(default_factory=list)  # where blocks wait for each other and the launch was given up
    unstarted: int = 0  # blocks, then
    short_of_memory: bool = False  # the emulator, so that it holds fewer blocks than the card


@dataclass(frozen=True)
class Grid:
    """How a launch's blocks run. resident: how many a card holds at once; workspace: opaque address of the driver's
    workspace of a cooperative launch, or 0."""

    size: Index3
    resident: int = 1 << 16
    workspace: int = 0

    @property
    def blocks(self) -> int:
        return math.prod(self.size)


class Launcher:
    """Launches kernels of one program on one memory; reuses workers between launches of the same kind."""

    def __init__(self, memory: Memory, threads: int = 0, schedule: int | None = None):
        """schedule: a seed that shuffles the order of blocks and of warps."""
        self._memory = memory
        self._threads = threads or _cores()
        self._shuffle = Shuffle(schedule)
        self._workers: dict[tuple[str, Shape, Index3, int], list[Worker]] = {}
        self._stop = ctypes.c_int32(_RUNS_ON)
        self._locks = (ctypes.c_int32 * L.LOCK_STRIPES)()
        self._maps: Maps | None = None  # made for the plan's first step: all buffers are there by then

    def launch(
        self,
        kernel: Compiled,
        grid: Index3 | Grid,
        block: Index3,
        dynamic_shared: int,
        args: bytes,
        budget: int,
        seconds: float,
        trace: int = 0,
    ) -> Outcome:
        """Run the grid to its end, or to its first fault.

        args: the parameter block; budget: warp-instructions of each host thread; seconds: wall time, after which the
        run is stopped; trace: address of a layout.Trace for a traced kernel, whose host threads share it. Raises
        MemoryError where the threads' local memory does not fit."""
        grid = grid if isinstance(grid, Grid) else Grid(grid)
        self._memory.begin_launch(grid.blocks, sharing.unit(kernel.function), kernel.communicates)
        return _Launch(self, kernel, grid, block, dynamic_shared, args, budget, trace).run(seconds)

    def counters_for(self, kernel: Compiled, threads: int) -> Counters:
        """Fresh counters for a launch."""
        return Counters(self._memory, self._own_maps(), kernel, threads)

    def _own_maps(self) -> Maps:
        if self._maps is None:
            self._maps = Maps(self._memory, self._threads)
        return self._maps

    def touch(self, number: int, start: int, nbytes: int, store: bool) -> None:
        """Count a range of a buffer that solve() itself reads or writes among the bytes that are touched."""
        self._own_maps().mark(number, start, nbytes, store)

    def touched(self) -> Touched:
        """Bytes of each buffer that all launches together, and solve() itself, have read and written."""
        return self._maps.touched_in_all() if self._maps is not None else {}

    def threads_for(self, kernel: Compiled, blocks: int) -> int:
        """Blocks that wait for each other run in turns, and what they print comes in their order."""
        return 1 if kernel.communicates or _prints(kernel) else max(1, min(self._threads, blocks))


class _Launch:
    """One launch on its way: gives workers what they need, runs them, and collects what they saw."""

    def __init__(self, owner: Launcher, kernel: Compiled, grid: Grid, block: Index3, dynamic_shared: int, args: bytes,
                 budget: int, trace: int):  # fmt: skip
        self._owner, self._kernel, self._grid, self._budget, self._trace = owner, kernel, grid, budget, trace
        self._block, self._dynamic_shared = block, dynamic_shared
        self._params = ctypes.create_string_buffer(args, len(args) + 16)
        self._following = ctypes.c_uint64(0)
        warps = (math.prod(block) + L.LANES - 1) // L.LANES
        self._orders = owner._shuffle.blocks(grid.blocks), owner._shuffle.warps(warps)
        self._threads = owner.threads_for(kernel, grid.blocks)
        self._counters = owner.counters_for(kernel, self._threads)
        self._workers: list[Worker] = []
        self._prints: list[_Buffer] = []
        self._residents: Residents | None = None

    def run(self, seconds: float) -> Outcome:
        with self._time_limit(seconds):
            if self._kernel.communicates:
                return self._outcome(self._run_in_turns())
            for _ in range(self._threads):
                self._worker()
            codes = self._run_side_by_side()
        return self._outcome([w for w, code in zip(self._workers, codes, strict=True) if code == L.FAULT])

    @contextmanager
    def _time_limit(self, seconds: float) -> Iterator[None]:
        stop = self._owner._stop

        def halt() -> None:
            stop.value = _OUT_OF_TIME

        stop.value = _RUNS_ON
        timer = threading.Timer(seconds, halt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _worker(self) -> Worker:
        """One more worker, ready to take blocks."""
        key = (self._kernel.name, self._kernel.shape, self._block, self._dynamic_shared)
        known = self._owner._workers.setdefault(key, [])
        if len(known) <= len(self._workers):
            known.append(Worker(self._kernel, self._block, self._dynamic_shared))
        w = known[len(self._workers)]
        self._workers.append(w)
        w.begin()
        self._place(w.context)
        if _prints(self._kernel):
            self._prints.append(ctypes.create_string_buffer(PRINT_BYTES))
            w.context.print_buffer = ctypes.addressof(self._prints[-1])
        return w

    def _place(self, c: Context) -> None:
        """The launch, as a worker sees it."""
        owner = self._owner
        self._counters.attach(c, min(len(self._workers), self._threads) - 1)
        c.params = ctypes.addressof(self._params)
        c.next_block, c.nblocks = ctypes.addressof(self._following), self._grid.blocks
        c.stop, c.budget = ctypes.addressof(owner._stop), self._budget
        c.nctaid_x, c.nctaid_y, c.nctaid_z = self._grid.size
        c.print_buffer, c.print_size = 0, PRINT_BYTES if _prints(self._kernel) else 0
        shadows = owner._memory.blocks
        c.race_base, c.start_time, c.order = shadows.base, shadows.start, ctypes.addressof(shadows.order)
        c.locks = ctypes.addressof(owner._locks) if self._threads > 1 else 0
        c.grid_workspace, c.sets_aside = self._grid.workspace, int(self._kernel.communicates)
        c.trace = self._trace
        order.apply(c, *self._orders)

    def _run_side_by_side(self) -> list[int]:
        """What each worker's run ended with."""
        stop = self._owner._stop

        def one(w: Worker) -> int:
            code = self._kernel.run_blocks(ctypes.addressof(w.context))
            if code == L.FAULT and stop.value == _RUNS_ON:
                stop.value = _FAILED  # the launch has failed: the others may stop
            return code

        if len(self._workers) == 1:
            return [one(self._workers[0])]
        with ThreadPoolExecutor(len(self._workers)) as pool:
            return list(pool.map(one, self._workers))

    def _run_in_turns(self) -> list[Worker]:
        written = [r.data for r in self._owner._memory.regions.values() if r.writable]
        self._residents = Residents(
            self._kernel.run_blocks, self._worker, self._left, self._budget, self._grid.resident, written,
            sharing.reads_clock(self._kernel.function),
        )  # fmt: skip
        failed = self._residents.run()
        return [failed] if failed else []

    def _left(self) -> int:
        return self._grid.blocks - self._following.value

    def _outcome(self, failed: list[Worker]) -> Outcome:
        faults = [w.context for w in failed]
        real = [f for f in faults if f.fault_kind != L.F_STOPPED] or faults
        fault = min(real, key=lambda f: f.block) if real else None
        if fault is None and self._owner._stop.value == _OUT_OF_TIME:  # stopped between two blocks
            fault = self._workers[0].context
            fault.fault_kind = L.F_STOPPED
        hazards = [w.hazards[k] for w in self._workers for k in range(w.context.nhazards)]
        hazards.sort(key=lambda h: (h.block, h.insn))
        used = sum(w.context.used for w in self._workers)
        outcome = Outcome(fault, hazards, self._records(), used, self._counters.collect(), self._threads)
        if fault is not None and fault.fault_kind in _GIVEN_UP and self._residents:
            outcome.waiting = self._residents.waiting()
            outcome.unstarted = max(0, self._left())
            outcome.short_of_memory = self._residents.short_of_memory
        return outcome

    def _records(self) -> list[bytes]:
        records = []
        for w, out in zip(self._workers, self._prints, strict=False):
            used = min(w.context.print_used, PRINT_BYTES) // PRINT_RECORD * PRINT_RECORD
            records += [bytes(out.raw[k : k + PRINT_RECORD]) for k in range(0, used, PRINT_RECORD)] if used else []
        return records


def _cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _prints(kernel: Compiled) -> bool:
    """Whether the kernel calls vprintf."""
    return any(
        isinstance(i, Ins) and i.base == "call" and isinstance(i.args[0], Sym) and i.args[0].name == "vprintf"
        for i in kernel.function.body
    )
