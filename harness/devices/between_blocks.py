"""What goes wrong between blocks -> findings: races on global memory, blocks that wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.devices.places import LaunchPlaces, Spot, ranges
from harness.emulator import layout as L
from harness.emulator.launch import Outcome
from harness.emulator.layout import Hazard
from harness.emulator.ptx import Ins
from harness.emulator.resident import Waiting
from harness.emulator.sharing import is_strong
from harness.results import Access, Finding
from harness.verdict import FindingKind as K

_SHOWN = 3  # blocks whose warps are listed
_At = Callable[[LaunchPlaces, Ins | None, int, int, int], Finding]
_Line = Callable[[LaunchPlaces, int], int]


def race(
    p: LaunchPlaces, h: Hazard, instructions: tuple[Ins | None, Ins | None], base: Finding, spot: Spot, line: int
) -> Finding:
    """A conflict with another block. `base` names the access that was seen second, `instructions` both; `line` is the
    other one's."""
    mine, theirs = instructions
    x, y, z = p.launch.grid
    write = h.kind == L.H_BLOCK_WRITE
    block = p.block(h.tag) if h.tag < x * y * z else None
    thread = p.thread(h.other >> 5 & 31, h.other & 31) if block else None
    other = Access(line, block, thread, write, base.file)
    doing = "updates" if _atomic(mine) else "writes" if mine is not None and mine.base == "st" else "reads"
    did = "updated" if _atomic(theirs) else "wrote" if write else "read"
    message = (
        f"Race on {spot.text} between blocks: thread {base.thread} of block {base.block} {doing} it here while "
        f"{f'thread {thread} of block {block}' if block else 'other blocks'} {did} it at line {line}, in the same "
        f"launch and with nothing to order the two{_advice(mine, theirs, line == base.line)}"
    )
    return replace(base, kind=K.DATA_RACE, tensor=spot.tensor, index=spot.index, other=other, message=message)


def _atomic(i: Ins | None) -> bool:
    return i is not None and i.base in ("atom", "red")


def _advice(mine: Ins | None, theirs: Ins | None, same_line: bool) -> str:
    """What would order them. Where one of the two is strong, they are meant to communicate."""
    strong = [i is not None and is_strong(i) for i in (mine, theirs)]
    if any(strong):
        return ": both must be atomic or volatile."
    stores = [i is not None and i.base == "st" for i in (mine, theirs)]
    if all(stores) or (same_line and any(stores)):
        return ": give each block elements of its own, or add up with atomicAdd()."
    return (
        ". Blocks run in any order: read in a later launch, or let the writer execute __threadfence() and then an "
        "atomic or a volatile store, and the reader see that and execute __threadfence()."
    )


def given_up(p: LaunchPlaces, outcome: Outcome, at: _At, line_of: _Line) -> Finding:
    """A launch whose blocks wait for each other, or did until time or budget ran out."""
    assert outcome.fault is not None
    first = outcome.waiting[0]
    base = replace(at(p, _instruction(p, first.insn), first.block, first.warp, 0), thread=None)
    where = _where(p, outcome, line_of)
    kind = outcome.fault.fault_kind
    if kind == L.F_BLOCKS_WAIT and not outcome.short_of_memory:
        return replace(base, kind=K.DEADLOCK, message=f"Deadlock: no block of {p.name} can go on: {where}.")
    if kind == L.F_BLOCKS_WAIT:
        message = (f"The blocks of {p.name} wait for some that the emulator has no memory for; a card holds more of "
                   f"them at once: {where}.")  # fmt: skip
        return replace(base, kind=K.UNSUPPORTED, message=message)
    cause = "has used up its budget of instructions" if kind == L.F_BUDGET else "did not end within the time limit"
    return replace(base, kind=K.TIME_LIMIT, message=f"{p.name} {cause}: {where}.")


def _instruction(p: LaunchPlaces, number: int) -> Ins | None:
    return p.kernel.instructions[number] if number < len(p.kernel.instructions) else None


def _where(p: LaunchPlaces, outcome: Outcome, line_of: _Line) -> str:
    blocks: dict[int, list[Waiting]] = {}
    for w in outcome.waiting:
        blocks.setdefault(w.block, []).append(w)
    parts = [f"block {p.block(b)}: {_warps(p, warps, line_of)}" for b, warps in list(blocks.items())[:_SHOWN]]
    if len(blocks) > _SHOWN:
        parts.append(f"{len(blocks) - _SHOWN} more blocks")
    if outcome.unstarted:
        parts.append(f"{outcome.unstarted} blocks have not started, since the card holds {len(blocks)} at once")
    return "; ".join(parts)


def _warps(p: LaunchPlaces, waiting: list[Waiting], line_of: _Line) -> str:
    lines: dict[int, list[int]] = {}
    for w in waiting:
        lines.setdefault(line_of(p, w.insn), []).append(w.warp)
    return ", ".join(f"warp{'s' * (len(ws) > 1)} {ranges(ws)} at line {line}" for line, ws in lines.items())
