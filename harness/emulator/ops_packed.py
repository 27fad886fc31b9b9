"""Half precision and packed 16-bit arithmetic: f16, bf16, f16x2, bf16x2, s16x2, u16x2.

A packed operation is the same one on each half of the word. Half-precision numbers are computed as floats and rounded
back, which for one sum or product gives what a single rounding would; fused operations go by way of a double whose
last bit says whether anything was lost.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.emulator import approx, rounding
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import Ins, Operand, Pair
from harness.emulator.types import LL_TYPES

FLOATS = ("f16", "f16x2", "bf16", "bf16x2")
_INTEGERS = ("s16x2", "u16x2")
_FORBIDDEN = {"xorsign", "abs", "noftz", "rz", "rm", "rp"}


def _typed(bases: str, kinds: tuple[str, ...]) -> list[str]:
    return [f"{base}.{kind}" for base in bases.split() for kind in kinds]


def halves(lo: Emitter, o: Operand, kind: str) -> list[str]:
    """An operand's 16-bit parts, the low one first."""
    if not kind.endswith("x2"):
        return [lo.get(o, "i16")]
    return split(lo, lo.get(o, "i32"))


def split(lo: Emitter, word: str) -> list[str]:
    high = lo.let(f"lshr {lo.T('i32')} {word}, {lo.constant(16, 'i32')}")
    return [lo.let(f"trunc {lo.T('i32')} {v} to {lo.T('i16')}") for v in (word, high)]


def put_halves(lo: Emitter, o: Operand, values: list[str]) -> None:
    if len(values) == 1:
        lo.put(o, values[0], "i16")
        return
    low, high = (lo.let(f"zext {lo.T('i16')} {v} to {lo.T('i32')}") for v in values)
    high = lo.let(f"shl {lo.T('i32')} {high}, {lo.constant(16, 'i32')}")
    lo.put(o, lo.let(f"or {lo.T('i32')} {low}, {high}"), "i32")


def to_float(lo: Emitter, half: str, kind: str) -> str:
    """A 16-bit pattern as a float."""
    if kind.startswith("bf16"):
        wide = lo.let(f"zext {lo.T('i16')} {half} to {lo.T('i32')}")
        wide = lo.let(f"shl {lo.T('i32')} {wide}, {lo.constant(16, 'i32')}")
        return lo.let(f"bitcast {lo.T('i32')} {wide} to {lo.T('float')}")
    value = lo.let(f"bitcast {lo.T('i16')} {half} to {lo.T('half')}")
    return lo.let(f"fpext {lo.T('half')} {value} to {lo.T('float')}")


def from_float(lo: Emitter, value: str, kind: str, mode: str = "") -> str:
    """A float as a 16-bit pattern, rounded to nearest, or cut off (rz)."""
    if not kind.startswith("bf16"):
        near = lo.let(f"fptrunc {lo.T('float')} {value} to {lo.T('half')}")
        half = rounding.narrow(lo, mode, value, "float", "half") if mode else near
        return lo.let(f"bitcast {lo.T('half')} {half} to {lo.T('i16')}")
    t = lo.T("i32")
    bits = lo.let(f"bitcast {lo.T('float')} {value} to {t}")
    high = lo.let(f"lshr {t} {bits}, {lo.constant(16, 'i32')}")
    if not mode:  # add half a unit, and a little more where the last bit is odd: ties go to even
        odd = lo.let(f"and {t} {high}, {lo.constant(1, 'i32')}")
        bump = lo.let(f"add {t} {odd}, {lo.constant(0x7FFF, 'i32')}")
        high = lo.let(f"lshr {t} {lo.let(f'add {t} {bits}, {bump}')}, {lo.constant(16, 'i32')}")
    nan = lo.let(f"fcmp uno {lo.T('float')} {value}, {value}")
    high = lo.let(f"select {lo.T('i1')} {nan}, {t} {lo.constant(0x7FFF, 'i32')}, {t} {high}")
    return lo.let(f"trunc {t} {high} to {lo.T('i16')}")


