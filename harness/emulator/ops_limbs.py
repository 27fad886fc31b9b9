"""Integers in pieces: carry chains over several words (add.cc, addc, madc, ...) and dot products of bytes (dp4a, dp2a).

The carry flag is a predicate register of its own, %CC: the parser adds it to the operands of the instructions that
write (.cc) or read it (addc, subc, madc), so that it is renamed, merged and kept like any other register.
"""

from __future__ import annotations

from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import Ins, Pair
from harness.emulator.types import BITS, LL_TYPES


def with_carry(lo: Emitter, i: Ins, kind: str, x: str, y: str) -> None:
    """d = x + y + carry, or x - y - borrow, computed in double width; defines the carry where one is asked for."""
    wide = f"i{2 * BITS[kind]}"
    t, tw = lo.T(kind), lo.T(wide)
    op = "sub" if i.base.startswith("sub") else "add"
    x, y = (lo.let(f"zext {t} {v} to {tw}") for v in (x, y))
    total = lo.let(f"{op} {tw} {x}, {y}")
    if i.base.endswith("c"):
        carry = lo.let(f"zext {lo.T('i1')} {lo.get(i.args[-1], 'i1')} to {tw}")
        total = lo.let(f"{op} {tw} {total}, {carry}")
    result = lo.let(f"trunc {tw} {total} to {t}")
    if not isinstance(i.args[0], Pair):
        lo.put(i.args[0], result, kind)
        return
    above = lo.let(f"lshr {tw} {total}, {lo.constant(BITS[kind], wide)}")
    lo.put(i.args[0].first, result, kind)
    lo.put(i.args[0].second, lo.let(f"trunc {tw} {above} to {lo.T('i1')}"), "i1")


@handles("addc", "subc")
def add_sub_carry(lo: Emitter, i: Ins) -> None:
    kind = LL_TYPES[i.mods[-1]]
    with_carry(lo, i, kind, lo.get(i.args[1], kind), lo.get(i.args[2], kind))


@handles("dp4a", "dp2a")
def dot_product(lo: Emitter, i: Ins) -> None:
    """c + the sum of products of corresponding parts: bytes with bytes, or halves of a with two bytes of b."""
    types = i.mods[-2:]
    if not {"s32", "u32"}.issuperset(types):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    a, b, total = (lo.get(o, "i32") for o in i.args[1:4])
    count, width = (4, 8) if i.base == "dp4a" else (2, 16)
    start = 16 if "hi" in i.mods else 0
    for k in range(count):
        x = _part(lo, a, width * k, width, types[0])
        y = _part(lo, b, start + 8 * k, 8, types[1])
        total = lo.let(f"add {lo.T('i32')} {total}, {lo.let(f'mul {lo.T(_I32)} {x}, {y}')}")
    lo.put(i.args[0], total, "i32")


_I32 = "i32"


def _part(lo: Emitter, value: str, start: int, width: int, kind: str) -> str:
    """Bits start .. start + width of a word, extended by its sign or by zeros."""
    top = lo.let(f"shl {lo.T(_I32)} {value}, {lo.constant(32 - start - width, _I32)}")
    return lo.let(f"{'ashr' if kind[0] == 's' else 'lshr'} {lo.T(_I32)} {top}, {lo.constant(32 - width, _I32)}")
