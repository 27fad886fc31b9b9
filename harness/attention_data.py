"""Hostile inputs for attention problems: what reference.py files share when they make q, k and v.

Every function changes float32 arrays in place. Plain N(0, 1) inputs forgive too much: with many keys the output is
nearly the mean of v, and a kernel that drops a key or its scale hardly shows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_LARGE_SCORE_DEVIATION = 20.0  # the largest of some thousand such scores lies near 80
_SIGNS = np.array([-1, 1], np.float32)
_OFFSET = 120.0  # exp() of it overflows float32, exp() of its negative is 0, denormal numbers included


def wide(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, rng: np.random.Generator) -> None:
    """N(0, 9): scores of deviation 9 at the usual scale, so that few keys share the weight."""
    for array in (q, k, v):
        array *= 3


def outliers(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, rng: np.random.Generator) -> None:
    """N(0, 1) + N(0, 100) * Bernoulli(0.001), the mixture that FlashAttention-3 measures its accuracy with."""
    for array in (q, k, v):
        count = 1 + int(rng.binomial(array.size, 0.001))
        places = rng.integers(array.size, size=count)
        array.reshape(-1)[places] += 10 * rng.standard_normal(count, dtype=np.float32)


def large_scores(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, rng: np.random.Generator) -> None:
    """Scores spread to about +-80: nearly one-hot rows."""
    q *= _LARGE_SCORE_DEVIATION / (scale * q.shape[-1] ** 0.5)


def offset_scores(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, rng: np.random.Generator) -> None:
    """All scores of a row lie near +120, or all near -120: exp() without a subtracted maximum fails either way."""
    head_dim = q.shape[-1]
    size = np.float32((_OFFSET / (scale * head_dim)) ** 0.5)
    direction = rng.choice(_SIGNS, size=head_dim)
    k += size * direction
    q += size * direction * rng.choice(_SIGNS, size=(*q.shape[:-1], 1))


def falling_scores(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, rng: np.random.Generator) -> None:
    """The scores of a row fall from near +120 to near -120 along the keys [..., keys, head_dim], or rise: the maximum
    of some keys, be they the first or the last, does not do for all."""
    head_dim = q.shape[-1]
    size = np.float32((_OFFSET / (scale * head_dim)) ** 0.5)
    direction = rng.choice(_SIGNS, size=head_dim)
    k += size * direction * np.linspace(1, -1, k.shape[-2], dtype=np.float32)[:, None]
    q += size * direction * rng.choice(_SIGNS, size=(*q.shape[:-1], 1))


SHAPERS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray, float, np.random.Generator], None]] = {
    "normal": lambda q, k, v, scale, rng: None,
    "wide": wide,
    "outliers": outliers,
    "large_scores": large_scores,
    "offset_scores": offset_scores,
    "falling_scores": falling_scores,
    "needles": lambda q, k, v, scale, rng: None,  # the problem itself aims queries at keys, with `needle`
}


def needle(key: np.ndarray, scale: float, keys: int) -> np.ndarray:
    """A query [head_dim] that gives `key` a weight of about 0.9 among `keys` keys of N(0, 1)."""
    wanted = np.log(9.0 * max(keys, 1))
    score = wanted + wanted**2 / (2 * key.size)  # the other scores have variance score^2 / head_dim
    squared = float(np.dot(key, key))
    return np.asarray(key * (score / (scale * squared)), np.float32)


def head_scales(cache: np.ndarray, largest: float, rng: np.random.Generator) -> np.ndarray:
    """For a cache [..., heads, head_dim]: float32 [heads], by which it is divided before it is stored in 8 bits. The
    largest value of a head becomes `largest`, as usual, or down to a quarter of it, so that no head's factor does for
    another."""
    peaks = np.abs(cache).max(axis=(*range(cache.ndim - 2), cache.ndim - 1))
    return np.asarray(peaks * rng.uniform(1, 4, len(peaks)) / largest, np.float32)
