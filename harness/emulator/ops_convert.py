"""cvt: between integers and floats of every width, one number at a time or packed.

A float travels as LLVM's float or double. On its way to a narrower type it is first brought to a float that loses
nothing that the last rounding needs (rounding.py: to odd), then rounded once (formats.py).
"""

from __future__ import annotations

from harness.emulator import approx, formats, rounding
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ops_packed import halves, put_halves
from harness.emulator.ptx import Ins, Reg
from harness.emulator.types import BITS, LL_TYPES

_FLOAT = {"f16": "float", "bf16": "float", "f32": "float", "f64": "double"}  # what a number of the type travels as
_INTEGERS = {f"{sign}{bits}" for sign in "usb" for bits in (8, 16, 32, 64)}
_TO_INTEGRAL = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
_HALVES = ("f16", "bf16")


@handles("cvt")
def cvt(lo: Emitter, i: Ins) -> None:
    target, source = i.mods[-2], i.mods[-1]
    if "rs" in i.mods or ("rna" in i.mods) != (target == "tf32" and not {"rn", "rz"} & set(i.mods)):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if target in formats.EIGHT_BITS:
        _to_eight_bits(lo, i, target, source)
    elif source in formats.EIGHT_BITS:
        _from_eight_bits(lo, i, target, source)
    elif target in _PAIRS and source == "f32":
        _to_pair(lo, i, target)
    elif (target, source) == ("tf32", "f32"):
        _to_tf32(lo, i)
    else:
        _one(lo, i, target, source)


def _to_tf32(lo: Emitter, i: Ins) -> None:
    away, finite = "rna" in i.mods, "satfinite" in i.mods
    if (finite and not away) or (away and "relu" in i.mods):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    value = _limited(lo, i, lo.get(i.args[1], "float"), "tf32")
    bits = formats.to_tf32_away(lo, value, finite) if away else formats.to_tf32(lo, value, rounding.mode_of(i.mods))
    lo.put(i.args[0], bits, "i32")


def _assembles(i: Ins, target: str, source: str) -> bool:
    """Whether ptxas takes such a conversion for sm_90: bf16 knows no .sat."""
    return len(i.args) == 2 and not ("bf16" in (target, source) and "sat" in i.mods)


def _one(lo: Emitter, i: Ins, target: str, source: str) -> None:
    """A number to a number."""
    known = all(k in _FLOAT or k in _INTEGERS for k in (target, source)) and _assembles(i, target, source)
    if not known or ({"relu", "satfinite"} & set(i.mods) and not (target in _HALVES and source == "f32")):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if source in _FLOAT and target in _FLOAT:
        _float_to_float(lo, i, target, source)
    elif source in _FLOAT:
        _float_to_int(lo, i, target, source)
    elif target in _FLOAT:
        _int_to_float(lo, i, target, source)
    else:
        _int_to_int(lo, i, target, source)


def _flushed(lo: Emitter, i: Ins, value: str, kind: str) -> str:
    """.ftz concerns numbers of type f32."""
    return approx.flush(lo, value, "float") if "ftz" in i.mods and kind == "f32" else value


def _limited(lo: Emitter, i: Ins, value: str, target: str) -> str:
    """.sat, .relu and .satfinite, of a float on its way to a narrower format."""
    if "sat" in i.mods:
        value = approx.saturate(lo, value, "float")
    if "satfinite" in i.mods and target in formats.LARGEST:
        value = formats.clamp_finite(lo, value, formats.LARGEST[target])
    return lo.call("maximum", "float", value, lo.constant(0.0, "float")) if "relu" in i.mods else value


def _require_operands(i: Ins, count: int) -> None:
    if len(i.args) != 1 + count:
        raise UnsupportedPtx(f"instruction {i.op} with {len(i.args) - 1} operands", i.loc)


def _to_pair(lo: Emitter, i: Ins, target: str) -> None:
    """Two floats in a word; the first one becomes the upper half."""
    _require_operands(i, 2)
    values = [_limited(lo, i, _flushed(lo, i, lo.get(o, "float"), "f32"), _PAIRS[target]) for o in i.args[1:3]]
    mode = rounding.mode_of(i.mods)
    put_halves(lo, i.args[0], [formats.from_float(lo, v, target, mode) for v in reversed(values)])


def _to_eight_bits(lo: Emitter, i: Ins, target: str, source: str) -> None:
    """A pair of floats, the first for the upper byte, or of halves."""
    if "satfinite" not in i.mods or source not in ("f32", "f16x2"):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    _require_operands(i, 2 if source == "f32" else 1)
    if source == "f32":
        values = [lo.get(o, "float") for o in reversed(i.args[1:])]
    else:
        values = [formats.to_float(lo, h, source) for h in halves(lo, i.args[1], source)]
    low, high = (formats.to_eight_bits(lo, _limited(lo, i, v, target), target) for v in values)
    high = lo.let(f"shl {lo.T('i16')} {high}, {lo.constant(8, 'i16')}")
    lo.put(i.args[0], lo.let(f"or {lo.T('i16')} {high}, {low}"), "i16")


def _from_eight_bits(lo: Emitter, i: Ins, target: str, source: str) -> None:
    """Two bytes as two halves."""
    if target != "f16x2":
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    both = lo.get(i.args[1], "i16")
    high = lo.let(f"lshr {lo.T('i16')} {both}, {lo.constant(8, 'i16')}")
    values = [_limited(lo, i, formats.from_eight_bits(lo, byte, source), target) for byte in (both, high)]
    put_halves(lo, i.args[0], [formats.from_float(lo, v, target) for v in values])


