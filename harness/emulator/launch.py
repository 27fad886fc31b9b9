"""Runs a compiled kernel over a grid: memory, worker threads, budgets."""

from __future__ import annotations

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from harness.emulator import layout as L
from harness.emulator.layout import Context, Hazard, Warp
from harness.emulator.memory import Memory, aligned
from harness.emulator.program import Compiled
from harness.emulator.uniform import Shape

MAX_HAZARDS = 64
PRINT_BYTES = 1 << 20  # of printf records kept by each worker; the card's default FIFO has the same size
FUEL_SLICE = 1 << 18  # warp-instructions that a warp may run before the others get their turn
_EPOCHS_END = 1 << 31  # tags above this: start the shadow afresh


def shape_of(block: tuple[int, int, int]) -> Shape:
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


class Worker:
    """Context, warps and shared memory of one host thread."""

    def __init__(self, kernel: Compiled, block: tuple[int, int, int], dynamic_shared: int):
        self.kernel = kernel
        x, y, z = block
        threads = x * y * z
        self.nwarps = (threads + L.LANES - 1) // L.LANES
        total_shared = kernel.dynamic_offset + dynamic_shared if dynamic_shared else kernel.static_shared
        words = (total_shared + 3) // 4 + 160  # slack: vector loads of shadow may reach past the end, masked
        self.shared = aligned(words * 4)
        self.shared[:] = 0xFF
        self.shadow = [aligned(words * 4) for _ in range(4)]
        for s in self.shadow:
            s[:] = 0
        local_words = kernel.local_bytes // 4
        frame = kernel.frame_bytes + 64
        local = local_words * 4 * L.LANES + 64
        self.memory = aligned((frame + local + (local_words + 16) * 4 + 64) * self.nwarps)
        self.memory[:] = 0xFF
        stride = ctypes.sizeof(Warp)
        self.warps = (Warp * self.nwarps)()
        self.hazards = (Hazard * MAX_HAZARDS)()
        self.history = np.zeros((len(kernel.instructions) + 1, 4), np.int64)
        self.seen = (ctypes.c_uint8 * (len(kernel.instructions) + 1))()
        self.print = bytearray(0)
        base = self.memory.ctypes.data
        step = (frame + local + (local_words + 16) * 4 + 63) // 64 * 64
        for w, warp in enumerate(self.warps):
            warp.frame = base + w * step
            warp.local = warp.frame + (frame + 63) // 64 * 64
            warp.local_shadow = warp.local + local
            warp.number = w
            first = w * L.LANES
            count = min(L.LANES, threads - first)
            warp.initial = (1 << count) - 1
            warp.tid_x0, warp.tid_y0, warp.tid_z0 = first % x, first // x % y, first // (x * y)
            for lane in range(L.LANES):
                t = first + lane
                warp.tid_x[lane], warp.tid_y[lane], warp.tid_z[lane] = t % x, t // x % y, t // (x * y)
        c = self.context = Context()
        c.shared, c.shared_bytes = self.shared.ctypes.data, total_shared
        c.wtag, c.winsn, c.rtag, c.rinsn = (s.ctypes.data for s in self.shadow)
        c.warps, c.warp_stride, c.nwarps = ctypes.addressof(self.warps), stride, self.nwarps
        c.local_bytes = kernel.local_bytes
        c.hazards, c.max_hazards = ctypes.addressof(self.hazards), MAX_HAZARDS
        c.history = self.history.ctypes.data
        c.seen = ctypes.addressof(self.seen)
        c.ntid_x, c.ntid_y, c.ntid_z = block
        c.dynamic_shared = dynamic_shared
        c.fuel_slice = FUEL_SLICE
        c.block = (1 << 64) - 1


