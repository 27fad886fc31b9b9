"""cvt: between integers, float, double and half."""

from __future__ import annotations

from harness.emulator import approx, ops_packed, rounding
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import Ins
from harness.emulator.types import BITS, LL_TYPES

_FLOAT = {"f16": "half", "f32": "float", "f64": "double"}
_INTEGERS = {f"{sign}{bits}" for sign in "usb" for bits in (8, 16, 32, 64)}
_TO_INTEGRAL = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@handles("cvt")
def cvt(lo: Emitter, i: Ins) -> None:
    target, source = i.mods[-2], i.mods[-1]
    if ops_packed.convert(lo, i):
        return
    known = all(k in _FLOAT or k in _INTEGERS for k in (target, source)) and len(i.args) == 2
    odd = {"rna", "relu", "rs", "satfinite"} & set(i.mods)
    if not known or odd:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if source in _FLOAT and target in _FLOAT:
        _float_to_float(lo, i, target, source)
    elif source in _FLOAT:
        _float_to_int(lo, i, target, source)
    elif target in _FLOAT:
        _int_to_float(lo, i, target, source)
    else:
        _int_to_int(lo, i, target, source)


def _source_float(lo: Emitter, i: Ins, source: str) -> str:
    kind = _FLOAT[source]
    raw = lo.get(i.args[1], LL_TYPES[source])
    value = lo.let(f"bitcast {lo.T('i16')} {raw} to {lo.T('half')}") if kind == "half" else raw
    return approx.flush(lo, value, kind) if "ftz" in i.mods and kind == "float" else value


def _put_float(lo: Emitter, i: Ins, value: str, target: str) -> None:
    kind = _FLOAT[target]
    if "ftz" in i.mods and kind == "float":
        value = approx.flush(lo, value, kind)
    if "sat" in i.mods:
        value = approx.saturate(lo, value, kind)
    if kind == "half":
        value = lo.let(f"bitcast {lo.T('half')} {value} to {lo.T('i16')}")
    lo.put(i.args[0], value, LL_TYPES[target])


def _float_to_float(lo: Emitter, i: Ins, target: str, source: str) -> None:
    value = _source_float(lo, i, source)
    a, b = _FLOAT[source], _FLOAT[target]
    integral = next((_TO_INTEGRAL[m] for m in i.mods if m in _TO_INTEGRAL), "")
    if integral:
        value = lo.call(integral, a, value)
    if BITS[a] < BITS[b]:
        value = lo.let(f"fpext {lo.T(a)} {value} to {lo.T(b)}")
    elif BITS[a] > BITS[b] and (mode := rounding.mode_of(i.mods)):
        if (a, b) == ("double", "half"):
            raise UnsupportedPtx(f"instruction {i.op}", i.loc)
        value = rounding.narrow(lo, mode, value, a, b)
    elif (a, b) == ("double", "half"):
        value = rounding.double_to_half(lo, value)
    elif BITS[a] > BITS[b]:
        value = lo.let(f"fptrunc {lo.T(a)} {value} to {lo.T(b)}")
    _put_float(lo, i, value, target)


def _float_to_int(lo: Emitter, i: Ins, target: str, source: str) -> None:
    """Out of range saturates; NaN gives 0, or the top bit alone where a 64-bit type takes part (PTX ISA, cvt)."""
    value = _source_float(lo, i, source)
    kind = _FLOAT[source]
    integral = next((_TO_INTEGRAL[m] for m in i.mods if m in _TO_INTEGRAL), "trunc")
    if integral != "trunc":
        value = lo.call(integral, kind, value)
    wide = LL_TYPES[target]
    sign, width = "s" if target[0] == "s" else "u", "v32" if lo.vec else ""
    name = f"@llvm.fpto{sign}i.sat.{width}{wide}.{width}{source}"
    lo.declare(f"declare {lo.T(wide)} {name}({lo.T(kind)})")
    result = lo.let(f"call {lo.T(wide)} {name}({lo.T(kind)} {value})")
    if source == "f64" or BITS[wide] == 64:
        nan = lo.let(f"fcmp uno {lo.T(kind)} {value}, {value}")
        top = lo.constant(-(1 << (BITS[wide] - 1)), wide)
        result = lo.let(f"select {lo.T('i1')} {nan}, {lo.T(wide)} {top}, {lo.T(wide)} {result}")
    lo.put(i.args[0], result, wide, signed=target[0] == "s")


def _int_to_float(lo: Emitter, i: Ins, target: str, source: str) -> None:
    value = lo.get(i.args[1], LL_TYPES[source])
    op = "sitofp" if source[0] == "s" else "uitofp"
    kind = _FLOAT[target]
    mode = rounding.mode_of(i.mods)
    if mode and kind == "half":
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if mode:
        _put_float(lo, i, rounding.from_integer(lo, mode, value, LL_TYPES[source], source[0] == "s", kind), target)
        return
    _put_float(lo, i, lo.let(f"{op} {lo.T(LL_TYPES[source])} {value} to {lo.T(kind)}"), target)


def _int_to_int(lo: Emitter, i: Ins, target: str, source: str) -> None:
    a, b = LL_TYPES[source], LL_TYPES[target]
    value = lo.get(i.args[1], a)
    signed = source[0] == "s"
    if "sat" in i.mods:
        _saturate(lo, i, value, target, source)
        return
    result = lo.cast(value, a, b, lo.vec, signed)
    lo.put(i.args[0], result, b, signed=target[0] == "s")


def _saturate(lo: Emitter, i: Ins, value: str, target: str, source: str) -> None:
    """Clamp to the target's range."""
    wide = "i128"
    v = lo.cast(value, LL_TYPES[source], wide, lo.vec, source[0] == "s")
    bits = BITS[LL_TYPES[target]]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if target[0] == "s" else (0, (1 << bits) - 1)
    v = lo.call("smax", wide, v, lo.constant(low, wide))
    v = lo.call("smin", wide, v, lo.constant(high, wide))
    lo.put(i.args[0], lo.cast(v, wide, LL_TYPES[target], lo.vec), LL_TYPES[target], signed=target[0] == "s")
