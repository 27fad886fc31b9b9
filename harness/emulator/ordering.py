"""What acquire, release and fences mean for other blocks, and how a warp waits for them."""

from __future__ import annotations

from harness.emulator.access import blocks
from harness.emulator.emitter import Emitter
from harness.emulator.ptx import Ins
from harness.emulator.sharing import is_fence, is_strong

_RELEASES, _ACQUIRES = {"release", "acq_rel"}, {"acquire", "acq_rel"}
_POLLS = 16  # reads of a flag, or attempts at a lock, before a warp gives way


def before(lo: Emitter, i: Ins) -> None:
    """In front of an access: what its .release means."""
    if lo.communicates and _RELEASES & set(i.mods) and "cta" not in i.mods:
        _fence(lo, acquire=False, release=True)


def after(lo: Emitter, i: Ins) -> None:
    """Behind an access: what its .acquire means; and if it may be a poll, let others run now and then."""
    if lo.communicates and _ACQUIRES & set(i.mods) and "cta" not in i.mods:
        _fence(lo, acquire=True, release=False)
    if lo.communicates and is_strong(i) and (i.base == "ld" or {"cas", "exch"} & set(i.mods)):
        lo.rest(_POLLS)


def fence(lo: Emitter, i: Ins) -> None:
    """A fence, where it reaches beyond the block."""
    if lo.communicates and is_fence(i):
        _fence(lo, acquire=True, release=True)


def _fence(lo: Emitter, acquire: bool, release: bool) -> None:
    lo.emit(f"call void @{blocks.fence(lo, acquire, release)}(ptr %ctx)")
