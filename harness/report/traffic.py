"""Traffic for a person at a terminal: a few lines for the case that moved most, or tables of every launch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from harness.report import figures
from harness.report.excerpt import printable
from harness.results import CaseResult
from harness.traffic import (
    SECTOR_BYTES,
    AccessTraffic,
    CaseTraffic,
    LaunchTraffic,
    LineTraffic,
    LocalTraffic,
    SharedTraffic,
    TensorTraffic,
)

_HEADING = "bold"
_SHOWN_TENSORS = 4  # in the short form; less than a hundredth of the traffic is not shown either
_SHOWN_LINES = 8  # of each table in the long form
_NOTE = "modelled from the PTX, before any cache; a sector is 32 bytes"
_FLOP_NAMES = {"fma": "fused multiply-adds", "add_mul": "adds and multiplies", "special": "special functions",
               "tensor": "tensor cores"}  # fmt: skip


def busiest(cases: Sequence[CaseResult]) -> tuple[CaseResult, CaseTraffic] | None:
    """The case that moved most bytes; None where none was counted."""
    counted = [(case, case.traffic) for case in cases if case.traffic and case.traffic.sector_bytes]
    return max(counted, key=lambda item: item[1].sector_bytes, default=None)


def summary(cases: Sequence[CaseResult]) -> Iterator[RenderableType]:
    """The case that moved most bytes, in some five lines; nothing where no case was counted."""
    if not (found := busiest(cases)):
        return
    case, traffic = found
    head = Text("\n")
    head.append("traffic", style=_HEADING)
    head.append(f"  of {printable(case.name)}, {_NOTE}")
    yield head
    yield from _tensors(traffic.tensors, _SHOWN_TENSORS)
    if wasted := _worst_line(traffic):
        yield Text(f"  {wasted}", overflow="fold")
    shared = _conflicts(x for launch in traffic.launches for x in launch.shared)
    if shared:
        yield Text(f"  shared memory: {shared}", overflow="fold")
    if score := _score(traffic):
        yield Text(f"  {score}", overflow="fold")
    if not traffic.complete:
        yield Text("  up to where the run ended")


def details(cases: Iterable[CaseResult]) -> Iterator[RenderableType]:
    """Every launch of every case, with the lines that cost most."""
    for case in cases:
        if case.traffic is None:
            continue
        head = Text("\n")
        head.append(f"traffic of {printable(case.name)}", style=_HEADING)
        head.append(f"  {_NOTE}")
        yield head
        if score := _score(case.traffic):
            yield Text(f"  {score}", overflow="fold")
        for launch in case.traffic.launches:
            yield from _launch(launch)
        if case.traffic.launches_left_out:
            yield Text(f"  {case.traffic.launches_left_out} more launches")


def _launch(launch: LaunchTraffic) -> Iterator[RenderableType]:
    grid, block = ("x".join(map(str, extent)) for extent in (launch.grid, launch.block))
    ended = "" if launch.complete else ", up to where the run ended"
    head = Text("  ")
    head.append(printable(launch.kernel), style=_HEADING)
    head.append(f"<<<{grid}, {block}>>>  {launch.blocks:,} blocks, {launch.warps:,} warps{ended}")
    yield head
    yield from _tensors(launch.tensors, len(launch.tensors))
    total = sum(launch.warp_instructions.values())
    if total:
        classes = sorted(launch.warp_instructions.items(), key=lambda item: -item[1])
        parts = ", ".join(f"{name} {_percent(amount, total)}" for name, amount in classes)
        yield Text(f"  {_count(total)} warp-instructions: {parts}", overflow="fold")
    flops = ", ".join(f"{_count(launch.flops[k])} in {_FLOP_NAMES[k]}" for k in _FLOP_NAMES if launch.flops.get(k))
    if flops:
        yield Text(f"  floating-point operations: {flops}", overflow="fold")
    yield from _line_tables(launch)


def _line_tables(launch: LaunchTraffic) -> Iterator[RenderableType]:
    """The lines that cost most in each kind of memory."""
    lines = [
        (_place(x), x.kind, printable(x.tensor), _count(x.requests), _each(x.sectors, x.requests),
         _each(x.ideal_sectors, x.requests))
        for x in launch.lines[:_SHOWN_LINES]
    ]  # fmt: skip
    shared = [
        (_place(x), x.kind, _count(x.requests), _each(x.passes, x.requests), _each(x.ideal_passes, x.requests))
        for x in launch.shared[:_SHOWN_LINES]
    ]
    local = [(_place(x), x.kind, _count(x.requests)) for x in launch.local[:_SHOWN_LINES]]
    if lines:
        titles = ("global memory", "", "", "requests", "sectors each", "ideal")
        yield from _aligned([titles, *lines], right=(3, 4, 5))
    if shared:
        yield from _aligned([("shared memory", "", "requests", "passes each", "ideal"), *shared], right=(2, 3, 4))
    if local:
        yield from _aligned([("local memory", "", "requests"), *local], right=(2,))


def _place(x: LineTraffic | SharedTraffic | LocalTraffic) -> str:
    """Where a line is: `my.cu:12`."""
    return printable(f"{x.file}:{x.line}" if x.line else x.file)


def _tensors(tensors: Sequence[TensorTraffic], most: int) -> Iterator[Text]:
    """Name, direction, bytes and what they mean, for the buffers that count."""
    moved = sum(t.sectors for t in tensors)
    shown = [t for t in tensors[:most] if most == len(tensors) or 100 * t.sectors >= moved]
    rows = [
        (printable(t.tensor), how, *_figures(access))
        for t in shown
        for how, access in (("read", t.read), ("written", t.write))
        if access.requests
    ]
    if rows:
        yield from _aligned(rows, right=(2, 3))
    rest = tensors[len(shown) :]
    if rest:
        names = ", ".join(printable(t.tensor) for t in rest) if len(rest) <= _SHOWN_TENSORS else f"{len(rest)} others"
        yield Text(f"  and {_bytes(SECTOR_BYTES * sum(t.sectors for t in rest))} of {names}", overflow="fold")


def _worst_line(traffic: CaseTraffic) -> str:
    """The line that moves most beyond the ideal, where that is worth a word."""
    lines = [x for launch in traffic.launches for x in launch.lines]
    worst = max(lines, key=lambda x: x.sectors - x.ideal_sectors, default=None)
    if worst is None or 100 * (worst.sectors - worst.ideal_sectors) < sum(t.sectors for t in traffic.tensors):
        return ""
    verb = {"read": "reads", "write": "writes", "atomic": "updates"}[worst.kind]
    each, ideal = _each(worst.sectors, worst.requests), _each(worst.ideal_sectors, worst.requests)
    return f"least coalesced: {_place(worst)} {verb} {printable(worst.tensor)} in {each} sectors/request, not {ideal}"


def _figures(a: AccessTraffic) -> tuple[str, str, str]:
    times = f"{_bytes(a.bytes)} for {_bytes(a.distinct_bytes)}"
    sectors = f"{_one(a.sectors_per_request)} sectors/request (ideal {_one(a.ideal_sectors_per_request)})"
    return times, f"{a.amplification:.1f}x", sectors + (", atomic" if a.atomics == a.requests else "")


def _conflicts(lines: Iterable[SharedTraffic]) -> str:
    """The bank conflicts of all lines, and the worst of them; "" where shared memory is not used."""
    used = list(lines)
    requests, passes, ideal = (sum(getattr(x, n) for x in used) for n in ("requests", "passes", "ideal_passes"))
    if not requests:
        return ""
    if passes == ideal:
        return "no bank conflicts"
    worst = max(used, key=lambda x: x.passes - x.ideal_passes)
    each, least = _each(worst.passes, worst.requests), _each(worst.ideal_passes, worst.requests)
    share = f"{_percent(passes - ideal, passes)} of its passes are bank conflicts"
    return f"{share}, most at {_place(worst)}: {each} passes/{worst.kind}, not {least}"


def _score(traffic: CaseTraffic) -> str:
    if traffic.score_modelled is None:
        return ""
    moved, fewest = _bytes(traffic.sector_bytes), _bytes(traffic.fewest_bytes)
    return f"traffic score (modelled) {traffic.score_modelled:.1f} of 100: {moved} moved, {fewest} would do"


def _aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> Iterator[Text]:
    """Rows in columns two blanks apart, indented; the columns of `right` end together, the others start together."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            " " * (width - cell_len(cell)) + cell if n in right else cell + " " * (width - cell_len(cell))
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield Text("  " + "  ".join(cells).rstrip(), overflow="fold")


def _each(amount: int, requests: int) -> str:
    return _one(amount / requests) if requests else "-"


def _one(value: float) -> str:
    """4 for whole numbers, 4.3 for others."""
    return f"{value:.0f}" if abs(value - round(value)) < 0.005 else f"{value:.1f}"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 1 or not part else "< 1 %"


def _bytes(amount: int) -> str:
    return f"{figures.scaled(amount)}B"


def _count(amount: int) -> str:
    return figures.scaled(amount).rstrip()
