"""Runs a compiled kernel over a grid on all cores, within its budgets."""

from __future__ import annotations

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from harness.emulator import layout as L
from harness.emulator.counters import Counters, LaunchCounts, Maps, Touched
from harness.emulator.layout import Context, Hazard
from harness.emulator.memory import Memory
from harness.emulator.ops_memory import PRINT_RECORD
from harness.emulator.program import Compiled
from harness.emulator.ptx import Ins, Sym
from harness.emulator.uniform import Shape
from harness.emulator.worker import Worker

PRINT_BYTES = 1 << 20  # of printf records kept for each worker; the card's default FIFO has the same size
_RUNS_ON, _OUT_OF_TIME, _FAILED = range(3)  # values of the stop flag

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


class Launcher:
    """Launches kernels of one program on one memory; reuses workers between launches of the same kind."""

    def __init__(self, memory: Memory, threads: int = 0):
        self._memory = memory
        self._threads = threads or _cores()
        self._workers: dict[tuple[str, Shape, Index3, int], list[Worker]] = {}
        self._stop = ctypes.c_int32(_RUNS_ON)
        self._maps: Maps | None = None  # made when the first kernel is launched: all buffers are there by then

    def launch(
        self,
        kernel: Compiled,
        grid: Index3,
        block: Index3,
        dynamic_shared: int,
        args: bytes,
        budget: int,
        seconds: float,
    ) -> Outcome:
        """Run the grid to its end, or to its first fault.

        args: the parameter block; budget: warp-instructions of each host thread; seconds: wall time, after which the
        run is stopped. Raises MemoryError where the threads' local memory does not fit."""
        blocks = grid[0] * grid[1] * grid[2]
        workers = self._workers_for(kernel, block, dynamic_shared, max(1, min(self._threads, blocks)))
        params = ctypes.create_string_buffer(args, len(args) + 16)
        following = ctypes.c_uint64(0)
        counters = self._counters_for(kernel, len(workers))
        prints = [ctypes.create_string_buffer(PRINT_BYTES) for _ in workers] if _prints(kernel) else []
        for n, w in enumerate(workers):
            w.begin()
            c = w.context
            counters.attach(c, n)
            c.params = ctypes.addressof(params)
            c.next_block, c.nblocks = ctypes.addressof(following), blocks
            c.stop, c.budget = ctypes.addressof(self._stop), budget
            c.nctaid_x, c.nctaid_y, c.nctaid_z = grid
            c.print_buffer, c.print_size = (ctypes.addressof(prints[n]), PRINT_BYTES) if prints else (0, 0)
        codes = self._run(kernel, workers, seconds)
        return self._outcome(workers, codes, prints, counters.collect())

    def _counters_for(self, kernel: Compiled, threads: int) -> Counters:
        if self._maps is None:
            self._maps = Maps(self._memory, self._threads)
        return Counters(self._memory, self._maps, kernel, threads)

    def touched(self) -> Touched:
        """Bytes of each buffer that all launches together have read and written."""
        return self._maps.touched_in_all() if self._maps is not None else {}

    def _workers_for(self, kernel: Compiled, block: Index3, dynamic_shared: int, count: int) -> list[Worker]:
        workers = self._workers.setdefault((kernel.name, kernel.shape, block, dynamic_shared), [])
        while len(workers) < count:
            workers.append(Worker(kernel, block, dynamic_shared))
        return workers[:count]

    def _run(self, kernel: Compiled, workers: list[Worker], seconds: float) -> list[int]:
        """What each worker's run ended with."""

        def halt() -> None:
            self._stop.value = _OUT_OF_TIME

        def one(w: Worker) -> int:
            code = kernel.run_blocks(ctypes.addressof(w.context))
            if code == L.FAULT and self._stop.value == _RUNS_ON:
                self._stop.value = _FAILED  # the launch has failed: the others may stop
            return code

        self._stop.value = _RUNS_ON
        timer = threading.Timer(seconds, halt)
        timer.daemon = True
        timer.start()
        try:
            if len(workers) == 1:
                return [one(workers[0])]
            with ThreadPoolExecutor(len(workers)) as pool:
                return list(pool.map(one, workers))
        finally:
            timer.cancel()

    def _outcome(self, workers: list[Worker], codes: list[int], prints: list[_Buffer],
                 counts: LaunchCounts) -> Outcome:  # fmt: skip
        faults = [w.context for w, code in zip(workers, codes, strict=True) if code == L.FAULT]
        real = [f for f in faults if f.fault_kind != L.F_STOPPED] or faults
        fault = min(real, key=lambda f: f.block) if real else None
        if fault is None and self._stop.value == _OUT_OF_TIME:  # stopped between two blocks
            fault = workers[0].context
            fault.fault_kind = L.F_STOPPED
        hazards = [w.hazards[k] for w in workers for k in range(w.context.nhazards)]
        hazards.sort(key=lambda h: (h.block, h.insn))
        records = []
        for w, out in zip(workers, prints, strict=False):
            used = min(w.context.print_used, PRINT_BYTES) // PRINT_RECORD * PRINT_RECORD
            records += [bytes(out.raw[k : k + PRINT_RECORD]) for k in range(0, used, PRINT_RECORD)] if used else []
        return Outcome(fault, hazards, records, sum(w.context.used for w in workers), counts)


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
