"""In which order blocks start, and the warps of a block run: as numbered, or shuffled by a seed.

The n-th in turn is (step * n + first) mod count, with a step that has no divisor in common with the count.
"""

from __future__ import annotations

import math
import random

from harness.emulator.layout import Context

_MAX_STEP = 1 << 16  # keeps the product below 64 bits


class Shuffle:
    """Orders of one case's launches; a seed of None leaves everything as numbered."""

    def __init__(self, seed: int | None):
        self._random = None if seed is None else random.Random(seed)

    def blocks(self, count: int) -> tuple[int, int]:
        """(step, first) for the blocks of the next launch."""
        return self._permutation(count)

    def warps(self, count: int) -> tuple[int, int]:
        """(step, first) for the warps of a block of the next launch."""
        return self._permutation(count)

    def _permutation(self, count: int) -> tuple[int, int]:
        if self._random is None or count < 2:
            return 1, 0
        steps = min(count, _MAX_STEP)
        while True:
            step = self._random.randrange(1, steps)
            if math.gcd(step, count) == 1:
                return step, self._random.randrange(count)


def apply(context: Context, blocks: tuple[int, int], warps: tuple[int, int]) -> None:
    """Let a worker follow these orders."""
    context.order_step, context.order_first = blocks
    context.warp_step, context.warp_first = warps
