"""What single requests of warps touched, and which blocks touched what: records for drawings.

A trace is of one case, and of the first launch of each of its kernels. Of each line of the source, tensor and operation
it holds a typical request of a warp and, where it differs, the costliest. Figures are those of harness/traffic.py:

    sector   32 bytes of global memory, the least that it moves
    pass     one turn of the 32 banks of shared memory (Nsight Compute calls it a wavefront)
    ideal    the fewest that could hold what the request's lanes ask for

Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory" and "Shared Memory and Memory Banks".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.traffic import SECTOR_BYTES

LANES = 32
BANKS = 32  # of shared memory
BANK_BYTES = 4
SPACES = ("global", "shared")
OPERATIONS = ("read", "write", "atomic", "copy")  # copy: cp.async, which reads global memory and writes shared memory
MAX_LINES = 48
MAX_MAPS = 12
MAX_CELLS = 2048  # of one map
MAX_DIMENSIONS = 8  # of a tensor

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class WarpRequest:
    """One request of a warp."""

    kernel: str  # readable name
    file: str
    line: int  # 1-based; 0 where unknown
    tensor: str  # or shared variable
    space: str  # of SPACES
    operation: str  # of OPERATIONS
    lane_bytes: int  # that each lane asks for
    block: Index3
    warp: int  # of the block
    offsets: tuple[int | None, ...]  # of each lane: bytes from the tensor's start; None where it takes no part
    start: int = 0  # byte of the block's shared memory at which the variable starts, which decides the banks
    costliest: bool = False  # the one of its line that cost most beyond the ideal; else a typical one

    @property
    def lanes(self) -> int:
        """That take part."""
        return sum(offset is not None for offset in self.offsets)

    @property
    def asked_bytes(self) -> int:
        """What the lanes ask for; what several ask for counts once."""
        return self.lane_bytes * len({offset for offset in self.offsets if offset is not None})

    @property
    def units(self) -> int:
        """Sectors that the request moves, or passes that it takes."""
        return sectors(self.offsets, self.lane_bytes) if self.space == "global" else sum(self.passes)

    @property
    def ideal_units(self) -> int:
        """The fewest that would have done."""
        if self.space == "global":
            return -(-self.asked_bytes // SECTOR_BYTES)
        return sum(min(passes, 1) for passes in self.passes)

    @property
    def groups(self) -> list[range]:
        """The lanes that shared memory serves together; all of them where all want the same."""
        alike = len({offset for offset in self.offsets if offset is not None}) == 1
        return [range(LANES)] if alike else groups(self.lane_bytes)

    @property
    def passes(self) -> list[int]:
        """Of shared memory, for each of `groups`."""
        return passes([None if o is None else self.start + o for o in self.offsets], self.lane_bytes)


def sectors(offsets: Iterable[int | None], nbytes: int) -> int:
    """Different sectors of 32 bytes that accesses of `nbytes` touch; offsets count from a multiple of 32."""
    touched: set[int] = set()
    for offset in offsets:
        if offset is not None:
            touched.update(range(offset // SECTOR_BYTES, (offset + nbytes - 1) // SECTOR_BYTES + 1))
    return len(touched)


def groups(nbytes: int) -> list[range]:
    """The lanes that shared memory serves together: all 32 for up to 4 bytes a lane, halves of a warp for 8, quarters
    for 16."""
    count = max(nbytes, BANK_BYTES) // BANK_BYTES
    return [range(LANES // count * g, LANES // count * (g + 1)) for g in range(count)]


def passes(places: Sequence[int | None], nbytes: int) -> list[int]:
    """Passes that each group of lanes takes: the most different words that one bank has to give. Where all lanes want
    the same, one pass serves them all. places: byte offsets in shared memory."""
    size = max(nbytes, BANK_BYTES)
    units = [None if place is None else place // size for place in places]
    if len({unit for unit in units if unit is not None}) == 1:
        return [1]
    banks = BANKS * BANK_BYTES // size
    found = []
    for group in groups(nbytes):
        wanted = {units[lane] for lane in group} - {None}
        load = [0] * banks
        for unit in wanted:
            assert unit is not None
            load[unit % banks] += 1
        found.append(max(load))
    return found


@dataclass(frozen=True)
class BlockMap:
    """Which block of a launch read, or wrote, which part of a tensor: cells in rows, of `cell_rows` rows of the tensor
    by `cell_bytes` bytes."""

    kernel: str  # readable name
    tensor: str
    operation: str  # "read" or "write"; atomics count as writes
    grid: Index3  # blocks of the launch
    shape: tuple[int, ...]  # of the tensor; () where it is not known
    nbytes: int  # of the tensor
    row_bytes: int
    cell_rows: int
    cell_bytes: int
    columns: int  # cells side by side
    first: tuple[int, ...]  # of each cell, row by row: the lowest number of a block that touched it, plus 1; 0: none
    blocks: tuple[int, ...]  # how many blocks touched it

    @property
    def rows(self) -> int:
        """Cells one above the other."""
        return len(self.first) // self.columns

    @property
    def total(self) -> int:
        """Blocks of the launch."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    def block(self, number: int) -> Index3:
        """blockIdx of a block by its number."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)


@dataclass(frozen=True)
class CaseTrace:
    """What was seen of one case. `complete` is false where its run ended early."""

    requests: tuple[WarpRequest, ...] = ()  # by kernel, line, tensor; the typical one before the costliest
    maps: tuple[BlockMap, ...] = ()
    complete: bool = True


def complaint(trace: CaseTrace) -> str:
    """Why no device could have left such a trace, so that nothing can be drawn of it; empty where one could."""
    if len(trace.requests) > 2 * MAX_LINES or len(trace.maps) > MAX_MAPS:
        return "it holds more requests or maps than are kept"
    return next(filter(None, [*map(_of_request, trace.requests), *map(_of_map, trace.maps)]), "")


def _of_request(r: WarpRequest) -> str:
    known = r.space in SPACES and r.operation in OPERATIONS and r.lane_bytes in (1, 2, 4, 8, 16)
    lanes = len(r.offsets) == LANES and any(offset is not None for offset in r.offsets)
    return "" if known and lanes else "a request has no lanes, or is of no known kind"


def _of_map(m: BlockMap) -> str:
    sizes = (*m.grid, m.row_bytes, m.cell_rows, m.cell_bytes, m.columns, len(m.first))
    if m.operation not in ("read", "write") or min(sizes) < 1 or len(m.shape) > MAX_DIMENSIONS:
        return "a map has no cells, or is of no known kind"
    if len(m.first) != len(m.blocks) or len(m.first) % m.columns or len(m.first) > MAX_CELLS:
        return "a map's cells do not fill its rows"
    return "" if max(*m.first, *m.blocks) <= m.total else "a map names blocks that the grid does not have"
