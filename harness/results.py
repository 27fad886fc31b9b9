"""Frozen records of what was seen and decided; they travel to the terminal, JSON and the web."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from harness.measure.records import Benchmark, Ceilings
from harness.traces import CaseTrace
from harness.traffic import CaseTraffic
from harness.verdict import FindingKind, Verdict

SCHEMA = 1  # of the JSON report; raised when a field changes its meaning


@dataclass(frozen=True)
class Access:
    """The other side of a finding: which thread touched the same place, or is missing, and at which line."""

    line: int  # of the user's file, 1-based; 0 where unknown
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    write: bool = False
    file: str = ""
    missing: bool = False  # no access: where a thread is that a barrier or a shuffle waits for


@dataclass(frozen=True)
class Finding:
    """One thing seen at one place. `message` is a full sentence that stands alone."""

    kind: FindingKind
    message: str
    file: str = ""
    line: int = 0  # 1-based line of the user's file; 0 where none applies
    tensor: str = ""  # parameter of solve(), shared or __device__ variable, or "scratch #n"
    index: tuple[int, ...] = ()  # element of that tensor
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    other: Access | None = None
    kernel: str = ""  # readable name of the kernel
    call_stack: tuple[str, ...] = ()  # "file:line" of the callers it was inlined into, innermost first


@dataclass(frozen=True)
class ErrorStats:
    """How far an output is from the float64 reference (limits: see harness/check.py)."""

    tensor: str
    max_abs: float  # largest |found - expected| over finite elements
    worst_row: tuple[int, ...]  # index of the row with the largest ratio to its limit
    row_max: float  # A: max |e| / rms(row), worst row
    row_norm: float  # B: |e| / |row|, worst row
    total_norm: float  # C: |e| / |reference|
    limits: tuple[float, float, float]  # LA, LB, LC that applied
    nan_count: int  # non-finite elements where the reference is finite
    ratio: float  # worst of A/LA, B/LB, C/LC; at most 1 when accepted


# Of a MismatchMap: within the limit, up to 10 times, up to 1000 times, beyond, NaN or infinite, never written.
MAP_CELLS = ".+xXN-"


@dataclass(frozen=True)
class MismatchMap:
    """A wrong output as a table of cells, each by the worst of its elements (harness/mismatch_map.py). Rows of the
    tensor are numbered over all axes but the last one, whose indices are the columns."""

    tensor: str
    axes: tuple[str, ...]  # as problem.yaml writes the dimensions
    shape: tuple[int, ...]
    limit_of: str  # whose limit errors are set against: "element", "row" or "tensor"
    row_starts: tuple[int, ...]  # first row of each row of cells
    column_starts: tuple[int, ...]
    cells: tuple[str, ...]  # a text for each row of cells, of MAP_CELLS
    pattern: str = ""  # "all of head 3": where the wrong elements are; "" without a plain order


@dataclass(frozen=True)
class LaunchShape:
    """Launches of one kernel that differ in nothing but their arguments."""

    kernel: str  # mangled name
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0  # dynamic
    count: int = 1


@dataclass(frozen=True)
class KernelResources:
    """What the assembler gave a kernel, at full optimisation. Registers and bytes are of one thread, but for shared
    memory, which is of one block, and constant memory, of the kernel."""

    name: str  # mangled
    readable: str  # "attend<128>"
    registers: int
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    static_shared_bytes: int = 0
    constant_bytes: int = 0  # parameters included; the assembler does not say it for compute capability 9.0
    barriers: int = 0


@dataclass(frozen=True)
class Occupancy:
    """What one multiprocessor holds. `blocks` 0: a block does not fit at all, and the launch would fail."""

    blocks: int
    warps: int
    fraction: float  # warps, of the most that the multiprocessor can hold
    limits: tuple[str, ...]  # what a further block would lack: "warps", "registers", "shared memory", ...


@dataclass(frozen=True)
class LaunchUse:
    """How a launch fills the card: blocks of its grid against blocks that all multiprocessors hold at once."""

    shape: LaunchShape
    blocks: int  # of the grid
    occupancy: Occupancy
    waves: float  # blocks of the grid, in fillings of the card; 0 where no block fits


@dataclass(frozen=True)
class KernelUse:
    """One kernel that was launched, and its launches by shape, largest grid first."""

    card: str
    kernel: KernelResources
    launches: tuple[LaunchUse, ...]


@dataclass(frozen=True)
class CaseResult:
    """One case: the verdict, and what led to it."""

    name: str
    verdict: Verdict
    errors: tuple[ErrorStats, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0  # wall time of the run on the device, not a measurement of the kernel
    stdout: str = ""  # what the submission printed, cut at the output limit
    parameters: dict[str, object] = field(default_factory=dict)
    launches: tuple[LaunchShape, ...] = ()
    traffic: CaseTraffic | None = None  # modelled; None where nothing ran in the emulator
    benchmark: Benchmark | None = None  # None for a test, and where the benchmark was not accepted
    trace: CaseTrace | None = None  # of at most one case, in a judging that was asked to trace
    mismatches: tuple[MismatchMap, ...] = ()  # of each wrong output

    @property
    def worst_ratio(self) -> float | None:
        """The worst error over its limit, of all outputs; NaN is worse than any. None where nothing was compared."""
        ratios = (error.ratio for error in self.errors)
        return max(ratios, key=lambda ratio: math.inf if math.isnan(ratio) else ratio, default=None)


@dataclass(frozen=True)
class CompileResult:
    """What the compiler said."""

    ok: bool
    seconds: float = 0.0
    log: str = ""  # diagnostics in the user's file and lines
    cached: bool = False
    # Of the kernels that were launched, the most that one of them takes; None where it was not measured.
    registers: int | None = None  # a thread
    spills: int | None = None  # bytes that a thread stores to local memory and loads again for lack of registers
    shared_bytes: int | None = None  # static, a block


@dataclass(frozen=True)
class Report:
    """The whole judging of one submission."""

    problem: str
    submission: str
    device: str
    dtype: str  # of the track; "" where the submission was no text to read one from
    seed: int
    verdict: Verdict
    compile: CompileResult
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()  # those that belong to no case: compile limits, unsupported host code
    resources: tuple[KernelUse, ...] = ()  # of the kernels that were launched, in the order of their first launch
    resources_note: str = ""  # why there are none
    score: float | None = None  # geometric mean over all benchmark cases; None unless tests and benchmarks are accepted
    tier: str = ""  # what the score is called, by the problem's tiers; "" below the lowest
    score_note: str = ""  # why there is no score although benchmarks ran
    ceilings: Ceilings | None = None  # that benchmarks were set against
    seconds: float = 0.0
    schema: int = SCHEMA
    variant: str = ""  # of the track; "" where `dtype` is
    schedule: int | None = None  # what shuffled the emulator's order of blocks and warps; None: they ran as numbered