class Launcher:
    """Launches kernels of one program on one memory; reuses worker contexts between launches of the same kind."""

    def __init__(self, memory: Memory, threads: int = 0):
        self.memory = memory
        self.threads = (
            threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
        )
        if threads:
            self.threads = threads
        self.workers: dict[tuple[str, Shape, tuple[int, int, int], int], list[Worker]] = {}
        self.stop = ctypes.c_int32(0)

    def launch(self, kernel: Compiled, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic_shared: int,
               args: bytes, budget: int, seconds: float) -> Outcome:  # fmt: skip
        """Run the grid to its end, or to its first fault.

        budget: warp-instructions for the whole launch; seconds: wall time, after which the run is stopped."""
        blocks = grid[0] * grid[1] * grid[2]
        count = max(1, min(self.threads, blocks))
        key = (kernel.name, kernel.shape, block, dynamic_shared)
        workers = self.workers.setdefault(key, [])
        while len(workers) < count:
            workers.append(Worker(kernel, block, dynamic_shared))
        workers = workers[:count]
        params = ctypes.create_string_buffer(args, max(len(args), 1) + 16)
        following = ctypes.c_uint64(0)
        self.stop.value = 0
        prints = [ctypes.create_string_buffer(PRINT_BYTES) if _prints(kernel) else None for _ in workers]
        for w, out in zip(workers, prints, strict=True):
            self._prepare(w, grid, blocks, params, following, budget, out)
        timer = threading.Timer(seconds, self._halt)
        timer.daemon = True
        timer.start()
        try:
            codes = self._run(kernel, workers)
        finally:
            timer.cancel()
        return self._outcome(workers, codes, prints)

    def _prepare(self, w: Worker, grid: tuple[int, int, int], blocks: int, params: ctypes.Array[ctypes.c_char],
                 following: ctypes.c_uint64, budget: int, out: ctypes.Array[ctypes.c_char] | None) -> None:  # fmt: skip
        c = w.context
        c.buffers, c.nbuffers = self.memory.table()
        c.params = ctypes.addressof(params)
        c.next_block, c.nblocks = ctypes.addressof(following), blocks
        c.stop = ctypes.addressof(self.stop)
        c.used, c.budget = 0, budget
        c.nhazards = 0
        c.fault_kind = 0
        c.block = (1 << 64) - 1
        c.nctaid_x, c.nctaid_y, c.nctaid_z = grid
        ctypes.memset(ctypes.addressof(w.seen), 0, ctypes.sizeof(w.seen))
        c.print_buffer, c.print_size, c.print_used = (
            (ctypes.addressof(out), PRINT_BYTES, 0) if out is not None else (0, 0, 0)
        )
        if c.etag > _EPOCHS_END:
            for s in w.shadow:
                s[:] = 0
            c.etag = 0

    def _halt(self) -> None:
        self.stop.value = 1

    def _run(self, kernel: Compiled, workers: list[Worker]) -> list[int]:
        run = kernel.run_blocks

        def one(w: Worker) -> int:
            code = int(run(ctypes.addressof(w.context)))  # type: ignore[operator]
            if code == L.FAULT and self.stop.value == 0:
                self.stop.value = 2  # the others may stop: the launch has failed
            return code

        if len(workers) == 1:
            return [one(workers[0])]
        with ThreadPoolExecutor(len(workers)) as pool:
            return list(pool.map(one, workers))

    def _outcome(
        self, workers: list[Worker], codes: list[int], prints: list[ctypes.Array[ctypes.c_char] | None]
    ) -> Outcome:
        faults = [w.context for w, code in zip(workers, codes, strict=True) if code == L.FAULT]
        real = [f for f in faults if f.fault_kind != L.F_STOPPED] or faults
        fault = min(real, key=lambda f: f.block) if real else None
        if fault is None and self.stop.value == 1:  # stopped between blocks
            fault = workers[0].context
            fault.fault_kind = L.F_STOPPED
        hazards = sorted(
            (w.hazards[k] for w in workers for k in range(w.context.nhazards)), key=lambda h: (h.block, h.insn)
        )
        records = [
            bytes(out[k : k + 256]) for w, out in zip(workers, prints, strict=True) if out is not None
            for k in range(0, min(w.context.print_used, PRINT_BYTES) // 256 * 256, 256)
        ]  # fmt: skip
        return Outcome(fault, hazards, records, sum(w.context.used for w in workers))


def _prints(kernel: Compiled) -> bool:
    return any(i.base == "call" for i in kernel.instructions) or _calls_printf(kernel)


def _calls_printf(kernel: Compiled) -> bool:
    from harness.emulator.ptx import Sym

    return any(
        getattr(i, "base", "") == "call" and isinstance(i.args[0], Sym) and i.args[0].name == "vprintf"
        for i in kernel.function.body
    )
