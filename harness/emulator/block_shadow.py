"""Who touched which unit of global memory: the arrays behind layout.BlockShadow, for one case.

Blocks are numbered through all launches of a case, so that what older launches left behind needs no clearing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.emulator.layout import TAG_STRONG, BlockShadow, Order

MAX_BYTES = 256 << 20  # of all arrays of a case; the largest buffers go without where it does not suffice
_TAGS = ("wtag", "wplace", "rtag", "rplace")
_TIMES = ("wtime", "rtime", "others", "plain_wtag", "plain_wplace", "plain_wtime")  # where kernels communicate
_PADDING = 16  # units; the ends of vectors
_TAG_END, _TIME_END = 1 << 32, 1 << 31


@dataclass(frozen=True)
class Touched:
    """Which words of a buffer one launch touched: a bit for each, lowest first. Strong stores (atomics, volatile ones)
    apart; strong loads are left out."""

    stores: np.ndarray
    loads: np.ndarray
    strong_stores: np.ndarray

    def conflict(self, other: Touched) -> int | None:
        """Byte offset of the first word that both touched, at least one of them with a store, and not both with a
        strong one."""
        clash = self.stores & (other.stores | other.loads | other.strong_stores)
        clash |= other.stores & (self.loads | self.strong_stores)
        clash |= (self.strong_stores & other.loads) | (other.strong_stores & self.loads)
        if not clash.any():
            return None
        byte = int((clash != 0).argmax())
        bits = int(clash[byte])
        return 4 * (8 * byte + (bits & -bits).bit_length() - 1)

    def wrote(self, offset: int) -> bool:
        """Whether the launch wrote to the word at a byte offset."""
        byte, bit = divmod(offset // 4, 8)
        return bool(int(self.stores[byte] | self.strong_stores[byte]) >> bit & 1)


def _words(units: np.ndarray, unit: int) -> np.ndarray:
    """Bits of words of 4 bytes from truth values of units of 1, 2 or 4."""
    step = 4 // unit
    whole = np.pad(units, (0, -len(units) % step)).reshape(-1, step).any(axis=1)
    return np.packbits(whole, bitorder="little")


class BlockShadows:
    """Arrays by buffer id and unit. `order` is what the launch's workers share."""

    def __init__(self) -> None:
        self.order = Order()
        self.base = 0  # of the tags of the launch
        self.start = 0  # its time
        self._next_base = 0
        self._arrays: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self._bytes = 0
        self._unit = 4

    def begin(self, buffers: Iterable[tuple[int, int, BlockShadow]], unit: int, timed: bool, blocks: int) -> None:
        """Prepare a launch of so many blocks. buffers: (id, bytes, where to put the arrays' addresses)."""
        self._number(blocks)
        self._unit = unit
        for buffer_id, nbytes, view in sorted(buffers, key=lambda b: b[1]):
            arrays = self._find(buffer_id, nbytes // unit + _PADDING, unit, timed)
            for name in (*_TAGS, *_TIMES):
                setattr(view, name, arrays[name].ctypes.data if name in arrays else 0)

    def touched(self, sizes: Mapping[int, int]) -> dict[int, Touched]:
        """What the last launch touched, of buffers of so many bytes by their ids."""
        found = {}
        for (buffer_id, unit), arrays in self._arrays.items():
            if unit != self._unit or not arrays or buffer_id not in sizes:
                continue
            units = -(-sizes[buffer_id] // unit)
            writer, reader = (arrays[name][:units] for name in ("wtag", "rtag"))
            wrote, read = (tag > self.base + TAG_STRONG for tag in (writer, reader))
            if wrote.any() or read.any():
                strong, strong_read = ((tag & TAG_STRONG).astype(bool) for tag in (writer, reader))
                kinds = (wrote & ~strong, read & ~strong_read, wrote & strong)
                found[buffer_id] = Touched(*(_words(kind, unit) for kind in kinds))
        return found

    def _number(self, blocks: int) -> None:
        used = 2 * (blocks + 1)  # a tag for each block, and one for several of them; the lowest bit is a flag
        if self._next_base + used >= _TAG_END or self.order.time > _TIME_END:
            self._arrays, self._bytes, self._next_base = {}, 0, 0
            self.order.time = 0
        self.base, self._next_base = self._next_base, self._next_base + used
        self.order.time += 1
        self.start = self.order.time
        ctypes.memset(self.order.released, 0, ctypes.sizeof(self.order.released))

    def _find(self, buffer_id: int, units: int, unit: int, timed: bool) -> dict[str, np.ndarray]:
        arrays = self._arrays.setdefault((buffer_id, unit), {})
        wanted = [name for name in (*_TAGS, *(_TIMES if timed else ())) if name not in arrays]
        cost = 4 * units * len(wanted)
        if self._bytes + cost > MAX_BYTES or self._next_base >= _TAG_END:
            return {}
        try:
            arrays.update({name: np.zeros(units, np.uint32) for name in wanted})
        except MemoryError:
            return {}
        self._bytes += cost
        return arrays
