"""What a case's warps did, as a page shows it: bars of its traffic, and drawings of its trace where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.report import access_picture, bank_picture, block_picture, traffic_bars
from harness.results import CaseResult, Report
from harness.traces import CaseTrace, WarpRequest

_MOST_GLOBAL, _MOST_SHARED = 8, 4  # requests that one page draws


@dataclass(frozen=True)
class Picture:
    """A drawing and what it shows, in a sentence."""

    kind: str  # "tensors", "lines", "passes", "request", "banks", "blocks"
    caption: str
    drawing: Markup
    line: int = 0  # of the source; 0 where it is of no single one


def traced(report: Report) -> CaseResult | None:
    """The case that was traced, if any."""
    return next((case for case in report.cases if case.trace is not None), None)


def of_case(case: CaseResult, prefix: str = "warps") -> list[Picture]:
    """All drawings of a case that a page has room for. `prefix` makes their names unique in the page."""
    found = list(_of_traffic(case, prefix))
    if case.trace is not None:
        requests = worth_drawing(case.trace)
        found += [of_request(r, f"{prefix}-request-{k}") for k, r in enumerate(requests)]
        found += [
            Picture("blocks", block_picture.caption(m), block_picture.draw(m, f"{prefix}-map-{k}"))
            for k, m in enumerate(case.trace.maps)
        ]
    return found


def of_request(r: WarpRequest, name: str) -> Picture:
    """One request, in the memory that it goes to."""
    kind, picture = ("banks", bank_picture) if r.space == "shared" else ("request", access_picture)
    return Picture(kind, picture.caption(r), picture.draw(r, name), r.line)


def worth_drawing(trace: CaseTrace) -> list[WarpRequest]:
    """Of each line the costliest request; the lines that waste most first. Requests of shared memory without conflicts
    look all alike: one of them is enough."""
    by_line: dict[tuple[object, ...], WarpRequest] = {}
    for r in trace.requests:
        by_line[r.kernel, r.file, r.line, r.space, r.tensor, r.operation, r.lane_bytes] = r
    order = sorted(by_line.values(), key=lambda r: (r.ideal_units - r.units, -r.units))
    shared = [r for r in order if r.space == "shared"]
    conflicts = [r for r in shared if r.units > r.ideal_units] or shared[:1]
    return [r for r in order if r.space == "global"][:_MOST_GLOBAL] + conflicts[:_MOST_SHARED]


def _of_traffic(case: CaseResult, prefix: str) -> Iterator[Picture]:
    if case.traffic is None:
        return
    groups: list[tuple[str, Sequence[traffic_bars.Bar], str, str]] = [
        ("tensors", traffic_bars.tensor_bars(case.traffic), "Bytes moved of each tensor", "bytes"),
        ("lines", traffic_bars.line_bars(case.traffic), "Sectors a request, by line", "sectors a request"),
        ("passes", traffic_bars.shared_bars(case.traffic), "Passes a request of shared memory, by line",
         "passes a request"),
    ]  # fmt: skip
    for kind, bars, title, what in groups:
        wasteful = any(bar.amount > bar.ideal for bar in bars)
        if bars and (wasteful or kind != "passes"):  # all alike where there are no bank conflicts
            drawing = traffic_bars.draw(bars, f"{prefix}-{kind}", title, what)
            yield Picture(kind, f"{title}. {traffic_bars.caption(bars, what)}", drawing)
