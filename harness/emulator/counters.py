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
MIN_ROWS, MAX_ROWS = 8, 64  # buffers with counters of their own; what comes after them is counted together
CELL_BYTES = 4 << 20  # of a thread's counters, which decides between the two
WORD = 4  # bytes that a bit of a map stands for
_RATIO = L.LINE // WORD  # of the map of words to that of lines
_COLUMNS = ctypes.sizeof(BufferEntry) // 8
_COUNTS = BufferEntry.counts.offset // 8
_MAPS = [getattr(BufferEntry, f"{what}_{how}").offset // 8 for what in ("bits", "lines") for how in ("read", "written")]
_IN_SHARED = ("shared", "generic", "copy")  # spaces of sites that may access shared memory
_ONES = np.array([bin(n).count("1") for n in range(256)], np.uint8)


Touched = dict[int, tuple[int, int]]  # buffer id -> bytes read, bytes written


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
    touched: Touched = field(default_factory=dict)
    warp_instructions: dict[str, int] = field(default_factory=dict)  # by class (census.CLASSES)
    thread_instructions: dict[str, int] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)  # by kind (census.FLOP_KINDS)


class Maps:
    """Which words of a memory's buffers its kernels touched: in this launch, and in all of them.

    All maps of words are one array, in which each buffer has a place for what is read and, if it can be written, one
    for what is written."""

    def __init__(self, memory: Memory, threads: int):
        regions = sorted(memory.regions.items(), key=_rank)
        self.numbers = [number for number, _ in regions]
        self._nbytes = [region.buffer.nbytes for _, region in regions]
        places, end = [], 0
        for _, region in regions:
            step = (region.buffer.nbytes // (8 * WORD) + 17 + 63) // 64 * 64
            places.append((end, end + step if region.writable else -1))
            end += step * (1 + region.writable)
        self._places = np.array(places, np.int64).reshape(-1, 2)
        count = max(1, min(threads, MAP_BYTES // max(end, 1)))
        self._words = [np.zeros(end + 64, np.uint8) for _ in range(count)]
        self._lines = [np.zeros(len(self._words[0]) // _RATIO + 2, np.uint8) for _ in range(threads)]
        self._before: np.ndarray | None = None  # of earlier launches, and of what solve() did between them
        self._last: Touched | None = None  # of the last launch

    def begin(self) -> None:
        """Forget what the last launch touched, but for the sum of all launches."""
        if self._last is None:
            return
        merged, self._last = self._merged(), None
        self._before = merged.copy() if self._before is None else self._before | merged
        for m in [*self._words, *self._lines]:
            m[:] = 0

    def mark(self, number: int, start: int, nbytes: int, store: bool) -> None:
        """A range of a buffer that solve() itself reads or writes, in no launch. Constant memory has no map of what was
        written: no kernel writes there."""
        place = 8 * int(self._places[self.numbers.index(number), int(store)])
        if place < 0:
            return
        if self._before is None:
            self._before = np.zeros_like(self._words[0].view(np.uint64))
        first, end = place + start // WORD, place + (start + nbytes + WORD - 1) // WORD
        part = self._before.view(np.uint8)[first // 8 : (end + 7) // 8]
        ends = part[[0, -1]]
        part[1:-1] = 0xFF
        low, high = 0xFF << first % 8 & 0xFF, 0xFF >> -end % 8  # of the first byte, of the last
        part[[0, -1]] = ends | ([low, high] if len(part) > 1 else [low & high] * 2)

    def addresses(self, thread: int) -> np.ndarray:
        """Where the maps of a thread are, a row for each buffer: of words read and written, of lines read and written.
        0 where nothing can be written."""
        words, lines = self._words[thread % len(self._words)].ctypes.data, self._lines[thread].ctypes.data
        both = np.hstack([self._places + words, self._places // _RATIO + lines])
        return np.where(np.tile(self._places, 2) < 0, 0, both).astype(np.uint64)

    def touched(self) -> Touched:
        """Bytes of each buffer that the last launch has read, and written, in words of 4."""
        if self._last is None:
            self._last = self._counted(self._merged())
        return self._last

    def touched_in_all(self) -> Touched:
        """The same for all launches so far together."""
        return self.touched() if self._before is None else self._counted(self._before | self._merged())

    def _merged(self) -> np.ndarray:
        """The words that any thread has touched, in one map; repeating it changes nothing."""
        merged = self._words[0].view(np.uint64)
        for words in self._words[1:]:
            merged |= words.view(np.uint64)
        lines = np.unpackbits(np.bitwise_or.reduce(self._lines), bitorder="little")
        merged.view(np.uint32)[lines[: 2 * len(merged)].view(bool)] = 0xFFFFFFFF
        return merged

    def _counted(self, merged: np.ndarray) -> Touched:
        used = self._places >= 0
        sums = np.zeros(self._places.shape, np.int64)
        if len(sums):
            sums[used] = np.add.reduceat(_ones(merged), self._places[used] // 8, dtype=np.int64)
        found = {}
        for row in np.flatnonzero(sums.any(axis=1)).tolist():
            read, written = (min(words * WORD, self._nbytes[row]) for words in sums[row].tolist())
            found[self.numbers[row]] = (read, written)
        return found


def _rank(item: tuple[int, object]) -> tuple[bool, int]:
    """Tensors and scratch come first, then variables: the user's own after those of the headers, hence backwards."""
    number = item[0]
    return (False, number) if number >= FIRST_TENSOR_ID else (True, -number)


def _ones(words: np.ndarray) -> np.ndarray:
    """Bits that are set in each 64-bit word."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words))
    return np.asarray(_ONES[words.view(np.uint8)].reshape(-1, 8).sum(axis=1))


class Counters:
    """The counters of one launch, for its host threads."""

    def __init__(self, memory: Memory, maps: Maps, kernel: Compiled, threads: int):
        maps.begin()
        self._kernel, self._maps = kernel, maps
        self._numbers = maps.numbers
        instructions = len(kernel.instructions) + 1
        self._own = min(MAX_ROWS, max(MIN_ROWS, CELL_BYTES // (instructions * L.TRAFFIC_CELLS * 8)))
        self._rows = np.minimum(np.arange(1, len(self._numbers) + 1), self._own).astype(np.uint64)  # row 0: no buffer
        address, rows = memory.table()
        table = np.ctypeslib.as_array((ctypes.c_uint64 * (rows * _COLUMNS)).from_address(address))
        table = table.reshape(rows, _COLUMNS)
        self._tables = [table.copy() for _ in range(threads)]
        count = int(self._rows.max(initial=0)) + 1
        self._cells = [np.zeros((count, instructions, L.TRAFFIC_CELLS), np.uint64) for _ in range(threads)]
        self._blocks = [np.zeros((len(kernel.census.blocks) + 1, 2), np.uint64) for _ in range(threads)]
        shared = [n for n, s in kernel.census.sites.items() if s.space in _IN_SHARED]
        self._patterns = [np.zeros((len(shared), L.PATTERN), np.int32) for _ in range(threads)]
        for cells, patterns in zip(self._cells, self._patterns, strict=True):
            places = np.arange(len(shared), dtype=np.uint64) * np.uint64(patterns.strides[0])
            cells[0, shared, L.S_PATTERN] = places + np.uint64(patterns.ctypes.data)
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
        numbers = [0, *self._numbers[: self._own]]
        if len(self._numbers) > self._own:
            numbers[-1] = 0
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
            elif site.space in _IN_SHARED and ran:
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
