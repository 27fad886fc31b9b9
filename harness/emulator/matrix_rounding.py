"""How a sum of integers, in units of 2^(E - 25), becomes the float or half that a fused sum gives (matrix_fused.py)."""

from __future__ import annotations

from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES

I16, I32, I64, FLOAT, DOUBLE = (f"<{LANES} x {kind}>" for kind in ("i16", "i32", "i64", "float", "double"))
FRACTION = 25  # bits that are kept below the largest exponent
_AT_ONCE = 15  # terms whose sum fits into 32 bits: each is less than 2^27
_KEPT, _LOST = f"splat (i64 {-1 << 29})", f"splat (i64 {(1 << 29) - 1})"  # bits of a double that a float has, has not


def rounded_sum(f: Fn, terms: list[str], largest: str, narrow: bool, kind: str) -> str:
    """Integers in units of 2^(largest - 25), summed exactly and rounded to `kind`, f32 or f16; a float. `narrow`: the
    factors were halves, which leave a sum less than the least normal float no bit too many."""
    whole = _added(f, terms)
    found = _to_half(f, _scaled(f, whole, largest)) if kind == "f16" else _to_float(f, whole, largest, narrow)
    return f.let(f"fadd {FLOAT} {found}, zeroinitializer")  # what is rounded to zero is +0 on the card


def _added(f: Fn, terms: list[str]) -> str:
    """The exact sum of integers, in doubles."""
    parts = []
    for at in range(0, len(terms), _AT_ONCE):
        part = terms[at]
        for term in terms[at + 1 : at + _AT_ONCE]:
            part = f.let(f"add {I32} {part}, {term}")
        parts.append(f.let(f"sitofp {I32} {part} to {DOUBLE}"))
    return parts[0] if len(parts) == 1 else f.let(f"fadd {DOUBLE} {parts[0]}, {parts[1]}")


def _scaled(f: Fn, whole: str, largest: str, further: int = 0) -> str:
    """whole * 2^(largest - 25 + further)."""
    field = f.let(f"add {I32} {largest}, {splat(1023 - FRACTION + further)}")
    bits = f.let(f"shl {I64} {f.let(f'zext {I32} {field} to {I64}')}, splat (i64 52)")
    return f.let(f"fmul {DOUBLE} {whole}, {f.let(f'bitcast {I64} {bits} to {DOUBLE}')}")


def _to_float(f: Fn, whole: str, largest: str, narrow: bool) -> str:
    """Towards zero; what is too large is infinite."""
    if narrow:
        value = _scaled(f, whole, largest)
    else:  # in units of the least subnormal
        units = _scaled(f, whole, largest, further=149)
        value = f.let(f"call {DOUBLE} @llvm.trunc.v{LANES}f64({DOUBLE} {units})")
    bits = f.let(f"and {I64} {f.let(f'bitcast {DOUBLE} {value} to {I64}')}, {_KEPT}")
    cut = f.let(f"bitcast {I64} {bits} to {DOUBLE}")
    if not narrow:
        cut = f.let(f"fmul {DOUBLE} {cut}, splat (double 0x36A0000000000000)")
    return f.let(f"fptrunc {DOUBLE} {cut} to {FLOAT}")


def _to_half(f: Fn, value: str) -> str:
    """The nearest half, as a float, by way of a float that is rounded to odd: 24 bits, the last one set where others
    are lost (Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    bits = f.let(f"bitcast {DOUBLE} {value} to {I64}")
    lost = f.let(f"icmp ne {I64} {f.let(f'and {I64} {bits}, {_LOST}')}, zeroinitializer")
    odd = f.let(f"select <{LANES} x i1> {lost}, {I64} splat (i64 {1 << 29}), {I64} zeroinitializer")
    kept = f.let(f"or {I64} {f.let(f'and {I64} {bits}, {_KEPT}')}, {odd}")
    return nearest_half(f, f.let(f"fptrunc {DOUBLE} {f.let(f'bitcast {I64} {kept} to {DOUBLE}')} to {FLOAT}"))


def nearest_half(f: Fn, value: str) -> str:
    """A float rounded to a half, as a float."""
    half = f.let(f"fptrunc {FLOAT} {value} to <{LANES} x half>")
    return f.let(f"fpext <{LANES} x half> {half} to {FLOAT}")


def maximum(f: Fn, x: str, y: str) -> str:
    return f.let(f"call {I32} @llvm.smax.v{LANES}i32({I32} {x}, {I32} {y})")


def power(f: Fn, field: str) -> str:
    """2^(field - 127) as a float; 0 for a field of 0."""
    return f.let(f"bitcast {I32} {f.let(f'shl {I32} {field}, {splat(23)}')} to {FLOAT}")


def splat(value: int) -> str:
    return f"splat (i32 {value})"