def _source_float(lo: Emitter, i: Ins, source: str) -> str:
    if source in _HALVES:
        return formats.to_float(lo, lo.get(i.args[1], "i16"), source)
    return _flushed(lo, i, lo.get(i.args[1], _FLOAT[source]), source)


def _computed(lo: Emitter, i: Ins) -> bool:
    """Whether a float that is converted comes from arithmetic, as from that of .ftz: the card knows one NaN there."""
    o = i.args[1]
    return "ftz" in i.mods or (isinstance(o, Reg) and o.name in lo.origins.computed)


def _integral(lo: Emitter, i: Ins, value: str, kind: str, default: str = "") -> str:
    """Rounded to a whole number where the instruction says so."""
    name = next((_TO_INTEGRAL[m] for m in i.mods if m in _TO_INTEGRAL), default)
    return lo.call(name, kind, value) if name else value


def _float_to_float(lo: Emitter, i: Ins, target: str, source: str) -> None:
    a, b, mode = _FLOAT[source], _FLOAT[target], rounding.mode_of(i.mods)
    value = _integral(lo, i, _source_float(lo, i, source), a)
    if target in _HALVES:
        value = _limited(lo, i, rounding.to_odd(lo, value) if a == "double" else value, target)
        half = formats.from_float(lo, value, target, mode)
        lo.put(i.args[0], formats.keep_nan(lo, half, value, target) if a == "double" else half, "i16")
        return
    if BITS[a] < BITS[b]:
        value = formats.canonical(lo, value) if source == "f32" and _computed(lo, i) else value
        value = lo.let(f"fpext {lo.T(a)} {value} to {lo.T(b)}")
    elif BITS[a] > BITS[b]:
        wide = value
        value = rounding.narrow(lo, mode, wide, a, b) if mode else lo.let(f"fptrunc {lo.T(a)} {wide} to {lo.T(b)}")
        value = _flush_narrowed(lo, value, wide, mode) if "ftz" in i.mods else value
    _put_float(lo, i, value, target)


# Where a double becomes a normal float though .ftz is asked for: what 24 bits round up to the least normal, as ptxas
# compares for sm_90. By rounding and sign, in units of the least normal.
_KEPT = {("", 0): 1 - 2.0**-25, ("", 1): 1 - 2.0**-25, ("rp", 0): 1 - 2.0**-24, ("rm", 1): 1 - 2.0**-24}


def _flush_narrowed(lo: Emitter, value: str, wide: str, mode: str) -> str:
    """A float that a double was rounded to, or zero where that is too small."""
    d, b = lo.T("double"), lo.T("i1")
    size = lo.call("fabs", "double", wide)
    least = [lo.constant(2.0**-126 * _KEPT.get((mode, sign), 1.0), "double") for sign in (0, 1)]
    negative = lo.let(f"fcmp olt {d} {wide}, {lo.constant(0.0, 'double')}")
    small = lo.let(f"fcmp olt {d} {size}, {lo.let(f'select {b} {negative}, {d} {least[1]}, {d} {least[0]}')}")
    zero = lo.call("copysign", "float", lo.constant(0.0, "float"), value)
    return lo.let(f"select {b} {small}, {lo.T('float')} {zero}, {lo.T('float')} {value}")


def _put_float(lo: Emitter, i: Ins, value: str, target: str) -> None:
    value = _flushed(lo, i, value, target)
    if "sat" in i.mods:
        value = approx.saturate(lo, value, _FLOAT[target])
    lo.put(i.args[0], value, _FLOAT[target])


def _put_half(lo: Emitter, i: Ins, value: str, target: str, mode: str) -> None:
    lo.put(i.args[0], formats.from_float(lo, _limited(lo, i, value, target), target, mode), "i16")


def _float_to_int(lo: Emitter, i: Ins, target: str, source: str) -> None:
    """Out of range saturates; NaN gives 0, or the top bit alone where a 64-bit type takes part (PTX ISA, cvt)."""
    kind = _FLOAT[source]
    value = _integral(lo, i, _source_float(lo, i, source), kind, "trunc")
    wide = LL_TYPES[target]
    sign, width = "s" if target[0] == "s" else "u", "v32" if lo.vec else ""
    name = f"@llvm.fpto{sign}i.sat.{width}{wide}.{width}{'f64' if kind == 'double' else 'f32'}"
    lo.declare(f"declare {lo.T(wide)} {name}({lo.T(kind)})")
    result = lo.let(f"call {lo.T(wide)} {name}({lo.T(kind)} {value})")
    if source == "f64" or BITS[wide] == 64:
        nan = lo.let(f"fcmp uno {lo.T(kind)} {value}, {value}")
        top = lo.constant(-(1 << (BITS[wide] - 1)), wide)
        result = lo.let(f"select {lo.T('i1')} {nan}, {lo.T(wide)} {top}, {lo.T(wide)} {result}")
    lo.put(i.args[0], result, wide, signed=target[0] == "s")


def _int_to_float(lo: Emitter, i: Ins, target: str, source: str) -> None:
    value, own, signed = lo.get(i.args[1], LL_TYPES[source]), LL_TYPES[source], source[0] == "s"
    kind, mode = _FLOAT[target], rounding.mode_of(i.mods)
    if target in _HALVES:
        _put_half(lo, i, rounding.integer_to_odd(lo, value, own, signed), target, mode)
    elif mode:
        _put_float(lo, i, rounding.from_integer(lo, mode, value, own, signed, kind), target)
    else:
        _put_float(lo, i, lo.let(f"{'s' if signed else 'u'}itofp {lo.T(own)} {value} to {lo.T(kind)}"), target)


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
