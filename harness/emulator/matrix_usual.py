"""The fused sum of matrix_fused.py, at a fraction of its cost, where no factor or product is out of the ordinary.

Products are formed by one multiplication of floats, which all are scaled alike. That needs numbers that are finite, for
bf16 and tf32 also factors that are not subnormal, and in each lane no product at all or a largest one whose exponent
is such that neither it nor the scale leaves a float's range. Exponents are held in 16 bits, half the work.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES
from harness.emulator.matrix_rounding import FLOAT, FRACTION, I16, I32, power, rounded_sum, splat

_BIAS = 254  # of exponents of products: twice that of a float
_NOTHING = -1000  # field of a factor that is zero: below every other, whatever is added
_HALF = 113  # least field of what was a half
_LEAST, _MOST = _BIAS - 98, _BIAS + 125  # of a largest product: its scale is 2^123 at most, and it is less than 2^127
_SPECIAL, _SUBNORMAL = 0x207, 0x90  # classes of LLVM's is.fpclass: NaN and infinities; subnormals
_I1 = f"<{LANES} x i1>"


def factor_field(f: Fn, value: str, narrow: bool) -> str:
    """Biased exponent of a factor; of zero, one below all others. `narrow`: it came from a half."""
    field = _field(f, value)
    least = _largest(f, field, _halves(_HALF)) if narrow else field
    return _where_zero(f, field, _NOTHING, least)


def largest_product(f: Fn, fields: Sequence[tuple[str, str]]) -> str:
    """The largest exponent of products, of the fields of their factors; negative where all are zero."""
    sums = [f.let(f"add {I16} {x}, {y}") for x, y in fields]
    largest = sums[0]
    for other in sums[1:]:
        largest = _largest(f, largest, other)
    return largest


def unusual(f: Fn, factors: Sequence[str], starts: Sequence[str], largest: Sequence[str], narrow: bool) -> str:
    """Whether (i1) any lane needs the general sum: of all factors, accumulators and largest products."""
    found = [_is(f, x, _SPECIAL if narrow else _SPECIAL | _SUBNORMAL) for x in factors]
    found += [_is(f, x, _SPECIAL) for x in starts]
    for exponent in [] if narrow else largest:  # of halves, no product is too large or too small
        found.append(f.let(f"icmp sgt {I16} {exponent}, {_halves(_MOST)}"))
        small = f.let(f"icmp slt {I16} {exponent}, {_halves(_LEAST)}")
        found.append(f.let(f"and {_I1} {small}, {f.let(f'icmp sgt {I16} {exponent}, {_halves(-1)}')}"))
    total = found[0]
    for other in found[1:]:
        total = f.let(f"or {_I1} {total}, {other}")
    return f.let(f"call i1 @llvm.vector.reduce.or.v{LANES}i1({_I1} {total})")


def usual_sum(f: Fn, factors: Sequence[tuple[str, str]], largest: str, c: str, narrow: bool, kind: str) -> str:
    """One element of the result, a float: see `fused_sum`. `largest`: of the products, as `largest_product` gives it.
    The accumulator may be infinite: it is, where the result of an earlier sum was too large."""
    exponent = _largest(f, largest, f.let(f"add {I16} {_start_field(f, c, kind)}, {_halves(_BIAS - 127)}"))
    field = f.let(f"sub {I16} {_halves(127 + FRACTION + _BIAS)}, {exponent}")
    scale = power(f, f.let(f"zext {I16} {field} to {I32}"))
    values = [c, *(f.let(f"fmul {FLOAT} {x}, {y}") for x, y in factors)]
    terms = [f.let(f"fptosi {FLOAT} {f.let(f'fmul {FLOAT} {v}, {scale}')} to {I32}") for v in values]
    unbiased = f.let(f"sub {I32} {f.let(f'sext {I16} {exponent} to {I32}')}, {splat(_BIAS)}")
    found = rounded_sum(f, terms, unbiased, narrow, kind)
    none = f.let(f"icmp slt {I16} {largest}, zeroinitializer")
    stays = f.let(f"or {_I1} {none}, {_is(f, c, _SPECIAL)}")
    same = f.let(f"fadd {FLOAT} {c}, zeroinitializer")  # -0 becomes +0
    return f.let(f"select {_I1} {stays}, {FLOAT} {same}, {FLOAT} {found}")


def _start_field(f: Fn, c: str, kind: str) -> str:
    """Biased exponent of an accumulator; that of zero is a float's least."""
    field = _field(f, c)
    if kind == "f32":
        return _largest(f, field, _halves(1))
    return _where_zero(f, field, 1, _largest(f, field, _halves(_HALF)))


def _field(f: Fn, value: str) -> str:
    """The eight bits of a float's exponent; 0 for zero and subnormals."""
    bits = f.let(f"lshr {I32} {f.let(f'bitcast {FLOAT} {value} to {I32}')}, {splat(16)}")
    unsigned = f.let(f"shl {I16} {f.let(f'trunc {I32} {bits} to {I16}')}, {_halves(1)}")
    return f.let(f"lshr {I16} {unsigned}, {_halves(8)}")


def _where_zero(f: Fn, field: str, there: int, elsewhere: str) -> str:
    zero = f.let(f"icmp eq {I16} {field}, zeroinitializer")
    return f.let(f"select {_I1} {zero}, {I16} {_halves(there)}, {I16} {elsewhere}")


def _largest(f: Fn, x: str, y: str) -> str:
    return f.let(f"call {I16} @llvm.smax.v{LANES}i16({I16} {x}, {I16} {y})")


def _is(f: Fn, value: str, classes: int) -> str:
    return f.let(f"call {_I1} @llvm.is.fpclass.v{LANES}f32({FLOAT} {value}, i32 {classes})")


def _halves(value: int) -> str:
    return f"splat (i16 {value})"
