"""The narrow float formats (f16, bf16, e4m3, e5m2, tf32) to and from float, bit for bit as the PTX ISA has them.

A NaN comes out as the format's canonical one (PTX ISA, cvt: 0x7FFF, 0x7F; tf32 0x7FFFE000), but from a double and by
cvt.rna.tf32, where cards keep more of it. Every function takes and
returns integers of the format's bits (i16; i8 values in an i16; i32 for tf32), scalars or vectors as the writer says.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.emulator import rounding
from harness.emulator.types import Writer


@dataclass(frozen=True)
class Narrow:
    """A format of 8 bits. `largest` is its largest finite number."""

    fraction: int  # bits
    bias: int
    largest: float


EIGHT_BITS = {"e4m3x2": Narrow(3, 7, 448.0), "e5m2x2": Narrow(2, 15, 57344.0)}
LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38}


def is_nan(lo: Writer, value: str) -> str:
    return lo.let(f"fcmp uno {lo.T('float')} {value}, {value}")


def to_float(lo: Writer, half: str, kind: str) -> str:
    """A 16-bit pattern as a float; `kind` f16 or bf16, or their pairs."""
    if kind.startswith("bf16"):
        wide = lo.let(f"zext {lo.T('i16')} {half} to {lo.T('i32')}")
        wide = lo.let(f"shl {lo.T('i32')} {wide}, {lo.constant(16, 'i32')}")
        return lo.let(f"bitcast {lo.T('i32')} {wide} to {lo.T('float')}")
    value = lo.let(f"bitcast {lo.T('i16')} {half} to {lo.T('half')}")
    return lo.let(f"fpext {lo.T('half')} {value} to {lo.T('float')}")


def from_float(lo: Writer, value: str, kind: str, mode: str = "") -> str:
    """A float as a 16-bit pattern, rounded to nearest or in the direction of `mode` (rz, rm, rp)."""
    t = lo.T("i16")
    bits = _bfloat(lo, value, mode) if kind.startswith("bf16") else _half(lo, value, mode)
    return lo.let(f"select {lo.T('i1')} {is_nan(lo, value)}, {t} {lo.constant(0x7FFF, 'i16')}, {t} {bits}")


def _half(lo: Writer, value: str, mode: str) -> str:
    near = lo.let(f"fptrunc {lo.T('float')} {value} to {lo.T('half')}")
    half = rounding.narrow(lo, mode, value, "float", "half") if mode else near
    return lo.let(f"bitcast {lo.T('half')} {half} to {lo.T('i16')}")


def _bfloat(lo: Writer, value: str, mode: str) -> str:
    """The upper half of a float's bits, after adding what makes the lower half carry where it must round up."""
    t = lo.T("i32")
    bits = lo.let(f"bitcast {lo.T('float')} {value} to {t}")
    rounded = lo.let(f"add {t} {bits}, {_bump(lo, bits, mode)}") if mode != "rz" else bits
    return lo.let(f"trunc {t} {lo.let(f'lshr {t} {rounded}, {lo.constant(16, _I32)}')} to {lo.T('i16')}")


def _bump(lo: Writer, bits: str, mode: str, lost: int = 16) -> str:
    """What to add to a float's bits before the last `lost` of them are cut off. To nearest: half a unit, less a little
    where the last bit that stays is even. Up or down: all that is cut off, for numbers of that sign."""
    t = lo.T("i32")
    if not mode:
        odd = lo.let(f"and {t} {lo.let(f'lshr {t} {bits}, {lo.constant(lost, _I32)}')}, {lo.constant(1, _I32)}")
        return lo.let(f"add {t} {odd}, {lo.constant((1 << lost - 1) - 1, _I32)}")
    sign = lo.let(f"ashr {t} {bits}, {lo.constant(31, _I32)}")  # all ones where negative
    if mode == "rp":
        sign = lo.let(f"xor {t} {sign}, {lo.constant(-1, _I32)}")
    return lo.let(f"and {t} {sign}, {lo.constant((1 << lost) - 1, _I32)}")


