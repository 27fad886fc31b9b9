"""What a measurement found: frozen records for the terminal, JSON, the HTML report and pages.

Times are seconds, rates bytes/s and FLOP/s. A *plan* is everything that one call of solve() asks of the device; a
*window* is what a pair of events encloses: one plan, or several over different buffers where one is too short to time.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ceilings:
    """What a card reaches at most. `rates` by unit: "fma" (float32 outside the matrix units), "tf32", "bf16", "f16",
    "e4m3" (dense matrix products, wider accumulation); a unit that the card lacks is absent."""

    card: str  # as the driver names it
    driver: str  # version of the driver, "580.159"
    copy: float  # bytes/s, read and written bytes both counted
    read: float  # bytes/s
    rates: dict[str, float] = field(default_factory=dict)
    date: str = ""  # of the measurement, ISO 8601; "" for figures of a data sheet
    sm_clock_mhz: int = 0  # while it was measured, 0 where nobody tells
    cached: bool = False  # measured in an earlier run
    modelled: bool = False  # from the data sheet; nothing was measured

    @property
    def bandwidth(self) -> float:
        """The higher of the two bandwidths: what no kernel exceeds."""
        return max(self.copy, self.read)


@dataclass(frozen=True)
class Sample:
    """One window. `throttled`: what held the clocks back meanwhile, as "thermal slowdown"; such samples do not count.
    The cap on power is not among them: whatever keeps a card's matrix units busy runs at it, the ceilings too."""

    seconds: float  # of one plan: the window's time over its plans
    child: int  # which of the fresh processes measured it, from 0
    sm_clock_mhz: int = 0
    memory_clock_mhz: int = 0
    temperature: int = 0  # degrees Celsius
    throttled: tuple[str, ...] = ()
    power_capped: bool = False


@dataclass(frozen=True)
class Timing:
    """The statistic of all samples of one case."""

    seconds: float  # median
    low: float  # 95 % interval of the median
    high: float
    quartiles: tuple[float, float]
    fastest: float
    samples: int  # that count
    dropped: int  # throttled
    children: int
    plans_per_window: int
    noisy: bool  # the interval stayed wider than it may be, or too many samples were dropped
    sm_clock_mhz: tuple[int, int] = (0, 0)  # lowest and highest
    memory_clock_mhz: tuple[int, int] = (0, 0)
    temperature: tuple[int, int] = (0, 0)
    throttled: tuple[str, ...] = ()  # every reason that was seen
    power_capped: int = 0  # samples at the cap on power

    @property
    def half_width(self) -> float:
        """Half of the interval over the median."""
        return (self.high - self.low) / 2 / self.seconds


@dataclass(frozen=True)
class Baseline:
    """What an installed library takes for the same case. `seconds` 0: it did not run, and `note` says why."""

    name: str  # "torch SDPA, efficient"
    seconds: float
    dtype: str  # of its tensors, which may be another than the case's
    note: str = ""


@dataclass(frozen=True)
class Benchmark:
    """The figures of one benchmark case. With `modelled` nothing was timed: `seconds` is the least that the traffic
    and the operations which the emulator counted would take at the ceilings of `Report.ceilings`."""

    bytes: int  # fewest, by the cost model
    flops: int
    seconds: float  # median, or modelled
    sol_seconds: float  # speed of light: the larger of bytes and flops over their ceilings
    bound: str  # "memory" or "compute": which of the two it is
    floor_seconds: float  # no honest kernel is faster
    bandwidth: float  # bytes / seconds
    rate: float  # flops / seconds
    bandwidth_share: float  # of the bandwidth ceiling
    rate_share: float  # of the rate ceiling
    score: float  # 100 * sol_seconds / seconds; modelled: 100 * fewest bytes / modelled bytes
    timing: Timing | None = None  # None where modelled
    modelled: bool = False
    moved_bytes: int = 0  # modelled: what the emulator counted, in sectors
    emulated: str = ""  # modelled: how the emulated case differs from the benchmark, "num_seqs 2 of 64"
    baselines: tuple[Baseline, ...] = ()
