"""The seam between the judge and what runs kernels: one method, `run`.

A device runs inside the run child (harness/sandbox); it sees one submission's compiled artefacts and one
case's inputs, never a reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from harness.results import Finding, LaunchShape
from harness.traces import CaseTrace
from harness.traffic import CaseTraffic


@dataclass(frozen=True)
class Argument:
    """One parameter of solve(), in order. `value` is an array for tensors (an output's array gives shape and
    dtype only), a Python int or float for scalars."""

    name: str
    value: np.ndarray | int | float
    role: str  # "in", "out", "inout", "scalar"
    ctype: str  # as in the signature, without const and '*': "float", "int"


@dataclass(frozen=True)
class Program:
    """A compiled submission, ready for any device."""

    source_name: str  # the file name that diagnostics and findings use
    ptx: str  # NVRTC, -rdc=true: every kernel, and solve() as a function
    card: str = "H100"
    cubin: bytes = b""  # nvcc, for the GPU


@dataclass(frozen=True)
class RunLimits:
    """Budgets of one case inside the child; the supervisor's wall clock stands above them."""

    seconds: float = 10.0
    instructions: int = 200_000_000_000  # thread-instructions over all blocks of a case
    scratch_bytes: int = 1 << 30
    stdout_bytes: int = 64 * 1024
    threads: int = 0  # host threads for the emulator; 0: all cores
    device_state_bytes: int = 0  # of device variables that the problem lets kernels write
    schedule: int | None = None  # seed that shuffles the emulator's order of blocks and warps; None: as numbered
    trace: bool = False  # keep single requests, to be drawn: slower, and on one host thread


@dataclass(frozen=True)
class RunResult:
    """What one case's run left behind. `outputs` holds out and inout tensors even after a finding,
    as far as they were written."""

    outputs: dict[str, np.ndarray]
    findings: tuple[Finding, ...] = ()
    stdout: str = ""
    seconds: float = 0.0
    unwritten: dict[str, int] = field(default_factory=dict)  # tensor -> elements never written
    launches: tuple[LaunchShape, ...] = ()  # the plan's, by shape
    traffic: CaseTraffic | None = None  # None where nothing was launched, or the device does not count
    trace: CaseTrace | None = None  # None unless the limits ask for it and the device can


class Device(Protocol):
    """Where kernels run."""

    name: str

    def run(self, program: Program, arguments: list[Argument], limits: RunLimits, seed: int) -> RunResult:
        """Plan solve() for these arguments and replay the plan. The submission's faults come back as findings;
        raises SubmissionError only for what stops every case alike, JudgeError for our own faults."""
        ...
