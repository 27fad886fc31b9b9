"""A request of a warp in words: who asks for what at which line, and what that costs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from harness.report.excerpt import printable
from harness.traces import BANK_BYTES, BANKS, WarpRequest

_VERBS = {"read": "reads", "write": "writes", "atomic": "updates", "copy": "copies"}


def place(r: WarpRequest) -> str:
    """`my.cu:61 reads k_cache`"""
    where = f"{r.file}:{r.line}" if r.line else r.file
    what = r.tensor or ("shared memory" if r.space == "shared" else "memory")
    into = "copies into" if r.operation == "copy" and r.space == "shared" else _VERBS[r.operation]
    return printable(f"{where} {into} {what}")


def who(r: WarpRequest) -> str:
    """`block (0, 1, 0), warp 2, 4 bytes a lane`"""
    return f"block {r.block}, warp {r.warp}, {plural(r.lane_bytes, 'byte')} a lane"


def cost(r: WarpRequest) -> str:
    """What the request costs and why, in one sentence."""
    return _in_shared(r) if r.space == "shared" else _in_global(r)


def plural(count: int, noun: str) -> str:
    """1 sector, 4 sectors, 2 passes."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def stride(r: WarpRequest) -> int | None:
    """Bytes from each lane that takes part to the next one that does; None where that varies."""
    taking = [offset for offset in r.offsets if offset is not None]
    steps = {b - a for a, b in pairwise(taking)}
    return steps.pop() if len(steps) == 1 else None


def _in_global(r: WarpRequest) -> str:
    moved = f"{plural(r.units, 'sector')} for {plural(r.asked_bytes, 'byte')}"
    step = stride(r)
    if step == 0:
        return f"{moved}: all lanes want the same {plural(r.lane_bytes, 'byte')}, which are moved once."
    take = "takes" if r.lanes == 1 else "take"
    few = "" if r.lanes == len(r.offsets) else f" {r.lanes} of 32 lanes {take} part."
    if r.units == r.ideal_units:
        return f"{moved}: coalesced.{few}"
    wasted = f"{r.ideal_units} would do."
    if step is not None and abs(step) == r.lane_bytes:
        return f"{moved}: the lanes lie side by side, but the first byte is no multiple of 32. {wasted}{few}"
    if r.units == r.lanes:
        apart = f"; stride {abs(step)} B" if step else ""
        return f"{moved}: each lane moves a sector of its own{apart}. {wasted}{few}"
    apart = f"stride {abs(step)} B" if step else "the lanes' bytes are scattered"
    return f"{moved}: {apart}. {wasted}{few}"


def _in_shared(r: WarpRequest) -> str:
    took = plural(r.units, "pass")
    if r.units == r.ideal_units:
        same = len({o for o in r.offsets if o is not None}) == 1 and r.lanes > 1
        how = "all lanes want the same word, which is given to all at once" if same else "no bank conflict"
        return f"{took}: {how}."
    banks = busiest(r)
    named = ", ".join(map(str, banks[:4])) + (", ..." if len(banks) > 4 else "")
    which = f"bank {named} has" if len(banks) == 1 else f"banks {named} have"
    degree = max(r.passes)
    conflict = f"a {degree}-way bank conflict; {which} {degree} different words to give"
    return f"{took} instead of {r.ideal_units}: {conflict}."


def busiest(r: WarpRequest) -> list[int]:
    """The banks that decide how many passes a request of shared memory takes."""
    size = max(r.lane_bytes, BANK_BYTES)
    found: set[int] = set()
    for group in r.groups:
        units = {(r.start + o) // size for lane in group if (o := r.offsets[lane]) is not None}
        load = Counter(unit * size // BANK_BYTES % BANKS for unit in units)
        found |= {bank for bank, count in load.items() if count == max(r.passes)}
    return sorted(found)
