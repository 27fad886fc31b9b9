"""Registers, spills, shared memory and occupancy of the launched kernels: one line each, and the same for JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.report.excerpt import printable
from harness.results import KernelResources, KernelUse, LaunchShape, LaunchUse, Report

_MAX_KERNELS = 8
_KIB = 1024


def parts(report: Report) -> Iterator[RenderableType]:
    """What the terminal shows, nothing where nothing was launched. Of several launches the one with most blocks."""
    if report.resources_note:
        yield Text(f"\nregisters: {printable(report.resources_note)}", overflow="fold")
    if not report.resources:
        return
    yield Text("")
    table = Table.grid(padding=(0, 1))
    table.add_column(overflow="fold", max_width=40)
    table.add_column(overflow="fold")
    for use in report.resources[:_MAX_KERNELS]:
        table.add_row(Text(f"{printable(use.kernel.readable)}:"), _line(use))
    yield table
    if len(report.resources) > _MAX_KERNELS:
        yield Text(f"{len(report.resources) - _MAX_KERNELS} more kernels; --json PATH writes all of them")


def _line(use: KernelUse) -> Text:
    kernel, launch = use.kernel, use.launches[0]
    line = Text(f"{kernel.registers} registers, ")
    line.append(*_spills(kernel))
    line.append(f", {_shared(kernel.static_shared_bytes + launch.shape.shared_bytes)}; ")
    if not launch.occupancy.blocks:
        lacks = " and ".join(launch.occupancy.limits)
        block = f"a block of {_times(launch.shape.block)} threads"
        return line.append(f"cannot be launched on {use.card}: {block} needs more {lacks} than there are", "bold red")
    line.append(_occupancy(launch))
    several = "largest " if len(use.launches) > 1 else ""
    return line.append(f"; {several}grid {_grid(launch)} = {_waves(launch.waves)} on {use.card}")


def _spills(kernel: KernelResources) -> tuple[str, str]:
    stored, loaded = kernel.spill_store_bytes, kernel.spill_load_bytes
    if stored or loaded:
        return f"spills {stored} bytes out and {loaded} in", "yellow"
    return (f"no spills, {kernel.stack_bytes} bytes of stack" if kernel.stack_bytes else "no spills"), ""


def _occupancy(launch: LaunchUse) -> str:
    held = launch.occupancy
    blocks = f"{held.blocks} block{'s' * (held.blocks != 1)}"
    limited = f", limited by {' and '.join(held.limits)}" if held.fraction < 1 else ""
    return f"{blocks} ({held.warps} warps, {100 * held.fraction:.0f} %) per SM{limited}"


def _grid(launch: LaunchUse) -> str:
    extents = _times(launch.shape.grid)
    count = f"{launch.blocks} block{'s' * (launch.blocks != 1)}"
    return count if extents == str(launch.blocks) else f"{extents} = {count}"


def _times(extents: tuple[int, int, int]) -> str:
    """(17, 32, 1) -> "17x32"."""
    x, y, z = extents
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else str(x)


def _waves(waves: float) -> str:
    return "less than 0.01 waves" if waves < 0.01 else f"{waves:.2f} waves" if waves < 10 else f"{waves:.0f} waves"


def _shared(count: int) -> str:
    amount = f"{count / _KIB:.1f} KiB shared" if count >= _KIB else f"{count} bytes shared"
    return amount if count else "no shared memory"


def as_dict(use: KernelUse) -> dict[str, Any]:
    """A kernel in the JSON report: its resources, then its launches."""
    kernel = dataclasses.asdict(use.kernel)
    mangled, readable = kernel.pop("name"), kernel.pop("readable")
    launches = [_launch(launch) for launch in use.launches]
    return {"kernel": readable, "mangled": mangled, "card": use.card, **kernel, "launches": launches}


def _launch(launch: LaunchUse) -> dict[str, Any]:
    held = launch.occupancy
    return {
        **shape_as_dict(launch.shape), "blocks": launch.blocks, "blocks_per_sm": held.blocks,
        "warps_per_sm": held.warps, "occupancy": held.fraction, "limits": held.limits, "waves": launch.waves,
    }  # fmt: skip


def shape_as_dict(shape: LaunchShape) -> dict[str, Any]:
    """Launches of a kernel in the JSON report. The mangled name is that of the launch, which is another than that of
    the optimised compilation for kernels of anonymous namespaces."""
    return {
        "kernel": shape.kernel, "grid": shape.grid, "block": shape.block, "dynamic_shared_bytes": shape.shared_bytes,
        "count": shape.count,
    }  # fmt: skip
