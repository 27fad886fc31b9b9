"""The arrays that a traced launch fills (access/tracing.py), and what is in them when it is over."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.emulator import layout as L
from harness.emulator.layout import Trace, TracedRequest, TraceMap


@dataclass(frozen=True)
class Form:
    """How a buffer is cut into cells; both sizes of a cell are powers of two, and no cell ends within a sector."""

    nbytes: int
    row_bytes: int
    cell_rows: int
    cell_bytes: int

    @property
    def columns(self) -> int:
        return -(-self.row_bytes // self.cell_bytes)

    @property
    def rows(self) -> int:
        return -(-self.nbytes // (self.row_bytes * self.cell_rows))


@dataclass(frozen=True)
class Kept:
    """A request as it was kept: generic addresses of all lanes, of which those of the mask took part."""

    insn: int
    shared: bool
    costliest: bool
    block: int
    warp: int
    mask: int
    cost: int
    addresses: tuple[int, ...]


@dataclass(frozen=True)
class Cells:
    """Of each cell the lowest block that touched it, plus 1, or 0; and the number of blocks that did."""

    form: Form
    first: np.ndarray
    blocks: np.ndarray

    @property
    def rank(self) -> tuple[float, int]:
        """Lower is better: blocks that share a cell on average, then fewer cells."""
        return float(self.blocks[self.blocks > 0].mean()), len(self.blocks)


class Tracer:
    """The trace of one launch of so many blocks. forms: ways to map a buffer, by its id, of which the one that tells
    blocks apart best is taken; `both`: ids whose writing is mapped as well as their reading."""

    def __init__(
        self, instructions: int, blocks: int, forms: Mapping[int, Sequence[Form]], both: Collection[int] = ()
    ):
        self._slots = np.zeros(instructions * L.TRACED_SLOTS * ctypes.sizeof(TracedRequest), np.uint8)
        self._stride = (blocks + 7) // 8
        self._maps = (TraceMap * (max(forms, default=0) + 1))()
        self._more: list[TraceMap] = []
        self._bits: list[tuple[int, bool, Form, np.ndarray]] = []
        for number, several in forms.items():
            row = self._maps[number]
            self._map(row, number, several[0], number in both)
            for form in several[1:]:
                self._more.append(TraceMap())
                row.next = ctypes.addressof(self._more[-1])
                row = self._more[-1]
                self._map(row, number, form, number in both)
        self._trace = Trace(self._slots.ctypes.data, ctypes.addressof(self._maps), len(self._maps))

    def _map(self, row: TraceMap, number: int, form: Form, both: bool) -> None:
        row.size, row.row_bytes = form.nbytes, form.row_bytes
        row.row_shift, row.byte_shift = form.cell_rows.bit_length() - 1, form.cell_bytes.bit_length() - 1
        row.columns, row.stride = form.columns, self._stride
        row.read = self._bits_of(number, False, form)
        row.written = self._bits_of(number, True, form) if both else 0

    def _bits_of(self, number: int, written: bool, form: Form) -> int:
        bits = np.zeros((form.rows * form.columns, self._stride), np.uint8)
        self._bits.append((number, written, form, bits))
        return int(bits.ctypes.data)

    @property
    def address(self) -> int:
        """Of the layout.Trace that the launch is given."""
        return ctypes.addressof(self._trace)

    def kept(self) -> list[Kept]:
        """The requests, in the order of the instructions."""
        size = ctypes.sizeof(TracedRequest)
        lanes = self._slots.reshape(-1, size)[:, TracedRequest.lanes.offset]
        found = []
        for slot in np.flatnonzero(lanes).tolist():
            row = TracedRequest.from_buffer(self._slots.data, slot * size)
            insn, side = divmod(slot, L.TRACED_SLOTS)
            who = (row.block, row.warp, row.mask)
            found.append(Kept(insn, side >= 2, bool(side & 1), *who, row.cost, tuple(row.address)))
        return found

    def cells(self) -> dict[tuple[int, bool], Cells]:
        """By (buffer id, whether written), in the form whose cells fewest blocks share; buffers that nobody touched are
        left out."""
        found: dict[tuple[int, bool], Cells] = {}
        for number, written, form, bits in self._bits:
            if bits.any():
                cells = _cells(form, bits)
                best = found.get((number, written))
                if best is None or cells.rank < best.rank:
                    found[number, written] = cells
        return found


def _cells(form: Form, bits: np.ndarray) -> Cells:
    each = np.unpackbits(bits, axis=1, bitorder="little")
    return Cells(form, np.where(each.any(axis=1), each.argmax(axis=1) + 1, 0), each.sum(axis=1, dtype=np.int64))
