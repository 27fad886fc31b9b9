"""Which case of a judging is worth a trace: one is enough to draw what a kernel's warps did."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from harness.results import CaseResult
from harness.verdict import Verdict

_BY_FAR = 16  # times the traffic of the median case: larger ones take long and show nothing new
_NOT_AGAIN = frozenset({Verdict.TIME_LIMIT, Verdict.MEMORY_LIMIT, Verdict.UNSUPPORTED, Verdict.JUDGE_ERROR})


def representative(cases: Sequence[CaseResult]) -> int | None:
    """Number of the first case that is not accepted, or else of the one with the most traffic that is not the largest
    by far. None where there is none that ran in the emulator, to an end of its own."""
    ran = [
        number
        for number, case in enumerate(cases)
        if case.traffic is not None and case.traffic.sector_bytes and case.verdict not in _NOT_AGAIN
    ]
    if not ran:
        return None
    wrong = [number for number in ran if cases[number].verdict is not Verdict.ACCEPTED]
    if wrong:
        return wrong[0]
    usual = statistics.median(_moved(cases[number]) for number in ran)
    return max((n for n in ran if _moved(cases[n]) <= _BY_FAR * usual), key=lambda n: _moved(cases[n]))


def _moved(case: CaseResult) -> int:
    return case.traffic.sector_bytes if case.traffic else 0
