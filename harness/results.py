"""Frozen records of what was seen and decided; they travel to the terminal, JSON and the web."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.traffic import CaseTraffic
from harness.verdict import FindingKind, Verdict

SCHEMA = 1  # of the JSON report; raised when a field changes its meaning


@dataclass(frozen=True)
class Access:
    """The other side of a race: which thread touched the same place, and from which line."""

    line: int  # of the user's file, 1-based; 0 where unknown
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    write: bool = False
    file: str = ""


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
    traffic: CaseTraffic | None = None  # modelled; None where nothing ran in the emulator


@dataclass(frozen=True)
class CompileResult:
    """What the compiler said."""

    ok: bool
    seconds: float = 0.0
    log: str = ""  # diagnostics in the user's file and lines
    cached: bool = False


@dataclass(frozen=True)
class Report:
    """The whole judging of one submission."""

    problem: str
    submission: str
    device: str
    dtype: str
    seed: int
    verdict: Verdict
    compile: CompileResult
    cases: tuple[CaseResult, ...] = ()
    findings: tuple[Finding, ...] = ()  # those that belong to no case: compile limits, unsupported host code
    score: float | None = None
    seconds: float = 0.0
    schema: int = SCHEMA
