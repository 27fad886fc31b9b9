"""The counters that generated code fills, and what they amount to when a launch is over.

Each host thread has cells of its own (harness/emulator/access/traffic.py says what they count), so that no increment
is atomic; sums do not depend on how the blocks fell to the threads. The maps of touched words are large, one bit for
every 4 bytes of each buffer: threads share them where there are more threads than `MAP_BYTES` allow maps.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from harness.emulator import layout as L
from harness.emulator.access.traffic import groups_of
from harness.emulator.census import Site
from harness.emulator.layout import BufferEntry, Context
from harness.emulator.memory import Memory
from harness.emulator.program import Compiled
from harness.plan import FIRST_TENSOR_ID

MAP_BYTES = 192 << 20  # of all maps of a case together, unless a single set takes more
MAX_ROWS = 64  # buffers with counters of their own; what comes after them is counted together
WORD = 4  # bytes that a bit of a map stands for
_RATIO = L.LINE // WORD  # of the map of words to that of lines
_COLUMNS = ctypes.sizeof(BufferEntry) // 8
_COUNTS = BufferEntry.counts.offset // 8
_MAPS = [getattr(BufferEntry, f"{what}_{how}").offset // 8 for what in ("bits", "lines") for how in ("read", "written")]
_ONES = np.array([bin(n).count("1") for n in range(256)], np.uint8)


@dataclass(frozen=True)
class Requests:
    """Requests of one instruction, summed. Bytes are those that lanes asked for; `distinct` counts those once that
    several lanes of a request asked for; `ideal` is the fewest sectors that could have held these."""

    requests: int
    nbytes: int
    distinct: int
    sectors: int
    ideal: int


@dataclass(frozen=True)
class BankRequests:
    """Requests of one instruction on shared memory, and the passes they took and would have taken without conflicts."""

    requests: int
    passes: int
    ideal: int


@dataclass(frozen=True)
class LaunchCounts:
    """What one launch did. Instructions by the number under which Compiled.instructions has them."""

    buffers: dict[tuple[int, int], Requests] = field(default_factory=dict)  # (instruction, buffer id; 0: the rest)
    shared: dict[int, BankRequests] = field(default_factory=dict)
    local: dict[int, int] = field(default_factory=dict)  # requests
    touched: dict[int, tuple[int, int]] = field(default_factory=dict)  # buffer id -> bytes read, bytes written
    warp_instructions: dict[str, int] = field(default_factory=dict)  # by class (census.CLASSES)
    thread_instructions: dict[str, int] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)  # by kind (census.FLOP_KINDS)


class Maps:
    """Which words of a memory's buffers its kernels touched: in this launch, and in all of them."""

    def __init__(self, memory: Memory, threads: int):
        self._places: dict[int, tuple[int, int, int]] = {}  # buffer id -> bytes of its map, places of both
        end = 0
        regions = sorted(memory.regions.items(), key=lambda item: (item[0] < FIRST_TENSOR_ID, item[0]))
        for number, region in regions:  # tensors and scratch first: they have counters of their own
            size = (region.buffer.nbytes + 8 * WORD - 1) // (8 * WORD)
            step = (size + 16 + 63) // 64 * 64
            self._places[number] = (size, end, end + step if region.writable else -1)
            end += step * (1 + region.writable)
        self._nbytes = [region.buffer.nbytes for _, region in regions]
        count = max(1, min(threads, MAP_BYTES // max(end, 1)))
        self._words = [np.zeros((end + 64) // 8 * 8, np.uint8) for _ in range(count)]
        self._lines = [np.zeros(len(self._words[0]) // _RATIO + 2, np.uint8) for _ in range(threads)]
        self._before: np.ndarray | None = None  # of earlier launches
        self._used = False
        self._offsets = np.array(list(self._places.values()), np.int64).reshape(-1, 3)[:, 1:]

    @property
    def numbers(self) -> list[int]:
        """Ids of the buffers."""
        return list(self._places)

    def begin(self) -> None:
        """Forget what the last launch touched, but for the sum of all launches."""
        if not self._used:
            self._used = True
            return
        merged = self._merged()
        if self._before is None:
            self._before = np.zeros_like(merged)
        self._before |= merged
        for m in [*self._words, *self._lines]:
            m[:] = 0

    def addresses(self, thread: int) -> np.ndarray:
        """Where the maps of a thread are, a row for each buffer: of words read and written, of lines read and written.
        0 where nothing can be written."""
        words, lines = self._words[thread % len(self._words)].ctypes.data, self._lines[thread].ctypes.data
        both = np.hstack([self._offsets + words, self._offsets // _RATIO + lines])
        return np.where(np.tile(self._offsets, 2) < 0, 0, both).astype(np.uint64)

    def _merged(self) -> np.ndarray:
        """The words that any thread has touched, in one map; repeating it changes nothing."""
        merged = self._words[0].view(np.uint64)
        for words in self._words[1:]:
            merged |= words.view(np.uint64)
        lines = np.unpackbits(np.bitwise_or.reduce(self._lines), bitorder="little")
        merged.view(np.uint32)[lines[: 2 * len(merged)].view(bool)] = 0xFFFFFFFF
        return merged

    def touched(self) -> dict[int, tuple[int, int]]:
        """Bytes of each buffer that the last launch has read, and written, in words of 4."""
        return self._counted(self._merged())

    def touched_in_all(self) -> dict[int, tuple[int, int]]:
        """The same for all launches so far together."""
        merged = self._merged()
        return self._counted(merged if self._before is None else merged | self._before)

    def _counted(self, merged: np.ndarray) -> dict[int, tuple[int, int]]:
        bits, found = merged.view(np.uint8), {}
        for (number, (size, read, written)), nbytes in zip(self._places.items(), self._nbytes, strict=True):
            words = [_ones(bits[at : at + size]) if at >= 0 else 0 for at in (read, written)]
            if any(words):
                found[number] = (min(words[0] * WORD, nbytes), min(words[1] * WORD, nbytes))
        return found


def _ones(bits: np.ndarray) -> int:
    """Bits that are set."""
    if hasattr(np, "bitwise_count"):
        whole = len(bits) // 8 * 8
        words = np.bitwise_count(bits[:whole].view(np.uint64)).sum(dtype=np.int64)
        return int(words + np.bitwise_count(bits[whole:]).sum(dtype=np.int64))
    return int(_ONES[bits].sum(dtype=np.int64))


class Counters:
    """The counters of one launch, for its host threads."""

    def __init__(self, memory: Memory, maps: Maps, kernel: Compiled, threads: int):
        maps.begin()
        self._kernel, self._maps = kernel, maps
        self._numbers = maps.numbers
        self._rows = np.minimum(np.arange(1, len(self._numbers) + 1), MAX_ROWS).astype(np.uint64)  # row 0: no buffer
        address, rows = memory.table()
        table = np.ctypeslib.as_array((ctypes.c_uint64 * (rows * _COLUMNS)).from_address(address))
        table = table.reshape(rows, _COLUMNS)
        self._tables = [table.copy() for _ in range(threads)]
        instructions, count = len(kernel.instructions) + 1, int(self._rows.max(initial=0)) + 1
        self._cells = [np.zeros((count, instructions, L.TRAFFIC_CELLS), np.uint64) for _ in range(threads)]
        self._blocks = [np.zeros((len(kernel.census.blocks) + 1, 2), np.uint64) for _ in range(threads)]
        for thread in range(threads):
            self._point(thread)

    def _point(self, thread: int) -> None:
        table, cells, numbers = self._tables[thread], self._cells[thread], self._numbers
        table[numbers, _COUNTS] = self._rows * np.uint64(cells.strides[0]) + np.uint64(cells.ctypes.data)
        table[np.ix_(numbers, _MAPS)] = self._maps.addresses(thread)

    def attach(self, context: Context, thread: int) -> None:
        """Make a context count for a host thread."""
        context.buffers, context.nbuffers = self._tables[thread].ctypes.data, len(self._tables[thread])
        context.counts = self._cells[thread].ctypes.data
        context.block_counts = self._blocks[thread].ctypes.data

    def collect(self) -> LaunchCounts:
        """The sums over all threads."""
        sites = self._kernel.census.sites
        columns = sorted(sites)
        cells = np.add.reduce([c[:, columns] for c in self._cells]).astype(np.int64)
        blocks = np.add.reduce(self._blocks).astype(np.int64)
        numbers = [0, *self._numbers[:MAX_ROWS]]
        if len(self._numbers) > MAX_ROWS:
            numbers[MAX_ROWS] = 0
        buffers = {}
        for row, column in np.argwhere(cells[1:].any(axis=2)).tolist():
            number = columns[column]
            buffers[number, numbers[row + 1]] = _requests(cells[row + 1, column].tolist(), sites[number].nbytes)
        shared, local = {}, {}
        for own, number in zip(cells[0].tolist(), columns, strict=True):
            site = sites[number]
            ran = own[L.S_REQUESTS] if site.block < 0 or site.space == "generic" else int(blocks[site.block, 0])
            if site.space == "local" and ran:
                local[number] = ran
            elif site.space in ("shared", "generic") and ran:
                shared[number] = _bank_requests(site, ran, own)
        return LaunchCounts(buffers, shared, local, self._maps.touched(), *self._executed(blocks))

    def _executed(self, blocks: np.ndarray) -> tuple[dict[str, int], ...]:
        """Warp-instructions and thread-instructions by class, FLOPs by kind."""
        warps: Counter[str] = Counter()
        threads: Counter[str] = Counter()
        flops: Counter[str] = Counter()
        for of, (runs, lanes) in zip(self._kernel.census.blocks, blocks.tolist(), strict=False):
            lanes = lanes if of.partial else runs * L.LANES
            for name, amount in of.instructions.items():
                warps[name] += amount * runs
                threads[name] += amount * lanes
            for kind, operations in of.flops.items():
                flops[kind] += operations * (runs if kind == "tensor" else lanes)
        return tuple(dict(+counter) for counter in (warps, threads, flops))  # without zeros


def _requests(cells: list[int], nbytes: int) -> Requests:
    """The counters of one instruction on one buffer, spelled out."""
    lines, uniform = cells[L.T_LINES], cells[L.T_UNIFORM]
    full = L.LANES * nbytes
    sectors = lines * full // L.SECTOR
    return Requests(
        requests=lines + uniform + cells[L.T_REQUESTS],
        nbytes=(lines + uniform) * full + cells[L.T_BYTES],
        distinct=lines * full + uniform * nbytes + cells[L.T_DISTINCT],
        sectors=sectors + uniform + cells[L.T_SECTORS],
        ideal=sectors + uniform + cells[L.T_IDEAL],
    )


def _bank_requests(site: Site, requests: int, cells: list[int]) -> BankRequests:
    passes = requests if site.uniform else requests * groups_of(site.nbytes)
    ideal = passes - cells[L.S_SAVED]
    return BankRequests(requests, ideal + cells[L.S_EXCESS], ideal)
