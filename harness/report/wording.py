"""What the terminal and the page say in the same words of cases and findings: how wrong an output is, who did it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from harness.report import figures
from harness.results import Access, CaseResult, Finding, Report
from harness.verdict import FindingKind

_USUAL = ("float32", "base")


def track(report: Report) -> str:
    """The dtype, and the variant unless it is the default one, "bfloat16, lse"; "" for float32 in its default form."""
    if (report.dtype, report.variant or _USUAL[1]) == _USUAL:
        return ""
    return ", ".join(filter(None, (report.dtype, "" if report.variant == _USUAL[1] else report.variant)))


def error(case: CaseResult) -> str:
    """How near the worst of the outputs came to its limit: 1 is the limit itself."""
    unwritten = [finding.tensor for finding in case.findings if finding.kind is FindingKind.UNWRITTEN_OUTPUT]
    if unwritten:
        return f"{', '.join(unwritten)} unwritten"
    if not case.errors:
        return figures.NOTHING
    worst = max(case.errors, key=lambda e: (e.nan_count > 0, e.ratio if e.ratio == e.ratio else math.inf))
    if worst.nan_count:
        return f"{worst.nan_count} NaN or Inf in {worst.tensor}"
    return _ratio(worst.ratio)


def _ratio(ratio: float) -> str:
    if ratio < 0.001:
        return "< 0.001" if ratio else "0"
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.3g}"


def who(finding: Finding) -> Iterator[str]:
    """Kernel, element, block and thread in one line, then the callers that it was inlined into."""
    parts = []
    if finding.kernel:
        parts.append(f"kernel {finding.kernel}")
    element = f"{finding.tensor}[{', '.join(map(str, finding.index))}]"
    if finding.tensor and finding.index and element not in finding.message:
        parts.append(element)
    parts += _thread(finding.block, finding.thread)
    if parts:
        yield ", ".join(parts)
    for caller in finding.call_stack:
        yield f"called from {caller}"


def other(access: Access) -> str:
    """What the other side of a finding did: "the other access is a write by block (0, 0, 0), thread (2, 0, 0)"."""
    where = ", ".join(_thread(access.block, access.thread)) or "another thread"
    what = "missing is" if access.missing else f"the other access is a {'write' if access.write else 'read'} by"
    return f"{what} {where}"


def _thread(block: tuple[int, int, int] | None, thread: tuple[int, int, int] | None) -> list[str]:
    parts = []
    if block is not None:
        parts.append(f"block ({', '.join(map(str, block))})")
    if thread is not None:
        parts.append(f"thread ({', '.join(map(str, thread))})")
    return parts


def names(cases: tuple[str, ...]) -> str:
    """Of the cases that a finding was seen in, the first three."""
    if len(cases) <= 3:
        return ", ".join(cases)
    return f"{len(cases)} cases: {', '.join(cases[:3])}, ..."
