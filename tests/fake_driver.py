"""A CUDA driver over host memory, and kernels in Python: what the GPU device's logic is tested against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness.devices.driver import Dim3, DriverError, Slots

Kernel = Callable[["FakeDriver", bytes], None]


class FakeDriver:
    """One card whose kernels are `kernels[name](driver, parameter_block)`; a kernel may raise DriverError."""

    def __init__(self, kernels: dict[str, Kernel], variables: dict[str, int] | None = None):
        self.kernels = kernels
        self.variables = variables or {}  # name -> bytes
        self.blocks: dict[int, np.ndarray] = {}
        self.launches: list[tuple[str, Dim3, Dim3, int, bytes]] = []
        self.shared_limits: dict[str, int] = {}
        self.local_bytes_of_each = 0
        self.loads = 0
        self.cooperative = False  # of the last load
        self.together: Slots | None = None  # of the last launch
        self.room = 1 << 40
        self.hangs = False
        self._next = 0x7F00_0000_0000
        self._pending: DriverError | None = None

    def bytes_at(self, address: int, nbytes: int) -> np.ndarray:
        """A view of device memory; an illegal address raises error 700 as a card would."""
        for base, data in self.blocks.items():
            if base <= address and address + nbytes <= base + data.size:
                return data[address - base : address - base + nbytes]
        raise DriverError(700, "cuCtxSynchronize", "an illegal memory access was encountered")

    def load(self, cubin: bytes, cooperative: bool = False) -> Any:
        self.cooperative = cooperative
        self.loads += 1
        return {name: self.allocate(nbytes) for name, nbytes in self.variables.items()}

    def unload(self, module: Any) -> None:
        for address in module.values():
            self.free(address)

    def function(self, module: Any, name: str) -> Any:
        if name not in self.kernels:
            raise DriverError(500, "cuModuleGetFunction", "named symbol not found")
        return name

    def variable(self, module: Any, name: str) -> tuple[int, int]:
        if name not in module:
            raise DriverError(500, "cuModuleGetGlobal", "named symbol not found")
        return module[name], self.variables[name]

    def local_bytes(self, function: Any) -> int:
        return self.local_bytes_of_each

    def allow_shared(self, function: Any, nbytes: int) -> None:
        if nbytes > 232448:
            raise DriverError(1, "cuFuncSetAttribute", "invalid argument")
        self.shared_limits[function] = nbytes

    def allocate(self, nbytes: int) -> int:
        if nbytes > self.room:
            raise DriverError(2, "cuMemAlloc", "out of memory")
        address, self._next = self._next, self._next + (nbytes + 4096) // 512 * 512
        self.blocks[address] = np.full(nbytes, 0x55, np.uint8)
        return address

    def free(self, address: int) -> None:
        del self.blocks[address]

    def upload(self, address: int, data: np.ndarray | bytes) -> None:
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
        self.bytes_at(address, raw.size)[:] = raw

    def download(self, address: int, nbytes: int) -> np.ndarray:
        return self.bytes_at(address, nbytes).copy()

    def fill(self, address: int, word: int, words: int) -> None:
        self.bytes_at(address, 4 * words)[:] = np.full(words, word, np.uint32).view(np.uint8)

    def memset(self, address: int, value: int, nbytes: int) -> None:
        self.bytes_at(address, nbytes)[:] = value

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.bytes_at(target, nbytes)[:] = self.bytes_at(source, nbytes).copy()

    def launch(self, function: Any, grid: Dim3, block: Dim3, shared_bytes: int, args: bytes,
               together: Slots | None = None) -> None:  # fmt: skip
        self.together = together
        self.launches.append((function, grid, block, shared_bytes, args))
        try:
            self.kernels[function](self, args)
        except DriverError as error:
            if error.call.startswith("cuLaunch"):
                raise
            self._pending = error

    def wait(self, seconds: float) -> bool:
        if self._pending:
            raise self._pending
        return not self.hangs

    def flush_output(self) -> None:
        pass
