"""A card for baselines that is this process, with NumPy in place of torch; what stands in for libraries is in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.measure.candidates import Timed

SECONDS = 0.25


class FakeBench:
    """Everything takes SECONDS, and "slow" results twice that, with gaps. A result that holds "fault" breaks the card."""

    framework: Any = np
    device = "Fake 100"
    version = "1.0"

    def __init__(self, library: str):
        self._broken = False

    def place(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def time(self, run: Callable[[], Any]) -> Timed:
        result = run()
        self._broken |= "fault" in result
        self.check()
        slow = "slow" in result
        return Timed(SECONDS * (1 + slow), 30, slow)

    def check(self) -> None:
        if self._broken:
            raise RuntimeError("an illegal memory access was encountered")

    def release(self) -> None:
        self.check()


def without_gpu(library: str) -> FakeBench:
    """What opens on a machine that has none."""
    raise UsageError("no GPU: torch sees none")


def without_library(library: str) -> FakeBench:
    """What opens where a library is there but does not load."""
    raise ImportError(f"/usr/lib/{library}/libcudart.so: cannot open shared object file")
