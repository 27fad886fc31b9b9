"""The fused sum of an H200's tensor core: some products and an accumulator, added at once, rounded once.

A number is significand * 2^exponent with 1 <= |significand| < 2, or < 1 for subnormals, whose exponent is that of the
least normal number. The exponent of a product is the sum of its factors', that of its significand lies in [1, 4).

    1. E = the largest exponent of the products that are not zero and of the accumulator, and at least -126
    2. each term is cut off, towards zero, at 2^(E - 25)
    3. the terms are added exactly
    4. the sum is rounded to the result's format: to f32 towards zero, to f16 to nearest; it may become infinite

A sum that is exactly zero is +0. What is not finite follows IEEE 754, with one NaN.

Found on an H200 by tests/gpu/differential_mma.py: beside two products that cancel, or beside the accumulator, 25 bits
are kept, whatever the positions; three quarters of the last of them are cut off towards zero; the sums 1 + 0.75 ulp
and 1 + 1.5 ulp become 1 and 1 + 1 ulp, in f16 1 + 1 ulp and 1 + 2 ulp. Of all models tried this one alone gives all
results of random tiles, with all products of an instruction in one sum; with exponents of products instead of the sum
of their factors' 89 to 99 % agree, with another number of bits fewer. Exponents of subnormals and zeros, and overflow,
are after Xie et al., "MMA-Sim" (arXiv 2511.10909), whose model of sm_90 agrees in all else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES
from harness.emulator.matrix_rounding import FLOAT, FRACTION, I32, maximum, power, rounded_sum, splat

_LEAST = -126  # exponent that the largest is at least
_NOTHING = -400  # exponent of a factor that is zero: below every other, whatever it is multiplied by
_NARROW = -14  # least exponent of a half, and of an fp8 number that was turned into one


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
    field = f.let(f"and {I32} {f.let(f'lshr {I32} {bits}, {splat(23)}')}, {splat(255)}")
    significand, exponent = (_split_narrow if narrow else _split_wide)(f, value, bits, field)
    none = f.let(f"fcmp oeq {FLOAT} {value}, zeroinitializer")
    return Number(significand, f.let(f"select <{LANES} x i1> {none}, {I32} {splat(zero)}, {I32} {exponent}"))


def _split_narrow(f: Fn, value: str, bits: str, field: str) -> tuple[str, str]:
    """By a power of two, which is a normal number."""
    exponent = maximum(f, f.let(f"sub {I32} {field}, {splat(127)}"), splat(_NARROW))
    exponent = f.let(f"call {I32} @llvm.smin.v{LANES}i32({I32} {exponent}, {I32} {splat(15)})")
    factor = power(f, f.let(f"sub {I32} {splat(127)}, {exponent}"))
    return f.let(f"fmul {FLOAT} {value}, {factor}"), exponent


def _split_wide(f: Fn, value: str, bits: str, field: str) -> tuple[str, str]:
    """By the exponent in the bits; without the leading one, which a subnormal does not have."""
    exponent = f.let(f"sub {I32} {maximum(f, field, splat(1))}, {splat(127)}")
    rest = f.let(f"and {I32} {bits}, {splat(-0x7F800001)}")
    near_one = f.let(f"bitcast {I32} {f.let(f'or {I32} {rest}, {splat(0x3F800000)}')} to {FLOAT}")
    one = f.let(f"call {FLOAT} @llvm.copysign.v{LANES}f32({FLOAT} splat (float 1.0), {FLOAT} {value})")
    subnormal = f.let(f"icmp eq {I32} {field}, zeroinitializer")
    leading = f.let(f"select <{LANES} x i1> {subnormal}, {FLOAT} {one}, {FLOAT} zeroinitializer")
    finite = f.let(f"fsub {FLOAT} {near_one}, {leading}")
    special = f.let(f"icmp eq {I32} {field}, {splat(255)}")
    return f.let(f"select <{LANES} x i1> {special}, {FLOAT} {value}, {FLOAT} {finite}"), exponent


def fused_sum(f: Fn, products: Sequence[Factors], c: str, narrow: bool, kind: str) -> str:
    """One element of the result, a float. `narrow`: of the factors, as for `split`; `kind`: of result and accumulator,
    f32 or f16."""
    start = split(f, c, kind == "f16", _LEAST)
    values = [f.let(f"fmul {FLOAT} {x}, {y}") for (x, y), _ in products]
    sums = [f.let(f"add {I32} {x}, {y}") for _, (x, y) in products]
    largest = maximum(f, start.exponent, splat(_LEAST))
    for exponent in sums:
        largest = maximum(f, largest, exponent)
    base = f.let(f"sub {I32} {largest}, {splat(127 + FRACTION)}")
    terms = zip([start.significand, *values], [start.exponent, *sums], strict=True)
    cut = [_cut(f, value, exponent, base) for value, exponent in terms]
    finite = rounded_sum(f, cut, largest, narrow, kind)
    return _unless_special(f, finite, [c, *values])


def _cut(f: Fn, value: str, exponent: str, base: str) -> str:
    """value * 2^exponent in units of 2^(E - 25), as an integer."""
    above = maximum(f, f.let(f"sub {I32} {exponent}, {base}"), "zeroinitializer")  # far below, 2^-127 or 0: all is lost
    return f.let(f"fptosi {FLOAT} {f.let(f'fmul {FLOAT} {value}, {power(f, above)}')} to {I32}")


def _folded(f: Fn, values: Sequence[str], text: Callable[[str, str], str]) -> str:
    total = values[0]
    for value in values[1:]:
        total = f.let(text(total, value))
    return total


def _unless_special(f: Fn, finite: str, values: list[str]) -> str:
    """The sum of significands, which is small, has an infinity or NaN if and only if the result is one."""
    total = _folded(f, values, lambda x, y: f"fadd {FLOAT} {x}, {y}")
    size = f.let(f"call {FLOAT} @llvm.fabs.v{LANES}f32({FLOAT} {total})")
    finite_sum = f.let(f"fcmp olt {FLOAT} {size}, splat (float 0x7FF0000000000000)")
    return f.let(f"select <{LANES} x i1> {finite_sum}, {FLOAT} {finite}, {FLOAT} {total}")
