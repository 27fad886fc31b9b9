"""Honest float32 models of attention kernels, for the `honest` function of reference.py files.

The checker's limits come from how far these stray from float64 on the very same inputs (harness/check.py). They differ
as real kernels do: in the order of summation, the size of tiles and splits, and the quality of exp().
Shapes: q [batch, rows, head_dim], k and v [batch, keys, head_dim]; `causal`: row i sees keys 0..i only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

Exp = Callable[[np.ndarray], np.ndarray]
_LOG2_E = np.float32(1.4426950408889634)
_SMALL = 10_000_000  # multiplications in q k^T up to which the slow models run too


def models(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool = False) -> Iterator[np.ndarray]:
    """Outputs [batch, rows, head_dim] of several honest kernels; only two where the case is large."""
    for model in (partial(online, tile=64), partial(split, parts=8)):
        yield np.stack([model(q[i, None], k[i, None], v[i, None], scale, causal)[0] for i in range(len(q))])
    if q.shape[0] * q.shape[1] * k.shape[1] * q.shape[2] <= _SMALL:
        yield online(q, k, v, scale, causal, tile=16, exp=fast_exp)
        yield sequential(q, k, v, scale, causal)
        yield sequential(q, k, v, scale, causal, base2=True)
        yield sequential(q[..., ::-1], k[..., ::-1], v, scale, causal)  # the sum from its other end


def fast_exp(x: np.ndarray) -> np.ndarray:
    """exp(x) as 2^(x log2 e), which is what __expf computes."""
    return np.asarray(np.exp2(x * _LOG2_E))


def noisy_exp2(x: np.ndarray) -> np.ndarray:
    """2^x with a relative error of up to 2^-20, several times what the hardware's ex2.approx has."""
    noise = np.random.default_rng(0).uniform(-1, 1, x.shape).astype(np.float32)
    return np.asarray(np.exp2(x) * (1 + noise * np.float32(2.0**-20)))


def online(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool, tile: int, exp: Exp = np.exp
) -> np.ndarray:
    """One pass over tiles of keys with running maximum, sum and output."""
    m = np.full((*q.shape[:2], 1), -np.inf, np.float32)
    total, o = np.zeros_like(m), np.zeros_like(q)
    for start in range(0, k.shape[1], tile):
        rows = slice(start if causal else 0, None)  # rows above see nothing of this tile
        s = _scores(q[:, rows], k[:, start : start + tile], scale, causal)
        top = np.maximum(m[:, rows], s.max(-1, keepdims=True))
        p, correction = exp(s - top), exp(m[:, rows] - top)
        total[:, rows] = total[:, rows] * correction + p.sum(-1, keepdims=True)
        o[:, rows] = o[:, rows] * correction + p @ v[:, start : start + tile]
        m[:, rows] = top
    return o / total


def split(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool, parts: int) -> np.ndarray:
    """Split-K: the keys in `parts` parts, each normalised on its own, then merged by their (m, l)."""
    size = -(-k.shape[1] // parts)
    top = np.full((*q.shape[:2], 1), -np.inf, np.float32)
    total, o = np.zeros_like(top), np.zeros_like(q)
    for start in range(0, k.shape[1], size):
        rows = slice(start if causal else 0, None)
        s = _scores(q[:, rows], k[:, start : start + size], scale, causal)
        m = s.max(-1, keepdims=True)
        p = np.exp(s - m)
        part_sum = p.sum(-1, keepdims=True)
        part = p @ v[:, start : start + size] / part_sum
        new = np.maximum(top[:, rows], m)
        old_weight, weight = total[:, rows] * np.exp(top[:, rows] - new), part_sum * np.exp(m - new)
        o[:, rows] = o[:, rows] * (old_weight / (old_weight + weight)) + part * (weight / (old_weight + weight))
        total[:, rows], top[:, rows] = old_weight + weight, new
    return o


def sequential(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool, base2: bool = False
) -> np.ndarray:
    """A thread per row: every sum runs in one accumulator, first to last, product and sum rounded apart.
    `base2`: q was multiplied by scale * log2(e) beforehand, and 2^x stands for exp(x)."""
    factor, exp = (np.float32(scale) * _LOG2_E, noisy_exp2) if base2 else (np.float32(scale), np.exp)
    left = q * factor if base2 else q
    s = np.zeros((*q.shape[:2], k.shape[1]), np.float32)
    for d in range(q.shape[2]):
        s += left[:, :, d, None] * k[:, None, :, d]
    s = _masked(s if base2 else s * factor, causal)
    p = exp(s - s.max(-1, keepdims=True))
    total, o = np.zeros((*q.shape[:2], 1), np.float32), np.zeros_like(q)
    for j in range(k.shape[1]):
        total += p[:, :, j, None]
        o += p[:, :, j, None] * v[:, None, j]
    return o / total


def _scores(q: np.ndarray, k: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    return _masked(q @ k.transpose(0, 2, 1) * np.float32(scale), causal)


def _masked(s: np.ndarray, causal: bool) -> np.ndarray:
    """Row r may see column c when c <= r; callers slice so that both start at the same token."""
    if causal:
        s[:, np.arange(s.shape[2]) > np.arange(s.shape[1])[:, None]] = -np.inf
    return s