def _finish(lo: Emitter, i: Ins, value: str, kind: str) -> str:
    """Modifiers of the result; the pattern."""
    if "sat" in i.mods:
        value = approx.saturate(lo, value, "float")
    if "relu" in i.mods:
        value = lo.call("maximum", "float", value, lo.constant(0.0, "float"))
    return _flushed(lo, i, from_float(lo, value, kind), kind)


def _flushed(lo: Emitter, i: Ins, half: str, kind: str) -> str:
    """.ftz: a subnormal half becomes a zero of its sign."""
    if "ftz" not in i.mods or kind.startswith("bf16"):
        return half
    t = lo.T("i16")
    exponent = lo.let(f"and {t} {half}, {lo.constant(0x7C00, 'i16')}")
    sign = lo.let(f"and {t} {half}, {lo.constant(-0x8000, 'i16')}")
    zero = lo.let(f"icmp eq {t} {exponent}, {lo.constant(0, 'i16')}")
    return lo.let(f"select {lo.T('i1')} {zero}, {t} {sign}, {t} {half}")


def _sources(lo: Emitter, i: Ins, kind: str) -> list[list[str]]:
    """For each half of the word the float operands."""
    if _FORBIDDEN & set(i.mods):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    operands = [halves(lo, o, kind) for o in i.args[1:]]
    return [[to_float(lo, _flushed(lo, i, h, kind), kind) for h in part] for part in zip(*operands, strict=True)]


_ARITHMETIC: dict[str, Callable[..., str]] = {
    "add": lambda lo, a, b: lo.let(f"fadd {lo.T('float')} {a}, {b}"),
    "sub": lambda lo, a, b: lo.let(f"fsub {lo.T('float')} {a}, {b}"),
    "mul": lambda lo, a, b: lo.let(f"fmul {lo.T('float')} {a}, {b}"),
    "fma": lambda lo, a, b, c: rounding.fused_to_odd(lo, a, b, c),
    "ex2": approx.ex2,
    "tanh": approx.tanh,
}


@handles(*_typed("add sub mul fma ex2 tanh", FLOATS))
def arithmetic(lo: Emitter, i: Ins) -> None:
    kind = i.mods[-1]
    put_halves(lo, i.args[0], [_finish(lo, i, _ARITHMETIC[i.base](lo, *part), kind) for part in _sources(lo, i, kind)])


@handles(*_typed("min max", FLOATS))
def min_max(lo: Emitter, i: Ins) -> None:
    name = {"min": "minimum", "max": "maximum"}[i.base] + ("" if "NaN" in i.mods else "num")
    found = []
    for first, *others in _sources(lo, i, i.mods[-1]):
        value = first
        for other in others:
            value = lo.call(name, "float", value, other)
        found.append(_finish(lo, i, value, i.mods[-1]))
    put_halves(lo, i.args[0], found)


@handles(*_typed("neg abs", FLOATS))
def sign(lo: Emitter, i: Ins) -> None:
    t = lo.T("i16")
    op, mask = ("xor", -0x8000) if i.base == "neg" else ("and", 0x7FFF)
    found = [lo.let(f"{op} {t} {h}, {lo.constant(mask, 'i16')}") for h in halves(lo, i.args[1], i.mods[-1])]
    put_halves(lo, i.args[0], [_flushed(lo, i, h, i.mods[-1]) for h in found])


_COMPARE = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
            "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno"}  # fmt: skip


def _compared(lo: Emitter, i: Ins) -> list[str]:
    """For each half whether the comparison holds, combined with a predicate where there is one."""
    kind = i.mods[-1]
    combine = next((m for m in i.mods if m in ("and", "or", "xor")), "")
    operands = [halves(lo, o, kind) for o in i.args[1:3]]
    found = []
    for a, b in zip(*operands, strict=True):
        x, y = (to_float(lo, _flushed(lo, i, h, kind), kind) for h in (a, b))
        hit = lo.let(f"fcmp {_COMPARE[i.mods[1]]} {lo.T('float')} {x}, {y}")
        found.append(lo.let(f"{combine} {lo.T('i1')} {hit}, {lo.get(i.args[3], 'i1')}") if combine else hit)
    return found


