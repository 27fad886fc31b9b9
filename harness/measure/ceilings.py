"""The ceilings of a card: what its memory and its arithmetic units reach at most, measured by kernels of our own.

Every share and score stands on these figures, so that they must be neither lower than what a good kernel gets (scores
over 100) nor out of reach. Data are random, clocks are up, and L2 is overwritten before each window, as in the windows
of submissions; the result of every kernel is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from harness.cards import Card
from harness.devices.driver import TimedDriver
from harness.errors import JudgeError
from harness.measure import matrix_rates
from harness.measure.ceiling_bench import Bench, Effort, Work, compiled, naming, sources
from harness.measure.ceiling_cache import known, remember
from harness.measure.records import Ceilings

__all__ = ["datasheet", "fastest_rate_for", "known", "measure", "rate_for", "remember"]

_UNITS = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3": "bf16"}
_PRODUCTS = 3  # of matrix units for one product of float32
_CHUNK, _RING = 16384, 6  # as in kernels/ceilings.cu
_FMA_PER_ROUND = 16 * 16  # steps, multiply-adds of a thread in each
_TRIAL_WINDOWS = 3  # to find the best launch shape
_ALIGNMENT = 1 << 24  # of buffers: whatever a grid of ours takes at once divides it


def measure(
    driver: TimedDriver,
    card: Card,
    free_bytes: int,
    sm_clock: Callable[[], int] = lambda: 0,
    effort: Effort = Effort(),  # noqa: B008, it is frozen
) -> Ceilings:
    """Measure them all; takes two seconds on an H200, and up to half of the free memory meanwhile.

    `sm_clock` tells the clock in MHz. Raises JudgeError, which names what was measured, where a kernel fails, and
    UsageError for a card that our kernels do not fit.
    """
    cubins = [compiled(source, card) for source in sources(card)]
    nbytes = _buffer_bytes(card, free_bytes, effort)
    with naming("anything"):
        bench = Bench(driver, card, cubins, nbytes, effort)
    copy, read = _bandwidths(bench)
    rates = {"fma": _fma_rate(bench)} | matrix_rates.measured(bench)
    clock = sm_clock()
    with naming("anything more"):
        bench.close()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Ceilings(card.full_name, driver.version(), copy, read, rates, now, clock)


def _buffer_bytes(card: Card, free_bytes: int, effort: Effort) -> int:
    """Enough for a millisecond of traffic, which fills no cache, within a quarter of what is free."""
    wanted = min(max(int(card.bandwidth * 1e-3), effort.least_bytes), effort.most_bytes)
    nbytes = min(wanted, free_bytes // 4) // _ALIGNMENT * _ALIGNMENT
    least = min(effort.least_bytes, 16 * card.l2_bytes)
    if nbytes < max(least, matrix_rates.bytes_needed(card, effort)):
        raise JudgeError(f"only {free_bytes >> 20} MiB of {card.full_name} are free, too few to measure its ceilings")
    return nbytes


def _bandwidths(bench: Bench) -> tuple[float, float]:
    """Bytes/s of copies and of reads."""
    with naming("copies"):
        bench.fill("bits", bench.source, bench.nbytes, 1)
        bench.warm(lambda: bench.driver.copy(bench.target, bench.source, bench.nbytes))
        copy = 2 * bench.nbytes / _best(bench, list(_copies(bench)))
        _check_copy(bench)
    with naming("reads"):
        read = bench.nbytes / _best(bench, list(_reads(bench)))
    return copy, read


def _best(bench: Bench, shapes: list[Work]) -> float:
    """Seconds of the fastest launch shape, the best of some medians."""
    trials = [bench.median(work, _TRIAL_WINDOWS) for work in shapes]
    work = shapes[trials.index(min(trials))]
    return min(bench.median(work) for _ in range(bench.effort.repeats))


def _copies(bench: Bench) -> Iterator[Work]:
    """Blocks that stay and go over the buffer together, blocks of one part each, bulk copies where there are, and the
    driver's own copy, whose kernel was made for the card."""
    vectors, sms = bench.nbytes // 16, bench.card.sms
    for grid in (4 * sms, vectors // (512 * 4)):
        yield _launch(bench, "copy", grid, 512, 0, bench.source, bench.target, vectors)
    yield from _bulk(bench, "copy_bulk")
    yield lambda: bench.driver.copy(bench.target, bench.source, bench.nbytes)


def _reads(bench: Bench) -> Iterator[Work]:
    vectors, sms = bench.nbytes // 16, bench.card.sms
    for per_sm in (4, 16):
        yield _launch(bench, "read", per_sm * sms, 512, 0, bench.source, bench.target, vectors)
    yield from _bulk(bench, "read_bulk")


def _bulk(bench: Bench, name: str) -> Iterator[Work]:
    if bench.card.cc >= (9, 0):
        for per_sm in (2, 16):
            grid, chunks = per_sm * bench.card.sms, bench.nbytes // _CHUNK
            yield _launch(bench, name, grid, 32, _RING * _CHUNK, bench.source, bench.target, chunks)


def _launch(bench: Bench, name: str, grid: int, block: int, shared: int, *values: int) -> Work:
    return lambda: bench.launch(name, grid, block, shared, "PPQ", *values)


def _check_copy(bench: Bench) -> None:
    """Of the last copy, near the end, which was overwritten before it."""
    nbytes = min(1 << 20, bench.nbytes // 8)
    place = bench.nbytes - nbytes
    if bytes(bench.driver.download(bench.target + place, nbytes)) != bytes(
        bench.driver.download(bench.source + place, nbytes)
    ):
        raise JudgeError("the copy differs")


def _fma_rate(bench: Bench) -> float:
    """FLOP/s of float32 multiply-adds, two operations each."""
    threads, rounds = 8 * 256 * bench.card.sms, bench.effort.rounds
    with naming("float32 multiply-adds"):
        seconds = bench.median(
            lambda: bench.launch("multiply_add", 8 * bench.card.sms, 256, 0, "PIQ", bench.target, rounds, 1)
        )
    return 2.0 * threads * rounds * _FMA_PER_ROUND / seconds


def datasheet(card: Card) -> Ceilings:
    """What NVIDIA says of the card, for reports where nothing was measured. Nobody reaches these."""
    rates = {"fma": card.fp32_rate, **card.matrix_rates}
    return Ceilings(card.full_name, "", card.bandwidth, card.bandwidth, rates, modelled=True)


def rate_for(ceilings: Ceilings, dtype: str) -> float:
    """FLOP/s that a kernel of this dtype track is measured against: "float32", "float16", "bfloat16", "float8_e4m3".

    16-bit types: the matrix units that take them, and the multiply-adds of a card without such units. float8_e4m3:
    those of bfloat16, since only the KV cache has eight bits; queries and weights have more, and either of them in
    eight bits fails the check.
    float32: three products of tf32 reach its accuracy (x = big + small, small * small left out: Markidis et al.,
    "NVIDIA Tensor Core Programmability, Performance & Precision", 2018; CUTLASS calls it 3xTF32), where that is
    faster than multiply-adds. Raises JudgeError for another type.
    """
    rates = ceilings.rates
    if dtype == "float32":
        return max(rates["fma"], rates.get("tf32", 0.0) / _PRODUCTS)
    if dtype not in _UNITS:
        raise JudgeError(f"there is no ceiling for {dtype}")
    return rates.get(_UNITS[dtype], rates["fma"])


def work_seconds(ceilings: Ceilings, dtype: str, flops: Mapping[str, int]) -> float:
    """What counted operations take at the least: `flops` by kind as harness/traffic.py has them, those of matrix units
    at the rate of the units for this dtype (float32: tf32), all others at that of multiply-adds; both run side by
    side."""
    unit = ceilings.rates.get("tf32" if dtype == "float32" else _UNITS[dtype], ceilings.rates["fma"])
    tensor = flops.get("tensor", 0)
    return max(tensor / unit, (sum(flops.values()) - tensor) / ceilings.rates["fma"])


def fastest_rate_for(ceilings: Ceilings, dtype: str) -> float:
    """FLOP/s that no kernel of this type's accuracy exceeds, whether or not anybody has written it: for the floor.

    float32: two terms of float16 carry 22 bits, two of bfloat16 16, and a product of either takes three products of the
    matrix units; what has fewer products has an operand of 11 bits or less and fails the check. 16-bit types may also
    be multiplied as one another (what is bfloat16 fits float16 after scaling), and 8-bit floats as either. The units
    for eight bits are no faster way: what has 8 bits of mantissa is two terms for them, at twice the rate.
    """
    half = max(ceilings.rates.get(unit, 0.0) for unit in ("f16", "bf16"))
    return max(rate_for(ceilings, dtype), half / _PRODUCTS if dtype == "float32" else half)
