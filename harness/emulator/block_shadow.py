"""Who touched which unit of global memory: the arrays behind layout.BlockShadow, for one case.

Blocks are numbered through all launches of a case, so that what older launches left behind needs no clearing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np

from harness.emulator.layout import BlockShadow, Order

MAX_BYTES = 256 << 20  # of all arrays of a case; the largest buffers go without where it does not suffice
_TAGS, _TIMES = ("wtag", "wplace", "rtag", "rplace"), ("wtime", "rtime", "others")
_PADDING = 16  # units; the ends of vectors
_TAG_END, _TIME_END = 1 << 32, 1 << 31


class BlockShadows:
    """Arrays by buffer id and unit. `order` is what the launch's workers share."""

    def __init__(self) -> None:
        self.order = Order()
        self.base = 0  # of the tags of the launch
        self.start = 0  # its time
        self._next_base = 0
        self._arrays: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self._bytes = 0

    def begin(self, buffers: Iterable[tuple[int, int, BlockShadow]], unit: int, timed: bool, blocks: int) -> None:
        """Prepare a launch of so many blocks. buffers: (id, bytes, where to put the arrays' addresses)."""
        self._number(blocks)
        for buffer_id, nbytes, view in sorted(buffers, key=lambda b: b[1]):
            arrays = self._find(buffer_id, nbytes // unit + _PADDING, unit, timed)
            for name in (*_TAGS, *_TIMES):
                setattr(view, name, arrays[name].ctypes.data if name in arrays else 0)

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
