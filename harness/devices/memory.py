"""Device memory of one case: every buffer between two guard zones, everything unwritten filled with poison.

    | guard: 64 KiB | tensor or scratch | guard: 64 KiB and up to 256 bytes of padding |

Guards hold NaNs with random payloads, other ones for each case, so that a kernel can neither write there unseen nor
read a plausible number. Poison, in outputs and scratch, is one such NaN, the same in both halves of a word: an output
element that still holds it was never written. Arithmetic on it yields the canonical NaN, which differs. Words are NaN
as float, double, float16 and bfloat16; of eight-bit floats every second one is, since those have no payloads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.devices.driver import Driver
from harness.plan import FIRST_TENSOR_ID, locate
from harness.results import Finding
from harness.verdict import FindingKind

GUARD_BYTES = 64 * 1024
_ALIGNMENT = 256  # of the allocation and of GUARD_BYTES, hence of the buffer
_FARTHEST = 1 << 38  # a pointer further than this from its buffer is a number that only looks like one


@dataclass(frozen=True)
class Placed:
    """A buffer on the card. `address` is its first byte's, `base` the allocation's; 0 where it is not ours to free."""

    name: str
    address: int
    nbytes: int
    base: int = 0
    line: int = 0  # of the cudaMalloc; 0 for tensors


class CaseMemory:
    """The buffers of one case, by the plan's buffer ids."""

    def __init__(self, driver: Driver, seed: int):
        self._driver = driver
        rng = np.random.default_rng(np.random.SeedSequence([seed & (2**63 - 1), 0x6A7D]))
        self.poison = int(_nans(1, rng)[0]) & 0xFFFF
        self.poison |= self.poison << 16
        self._guard = _nans(GUARD_BYTES // 2 + _ALIGNMENT // 2, rng).view(np.uint8)
        self._buffers: dict[int, Placed] = {}

    def add(self, buffer_id: int, name: str, nbytes: int, contents: np.ndarray | None, line: int = 0) -> None:
        """Allocate a buffer between guards; without `contents` it is poisoned. Raises DriverError."""
        padding = -nbytes % _ALIGNMENT
        base = self._driver.allocate(GUARD_BYTES + nbytes + padding + GUARD_BYTES)
        placed = Placed(name, base + GUARD_BYTES, nbytes, base, line)
        self._buffers[buffer_id] = placed
        if contents is None:
            self._driver.fill(placed.address, self.poison, -(-nbytes // 4))
        elif nbytes:
            self._driver.upload(placed.address, contents)
        self._driver.upload(base, self._guard[:GUARD_BYTES])
        self._driver.upload(placed.address + nbytes, self._guard[: padding + GUARD_BYTES])

    def add_variable(self, buffer_id: int, name: str, address: int, nbytes: int) -> None:
        """Make a module's variable known; it has no guards."""
        self._buffers[buffer_id] = Placed(name, address, nbytes)

    def resolve(self, value: int) -> int | None:
        """Device address for an opaque one, which may lie outside of its buffer; None where `value` is no pointer."""
        buffer_id, offset = locate(value)
        placed = self._buffers.get(buffer_id)
        return placed.address + offset if placed and abs(offset) < _FARTHEST else None

    def resolve_inside(self, value: int) -> int | None:
        """Device address for an opaque one that lies in a tensor or scratch, else None."""
        buffer_id, offset = locate(value)
        placed = self._buffers.get(buffer_id) if buffer_id >= FIRST_TENSOR_ID else None
        return placed.address + offset if placed and 0 <= offset <= placed.nbytes else None

    def contents(self, buffer_id: int) -> np.ndarray:
        """The buffer's bytes now, as uint8."""
        placed = self._buffers[buffer_id]
        return self._driver.download(placed.address, placed.nbytes)

    def unwritten(self, data: np.ndarray, itemsize: int) -> np.ndarray:
        """Which elements of a poisoned buffer's bytes still hold poison; bool, one an element."""
        word = np.frombuffer(np.uint32(self.poison).tobytes(), np.uint8)
        poison = np.resize(word, data.size)
        same: np.ndarray = (data == poison).reshape(-1, itemsize).all(axis=1)
        return same

    def guard_findings(self) -> list[Finding]:
        """One finding for each side of each buffer that somebody wrote beside."""
        found = []
        for placed in self._buffers.values():
            if placed.base:
                found += [f for f in (self._before(placed), self._after(placed)) if f]
        return found

    def _before(self, placed: Placed) -> Finding | None:
        found = self._driver.download(placed.base, GUARD_BYTES)
        return _outside(placed, np.flatnonzero(found != self._guard[:GUARD_BYTES]) - GUARD_BYTES)

    def _after(self, placed: Placed) -> Finding | None:
        size = -placed.nbytes % _ALIGNMENT + GUARD_BYTES
        found = self._driver.download(placed.address + placed.nbytes, size)
        return _outside(placed, np.flatnonzero(found != self._guard[:size]) + placed.nbytes)

    @property
    def guard_pattern(self) -> np.ndarray:
        """What guards hold, uint8; every guard is a beginning of it."""
        return self._guard

    def guards(self) -> list[tuple[int, int]]:
        """(address, bytes) of every guard."""
        zones = []
        for placed in self._buffers.values():
            if placed.base:
                zones.append((placed.base, GUARD_BYTES))
                zones.append((placed.address + placed.nbytes, -placed.nbytes % _ALIGNMENT + GUARD_BYTES))
        return zones

    def placed(self, buffer_id: int) -> Placed:
        """Where a buffer lies."""
        return self._buffers[buffer_id]

    def free(self) -> None:
        """Give all of it back. Raises DriverError."""
        for placed in self._buffers.values():
            if placed.base:
                self._driver.free(placed.base)
        self._buffers.clear()


def _nans(count: int, rng: np.random.Generator) -> np.ndarray:
    """uint16 [count]: NaN as float16 and as bfloat16, not their canonical one, and as the upper half of a float or a
    double. That leaves a sign and one of 14 payloads."""
    payloads = rng.integers(0x7FF1, 0x7FFF, size=count, dtype=np.uint16)
    return payloads | (rng.integers(0, 2, size=count, dtype=np.uint16) << np.uint16(15))


def _outside(placed: Placed, changed: np.ndarray) -> Finding | None:
    """The finding for changed bytes, given by their offsets from the buffer's first byte."""
    if not changed.size:
        return None
    place = f"{changed.size} bytes changed at byte offsets {changed[0]} to {changed[-1]}"
    message = (f"A kernel wrote outside of {placed.name}, which has {placed.nbytes} bytes: {place}; "
               "run with --device cpu to see the line.")  # fmt: skip
    return Finding(FindingKind.OUT_OF_BOUNDS, message, tensor=placed.name)
