"""Honest models of attention kernels, for the `honest` function of reference.py files.

The checker's limits come from how far these stray from float64 on the very same inputs (harness/check.py). They differ
as real kernels do: in the order of summation, the size of tiles and splits, the quality of exp(), and, where inputs are
narrower than float32, in whether weights are rounded to their type before they meet the values (tensor cores take both
factors in one type). Scores, sums and outputs are held in float32, an answer is rounded at the end.

Shapes: q [heads, rows, head_dim], k and v [kv_heads, keys, head_dim]; head h reads h // (heads / kv_heads). Causal: row
i sees keys up to i + keys - rows. Answers: out [heads, rows, head_dim] and its lse [heads, rows], both float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from harness import stored

Answer = tuple[np.ndarray, np.ndarray]  # out and lse
_LOG2_E = np.float32(1.4426950408889634)
_LN_2 = np.float32(0.6931471805599453)
_SMALL = 10_000_000  # multiplications in q k^T up to which the slow models run too


@dataclass(frozen=True)
class Task:
    """What a model computes, and in which types. `k_scale`, `v_scale` [kv_heads]: factors on stored keys and values."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    scale: float
    causal: bool = False
    k_scale: np.ndarray | None = None
    v_scale: np.ndarray | None = None
    weight: np.dtype[Any] = stored.FLOAT32  # which weights are rounded to

    @property
    def group(self) -> int:
        """Heads that share a key/value head."""
        return len(self.q) // len(self.k)

    @property
    def shift(self) -> int:
        """The last key that row 0 sees."""
        return int(self.k.shape[1] - self.q.shape[1])

    @property
    def factor(self) -> np.ndarray:
        """On the scores of each head, [heads, 1, 1]; scales of keys are part of it, which costs no precision."""
        factor = np.full((len(self.q), 1, 1), self.scale, np.float32)
        return factor if self.k_scale is None else factor * self.k_scale[:, None, None]

    def head(self, number: int) -> Task:
        """One head by itself."""
        kv = slice(number // self.group, number // self.group + 1)
        scales = [None if scale is None else scale[kv] for scale in (self.k_scale, self.v_scale)]
        q, k, v = self.q[number, None], self.k[kv], self.v[kv]
        return replace(self, q=q, k=k, v=v, k_scale=scales[0], v_scale=scales[1])

    def in_float32(self) -> Task:
        """The same with keys and values for every head, all as float32."""
        q, k, v = (stored.widened(array) for array in (self.q, self.k, self.v))
        if self.group > 1:
            k, v = (np.repeat(array, self.group, 0) for array in (k, v))
        scales = [None if each is None else np.repeat(each, self.group) for each in (self.k_scale, self.v_scale)]
        return replace(self, q=q, k=k, v=v, k_scale=scales[0], v_scale=scales[1])


Model = Callable[[Task], Answer]


def models(task: Task) -> Iterator[Answer]:
    """Answers of several honest kernels; only two where the case is large."""
    out_type = task.q.dtype
    narrow = out_type.itemsize < 4
    usual = replace(task, weight=out_type) if narrow else task
    for model in _EVERY_SIZE:
        outs, sums = zip(*(model(usual.head(i).in_float32()) for i in range(len(task.q))), strict=True)
        yield _rounded((np.concatenate(outs), np.concatenate(sums)), out_type)
    if task.q.size * task.k.shape[1] <= _SMALL:
        tasks = (task, usual) if narrow else (task,)
        for one, model in itertools.product(tasks, _NARROW if narrow else _FLOAT32):
            yield _rounded(model(one.in_float32()), out_type)


def _rounded(answer: Answer, kind: np.dtype[Any]) -> Answer:
    out, lse = answer
    return stored.widened(stored.rounded(out, kind)), lse


def fast_exp(x: np.ndarray) -> np.ndarray:
    """exp(x) as 2^(x log2 e), which is what __expf computes."""
    return np.asarray(np.exp2(x * _LOG2_E))


def noisy_exp2(x: np.ndarray) -> np.ndarray:
    """2^x with a relative error of up to 2^-20, several times what the hardware's ex2.approx has."""
    noise = np.random.default_rng(0).uniform(-1, 1, x.shape).astype(np.float32)
    return np.asarray(np.exp2(x) * (1 + noise * np.float32(2.0**-20)))


def noisy_exp(x: np.ndarray) -> np.ndarray:
    """exp(x) by that."""
    return noisy_exp2(x * _LOG2_E)


def online(task: Task, tile: int, exp: Callable[[np.ndarray], np.ndarray] = np.exp) -> Answer:
    """One pass over tiles of keys with running maximum, sum and output."""
    m = np.full((*task.q.shape[:2], 1), -np.inf, np.float32)
    total, o = np.zeros_like(m), np.zeros_like(task.q)
    for start in range(0, task.k.shape[1], tile):
        rows, s = _tile(task, start, tile)
        top = np.maximum(m[:, rows], s.max(-1, keepdims=True))
        p, correction = exp(s - top), exp(m[:, rows] - top)
        total[:, rows] = total[:, rows] * correction + p.sum(-1, keepdims=True)
        o[:, rows] = o[:, rows] * correction + _weighed(task, p, slice(start, start + tile))
        m[:, rows] = top
    return _finished(task, o, total, m)


def split(task: Task, parts: int) -> Answer:
    """Split-K: the keys in `parts` parts, each normalised on its own, then merged by their (m, l)."""
    size = -(-task.k.shape[1] // parts)
    top = np.full((*task.q.shape[:2], 1), -np.inf, np.float32)
    total, o = np.zeros_like(top), np.zeros_like(task.q)
    for start in range(0, task.k.shape[1], size):
        rows, s = _tile(task, start, size)
        m = s.max(-1, keepdims=True)
        p = np.exp(s - m)
        part_sum = p.sum(-1, keepdims=True)
        part = _weighed(task, p, slice(start, start + size)) / part_sum
        new = np.maximum(top[:, rows], m)
        old_weight, weight = total[:, rows] * np.exp(top[:, rows] - new), part_sum * np.exp(m - new)
        o[:, rows] = o[:, rows] * (old_weight / (old_weight + weight)) + part * (weight / (old_weight + weight))
        total[:, rows], top[:, rows] = old_weight + weight, new
    return _finished(task, o, (total > 0).astype(np.float32), top, total)


def sequential(task: Task, base2: bool = False, backwards: bool = False) -> Answer:
    """A thread per row: every sum runs in one accumulator, product and sum rounded apart, dimensions first to last or
    `backwards`. `base2`: q was multiplied by scale * log2(e) beforehand, and 2^x stands for exp(x)."""
    exp, factor = (noisy_exp2, task.factor * _LOG2_E) if base2 else (np.exp, task.factor)
    left = task.q * factor if base2 else task.q
    s = np.zeros((*task.q.shape[:2], task.k.shape[1]), np.float32)
    for d in range(task.q.shape[2])[:: -1 if backwards else 1]:
        s += left[:, :, d, None] * task.k[:, None, :, d]
    s = _masked(task, s if base2 else s * factor, 0, 0)
    m = s.max(-1, keepdims=True)
    p = _stored(task, weights := exp(s - _finite(m)))
    total, o = np.zeros_like(m), np.zeros_like(task.q)
    for j in range(task.k.shape[1]):
        total += weights[:, :, j, None]
        o += p[:, :, j, None] * task.v[:, None, j]
    return _finished(task, o, total, m * _LN_2 if base2 else m)


_EVERY_SIZE: tuple[Model, ...] = (partial(online, tile=64), partial(split, parts=8))
_FLOAT32: tuple[Model, ...] = (
    partial(online, tile=16, exp=fast_exp),
    sequential,
    partial(sequential, base2=True),
    partial(sequential, backwards=True),
)
_NARROW: tuple[Model, ...] = (
    partial(online, tile=16, exp=fast_exp),
    partial(online, tile=1 << 30),
    partial(split, parts=32),
    partial(sequential, base2=True),
    partial(online, tile=64, exp=noisy_exp),
)


def _tile(task: Task, start: int, tile: int) -> tuple[slice, np.ndarray]:
    """The rows that see something of a tile of keys, and their scores."""
    first = max(0, start - task.shift) if task.causal else 0
    s = task.q[:, first:] @ task.k[:, start : start + tile].transpose(0, 2, 1) * task.factor
    return slice(first, None), _masked(task, s, first, start)


def _masked(task: Task, s: np.ndarray, first_row: int, first_key: int) -> np.ndarray:
    if task.causal:
        last = first_row + np.arange(s.shape[1])[:, None] + task.shift
        s[:, first_key + np.arange(s.shape[2]) > last] = -np.inf
    return s


def _weighed(task: Task, p: np.ndarray, keys: slice) -> np.ndarray:
    return np.asarray(_stored(task, p) @ task.v[:, keys])


def _stored(task: Task, p: np.ndarray) -> np.ndarray:
    """Weights as they meet the values."""
    return stored.widened(stored.rounded(p, task.weight))


def _finite(m: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(m), m, np.float32(0))


def _finished(
    task: Task, o: np.ndarray, divisor: np.ndarray, m: np.ndarray, total: np.ndarray | None = None
) -> Answer:
    """o / divisor and m + ln(total), the divisor where that is not given; 0 and -inf for a row that saw no key."""
    total = divisor if total is None else total
    some = total > 0
    out = np.where(some, o / np.where(some, divisor, np.float32(1)), np.float32(0))
    if task.v_scale is not None:
        out *= task.v_scale[:, None, None]
    lse = np.where(some, m + np.log(np.where(some, total, np.float32(1))), np.float32(-np.inf))
    return out, lse[..., 0]