_I32 = "i32"


def to_tf32(lo: Writer, value: str, mode: str) -> str:
    """A float rounded to 10 bits of fraction, as its 32 bits; `mode` "" or rz."""
    t = lo.T("i32")
    bits = lo.let(f"bitcast {lo.T('float')} {value} to {t}")
    if mode != "rz":
        bits = lo.let(f"add {t} {bits}, {_bump(lo, bits, '', _TF32_LOST)}")
    bits = lo.let(f"and {t} {bits}, {lo.constant(-1 << _TF32_LOST, _I32)}")
    return lo.let(f"select {lo.T('i1')} {is_nan(lo, value)}, {t} {lo.constant(0x7FFFE000, _I32)}, {t} {bits}")


_TF32_LOST = 13  # bits of a float's fraction


def to_tf32_away(lo: Writer, value: str, finite: bool) -> str:
    """The same with ties away from zero (.rna), step by step what ptxas makes of it for sm_90: half a unit is added to
    finite numbers, the bits are cut off, and with .satfinite infinity, and a NaN too, become the pattern before."""
    t = lo.T("i32")
    bits = lo.let(f"bitcast {lo.T('float')} {value} to {t}")
    half = lo.let(f"add {t} {bits}, {lo.constant(1 << _TF32_LOST - 1, _I32)}")
    bits = lo.let(f"select {lo.T('i1')} {_is_finite(lo, bits)}, {t} {half}, {t} {bits}")
    bits = lo.let(f"and {t} {bits}, {lo.constant(-1 << _TF32_LOST, _I32)}")
    if not finite:
        return bits
    before = lo.let(f"sub {t} {bits}, {lo.constant(1 << _TF32_LOST, _I32)}")
    return lo.let(f"select {lo.T('i1')} {_is_finite(lo, bits)}, {t} {bits}, {t} {before}")


def _is_finite(lo: Writer, bits: str) -> str:
    size = lo.let(f"and {lo.T('i32')} {bits}, {lo.constant(0x7FFFFFFF, _I32)}")
    return lo.let(f"icmp ult {lo.T('i32')} {size}, {lo.constant(0x7F800000, _I32)}")


def canonical(lo: Writer, value: str) -> str:
    """A float; for any NaN the one that the cards compute."""
    t = lo.T("float")
    nan = lo.let(f"bitcast {lo.T('i32')} {lo.constant(0x7FFFFFFF, _I32)} to {t}")
    return lo.let(f"select {lo.T('i1')} {is_nan(lo, value)}, {t} {nan}, {t} {value}")


def keep_nan(lo: Writer, half: str, value: str, kind: str) -> str:
    """The 16-bit pattern that `value` was rounded to; of a NaN its sign and the upper bits of its fraction."""
    t, h = lo.T("i32"), lo.T("i16")
    bits = lo.let(f"bitcast {lo.T('float')} {value} to {t}")
    high = lo.let(f"trunc {t} {lo.let(f'lshr {t} {bits}, {lo.constant(16, _I32)}')} to {h}")
    if kind == "f16":
        low = lo.let(f"trunc {t} {lo.let(f'lshr {t} {bits}, {lo.constant(13, _I32)}')} to {h}")
        low = lo.let(f"or {h} {lo.let(f'and {h} {low}, {lo.constant(0x3FF, _I16)}')}, {lo.constant(0x7C00, _I16)}")
        high = lo.let(f"or {h} {lo.let(f'and {h} {high}, {lo.constant(-0x8000, _I16)}')}, {low}")
    return lo.let(f"select {lo.T('i1')} {is_nan(lo, value)}, {h} {high}, {h} {half}")


