"""Random pieces of a Disguise (harness/disguise.py), which the `disguise` functions of reference.py files put together.

Factors must multiply every value of a tensor's type without rounding. Types of four bytes have exponents to spare. In
shorter ones small values would lose bits when halved, and the large rubbish of unused places would overflow when
doubled (float16, e4m3), so that there only signs change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SIGNS = np.array([-1, 1], np.float32)
_POWERS = np.array([0.5, 1, 2], np.float32)
_ROOMY = 4  # bytes


def permutation(size: int, rng: np.random.Generator) -> np.ndarray:
    """int32 [size]: for each new index, the old one."""
    return rng.permutation(size).astype(np.int32)


def grouped(order: np.ndarray, group: int, rng: np.random.Generator) -> np.ndarray:
    """For heads that share key/value heads in groups: each new one's old one, where `order` is of the latter. Groups
    follow their key/value head, and are shuffled inside."""
    return np.concatenate([head * group + permutation(group, rng) for head in order])


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
    """float32 [size]: factors for a tensor of that type, signs and where there is room powers of two."""
    signs = rng.choice(_SIGNS, size)
    return np.asarray(signs * powers(size, rng) if dtype.itemsize >= _ROOMY else signs)


def powers(size: int, rng: np.random.Generator) -> np.ndarray:
    """float32 [size]: powers of two, for a tensor of float32 beside narrower ones."""
    return rng.choice(_POWERS, size)


def paired(size: int, dtype: np.dtype[Any], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Factors for one tensor, and their inverses for the other that it is multiplied with."""
    drawn = factors(size, dtype, rng)
    return drawn, 1 / drawn
