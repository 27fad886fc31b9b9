"""What other blocks can see of a kernel: whether it talks to them, and how small the pieces are that it writes.

A kernel that communicates (atomics, fences beyond the block, volatile and acquire/release accesses, all on memory that
blocks share) runs in a fixed order on one host thread; the blocks of all others may run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.emulator.ptx import SIZES, Function, Ins, Reg

ORDERED = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_BEYOND_THE_BLOCK = frozenset({"gl", "gpu", "sys", "cluster"})
_OWN_SPACES = frozenset({"shared", "local", "param", "const", "slot"})
_UNIT = 4  # bytes; the most that one entry of the shadow stands for


def communicates(f: Function) -> bool:
    """Whether blocks of f can wait for each other, or see the order in which others run."""
    return any(_reaches_others(i) for i in _instructions(f))


def unit(f: Function) -> int:
    """Bytes of the smallest piece of global memory that f writes at once: 1, 2 or 4. Two blocks that write to different
    pieces do not conflict."""
    stores = (i for i in _instructions(f) if i.base in ("st", "atom", "red") and _shared_by_blocks(i))
    return min([_UNIT, *(SIZES[i.mods[-1]] for i in stores if i.mods[-1] in SIZES)])


def reads_clock(f: Function) -> bool:
    """Whether f may wait for nothing but time to go by."""
    names = {a.name for i in _instructions(f) for a in i.args if isinstance(a, Reg)}
    return any(name.startswith(("%clock", "%globaltimer")) for name in names)


def is_strong(i: Ins) -> bool:
    """Whether an access to global memory may meet others of its kind without a race: scopes beyond the block."""
    mods = set(i.mods)
    return i.base in ("atom", "red") or (bool(ORDERED & mods) and "cta" not in mods)


def is_fence(i: Ins) -> bool:
    """Whether an instruction orders memory accesses for other blocks."""
    return (
        i.base in ("membar", "fence")
        and bool(_BEYOND_THE_BLOCK & set(i.mods))
        and not any(m.startswith(("proxy", "mbarrier_init")) for m in i.mods)
    )


def _reaches_others(i: Ins) -> bool:
    if is_fence(i):
        return True
    return i.base in ("ld", "st", "atom", "red") and _shared_by_blocks(i) and is_strong(i)


def _shared_by_blocks(i: Ins) -> bool:
    return not any(m.split("::")[0] in _OWN_SPACES for m in i.mods)


def _instructions(f: Function) -> Iterable[Ins]:
    return (i for i in f.body if isinstance(i, Ins))