def clamp_finite(lo: Writer, value: str, largest: float) -> str:
    """.satfinite: what is larger becomes the largest finite number of its sign; NaN stays."""
    below = lo.call("minimum", "float", value, lo.constant(largest, "float"))
    return lo.call("maximum", "float", below, lo.constant(-largest, "float"))


def to_eight_bits(lo: Writer, value: str, kind: str) -> str:
    """A float in e4m3 or e5m2, to nearest even, what is too large becoming the largest (.satfinite)."""
    form, t, h = EIGHT_BITS[kind], lo.T("float"), lo.T("i16")
    size = lo.call("minnum", "float", lo.call("fabs", "float", value), lo.constant(form.largest, "float"))
    quantum = _quantum(lo, size, form)
    whole = lo.call("rint", "float", lo.let(f"fdiv {t} {size}, {quantum}"))
    # The same exponent and fraction stand in a half of a number scaled by the difference of the biases.
    scaled = lo.let(f"fmul {t} {quantum}, {lo.constant(2.0 ** (form.bias - 15), 'float')}")
    half = lo.let(f"fptrunc {t} {lo.let(f'fmul {t} {whole}, {scaled}')} to {lo.T('half')}")
    bits = lo.let(f"bitcast {lo.T('half')} {half} to {h}")
    bits = lo.let(f"lshr {h} {bits}, {lo.constant(10 - form.fraction, 'i16')}")
    bits = lo.let(f"or {h} {bits}, {_sign(lo, value)}")
    return lo.let(f"select {lo.T('i1')} {is_nan(lo, value)}, {h} {lo.constant(0x7F, 'i16')}, {h} {bits}")


def _quantum(lo: Writer, size: str, form: Narrow) -> str:
    """The distance of the format's numbers around a positive float."""
    t = lo.T("i32")
    bits = lo.let(f"bitcast {lo.T('float')} {size} to {t}")
    power = lo.let(f"and {t} {bits}, {lo.constant(0x7F800000, _I32)}")
    power = lo.call("umax", _I32, power, lo.constant((127 + 1 - form.bias) << 23, _I32))
    power = lo.let(f"sub {t} {power}, {lo.constant(form.fraction << 23, _I32)}")
    return lo.let(f"bitcast {t} {power} to {lo.T('float')}")


def _sign(lo: Writer, value: str) -> str:
    """A float's sign as bit 7 of an i16."""
    bits = lo.let(f"bitcast {lo.T('float')} {value} to {lo.T('i32')}")
    high = lo.let(f"lshr {lo.T('i32')} {bits}, {lo.constant(24, 'i32')}")
    high = lo.let(f"trunc {lo.T('i32')} {high} to {lo.T('i16')}")
    return lo.let(f"and {lo.T('i16')} {high}, {lo.constant(0x80, 'i16')}")


def from_eight_bits(lo: Writer, byte: str, kind: str) -> str:
    """An e4m3 or e5m2 number, the low 8 bits of an i16, as a float."""
    form, h, t = EIGHT_BITS[kind], lo.T("i16"), lo.T("float")
    size = lo.let(f"and {h} {byte}, {lo.constant(0x7F, 'i16')}")
    sign = lo.let(f"and {h} {byte}, {lo.constant(0x80, 'i16')}")
    bits = lo.let(f"shl {h} {size}, {lo.constant(10 - form.fraction, 'i16')}")
    bits = lo.let(f"or {h} {bits}, {lo.let(f'shl {h} {sign}, {lo.constant(8, _I16)}')}")
    value = lo.let(f"fmul {t} {to_float(lo, bits, 'f16')}, {lo.constant(2.0 ** (15 - form.bias), 'float')}")
    if kind == "e5m2x2":
        return value
    nan = lo.let(f"icmp eq {h} {size}, {lo.constant(0x7F, 'i16')}")
    return lo.let(f"select {lo.T('i1')} {nan}, {t} {lo.constant(float('nan'), 'float')}, {t} {value}")


_I16 = "i16"