@handles(*_typed("setp", FLOATS))
def setp(lo: Emitter, i: Ins) -> None:
    """Of a packed comparison p is the low half's answer and q the high one's."""
    found = _compared(lo, i)
    target = i.args[0]
    if len(found) == 1 and isinstance(target, Pair):
        raise UnsupportedPtx(f"instruction {i.op} with two predicates", i.loc)
    for o, value in zip([target.first, target.second] if isinstance(target, Pair) else [target], found, strict=True):
        lo.put(o, value, "i1")


@handles(*_typed("set", FLOATS))
def set_(lo: Emitter, i: Ins) -> None:
    """1.0 or 0.0 for float destinations, all ones or zero for integers."""
    target = i.mods[-2]
    found = _compared(lo, i)
    if target in FLOATS:
        one = 0x3F80 if target.startswith("bf16") else 0x3C00
        yes, no = (f"{lo.T('i16')} {lo.constant(v, 'i16')}" for v in (one, 0))
        put_halves(lo, i.args[0], [lo.let(f"select {lo.T('i1')} {v}, {yes}, {no}") for v in found])
    elif i.mods[-1].endswith("x2"):
        put_halves(lo, i.args[0], [lo.let(f"sext {lo.T('i1')} {v} to {lo.T('i16')}") for v in found])
    else:
        kind = LL_TYPES[target]
        lo.put(i.args[0], lo.let(f"sext {lo.T('i1')} {found[0]} to {lo.T(kind)}"), kind)


@handles(*_typed("add sub min max neg", _INTEGERS))
def packed_integer(lo: Emitter, i: Ins) -> None:
    kind, t = i.mods[-1], lo.T("i16")
    operands = [halves(lo, o, kind) for o in i.args[1:]]
    found = []
    for first, *others in zip(*operands, strict=True):
        value = first if others else lo.let(f"sub {t} {lo.constant(0, 'i16')}, {first}")
        for other in others:
            if i.base in ("min", "max"):
                value = lo.call(kind[0] + i.base, "i16", value, other)
            elif "sat" in i.mods:
                value = lo.call(f"{kind[0]}{i.base}.sat", "i16", value, other)
            else:
                value = lo.let(f"{i.base} {t} {value}, {other}")
        found.append(lo.call("smax", "i16", value, lo.constant(0, "i16")) if "relu" in i.mods else value)
    put_halves(lo, i.args[0], found)


def convert(lo: Emitter, i: Ins) -> bool:
    """cvt to or from bfloat16, and of two floats into a packed pair; False for any other cvt."""
    target, source = i.mods[-2], i.mods[-1]
    packed = target in ("f16x2", "bf16x2") and source == "f32" and len(i.args) == 3
    if not packed and {target, source} not in ({"bf16", "f32"}, {"f16", "f32"}):
        return False
    if {"satfinite", "rs", "rna", "rm", "rp", "rni", "rzi", "rmi", "rpi"} & set(i.mods):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if target == "f32":
        value = to_float(lo, lo.get(i.args[1], "i16"), source)
        lo.put(i.args[0], approx.saturate(lo, value, "float") if "sat" in i.mods else value, "float")
        return True
    found = []
    for o in reversed(i.args[1:]):  # the first operand becomes the high half
        value = lo.get(o, "float")
        value = approx.flush(lo, value, "float") if "ftz" in i.mods else value
        value = approx.saturate(lo, value, "float") if "sat" in i.mods else value
        if "relu" in i.mods:
            value = lo.call("maximum", "float", value, lo.constant(0.0, "float"))
        found.append(from_float(lo, value, target, "rz" if "rz" in i.mods else ""))
    put_halves(lo, i.args[0], found)
    return True
