"""From samples to one figure: the median, how sure it is, and whether more samples are needed. Arithmetic alone.

Samples of one process lie closer together than those of two: each process gets its own addresses, its own clocks and
its own luck. So the interval of the median is a two-level bootstrap, which draws processes with replacement and then
samples within each (Davison & Hinkley, Bootstrap Methods and their Application, 1997, section 3.8; percentiles:
Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13).

With three processes the plain form promises too much: however far their medians lie apart, the interval never leaves
the range between them, and three draws straddle the true median in 75 cases of 100 only. The bootstrap knows the spread
between n processes too small by sqrt((n - 1) / n), and takes it for known exactly, where Student's t with n - 1 degrees
of freedom is due. So before it is drawn from, each process is moved away from the common median, in proportion, by

    stretch = sqrt(n / (n - 1)) * t(n - 1) / t(infinity)          (2.69 for three, 1.44 for six)

while the spread within processes, of which there are plenty of samples, stays as it is. Medians of three processes
that differ by 0.3 % in all then give a half-width of 0.4 %; they may differ by some 0.75 % before the case is noisy.
What all processes share, such as a card that is warm throughout, no interval of one run shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from harness.measure.records import Sample, Timing

CHILDREN = 3  # fresh processes
LEAST = 30  # samples from each of them
MOST = 200
HALF_WIDTH = 0.01  # of the median: wider is noisy
DROPPED = 0.2  # of all samples: more throttled ones are noisy
OVERHEADS = 20  # event overheads that a window takes at least
RESAMPLES = 10_000

_CHUNK = 1 << 21  # samples drawn at once: 16 MiB a temporary
# Quantiles 0.975 of Student's t for 1, 2, ... degrees of freedom.
_STUDENT = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)
_NORMAL = 1.95996


def summarise(
    samples: Sequence[Sample], plans_per_window: int, rng_seed: int = 0, least: int = LEAST
) -> Timing:
    """The statistic of the samples that were not throttled; the same whatever their order.

    It is noisy while the interval's half-width is over 1 %, more than 20 % are throttled, or fewer than three children
    gave `least` samples each that count. One child alone has an interval that knows nothing of others, one sample none;
    both are noisy. If all are throttled, the figures are those of the throttled samples, `samples` is 0, and it is
    noisy.
    Raises ValueError for no samples at all, and for times that are not positive and finite.
    """
    _check(samples)
    counted = [sample for sample in samples if not sample.throttled]
    shown = counted or samples
    times = np.array([sample.seconds for sample in shown])
    low, high = interval(_by_child(shown), rng_seed)
    first, median, third = np.quantile(times, (0.25, 0.5, 0.75))
    dropped = len(samples) - len(counted)
    wide = (high - low) / 2 > HALF_WIDTH * median
    return Timing(
        seconds=float(median),
        low=low,
        high=high,
        quartiles=(float(first), float(third)),
        fastest=float(times.min()),
        samples=len(counted),
        dropped=dropped,
        children=len({sample.child for sample in shown}),
        plans_per_window=plans_per_window,
        noisy=bool(wide) or dropped > DROPPED * len(samples) or not _all_children_gave(counted, least),
        sm_clock_mhz=_range([sample.sm_clock_mhz for sample in shown]),
        memory_clock_mhz=_range([sample.memory_clock_mhz for sample in shown]),
        temperature=_range([sample.temperature for sample in shown]),
        throttled=tuple(sorted({reason for sample in samples for reason in sample.throttled})),
        power_capped=sum(sample.power_capped for sample in samples),
    )


def interval(children: Sequence[np.ndarray], rng_seed: int = 0, resamples: int = RESAMPLES) -> tuple[float, float]:
    """95 % interval of the median of all times, from the times of each child; it holds that median."""
    rng = np.random.default_rng(rng_seed)
    median = float(np.median(np.concatenate(children)))
    medians = _resampled_medians(_stretched(children, median), rng, resamples)
    low, high = np.quantile(medians, (0.025, 0.975))
    return min(float(low), median), max(float(high), median)


def enough(samples: Sequence[Sample]) -> bool:
    """Whether sampling ends: the timing is not noisy, or as many samples as there may be are taken."""
    return next_round(samples) == 0


def next_round(samples: Sequence[Sample]) -> int:
    """How many samples to take next from each of three children, the same as before or fresh ones; 0 to stop.

    Rounds double what there is: 30, 60, 120, then 200 of each child, throttled ones included. It depends on the samples
    alone, so that a submission which is slow to warm up is sampled no less. Rounds that add anything come to an end.
    """
    left = CHILDREN * MOST - len(samples)
    if left <= 0:
        return 0
    if len({sample.child for sample in samples}) < CHILDREN:
        return LEAST
    if not summarise(samples, 1).noisy:
        return 0
    taken = -(-len(samples) // CHILDREN)
    return min(max(taken, LEAST), -(-left // CHILDREN))


def plans_per_window(seconds_of_one: float, event_overhead: float, most: int) -> int:
    """How many plans one window encloses, so that it takes 20 event overheads or more, but at most `most` plans: as
    many as there are sets of buffers, since a plan that runs twice on one set would find it in the L2."""
    if most < 1:
        raise ValueError(f"a window needs buffers for one plan at least, not {most}")
    for seconds in (seconds_of_one, event_overhead):
        if not 0 <= seconds < math.inf:
            raise ValueError(f"{seconds} s is no duration")
    shortest = OVERHEADS * event_overhead
    if seconds_of_one >= shortest:
        return 1
    if seconds_of_one * most <= shortest:
        return most
    return math.ceil(shortest / seconds_of_one)


def ties(a: Timing, b: Timing) -> bool:
    """Whether neither is faster: the medians lie no farther apart than the half-widths of both intervals together. Of
    noisy timings it says little, since their intervals may be too narrow."""
    return abs(a.seconds - b.seconds) <= (a.high - a.low) / 2 + (b.high - b.low) / 2


def _check(samples: Sequence[Sample]) -> None:
    if not samples:
        raise ValueError("no samples to summarise")
    for sample in samples:
        if not 0 < sample.seconds < math.inf:
            raise ValueError(f"a sample of child {sample.child} took {sample.seconds} s")


def _by_child(samples: Sequence[Sample]) -> list[np.ndarray]:
    times: dict[int, list[float]] = {}
    for sample in samples:
        times.setdefault(sample.child, []).append(sample.seconds)
    return [np.sort(times[child]) for child in sorted(times)]


def _all_children_gave(counted: Sequence[Sample], least: int) -> bool:
    return sum(len(times) >= least for times in _by_child(counted)) >= CHILDREN


def _stretched(children: Sequence[np.ndarray], median: float) -> list[np.ndarray]:
    """The children's times, moved from the common median until their spread is as wide as so few allow."""
    count = len(children)
    if count == 1:
        return list(children)
    stretch = math.sqrt(count / (count - 1)) * _student(count - 1) / _NORMAL
    return [times * (float(np.median(times)) / median) ** (stretch - 1) for times in children]


def _student(freedom: int) -> float:
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = _NORMAL  # two terms of Abramowitz & Stegun 26.7.5, right to 0.003
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _resampled_medians(children: Sequence[np.ndarray], rng: np.random.Generator, resamples: int) -> np.ndarray:
    """Medians of `resamples` draws of as many children, each giving as many samples as they gave on average."""
    pool = np.concatenate(children)
    sizes = np.array([len(times) for times in children])
    starts = np.cumsum(sizes) - sizes
    count, each = len(children), round(float(sizes.mean()))
    found = []
    chunk = max(1, _CHUNK // (count * each))
    for first in range(0, resamples, chunk):
        rows = min(chunk, resamples - first)
        child = rng.integers(0, count, (rows, count, 1))
        index = starts[child] + (rng.random((rows, count, each)) * sizes[child]).astype(np.intp)
        found.append(np.median(pool[index].reshape(rows, -1), axis=1, overwrite_input=True))
    return np.concatenate(found)


def _range(values: Sequence[int]) -> tuple[int, int]:
    """Lowest and highest of those that were told."""
    told = [value for value in values if value]
    return (min(told), max(told)) if told else (0, 0)
