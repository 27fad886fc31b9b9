"""A request of a warp in words: who asks for what at which line, and what that costs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from harness.report.excerpt import printable
from harness.traces import BANK_BYTES, BANKS, LANES, WarpRequest

_VERBS = {"read": "reads", "write": "writes", "atomic": "updates", "copy": "copies"}
_TURNS = {"read": "give", "write": "take", "atomic": "update", "copy": "take"}  # what a bank does with a word


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
    return f"{_moved(r)}{_partial(r)}{_crowded(r)}"


def _moved(r: WarpRequest) -> str:
    moved = f"{plural(r.units, 'sector')} for {plural(r.asked_bytes, 'byte')}"
    step = stride(r)
    if step == 0 and r.operation != "atomic":
        who, do = "all" if r.lanes == LANES else "these", "write" if r.operation == "write" else "want"
        return f"{moved}: {who} lanes {do} the same {plural(r.lane_bytes, 'byte')}, which are moved once."
    if r.units == r.ideal_units:
        return f"{moved}: {'coalesced' if r.asked_bytes > r.lane_bytes else 'the fewest'}."
    wasted = f"{r.ideal_units} would do."
    if step is not None and abs(step) == r.lane_bytes:
        return f"{moved}: the lanes lie side by side, but the first byte is no multiple of 32. {wasted}"
    if r.units == r.lanes:
        apart = f"; stride {abs(step)} B" if step else ""
        return f"{moved}: each lane moves a sector of its own{apart}. {wasted}"
    apart = f"stride {abs(step)} B" if step else "the lanes' bytes are scattered"
    return f"{moved}: {apart}. {wasted}"


def _partial(r: WarpRequest) -> str:
    """That only some lanes take part."""
    take = "takes" if r.lanes == 1 else "take"
    return "" if r.lanes == LANES else f" {r.lanes} of 32 lanes {take} part."


def _crowded(r: WarpRequest) -> str:
    """That lanes wait for each other to update the same place, which neither sectors nor passes tell."""
    most = max(Counter(offset for offset in r.offsets if offset is not None).values())
    if r.operation != "atomic" or most == 1:
        return ""
    who = "All lanes" if most == LANES else f"These {most} lanes" if most == r.lanes else f"Up to {most} lanes"
    return f" {who} update the same place, one after the other."


def _in_shared(r: WarpRequest) -> str:
    took = plural(r.units, "pass")
    if r.units > r.ideal_units:
        return f"{took} instead of {r.ideal_units}: {_conflict(r)}.{_partial(r)}{_crowded(r)}"
    same = len({o for o in r.offsets if o is not None}) == 1 and r.lanes > 1
    once = same and r.operation == "read"
    how = "all lanes want the same word, which is given to all at once" if once else "no bank conflict"
    return f"{took}: {how}.{_partial(r)}{_crowded(r)}"


def _conflict(r: WarpRequest) -> str:
    banks, degree = busiest(r), max(r.passes)
    named = ", ".join(map(str, banks[:4])) + (", ..." if len(banks) > 4 else "")
    which = f"bank {named} has" if len(banks) == 1 else f"banks {named} have"
    article = "an" if degree in (8, 11, 18) else "a"
    return f"{article} {degree}-way bank conflict; {which} {degree} different words to {_TURNS[r.operation]}"


def busiest(r: WarpRequest) -> list[int]:
    """The banks that decide how many passes a request of shared memory takes."""
    size = max(r.lane_bytes, BANK_BYTES)
    found: set[int] = set()
    for group in r.groups:
        units = {(r.start + o) // size for lane in group if (o := r.offsets[lane]) is not None}
        load = Counter(unit * size // BANK_BYTES % BANKS for unit in units)
        found |= {bank for bank, count in load.items() if count == max(r.passes)}
    return sorted(found)
