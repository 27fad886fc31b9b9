"""What a card's matrix units reach, by type of the operands, on normally distributed numbers.

The numbers matter: cards run at the cap on their power, and zeros or small integers would show more than anybody gets.
Each kernel's result is compared with NumPy's, since a product of the wrong bytes would be as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.cards import Card
from harness.errors import JudgeError
from harness.measure.ceiling_bench import Bench, Effort, Work, naming
from harness.measure.tiles import BITS, K_BYTES, SLAB_BYTES, accumulators, operand, slabs

_FIRST = {"f16": (7, 5), "bf16": (8, 0), "tf32": (8, 0), "e4m3": (8, 9)}  # compute capability that has the unit
# Of the largest error over the standard deviation. Rounding to bfloat16 makes 0.01, one wrong row 4; wgmma cuts sums of
# e4m3 off at some 14 bits (DeepSeek-V3 Technical Report, section 3.3.2), which adds up over K, one wrong chunk makes 2.
_TOLERANCE, _TOLERANCE_E4M3 = 0.05, 0.5
_A, _B = 1, 2  # seeds

TILE_M, TILE_N, _TILE_C_BYTES = 128, 256, 128 * 256 * 2  # as in matrix_sm90.cu
_STAGES, _THREADS = 4, 384
SHARED_BYTES = _STAGES * (TILE_M + TILE_N) * K_BYTES + 1024

_ROWS, _SLABS, _BLOCKS_PER_SM, _RESIDENT_THREADS = 128, 6, 2, 256  # as in matrix.cu
_OPERAND_BYTES = _SLABS * _ROWS * SLAB_BYTES


def units(card: Card) -> tuple[str, ...]:
    """Those of "f16", "bf16", "tf32", "e4m3" that the card has."""
    return tuple(unit for unit, first in _FIRST.items() if card.cc >= first)


def bytes_needed(card: Card, effort: Effort) -> int:
    """What either buffer of the bench must hold at least, the part that is flushed not counted."""
    product = Product.of(card, effort)
    return max(product.a_bytes + product.b_bytes, product.tiles_m * product.tiles_n * _TILE_C_BYTES)


def measured(bench: Bench) -> dict[str, float]:
    """FLOP/s by unit. Raises JudgeError, which names the unit, where a kernel fails or its result is wrong."""
    rate = _product_rate if bench.card.cc[0] == 9 else _resident_rate
    found = {}
    for unit in units(bench.card):
        with naming(f"the rate of {unit} products"):
            found[unit] = rate(bench, unit)
    return found


@dataclass(frozen=True)
class Product:
    """The size of a product of matrix_sm90.cu: tiles of C, stages of 128 bytes of K."""

    tiles_m: int
    tiles_n: int
    steps: int

    @classmethod
    def of(cls, card: Card, effort: Effort) -> Product:
        """About 8192 cubed in bfloat16, in tiles that keep every multiprocessor busy to the end."""
        return cls(max(card.sms // 4 * 2, 2), effort.tiles_n, effort.steps)

    @property
    def a_bytes(self) -> int:
        """Of the operand with the rows of C."""
        return self.tiles_m * self.steps * TILE_M * K_BYTES

    @property
    def b_bytes(self) -> int:
        """Of the operand with the columns of C."""
        return self.tiles_n * self.steps * TILE_N * K_BYTES

    def flops(self, unit: str) -> float:
        """Of one product."""
        return 2.0 * self.tiles_m * TILE_M * self.tiles_n * TILE_N * self.steps * K_BYTES * 8 / BITS[unit]


def _product_rate(bench: Bench, unit: str) -> float:
    size = Product.of(bench.card, bench.effort)
    work = product(bench, size, unit)
    seconds = bench.median(work)
    check_tile(bench, size, unit, 0, 0)
    check_tile(bench, size, unit, size.tiles_m - 1, size.tiles_n - 1)
    return size.flops(unit) / seconds


def product(bench: Bench, size: Product, unit: str, kernel: str = "product") -> Work:
    """What starts one, after its operands were drawn."""
    a, b = bench.source, bench.source + size.a_bytes
    bench.fill(unit, a, size.a_bytes, _A)
    bench.fill(unit, b, size.b_bytes, _B)
    values = (a, b, bench.target, size.tiles_m, size.tiles_n, size.steps)
    grid = bench.card.sms // 2 * 2
    return lambda: bench.launch(f"{kernel}_{unit}", grid, _THREADS, SHARED_BYTES, "PPPIII", *values)


def check_tile(bench: Bench, size: Product, unit: str, m: int, n: int) -> float:
    """The largest error of one tile of C over the tile's standard deviation. Raises JudgeError if it is wrong."""
    a_bytes, b_bytes = size.steps * TILE_M * K_BYTES, size.steps * TILE_N * K_BYTES
    a = operand(bench.driver.download(bench.source + m * a_bytes, a_bytes), TILE_M, unit)
    b = operand(bench.driver.download(bench.source + size.a_bytes + n * b_bytes, b_bytes), TILE_N, unit)
    place = bench.target + (m * size.tiles_n + n) * _TILE_C_BYTES
    return _error(accumulators(bench.driver.download(place, _TILE_C_BYTES)), a @ b.T, unit)


def _error(got: np.ndarray, want: np.ndarray, unit: str) -> float:
    error = float(np.abs(got - want).max() / want.std()) if want.std() > 0 else np.inf
    if not error <= (_TOLERANCE_E4M3 if unit == "e4m3" else _TOLERANCE):  # a NaN is wrong too
        raise JudgeError(f"the product is wrong by {error:.2g} of its standard deviation")
    return error


def _resident_rate(bench: Bench, unit: str) -> float:
    blocks, rounds = _BLOCKS_PER_SM * bench.card.sms, bench.effort.rounds
    start = resident(bench, blocks, unit)
    start(1)
    bench.finish()
    check_resident(bench, unit)
    seconds = bench.median(lambda: start(rounds))
    return 2.0 * blocks * _ROWS * _ROWS * _SLABS * SLAB_BYTES * 8 / BITS[unit] * rounds / seconds


def resident(bench: Bench, blocks: int, unit: str) -> Callable[[int], None]:
    """What starts so many rounds, after the operands were drawn."""
    bench.fill(unit, bench.source, blocks * 2 * _OPERAND_BYTES, _A)
    return lambda rounds: bench.launch(
        f"resident_{unit}", blocks, _RESIDENT_THREADS, 0, "PPI", bench.source, bench.target, rounds
    )


def check_resident(bench: Bench, unit: str) -> float:
    """The same for what the first block makes in one round."""
    raw = bench.driver.download(bench.source, 2 * _OPERAND_BYTES)
    a, b = (slabs(half, _ROWS, unit) for half in np.split(raw, 2))
    got = bench.driver.download(bench.target, 4 * _ROWS * _ROWS).view(np.float32).reshape(_ROWS, _ROWS)
    return _error(got, a @ b.T, unit)
