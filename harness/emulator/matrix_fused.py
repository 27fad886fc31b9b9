"""The fused sum of an H200's tensor core: some products and an accumulator, added at once, rounded once.

A number is significand * 2^exponent with 1 <= |significand| < 2, or < 1 for subnormals, whose exponent is that of the
least normal number. The exponent of a product is the sum of its factors', that of its significand lies in [1, 4).

    1. E = the largest exponent of the products that are not zero and of the accumulator, and at least -126
    2. each term is cut off, towards zero, at 2^(E - 25)
    3. the terms are added exactly
    4. the sum is rounded to the result's format: to f32 towards zero, to f16 to nearest; it may become infinite

A sum that is exactly zero is +0. What is not finite follows IEEE 754, with one NaN.

Steps 2 to 4 and the 25 bits were found on an H200 by tests/gpu/differential_mma.py, which searches many models: this
one gives every result of its random tiles, for f16, bf16 and tf32 of every shape with all products in one sum. Probed
there too: nothing is lost for the order of k; what is lost is lost towards zero. Exponents of subnormals and zeros and
overflow are after Xie et al., "MMA-Sim" (arXiv 2511.10909), whose model of sm_90 agrees in all else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES

I32, FLOAT, I64, DOUBLE = (f"<{LANES} x {kind}>" for kind in ("i32", "float", "i64", "double"))
FRACTION = 25  # bits that are kept below the largest exponent
_LEAST = -126  # exponent that the largest is at least
_NOTHING = -400  # exponent of a factor that is zero: below every other, whatever it is multiplied by
_NARROW = -14  # least exponent of a half, and of an fp8 number that was turned into one
_AT_ONCE = 15  # terms whose sum fits into 32 bits in units of 2^(E - 25), in which each is less than 2^27
_KEPT, _LOST = f"splat (i64 {-1 << 29})", f"splat (i64 {(1 << 29) - 1})"  # bits of a double that a float has, has not


@dataclass(frozen=True)
class Number:
    """Vectors over the lanes: significands (float), exponents (i32)."""

    significand: str
    exponent: str


Factors = tuple[tuple[str, str], tuple[str, str]]  # significands of two factors, and their exponents


def split(f: Fn, value: str, narrow: bool, zero: int = _NOTHING) -> Number:
    """A float as significand and exponent; infinities and NaN stay what they are in the significand. `narrow`: it came
    from a half; `zero`: the exponent that zero gets."""
    bits = f.let(f"bitcast {FLOAT} {value} to {I32}")
    field = f.let(f"and {I32} {f.let(f'lshr {I32} {bits}, {_splat(23)}')}, {_splat(255)}")
    significand, exponent = (_split_narrow if narrow else _split_wide)(f, value, bits, field)
    none = f.let(f"fcmp oeq {FLOAT} {value}, zeroinitializer")
    return Number(significand, f.let(f"select <{LANES} x i1> {none}, {I32} {_splat(zero)}, {I32} {exponent}"))


def _split_narrow(f: Fn, value: str, bits: str, field: str) -> tuple[str, str]:
    """By a power of two, which is a normal number."""
    exponent = _maximum(f, f.let(f"sub {I32} {field}, {_splat(127)}"), _splat(_NARROW))
    exponent = f.let(f"call {I32} @llvm.smin.v{LANES}i32({I32} {exponent}, {I32} {_splat(15)})")
    power = _power(f, f.let(f"sub {I32} {_splat(127)}, {exponent}"))
    return f.let(f"fmul {FLOAT} {value}, {power}"), exponent


def _split_wide(f: Fn, value: str, bits: str, field: str) -> tuple[str, str]:
    """By the exponent in the bits; without the leading one, which a subnormal does not have."""
    exponent = f.let(f"sub {I32} {_maximum(f, field, _splat(1))}, {_splat(127)}")
    rest = f.let(f"and {I32} {bits}, {_splat(-0x7F800001)}")
    near_one = f.let(f"bitcast {I32} {f.let(f'or {I32} {rest}, {_splat(0x3F800000)}')} to {FLOAT}")
    one = f.let(f"call {FLOAT} @llvm.copysign.v{LANES}f32({FLOAT} splat (float 1.0), {FLOAT} {value})")
    subnormal = f.let(f"icmp eq {I32} {field}, zeroinitializer")
    leading = f.let(f"select <{LANES} x i1> {subnormal}, {FLOAT} {one}, {FLOAT} zeroinitializer")
    finite = f.let(f"fsub {FLOAT} {near_one}, {leading}")
    special = f.let(f"icmp eq {I32} {field}, {_splat(255)}")
    return f.let(f"select <{LANES} x i1> {special}, {FLOAT} {value}, {FLOAT} {finite}"), exponent


def fused_sum(f: Fn, products: Sequence[Factors], c: str, narrow: bool, kind: str) -> str:
    """One element of the result, a float. `narrow`: of the factors, as for `split`; `kind`: of result and accumulator,
    f32 or f16."""
    start = split(f, c, kind == "f16", _LEAST)
    values = [f.let(f"fmul {FLOAT} {x}, {y}") for (x, y), _ in products]
    sums = [f.let(f"add {I32} {x}, {y}") for _, (x, y) in products]
    largest = _maximum(f, start.exponent, _splat(_LEAST))
    for exponent in sums:
        largest = _maximum(f, largest, exponent)
    base = f.let(f"sub {I32} {largest}, {_splat(127 + FRACTION)}")
    terms = zip([start.significand, *values], [start.exponent, *sums], strict=True)
    whole = _added(f, [_cut(f, value, exponent, base) for value, exponent in terms])
    finite = _to_half(f, _scaled(f, whole, largest)) if kind == "f16" else _to_float(f, whole, largest, narrow)
    return _unless_special(f, finite, [c, *values])


def _cut(f: Fn, value: str, exponent: str, base: str) -> str:
    """value * 2^exponent in units of 2^(E - 25), as an integer."""
    above = _maximum(f, f.let(f"sub {I32} {exponent}, {base}"), "zeroinitializer")  # far below, 2^-127 or 0: all is lost
    return f.let(f"fptosi {FLOAT} {f.let(f'fmul {FLOAT} {value}, {_power(f, above)}')} to {I32}")


def _added(f: Fn, terms: list[str]) -> str:
    """The exact sum of integers, in doubles."""
    parts = []
    for at in range(0, len(terms), _AT_ONCE):
        part = terms[at]
        for term in terms[at + 1 : at + _AT_ONCE]:
            part = f.let(f"add {I32} {part}, {term}")
        parts.append(f.let(f"sitofp {I32} {part} to {DOUBLE}"))
    return _folded(f, parts, lambda x, y: f"fadd {DOUBLE} {x}, {y}")


def _folded(f: Fn, values: Sequence[str], text: Callable[[str, str], str]) -> str:
    total = values[0]
    for value in values[1:]:
        total = f.let(text(total, value))
    return total


def _scaled(f: Fn, whole: str, largest: str, further: int = 0) -> str:
    """whole * 2^(largest - 25 + further)."""
    field = f.let(f"add {I32} {largest}, {_splat(1023 - FRACTION + further)}")
    bits = f.let(f"shl {I64} {f.let(f'zext {I32} {field} to {I64}')}, splat (i64 52)")
    return f.let(f"fmul {DOUBLE} {whole}, {f.let(f'bitcast {I64} {bits} to {DOUBLE}')}")


def _to_float(f: Fn, whole: str, largest: str, narrow: bool) -> str:
    """Towards zero. With halves a sum that is less than the least normal number has no bit too many."""
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


def _unless_special(f: Fn, finite: str, values: list[str]) -> str:
    """The sum of significands, which is small, has an infinity or NaN if and only if the result is one."""
    total = _folded(f, values, lambda x, y: f"fadd {FLOAT} {x}, {y}")
    size = f.let(f"call {FLOAT} @llvm.fabs.v{LANES}f32({FLOAT} {total})")
    finite_sum = f.let(f"fcmp olt {FLOAT} {size}, splat (float 0x7FF0000000000000)")
    return f.let(f"select <{LANES} x i1> {finite_sum}, {FLOAT} {finite}, {FLOAT} {total}")


def _maximum(f: Fn, x: str, y: str) -> str:
    return f.let(f"call {I32} @llvm.smax.v{LANES}i32({I32} {x}, {I32} {y})")


def _power(f: Fn, field: str) -> str:
    """2^(field - 127) as a float; 0 for a field of 0."""
    return f.let(f"bitcast {I32} {f.let(f'shl {I32} {field}, {_splat(23)}')} to {FLOAT}")


def _splat(value: int) -> str:
    return f"splat (i32 {value})"
