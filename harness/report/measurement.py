"""What the terminal and the page say in the same words of a measurement: the score, the card, and each benchmark.

What nothing was timed for is called modelled; `modelled` and `unmeasured_ceilings` say which figures that are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from harness.measure.records import Baseline, Benchmark, Ceilings, Timing
from harness.report import figures
from harness.results import CaseResult, Report
from harness.verdict import Verdict

_RATES = {"fma": "float32", "e4m3": "fp8 e4m3"}  # by unit, where the unit's own name is not what people say
NOISY = "NOISY: the interval of the median stayed wider than it may be, or too many samples were throttled"


def benchmarks(report: Report) -> list[tuple[CaseResult, Benchmark]]:
    """The accepted benchmarks, which have figures."""
    return [(case, case.benchmark) for case in report.cases if case.benchmark and case.verdict is Verdict.ACCEPTED]


def tests(report: Report) -> list[CaseResult]:
    """All other cases: tests, and benchmarks that were not accepted."""
    return [case for case in report.cases if not (case.benchmark and case.verdict is Verdict.ACCEPTED)]


def modelled(report: Report) -> bool:
    """Whether times are what a model says. One such time is enough: it must never look like a measured one."""
    return any(benchmark.modelled for _, benchmark in benchmarks(report))


def unmeasured_ceilings(report: Report) -> bool:
    """Whether shares, speed of light and score are no measurements, since the times or the ceilings are none."""
    return modelled(report) or bool(report.ceilings and report.ceilings.modelled)


def score(report: Report) -> str:
    """The overall line, "" where there is nothing to say."""
    marked = "modelled " if unmeasured_ceilings(report) else ""
    if report.score is None:
        return f"no {marked}score: {report.score_note}" if report.score_note else ""
    tier = f" ({report.tier})" if report.tier else ""
    return f"{marked}score {figures.score(report.score)}{tier}  {mean_of(report)}"


def mean_of(report: Report) -> str:
    """What the score is the mean of."""
    count = len(benchmarks(report))
    return f"geometric mean of {count} {'modelled ' if modelled(report) else ''}benchmark{'s' * (count != 1)}"


def full_score(report: Report) -> str:
    """What a score of 100 is: a modelled one is of the traffic alone (harness/measure/score.py)."""
    return "100 is no byte moved beyond the fewest" if modelled(report) else "100 is the speed of light"


def card(ceilings: Ceilings) -> str:
    """Which card the ceilings are of, and whether it was there."""
    if ceilings.modelled:
        return f"modelled on the data sheet of {ceilings.card}"
    return f"on {ceilings.card}" + (f", driver {ceilings.driver}" if ceilings.driver else "")


def peaks(ceilings: Ceilings) -> list[str]:
    """Its bandwidths and rates: "copy 4300 GB/s"."""
    bandwidths = {"copy": ceilings.copy, "read": ceilings.read}
    return [
        *(f"{name} {figures.gigabytes(value)} GB/s" for name, value in bandwidths.items() if value > 0),
        *(f"{unit(name)} {figures.teraflops(rate)} TFLOP/s" for name, rate in ceilings.rates.items()),
    ]


def unit(name: str) -> str:
    """A unit of `Ceilings.rates` as people call it."""
    return _RATES.get(name, name)


def roof(report: Report) -> tuple[float, float]:
    """The bandwidth and the rate that the benchmarks were set against, in bytes/s and FLOP/s; 0 where unknown. The rate
    may be none of the card's own: float32 accuracy from three products of tf32 runs at a third of that rate."""
    found = [benchmark for _, benchmark in benchmarks(report)]
    return (
        max((_ceiling(b.bandwidth, b.bandwidth_share) for b in found), default=0.0),
        max((_ceiling(b.rate, b.rate_share) for b in found), default=0.0),
    )


def _ceiling(reached: float, share: float) -> float:
    return reached / share if math.isfinite(reached) and share > 0 else 0.0


def set_against(report: Report) -> str:
    """The ceilings that shares, speed of light and score rest on."""
    bandwidth, rate = roof(report)
    parts = [f"{figures.gigabytes(bandwidth)} GB/s"] * (bandwidth > 0)
    parts += [f"{figures.teraflops(rate)} TFLOP/s"] * (rate > 0)
    return f"set against {' and '.join(parts)}" if parts else ""


def conditions(report: Report) -> list[str]:
    """Clocks, temperatures and what held the card back while it was measured."""
    timings = [benchmark.timing for _, benchmark in benchmarks(report) if benchmark.timing]
    clocks = _range(timing.sm_clock_mhz for timing in timings)
    degrees = _range(timing.temperature for timing in timings)
    reasons = sorted({reason for timing in timings for reason in timing.throttled})
    return [
        *([f"clocks {clocks} MHz"] if clocks else []),
        *([f"{degrees} C"] if degrees else []),
        *([f"held back by {' and '.join(reasons)}"] if reasons else []),
        *_age(report.ceilings),
    ]


def _age(ceilings: Ceilings | None) -> Iterator[str]:
    """When the ceilings were measured, if that was in an earlier run."""
    if ceilings and ceilings.cached and ceilings.date:
        yield f"ceilings measured {ceilings.date}"


def _range(pairs: Iterable[tuple[int, int]]) -> str:
    known = [value for pair in pairs for value in pair if value]
    return figures.span(min(known), max(known)) if known else ""


def time(benchmark: Benchmark) -> str:
    """The median and half of its interval: 6.42 ms +- 0.4 %."""
    return figures.seconds(benchmark.seconds) + (f" +- {spread(benchmark.timing)}" if benchmark.timing else "")


def spread(timing: Timing) -> str:
    """Half of the interval of the median, in percent of it: 0.4 %."""
    return f"{100 * timing.half_width:.1f} %" if timing.seconds > 0 else figures.NOTHING


def share(benchmark: Benchmark) -> str:
    """Of the ceiling that bounds it: 35 % compute."""
    part = benchmark.rate_share if benchmark.bound == "compute" else benchmark.bandwidth_share
    return f"{figures.percent(part)} {benchmark.bound}"


def baseline(found: Baseline, dtype: str) -> str:
    """Its name, with the type of its tensors where that is not `dtype`."""
    return found.name if found.dtype in ("", dtype) else f"{found.name}, {found.dtype}"


def cut(report: Report) -> bool:
    """Whether a benchmark was emulated at less than its size, which proves nothing of a run at its full size."""
    return any(benchmark.emulated for _, benchmark in benchmarks(report))


def emulated(benchmark: Benchmark) -> str:
    """What a modelled figure rests on."""
    parts = [f"emulated with {benchmark.emulated}"] if benchmark.emulated else []
    if benchmark.moved_bytes:
        parts.append(f"moved {figures.scaled(benchmark.moved_bytes)}B, fewest {figures.scaled(benchmark.bytes)}B")
    return "; ".join(parts)
