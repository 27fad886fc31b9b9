"""Judging as a stream of named steps; the terminal, the JSON report and later front ends all read this one stream."""

from __future__ import annotations

from dataclasses import dataclass

from harness.results import CaseResult, CompileResult, Report


@dataclass(frozen=True)
class Compiling:
    """The submission is on its way to the compiler."""

    problem: str
    submission: str
    seed: int


@dataclass(frozen=True)
class Compiled:
    """The compiler is done, well or not."""

    result: CompileResult


@dataclass(frozen=True)
class DeviceReady:
    """Cases will run here; `name` is for people ("emulator (H100)")."""

    kind: str
    name: str


@dataclass(frozen=True)
class CaseStarted:
    """A case goes to the device. `number` counts from 1; `total` is 0 while it is not known."""

    name: str
    number: int
    total: int


@dataclass(frozen=True)
class CaseFinished:
    """A case was run and compared."""

    result: CaseResult
    number: int
    total: int


@dataclass(frozen=True)
class Calibrating:
    """The tests are accepted; the card's ceilings are measured, or found in the cache."""


@dataclass(frozen=True)
class BenchmarkStarted:
    """A benchmark case is built and goes to the card. `number` counts from 1."""

    name: str
    number: int
    total: int


@dataclass(frozen=True)
class BenchmarkFinished:
    """A benchmark case was timed and every timed output compared."""

    result: CaseResult
    number: int
    total: int


@dataclass(frozen=True)
class CountingResources:
    """All cases are judged; the optimised compilation that shows registers and spills has begun."""


@dataclass(frozen=True)
class Finished:
    """The last event of every stream."""

    report: Report


Event = (
    Compiling | Compiled | DeviceReady | CaseStarted | CaseFinished | Calibrating | BenchmarkStarted | BenchmarkFinished
    | CountingResources | Finished
)  # fmt: skip
