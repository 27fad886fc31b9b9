"""The rows that the theatre plays: sixteen scores of one query, and the values that they weigh.

Each shows something else: some let a mistake pass unseen, some bring it out.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np

KEYS = 16
DIMS = 4
MASKED_FROM = 10  # the causal row: query 9 sees keys 0 to 9
MASKED_BEFORE = 8  # the padded row: the first real key
_SEED = 22
_MASKED = -np.inf


class Example(StrEnum):
    """Names as in the address of the page."""

    NORMAL = "normal"
    LATE_PEAK = "late_peak"
    LARGE = "large"
    LOW = "low"
    CAUSAL = "causal"
    PADDED = "padded"
    EQUAL = "equal"


def scores(example: Example) -> np.ndarray:
    """float32 [KEYS]; masked keys hold -inf."""
    return _MAKERS[example](_normal(_SEED, KEYS)).astype(np.float32)


def values() -> np.ndarray:
    """float32 [KEYS, DIMS], the same for all examples."""
    return _normal(_SEED + 1, KEYS * DIMS).reshape(KEYS, DIMS).astype(np.float32)


def _normal(seed: int, count: int) -> np.ndarray:
    """From N(0, 1), with two decimals so that they can be read."""
    return np.random.default_rng(seed).standard_normal(count).round(2)


def _late_peak(normal: np.ndarray) -> np.ndarray:
    row = 0.5 * normal
    row[KEYS - 3] = 6.0
    return row


def _causal(normal: np.ndarray) -> np.ndarray:
    row = normal.copy()
    row[MASKED_FROM:] = _MASKED
    return row


def _padded(normal: np.ndarray) -> np.ndarray:
    row = normal.copy()
    row[:MASKED_BEFORE] = _MASKED
    return row


_MAKERS: dict[Example, Callable[[np.ndarray], np.ndarray]] = {
    Example.NORMAL: lambda normal: normal,
    Example.LATE_PEAK: _late_peak,
    Example.LARGE: lambda normal: 60 * normal,  # exp() of the largest overflows float32
    Example.LOW: lambda normal: normal - 120,  # exp() of all is 0 in float32
    Example.CAUSAL: _causal,
    Example.PADDED: _padded,
    Example.EQUAL: np.ones_like,
}
