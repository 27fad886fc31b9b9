"""A card in host memory whose clock the tests set, with the kernels that ceilings are measured with.

Layouts are written down here once more, element by element as PTX ISA gives them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.devices.driver import Dim3, Slots
from harness.measure import tiles
from tests.fake_driver import FakeDriver, Kernel

UNITS = tuple(tiles.BITS)


def encoded(rng: np.random.Generator, nbytes: int, unit: str) -> np.ndarray:
    """Bytes of about normal numbers of the type, cut off rather than rounded; of e4m3 any numbers below 2."""
    values = rng.normal(size=nbytes * 8 // tiles.BITS[unit]).astype(np.float32)
    if unit == "f16":
        return values.astype(np.float16).view(np.uint8)
    if unit == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if unit == "tf32":
        return (values.view(np.uint32) & 0xFFFFE000).view(np.uint8)
    return rng.integers(0, 256, nbytes, dtype=np.uint8) & 0xBF


class FakeCard(FakeDriver):
    """`seconds[name]` is how long a kernel takes, or what tells it at each launch; "memcpy" a copy."""

    def __init__(self, seconds: dict[str, float | Callable[[], float]], wrong: str = ""):
        super().__init__(_kernels(wrong))
        self.seconds: dict[str, float | Callable[[], float]] = {"memcpy": 1.0, **seconds}
        self.now = 0.0

    def create_event(self) -> Any:
        return [0.0]

    def record(self, event: Any) -> None:
        event[0] = self.now

    def elapsed(self, begin: Any, end: Any) -> float:
        return float(end[0] - begin[0])

    def happened(self, event: Any) -> bool:
        return True

    def memory(self) -> tuple[int, int]:
        return self.room, self.room

    def forget_persisting(self) -> None:
        pass

    def version(self) -> str:
        return "580.1"

    def bus_id(self) -> str:
        return "0000:00:00.0"

    def copy(self, target: int, source: int, nbytes: int) -> None:
        super().copy(target, source, nbytes)
        self._pass("memcpy")

    def launch(self, function: Any, grid: Dim3, block: Dim3, shared_bytes: int, args: bytes,
               together: Slots | None = None) -> None:  # fmt: skip
        super().launch(function, grid, block, shared_bytes, args, together)
        self._pass(function)

    def _pass(self, name: str) -> None:
        taken = self.seconds.get(name, 1e-3)
        self.now += taken() if callable(taken) else taken


def _kernels(wrong: str) -> dict[str, Kernel]:
    """All of them; the results of `wrong` are off."""
    table: dict[str, Kernel] = dict.fromkeys(("read", "read_bulk", "multiply_add"), _nothing)
    table |= {"fill_bits": _fill_bits, "copy": _copy(16, wrong == "copy"), "copy_bulk": _copy(16384, False)}
    for unit in UNITS:
        table[f"fill_{unit}"] = _fill(unit)
        table[f"resident_{unit}"] = _resident(unit, wrong == unit)
        table[f"product_{unit}"] = _product(unit, wrong == unit)
    return table


def _nothing(driver: FakeDriver, args: bytes) -> None:
    pass


def _fill_bits(driver: FakeDriver, args: bytes) -> None:
    to, vectors, seed = struct.unpack("PQQ", args)
    driver.upload(to, np.random.default_rng(seed).integers(0, 256, 16 * vectors, dtype=np.uint8))


def _fill(unit: str) -> Kernel:
    def kernel(driver: FakeDriver, args: bytes) -> None:
        to, words, seed = struct.unpack("PQQ", args)
        driver.upload(to, encoded(np.random.default_rng(seed), 4 * words, unit))

    return kernel


def _copy(unit_bytes: int, wrong: bool) -> Kernel:
    def kernel(driver: FakeDriver, args: bytes) -> None:
        source, target, count = struct.unpack("PPQ", args)
        FakeDriver.copy(driver, target, source, count * unit_bytes - 16 * wrong)

    return kernel


def _resident(unit: str, wrong: bool) -> Kernel:
    """The first block's first round."""

    def kernel(driver: FakeDriver, args: bytes) -> None:
        source, target, _ = struct.unpack("PPI", args)
        operands = driver.download(source, 2 * 6 * 128 * 32)
        a, b = (_slab_rows(half, unit) for half in np.split(operands, 2))
        driver.upload(target, (a @ b[::-1 if wrong else 1].T).astype(np.float32))

    return kernel


def _slab_rows(raw: np.ndarray, unit: str) -> np.ndarray:
    row, k = np.arange(128)[:, None], np.arange(6 * 32)[None, :]
    return tiles.decoded(raw[k // 32 * 4096 + k % 32 // 16 * 2048 + row * 16 + k % 16], unit)


def _product(unit: str, wrong: bool) -> Kernel:
    """All tiles of C, once: a launch after it would write the same. wrong: as if rows of B had no swizzle."""
    written: list[bytes] = []

    def kernel(driver: FakeDriver, args: bytes) -> None:
        if written:
            return
        written.append(args)
        a, b, c, tiles_m, tiles_n, steps = struct.unpack("PPPIII", args)
        lefts = [_tile_rows(driver, a + m * steps * 16384, 128, steps, unit, True) for m in range(tiles_m)]
        rights = [_tile_rows(driver, b + n * steps * 32768, 256, steps, unit, not wrong) for n in range(tiles_n)]
        for m, left in enumerate(lefts):
            for n, right in enumerate(rights):
                driver.upload(c + (m * tiles_n + n) * 65536, _in_registers(left @ right.T))

    return kernel


def _tile_rows(driver: FakeDriver, address: int, rows: int, steps: int, unit: str, swizzle: bool) -> np.ndarray:
    raw = driver.download(address, steps * rows * 128)
    row, k = np.arange(rows)[:, None], np.arange(steps * 128)[None, :]
    chunk = k % 128 // 16 ^ (row % 8 if swizzle else 0)
    return tiles.decoded(raw[k // 128 * rows * 128 + 128 * row + 16 * chunk + k % 16], unit)


def _in_registers(tile: np.ndarray) -> np.ndarray:
    """bfloat16: register d of thread t of a warpgroup has row 16 (t / 32) + t % 32 / 4 + 8 (d / 2 % 2) of its 64 and
    column 8 (d / 4) + 2 (t % 4) + d % 2; eight registers of each thread lie together."""
    group, j, t, e = np.ogrid[:2, :16, :128, :8]
    d = 8 * j + e
    row = 64 * group + 16 * (t // 32) + t % 32 // 4 + 8 * (d // 2 % 2)
    column = 8 * (d // 4) + 2 * (t % 4) + d % 2
    return (np.ascontiguousarray(tile[row, column]).view(np.uint32) >> 16).astype(np.uint16)
