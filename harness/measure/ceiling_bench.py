"""The judge's own kernels that show what a card reaches: compiling and launching them, and windows of them.

    kernels/ceilings.cu      copies, reads, float32 multiply-adds, random data
    kernels/matrix_sm90.cu   matrix products of warpgroups, compute capability 9
    kernels/matrix.cu        matrix products of warps, the others
"""

from __future__ import annotations

import contextlib
import statistics
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cards import Card
from harness.compile.nvrtc import nvrtc
from harness.devices.driver import DriverError, TimedDriver
from harness.errors import JudgeError, UsageError

KERNELS = Path(__file__).parent / "kernels"
Work = Callable[[], None]
_SECONDS = 10.0  # that anything here may take
_STATIC_SHARED_BYTES = 48 << 10  # more must be allowed
_WARM = 5  # launches before windows


@dataclass(frozen=True)
class Effort:
    """How much is measured. The defaults take about two seconds on an H200."""

    windows: int = 15
    repeats: int = 3  # medians, of which the best counts for bandwidth
    warm_seconds: float = 0.5  # of copies, which raise the clocks
    least_bytes: int = 1 << 30  # of either buffer
    most_bytes: int = 4 << 30
    steps: int = 128  # of 128 bytes of K in a product
    tiles_n: int = 32  # of 256 columns in a product
    rounds: int = 2000  # of what stays in registers or shared memory


def sources(card: Card) -> tuple[str, ...]:
    """The files under kernels/ that are compiled for a card.

    Raises UsageError for a card whose matrix units need instructions that none of our kernels uses (tcgen05).
    """
    if card.cc[0] in (10, 11):
        raise UsageError(f"{card.full_name}: there is no kernel that shows what its matrix units reach")
    return ("ceilings.cu", "matrix_sm90.cu" if card.cc[0] == 9 else "matrix.cu")


def compiled(source: str, card: Card, *options: str) -> bytes:
    """A cubin of a file under kernels/. Raises JudgeError, with the compiler's log."""
    headers = {path.name: path.read_text(encoding="utf-8") for path in KERNELS.glob("*.cuh")}
    flags = [f"--gpu-architecture=sm_{card.arch}", "-std=c++17", *options]
    output = nvrtc().compile((KERNELS / source).read_text(encoding="utf-8"), source, headers, flags, cubin=True)
    if not output.ok:
        raise JudgeError(f"{source} does not compile for sm_{card.arch}:\n{output.log}")
    return output.cubin


class Bench:
    """Kernels on one card, and two buffers of random and of any contents."""

    def __init__(self, driver: TimedDriver, card: Card, cubins: list[bytes], nbytes: int, effort: Effort):
        self.driver, self.card, self.effort, self.nbytes = driver, card, effort, nbytes
        self._modules = [driver.load(cubin) for cubin in cubins]
        self._functions: dict[str, Any] = {}
        self._begin, self._end = driver.create_event(), driver.create_event()
        self.source, self.target = driver.allocate(nbytes), driver.allocate(nbytes)
        self._flush_bytes = min(256 << 20, nbytes // 4)

    def close(self) -> None:
        """Give everything back."""
        self.driver.free(self.source)
        self.driver.free(self.target)
        for module in self._modules:
            self.driver.unload(module)

    def launch(self, name: str, grid: int, block: int, shared: int, layout: str, *values: int) -> None:
        """Start a kernel; its parameters by the letters of `struct`."""
        function = self._function(name)
        if shared > _STATIC_SHARED_BYTES:
            self.driver.allow_shared(function, shared)
        self.driver.launch(function, (grid, 1, 1), (block, 1, 1), shared, struct.pack(layout, *values))

    def _function(self, name: str) -> Any:
        for module in self._modules:
            if name not in self._functions:
                with contextlib.suppress(DriverError):  # it may be in the next one
                    self._functions[name] = self.driver.function(module, name)
        if name not in self._functions:
            raise JudgeError(f"there is no kernel {name} for {self.card.full_name}")
        return self._functions[name]

    def fill(self, kind: str, address: int, nbytes: int, seed: int) -> None:
        """Random bits, or normally distributed numbers of a type. Streams of different seeds do not meet."""
        unit = 16 if kind == "bits" else 4
        self.launch(f"fill_{kind}", 16 * self.card.sms, 256, 0, "PQQ", address, nbytes // unit, seed << 40)

    def warm(self, work: Work) -> None:
        """Repeat it until the clocks are up."""
        spent = 0.0
        while spent < self.effort.warm_seconds:
            spent += max(self.window(work), 1e-5)

    def median(self, work: Work, windows: int = 0) -> float:
        """Seconds. L2 holds nothing of use at the begin of each window."""
        for _ in range(_WARM):
            work()
        found = []
        for _ in range(windows or self.effort.windows):
            self.driver.memset(self.target + self.nbytes - self._flush_bytes, 0, self._flush_bytes)
            found.append(self.window(work))
        return statistics.median(found)

    def window(self, work: Work) -> float:
        """Seconds on the card between two events around it."""
        self.driver.record(self._begin)
        work()
        self.driver.record(self._end)
        self.finish()
        return self.driver.elapsed(self._begin, self._end)

    def finish(self) -> None:
        """Wait for the card."""
        if not self.driver.wait(_SECONDS):
            raise JudgeError(f"still runs after {_SECONDS:g} s")


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """What fails inside is a JudgeError that says what was measured."""
    try:
        yield
    except DriverError as error:
        raise JudgeError(f"cannot measure {what}: {error}; look at nvidia-smi") from error
    except JudgeError as error:
        raise JudgeError(f"cannot measure {what}: {error}") from error
