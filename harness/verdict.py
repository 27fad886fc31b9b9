"""The closed vocabulary of verdicts and findings, and which verdict outranks which."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What the judge says of a submission or of one case."""

    ACCEPTED = "accepted"
    WRONG_ANSWER = "wrong_answer"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    DATA_RACE = "data_race"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    POLICY_VIOLATION = "policy_violation"
    UNSUPPORTED = "unsupported"  # this device lacks something; never a wrong answer
    JUDGE_ERROR = "judge_error"  # our fault; never charged to the user


# Mildest first. A cause outranks its symptom: a race or a bad address stands above the mismatch
# that it led to. The judge's own failure outranks all, since nothing below it can be trusted then.
_RANK = (
    Verdict.ACCEPTED,
    Verdict.WRONG_ANSWER,
    Verdict.OUTPUT_LIMIT,
    Verdict.TIME_LIMIT,
    Verdict.MEMORY_LIMIT,
    Verdict.DATA_RACE,
    Verdict.RUNTIME_ERROR,
    Verdict.POLICY_VIOLATION,
    Verdict.COMPILE_ERROR,
    Verdict.UNSUPPORTED,
    Verdict.JUDGE_ERROR,
)


def severity(verdict: Verdict) -> int:
    """Its place among the verdicts, the mildest first."""
    return _RANK.index(verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that stands for all of them; `accepted` where there are none."""
    return max(verdicts, key=_RANK.index, default=Verdict.ACCEPTED)


class FindingKind(StrEnum):
    """What was seen. Each kind implies one verdict (`verdict_of`)."""

    OUT_OF_BOUNDS = "out_of_bounds"
    MISALIGNED = "misaligned"
    UNINITIALIZED_READ = "uninitialized_read"
    READ_ONLY_WRITE = "read_only_write"
    DEVICE_STATE = "device_state"  # kernels write a device variable, which the next launch could read
    TOO_FAST = "too_fast"  # a time that no honest kernel reaches
    DATA_RACE = "data_race"
    BARRIER_DIVERGENCE = "barrier_divergence"
    INVALID_BARRIER = "invalid_barrier"  # misuse of an mbarrier object
    DEADLOCK = "deadlock"
    INVALID_SHUFFLE = "invalid_shuffle"
    ASYNC_HAZARD = "async_hazard"
    TRAP = "trap"  # trap, assert
    INVALID_LAUNCH = "invalid_launch"  # the CUDA runtime would refuse this <<<>>>
    HOST_ERROR = "host_error"  # solve() itself did what a host program may not
    UNWRITTEN_OUTPUT = "unwritten_output"
    MISMATCH = "mismatch"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    UNSUPPORTED = "unsupported"
    NOTE = "note"  # worth saying, charges nothing


_VERDICT_OF = {
    FindingKind.READ_ONLY_WRITE: Verdict.POLICY_VIOLATION,
    FindingKind.DEVICE_STATE: Verdict.POLICY_VIOLATION,
    FindingKind.TOO_FAST: Verdict.POLICY_VIOLATION,
    FindingKind.DATA_RACE: Verdict.DATA_RACE,
    FindingKind.ASYNC_HAZARD: Verdict.DATA_RACE,
    FindingKind.UNWRITTEN_OUTPUT: Verdict.WRONG_ANSWER,
    FindingKind.MISMATCH: Verdict.WRONG_ANSWER,
    FindingKind.TIME_LIMIT: Verdict.TIME_LIMIT,
    FindingKind.MEMORY_LIMIT: Verdict.MEMORY_LIMIT,
    FindingKind.OUTPUT_LIMIT: Verdict.OUTPUT_LIMIT,
    FindingKind.UNSUPPORTED: Verdict.UNSUPPORTED,
    FindingKind.NOTE: Verdict.ACCEPTED,
}


def verdict_of(kind: FindingKind) -> Verdict:
    """The verdict that one finding of this kind leads to."""
    return _VERDICT_OF.get(kind, Verdict.RUNTIME_ERROR)
