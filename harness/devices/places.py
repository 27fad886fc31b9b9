"""Names of places in a case's memory, for messages: out[3, 7], k_tile[32], block (0, 1, 0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.devices.base import Argument
from harness.emulator import layout as L
from harness.emulator.memory import Memory
from harness.emulator.program import Compiled
from harness.plan import FIRST_TENSOR_ID, Launch, locate

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Spot:
    """A byte, in words."""

    tensor: str = ""
    index: tuple[int, ...] = ()
    text: str = ""  # "out[3, 7]"


@dataclass(frozen=True)
class LaunchPlaces:
    """The launch that a report belongs to: who a thread is, and what lies where in shared memory."""

    kernel: Compiled
    launch: Launch
    name: str  # readable name of the kernel

    def block(self, linear: int) -> Index3:
        x, y, _ = self.launch.grid
        return linear % x, linear // x % y, linear // (x * y)

    def thread(self, warp: int, lane: int) -> Index3:
        x, y, _ = self.launch.block
        t = warp * L.LANES + lane
        return t % x, t // x % y, t // (x * y)

    def shared_bytes(self) -> int:
        """Static and dynamic shared memory of a block."""
        dynamic = self.launch.shared_bytes
        return self.kernel.dynamic_offset + dynamic if dynamic else self.kernel.static_shared

    def shared_variable(self, offset: int) -> tuple[str, int]:
        """(name, first byte) of the shared variable that holds a byte; ("", 0) where none does."""
        best, start = "", -1
        for name, at in self.kernel.shared.items():
            if start < at <= offset:
                best, start = name, at
        return (_variable(best), start) if best else ("", 0)

    def shared_spot(self, offset: int) -> Spot:
        """The shared variable that holds a byte; its index in 4-byte words."""
        name, start = self.shared_variable(offset)
        if not name:
            return Spot("", (), f"memory at byte {offset}")
        index = (offset - start) // 4
        following = [at for at in self.kernel.shared.values() if at > start]
        if min([self.shared_bytes(), *following]) - start <= 4:  # a single word
            return Spot(name, (index,), name)
        return Spot(name, (index,), f"{name}[{index}] (counted in 4-byte words)")


class Tensors:
    """Buffers by id, with the shapes that the problem's tensors have."""

    def __init__(self, memory: Memory, arguments: Mapping[int, Argument]):
        self.memory, self._arguments = memory, arguments

    def itemsize(self, number: int) -> int:
        value = self._array(number)
        return 4 if value is None else value.itemsize

    def spot(self, number: int, offset: int) -> Spot:
        """The element at a byte offset; indexed by the tensor's shape where it lies inside."""
        region = self.memory.regions.get(number)
        name = region.buffer.name if region else "?"
        element = offset // self.itemsize(number)
        value = self._array(number)
        index: tuple[int, ...] = (element,)
        if number >= FIRST_TENSOR_ID and value is not None and 0 <= element < value.size:
            index = tuple(int(k) for k in np.unravel_index(element, value.shape))
        return Spot(name, index, f"{name}[{', '.join(map(str, index))}]")

    def cstring(self, address: int) -> str:
        """A NUL-terminated string in device memory; empty where there is none."""
        number, offset = locate(address)
        region = self.memory.regions.get(number)
        if region is None or not 0 <= offset < region.buffer.nbytes:
            return ""
        return region.data[offset:].tobytes().split(b"\0", 1)[0].decode("utf-8", "replace")

    def _array(self, number: int) -> np.ndarray | None:
        argument = self._arguments.get(number)
        return argument.value if argument is not None and isinstance(argument.value, np.ndarray) else None


def ranges(numbers: list[int]) -> str:
    """[1, 2, 3, 7] -> "1-3, 7"."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _variable(mangled: str) -> str:
    """The source name of a shared variable: _ZZ<function>E<n><name>, or plain."""
    if not mangled.startswith("_Z"):
        return mangled
    tail = mangled.rsplit("E", 1)[-1] if mangled.startswith("_ZZ") else mangled[2:]
    digits = ""
    while tail and tail[0].isdigit():
        digits, tail = digits + tail[0], tail[1:]
    return tail[: int(digits)] if digits else mangled
