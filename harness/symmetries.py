"""Random pieces of a Disguise (harness/disguise.py), which the `disguise` functions of reference.py files put together.

Factors must multiply every value of a tensor's type without rounding. Four bytes have exponents to spare; two bytes
(float16) lose bits of small values when halved; one byte (e4m3, largest value 448) has no room either way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SIGNS = np.array([-1, 1], np.float32)
_PAIRED: dict[int, list[float]] = {1: [1], 2: [1]}  # by bytes of an element; one side gets the inverse
_UPWARD: dict[int, list[float]] = {1: [1], 2: [1, 2]}
_WIDE = [0.5, 1, 2]


def permutation(size: int, rng: np.random.Generator) -> np.ndarray:
    """int32 [size]: for each new index, the old one."""
    return rng.permutation(size).astype(np.int32)


def within_equal(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A permutation int32 [len(values)] that leaves `values` as they are: only equal ones change places."""
    order = np.arange(len(values), dtype=np.int32)
    for value in np.unique(values):
        places = np.flatnonzero(values == value)
        order[places] = rng.permutation(places)
    return order


def inverse(order: np.ndarray) -> np.ndarray:
    """For each old index, the new one."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order), dtype=order.dtype)
    return back


def factors(size: int, dtype: np.dtype[Any], rng: np.random.Generator) -> np.ndarray:
    """float32 [size], signs and powers of two for a tensor whose output changes alike."""
    return _drawn(size, _UPWARD.get(dtype.itemsize, _WIDE), rng)


def paired(size: int, dtype: np.dtype[Any], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Factors for one tensor, and their inverses for the other that it is multiplied with."""
    drawn = _drawn(size, _PAIRED.get(dtype.itemsize, _WIDE), rng)
    return drawn, 1 / drawn


def _drawn(size: int, powers: list[float], rng: np.random.Generator) -> np.ndarray:
    drawn = rng.choice(_SIGNS, size) * rng.choice(np.array(powers, np.float32), size)
    return np.asarray(drawn, np.float32)
