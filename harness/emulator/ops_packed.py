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
from harness.emulator.formats import from_float, to_float
from harness.emulator.ptx import Ins, Operand, Pair, Reg
from harness.emulator.types import BITS, LL_TYPES

FLOATS = ("f16", "f16x2", "bf16", "bf16x2")
_INTEGERS = ("s16x2", "u16x2")
_FORBIDDEN = {"oob", "noftz", "rz", "rm", "rp"}


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


def _finish(lo: Emitter, i: Ins, value: str, kind: str) -> str:
    """Modifiers of the result; the pattern."""
    if "sat" in i.mods:
        value = approx.saturate(lo, value, "float")
    if "relu" in i.mods:
        value = lo.call("maximum", "float", value, lo.constant(0.0, "float"))
    return _flushed(lo, i, from_float(lo, value, kind), kind)


def _flushed(lo: Emitter, i: Ins, half: str, kind: str) -> str:
    """.ftz: a subnormal half becomes a zero of its sign."""
    if "ftz" not in i.mods:
        return half
    t = lo.T("i16")
    exponent = lo.let(f"and {t} {half}, {lo.constant(0x7F80 if kind.startswith('bf16') else 0x7C00, 'i16')}")
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
    kind, parts = i.mods[-1], _sources(lo, i, i.mods[-1])
    values = _contracted(lo, i, parts) or [_ARITHMETIC[i.base](lo, *part) for part in parts]
    put_halves(lo, i.args[0], [_finish(lo, i, value, kind) for value in values])
    if i.base == "mul" and _contractible(i) and isinstance(i.args[0], Reg):
        lo.products.update({f"{i.args[0].name}/{kind}{k}": (part[0], part[1], lo.vec) for k, part in enumerate(parts)})


def _contractible(i: Ins) -> bool:
    """Whether ptxas may make a mul and an add, which do not insist on a rounding of their own, one fma."""
    return not i.pred and not {"rn", "sat", "ftz"} & set(i.mods)


def _contracted(lo: Emitter, i: Ins, parts: list[list[str]]) -> list[str]:
    """a +- b as fused operations where one is a product of the same block that is used only here; else empty."""
    if i.base not in ("add", "sub") or {"rn", "ftz"} & set(i.mods):
        return []
    for position in (1, 0):
        o = i.args[1 + position]
        if isinstance(o, Reg) and lo.use_count.get(o.name) == 1 and f"{o.name}/{i.mods[-1]}0" in lo.products:
            found = [lo.products[f"{o.name}/{i.mods[-1]}{k}"] for k in range(len(parts))]
            if all(vec == lo.vec for _, _, vec in found):
                return [_fused(lo, i, x, y, part, position) for (x, y, _), part in zip(found, parts, strict=True)]
    return []


def _fused(lo: Emitter, i: Ins, x: str, y: str, part: list[str], position: int) -> str:
    """One part of _contracted: the product x * y stands for operand `position`."""
    other = part[1 - position]
    if i.base == "sub" and position == 1:
        x = lo.let(f"fneg {lo.T('float')} {x}")
    elif i.base == "sub":
        other = lo.let(f"fneg {lo.T('float')} {other}")
    return rounding.fused_to_odd(lo, x, y, other)


@handles(*_typed("min max", FLOATS))
def min_max(lo: Emitter, i: Ins) -> None:
    found = [extreme(lo, i, part, "float") for part in _sources(lo, i, i.mods[-1])]
    put_halves(lo, i.args[0], [_finish(lo, i, value, i.mods[-1]) for value in found])


def extreme(lo: Emitter, i: Ins, values: list[str], kind: str) -> str:
    """min or max of floats. A NaN loses against a number (IEEE 754-2019 minimumNumber) unless .NaN asks for it;
    -0 < +0. With .abs the sizes count, and with .xorsign the result's sign is the product of the operands'."""
    name = {"min": "minimum", "max": "maximum"}[i.base] + ("" if "NaN" in i.mods else "num")
    value, *others = [lo.call("fabs", kind, v) for v in values] if "abs" in i.mods else values
    for other in others:
        value = lo.call(name, kind, value, other)
    if "xorsign" not in i.mods:
        return value
    word = f"i{BITS[kind]}"
    signs = [lo.let(f"bitcast {lo.T(kind)} {v} to {lo.T(word)}") for v in values]
    sign = lo.let(f"xor {lo.T(word)} {signs[0]}, {signs[1]}")
    return lo.call("copysign", kind, value, lo.let(f"bitcast {lo.T(word)} {sign} to {lo.T(kind)}"))


@handles(*_typed("neg abs", FLOATS))
def sign(lo: Emitter, i: Ins) -> None:
    """A NaN becomes the canonical one: the cards add a zero."""
    kind, t = i.mods[-1], lo.T("i16")
    op, mask = ("xor", -0x8000) if i.base == "neg" else ("and", 0x7FFF)
    infinity, canonical = (lo.constant(v, "i16") for v in (0x7F80 if kind.startswith("bf16") else 0x7C00, 0x7FFF))
    found = []
    for h in halves(lo, i.args[1], kind):
        size = lo.let(f"and {t} {h}, {lo.constant(0x7FFF, 'i16')}")
        nan = lo.let(f"icmp ugt {t} {size}, {infinity}")
        value = lo.let(f"{op} {t} {h}, {lo.constant(mask, 'i16')}")
        found.append(lo.let(f"select {lo.T('i1')} {nan}, {t} {canonical}, {t} {value}"))
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
