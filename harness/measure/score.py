"""From a time and the ceilings of the card to a score: speed of light, floor, shares, tier. Arithmetic alone.

    speed of light   what the fewest bytes and operations take at the ceilings, the longer of the two
    score            100 * speed of light / time, as it is; over all benchmarks the geometric mean
    floor            what no honest kernel is faster than; a time below it is a cheat or an error, not a record

The bandwidth is the higher of copying and reading (`Ceilings.bandwidth`). Reads alone are some 2 to 5 % faster than
copies, and a kernel that reads mostly, as decoding does, beats the copy; set against the copy alone it would score over
100 for nothing. A kernel that copies loses those per cent, the same for all submissions. A score may still end a little
over 100, by the spread of the ceilings themselves or where written bytes have not left the L2: it is shown as it is.

The floor gives what speed of light does not: 3 % for the spread of ceilings, and written bytes as far as the L2 holds
them, since the window ends when the kernel does and not when its lines are in memory. What is read cannot have been in
the L2, which was flushed. And its rate is that of the fastest way to the wanted accuracy, whether or not anybody took
it yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import geometric_mean

from harness.measure.records import Benchmark, Ceilings, Timing

CEILING_SPREAD = 1.03  # how far above a measured ceiling an honest kernel may be seen


def speed_of_light(bytes: int, flops: int, bandwidth: float, rate: float) -> tuple[float, str]:
    """Seconds, and which of the two bounds them: "memory" or "compute" (memory where they are equal).

    Raises ValueError if there is nothing to do, or something to do at no speed."""
    moving, computing = _seconds(bytes, bandwidth, "bytes"), _seconds(flops, rate, "operations")
    if not max(moving, computing):
        raise ValueError("a case that moves no byte and computes nothing has no speed of light")
    return (moving, "memory") if moving >= computing else (computing, "compute")


def floor(
    bytes: int, written_bytes: int, flops: int, ceilings: Ceilings, fastest_rate: float, l2_bytes: int
) -> float:
    """Seconds that no honest kernel stays under. `written_bytes` are part of `bytes`."""
    through = max(bytes - min(written_bytes, l2_bytes), 0)
    moving = _seconds(through, ceilings.bandwidth, "bytes")
    return max(moving, _seconds(flops, fastest_rate, "operations")) / CEILING_SPREAD


def benchmark(
    bytes: int,
    flops: int,
    written_bytes: int,
    timing: Timing,
    ceilings: Ceilings,
    rate: float,
    fastest_rate: float,
    l2_bytes: int,
) -> Benchmark:
    """The figures of a timed case. `bytes` and `flops` are the fewest, by the cost model; `rate` is the ceiling that
    the score knows, `fastest_rate` the one of the floor."""
    least = floor(bytes, written_bytes, flops, ceilings, max(rate, fastest_rate), l2_bytes)
    sol_seconds, bound = speed_of_light(bytes, flops, ceilings.bandwidth, rate)
    shares = _shares(bytes, flops, timing.seconds, ceilings.bandwidth, rate)
    score = 100 * sol_seconds / timing.seconds
    return Benchmark(bytes, flops, timing.seconds, sol_seconds, bound, least, *shares, score, timing)


def modelled_benchmark(
    bytes: int, flops: int, moved_bytes: int, work_seconds: float, ceilings: Ceilings, rate: float, emulated: str
) -> Benchmark:
    """The figures of a case that was emulated: its time is what the counted traffic takes at the ceilings, or the
    counted operations (`work_seconds`, see ceilings.work_seconds), its score the traffic alone. It has no floor (0),
    since nothing was timed.

    `bytes` and `flops` are the fewest of the emulated case; `work_seconds` 0: nobody counted, the fewest are taken.
    Raises ValueError if no byte was moved."""
    if moved_bytes <= 0:
        raise ValueError("a case that moved no byte has no traffic score")
    seconds = max(speed_of_light(moved_bytes, flops, ceilings.bandwidth, rate)[0], work_seconds)
    sol_seconds, bound = speed_of_light(bytes, flops, ceilings.bandwidth, rate)
    shares = _shares(bytes, flops, seconds, ceilings.bandwidth, rate)
    return Benchmark(
        bytes, flops, seconds, sol_seconds, bound, 0.0, *shares, 100 * bytes / moved_bytes,
        modelled=True, moved_bytes=moved_bytes, emulated=emulated,
    )  # fmt: skip


def under_floor(benchmark: Benchmark) -> bool:
    """Whether the time is one that no honest kernel reaches."""
    return not benchmark.modelled and benchmark.seconds < benchmark.floor_seconds


def overall(benchmarks: Sequence[Benchmark]) -> float:
    """Geometric mean of the scores, so that twice as fast counts the same in each case.

    Raises ValueError for none, and for modelled and measured ones together: they do not compare."""
    if len({benchmark.modelled for benchmark in benchmarks}) != 1:
        raise ValueError("a score needs benchmarks, all measured or all modelled")
    return geometric_mean(benchmark.score for benchmark in benchmarks)


def tier(score: float, tiers: Mapping[str, float]) -> str:
    """The highest tier whose least score is reached; "" below all."""
    reached = [(least, name) for name, least in tiers.items() if score >= least]
    return max(reached)[1] if reached else ""


def _seconds(amount: int, speed: float, what: str) -> float:
    if amount < 0:
        raise ValueError(f"{amount} {what} cannot be")
    if not amount:
        return 0.0
    if not 0 < speed < math.inf:
        raise ValueError(f"{what} at a ceiling of {speed} a second")
    return amount / speed


def _shares(bytes: int, flops: int, seconds: float, bandwidth: float, rate: float) -> tuple[float, float, float, float]:
    """bytes/s, FLOP/s, and what part of its ceiling each is."""
    moved, computed = bytes / seconds, flops / seconds
    return moved, computed, moved / bandwidth if bytes else 0.0, computed / rate if flops else 0.0
