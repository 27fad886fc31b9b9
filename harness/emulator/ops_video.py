"""The video instructions: an operation on a word, on its two halves or on its four bytes (vadd, vadd2, vadd4, ...).

PTX ISA, "Scalar Video Instructions" and "SIMD Video Instructions": parts are extended by their type, operated on
without overflow, saturated if asked for, and then put together, or summed up where .add asks for that. Selectors and
masks of parts (.b0, .h10) are not known: nothing but hand-written PTX has them.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import Ins

Operation = Callable[[Emitter, str, str], str]
_WIDE = "i64"  # holds any result of two parts


def _binary(op: str) -> Operation:
    return lambda lo, x, y: lo.let(f"{op} {lo.T(_WIDE)} {x}, {y}")


def _average(lo: Emitter, x: str, y: str) -> str:
    """Halves are rounded away from zero's left: half a unit is added to sums that are not negative."""
    total = _binary("add")(lo, x, y)
    positive = lo.let(f"icmp sge {lo.T(_WIDE)} {total}, {lo.constant(0, _WIDE)}")
    total = _binary("add")(lo, total, lo.let(f"zext {lo.T('i1')} {positive} to {lo.T(_WIDE)}"))
    return _binary("ashr")(lo, total, lo.constant(1, _WIDE))


_OPERATIONS: dict[str, Operation] = {
    "vadd": _binary("add"),
    "vsub": _binary("sub"),
    "vmin": lambda lo, x, y: lo.call("smin", _WIDE, x, y),
    "vmax": lambda lo, x, y: lo.call("smax", _WIDE, x, y),
    "vabsdiff": lambda lo, x, y: _binary("sub")(lo, lo.call("smax", _WIDE, x, y), lo.call("smin", _WIDE, x, y)),
    "vavrg": _average,
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@handles(*_OPERATIONS.keys() - {"vavrg"}, *(f"{name}{parts}" for name in _OPERATIONS for parts in (2, 4)))
def video(lo: Emitter, i: Ins) -> None:
    name, parts = i.base.rstrip("24"), int(i.base[-1]) if i.base[-1] in "24" else 1
    target, *sources = i.mods[1:4]
    if not {target, *sources} <= {"u32", "s32"} or not set(i.mods[4:]) <= {"sat", "add", "min", "max"}:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    found = [_OPERATIONS[name](lo, x, y) for x, y in _parts(lo, i, sources, parts)]
    if "sat" in i.mods:
        found = [_saturated(lo, v, target, 32 // parts) for v in found]
    if {"min", "max"} & set(i.mods[4:]):
        _pick(lo, i, found[0], target)
    else:
        _put(lo, i, found)


@handles("vset2", "vset4")
def video_compare(lo: Emitter, i: Ins) -> None:
    """1 or 0 for each part."""
    *sources, comparison = i.mods[1:4]
    if not set(sources) <= {"u32", "s32"} or comparison not in _COMPARISONS or not set(i.mods[4:]) <= {"add"}:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    code = comparison if comparison in ("eq", "ne") else f"s{comparison}"
    found = []
    for x, y in _parts(lo, i, sources, int(i.base[-1])):
        hit = lo.let(f"icmp {code} {lo.T(_WIDE)} {x}, {y}")
        found.append(lo.let(f"zext {lo.T('i1')} {hit} to {lo.T(_WIDE)}"))
    _put(lo, i, found)


def _parts(lo: Emitter, i: Ins, kinds: list[str], parts: int) -> list[tuple[str, str]]:
    """Corresponding parts of the two operands, the lowest first."""
    width = 32 // parts
    both = []
    for o, kind in zip(i.args[1:3], kinds, strict=True):
        word, extend = lo.get(o, "i32"), "ashr" if kind == "s32" else "lshr"
        tops = [lo.let(f"shl {lo.T('i32')} {word}, {lo.constant(32 - width * (k + 1), 'i32')}") for k in range(parts)]
        lows = [lo.let(f"{extend} {lo.T('i32')} {v}, {lo.constant(32 - width, 'i32')}") for v in tops]
        both.append([lo.cast(v, "i32", _WIDE, lo.vec, signed=kind == "s32") for v in lows])
    return list(zip(*both, strict=True))


def _saturated(lo: Emitter, value: str, kind: str, width: int) -> str:
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind == "s32" else (0, (1 << width) - 1)
    value = lo.call("smax", _WIDE, value, lo.constant(low, _WIDE))
    if (kind, width) == ("u32", 32):  # ptxas does not look for what is too large there (seen for sm_90)
        return value
    return lo.call("smin", _WIDE, value, lo.constant(high, _WIDE))


def _pick(lo: Emitter, i: Ins, value: str, kind: str) -> None:
    """.min or .max with the third operand, as ptxas compares for sm_90: in 64 bits, to which sums and differences are
    extended from 32 by their sign, whatever the type."""
    if i.base in ("vadd", "vsub"):
        value = lo.cast(lo.cast(value, _WIDE, "i32", lo.vec), "i32", _WIDE, lo.vec, signed=True)
    other = lo.cast(lo.get(i.args[3], "i32"), "i32", _WIDE, lo.vec, signed=kind == "s32")
    name = ("s" if kind == "s32" else "u") + ("min" if "min" in i.mods[4:] else "max")
    lo.put(i.args[0], lo.cast(lo.call(name, _WIDE, value, other), _WIDE, "i32", lo.vec), "i32")


def _put(lo: Emitter, i: Ins, values: list[str]) -> None:
    """The parts in their places, or summed up with the third operand (.add)."""
    t, width = lo.T("i32"), 32 // len(values)
    words = [lo.cast(v, _WIDE, "i32", lo.vec) for v in values]
    total = lo.get(i.args[3], "i32") if "add" in i.mods else lo.constant(0, "i32")
    for k, word in enumerate(words):
        if "add" not in i.mods and len(words) > 1:
            word = lo.let(f"and {t} {word}, {lo.constant((1 << width) - 1, 'i32')}")
            word = lo.let(f"shl {t} {word}, {lo.constant(width * k, 'i32')}")
        total = lo.let(f"add {t} {total}, {word}")
    lo.put(i.args[0], total, "i32")
