"""The online softmax of one row in float32, tile by tile, as a kernel computes it, and with the classic mistakes.

For a tile with scores s and values v, from a state (m, l, o) that starts at (-inf, 0, 0):

    m' = max(m, max s)      p = exp(s - m')      c = exp(m - m')
    l' = c l + sum p        o' = c o + p v       and at the end out = o / l

While all keys so far are masked m' is -inf, and 0 stands for it in both exponents: all weights come out 0, none NaN.

Sources: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018, arXiv:1805.02867 (m and l);
Dao, Fu, Ermon, Rudra & Re, "FlashAttention", 2022, arXiv:2205.14135, algorithm 1 (o carried along, by tiles); with o
divided by l once at the end as in Dao, "FlashAttention-2", 2023, arXiv:2307.08691.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

ZERO = np.float32(0)
LOWEST = np.float32(-np.inf)


class Mistake(StrEnum):
    """What may go wrong; the names are those in the address of the page."""

    NONE = "none"
    KEEP_OUTPUT = "keep_o"  # o is not rescaled
    KEEP_SUM = "keep_l"  # l is not rescaled
    ZERO_MAXIMUM = "zero_max"  # m starts at 0
    NO_MAXIMUM = "no_max"  # exp(s) without a maximum
    NO_GUARD = "no_guard"  # -inf - -inf where all keys so far are masked


@dataclass(frozen=True)
class State:
    """What a row carries from tile to tile: m, l, and o [dims] before it is divided by l; float32."""

    maximum: np.float32
    total: np.float32
    output: np.ndarray

    @property
    def blind(self) -> bool:
        """Whether all keys so far were masked."""
        return bool(self.maximum == LOWEST)

    @property
    def result(self) -> np.ndarray:
        """o / l, float32 [dims]: NaN where nothing was added up."""
        with np.errstate(all="ignore"):
            return self.output / self.total


@dataclass(frozen=True)
class Step:
    """One tile: keys `first` to `last`, and every number on the way from one state to the next."""

    number: int  # from 1
    first: int
    last: int
    scores: np.ndarray  # [last - first + 1]
    before: State
    maximum: np.float32
    base: np.float32  # what scores are shifted by: the maximum, or 0 while that is -inf
    correction: np.float32
    weights: np.ndarray  # as scores
    rescaled: State  # the old state under the new maximum
    after: State
    plain: np.ndarray | None  # float64 softmax over the keys so far, times their values [dims]; None if all are masked

    @property
    def masked(self) -> bool:
        """Whether all keys of the tile are masked."""
        return bool(self.scores.max() == LOWEST)

    @property
    def error(self) -> float | None:
        """How far o / l is from plain, at most over the dimensions; None where there is nothing to compare with."""
        return None if self.plain is None else distance(self.after.result, self.plain)


def run(scores: np.ndarray, values: np.ndarray, tile: int, mistake: Mistake = Mistake.NONE) -> list[Step]:
    """All steps for scores [keys], -inf where masked, and values [keys, dims], `tile` keys at a time."""
    scores, values = scores.astype(np.float32), values.astype(np.float32)
    state = start(values.shape[1], mistake)
    steps = []
    for number, first in enumerate(range(0, len(scores), tile), 1):
        step = _advance(state, scores, values, (number, first, min(first + tile, len(scores))), mistake)
        steps.append(step)
        state = step.after
    return steps


def start(dims: int, mistake: Mistake = Mistake.NONE) -> State:
    """The state before the first tile."""
    from_zero = mistake in (Mistake.ZERO_MAXIMUM, Mistake.NO_MAXIMUM)
    return State(ZERO if from_zero else LOWEST, ZERO, np.zeros(dims, np.float32))


def plain(scores: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """softmax(scores) times values in float64 [dims], all keys at once; None if all are masked."""
    wide = scores.astype(np.float64)
    if not np.isfinite(wide).any():
        return None
    weights = np.exp(wide - wide.max())
    return np.asarray(weights @ values.astype(np.float64) / weights.sum())


def distance(result: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the dimensions; NaN if any is."""
    return float(np.abs(result.astype(np.float64) - expected).max())


def _advance(
    before: State, all_scores: np.ndarray, all_values: np.ndarray, tile: tuple[int, int, int], mistake: Mistake
) -> Step:
    number, first, end = tile
    scores, values = all_scores[first:end], all_values[first:end]
    maximum = ZERO if mistake is Mistake.NO_MAXIMUM else max(before.maximum, scores.max())
    base = ZERO if maximum == LOWEST and mistake is not Mistake.NO_GUARD else maximum
    with np.errstate(all="ignore"):  # of mistakes overflow and NaN are the point
        correction, weights = np.exp(before.maximum - base), np.exp(scores - base)
        rescaled = State(
            maximum,
            before.total if mistake is Mistake.KEEP_SUM else before.total * correction,
            before.output if mistake is Mistake.KEEP_OUTPUT else before.output * correction,
        )
        after = State(maximum, rescaled.total + weights.sum(), rescaled.output + weights @ values)
    so_far = plain(all_scores[:end], all_values[:end])
    return Step(number, first, end - 1, scores, before, maximum, base, correction, weights, rescaled, after, so_far)


@dataclass(frozen=True)
class Merge:
    """Parts of the keys, each attended to by itself, and what becomes of them together.

    weights[s] = exp(m_s - m) l_s / l, and result = sum of weights[s] times the result of part s.
    Source: Dao, Haziza, Massa & Sizov, "Flash-Decoding for long-context inference", 2023.
    """

    parts: list[State]
    maximum: np.float32
    total: np.float32
    weights: list[float]
    result: np.ndarray
    mean: np.ndarray  # the mistake: all parts that saw a key weigh the same


def merge(parts: list[State]) -> Merge:
    """Parts that saw no key (m = -inf) weigh nothing; at least one part must have seen one."""
    seen = [part for part in parts if part.maximum > LOWEST]
    if not seen:
        raise ValueError("no part saw a key that is not masked")
    maximum = max(part.maximum for part in seen)
    shares = [np.exp(part.maximum - maximum) * part.total for part in parts]
    total = np.float32(sum(shares))
    weights = [float(share / total) for share in shares]
    result = sum((np.float32(w) * part.result for w, part in zip(weights, parts, strict=True) if w > 0), ZERO)
    mean = np.mean([part.result for part in seen], axis=0)
    return Merge(parts, maximum, total, weights, np.asarray(result), mean)


def harmless(error: float | None) -> bool:
    """Whether an error is no more than float32's rounding leaves."""
    return error is not None and math.isfinite(error) and error < 1e-5
