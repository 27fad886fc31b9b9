"""Doubles times powers of two, exactly: operands and results of an operation brought to where residuals are exact.

Only for the residuals of rounding.py: of zeros, infinities and NaNs no more is promised than that they stay what they
are, so that comparisons of what is computed from them fail.
"""

from __future__ import annotations

from harness.emulator.types import Writer

_FAR = 400  # exponents apart, after which one number says no more about a sum with the other than its sign
_NONE = -5000  # exponent of zero: below that of every product


def quotient(lo: Writer, a: str, b: str, near: str) -> tuple[str, str, str]:
    """(a, b, near) for a / b = near, the first two of a size in [1, 2)."""
    (x, above), (y, below) = (_parts(lo, v) for v in (a, b))
    return x, y, _times(lo, near, _op(lo, "sub", below, above))


def square_and_root(lo: Writer, square: str, root: str) -> tuple[str, str]:
    """Both of a small square enlarged: a root is never subnormal."""
    small = lo.let(f"fcmp olt {lo.T('double')} {square}, {lo.constant(2.0**-500, 'double')}")
    larger = [_select(lo, small, lo.let(f"fmul {lo.T('double')} {v}, {lo.constant(by, 'double')}"), v)
              for v, by in ((square, 2.0**600), (root, 2.0**300))]  # fmt: skip
    return larger[0], larger[1]


def product_and_term(lo: Writer, a: str, b: str, c: str, near: str) -> tuple[str, str, str, str]:
    """(a, b, c, near) for a * b + c = near, the larger of product and term of a size in [1, 4). The other one may come
    nearer, if it was so small that nothing but its sign counts."""
    (x, first), (y, second), (z, term) = (_parts(lo, v) for v in (a, b, c))
    product = _op(lo, "add", first, second)
    top = lo.call("smax", "i64", product, term)
    product, term = (lo.call("smax", "i64", _op(lo, "sub", e, top), lo.constant(-_FAR, "i64")) for e in (product, term))
    down = _op(lo, "sub", lo.constant(0, "i64"), top)
    return x, _times(lo, y, product), _times(lo, z, term), _times(lo, near, down)


def _parts(lo: Writer, value: str) -> tuple[str, str]:
    """A number's fraction, its size in [1, 2), and its exponent."""
    d, t, b = lo.T("double"), lo.T("i64"), lo.T("i1")
    size = lo.call("fabs", "double", value)
    small = lo.let(f"fcmp olt {d} {size}, {lo.constant(2.0**-1022, 'double')}")
    large = _select(lo, small, lo.let(f"fmul {d} {value}, {lo.constant(2.0**54, 'double')}"), value)
    bits = lo.let(f"bitcast {d} {large} to {t}")
    field = _op(lo, "and", _op(lo, "lshr", bits, lo.constant(52, "i64")), lo.constant(0x7FF, "i64"))
    bias = lo.let(f"select {b} {small}, {t} {lo.constant(1023 + 54, 'i64')}, {t} {lo.constant(1023, 'i64')}")
    fraction = _op(lo, "and", bits, lo.constant(-0x7FF0000000000001, "i64"))
    fraction = lo.let(f"bitcast {t} {_op(lo, 'or', fraction, lo.constant(1023 << 52, 'i64'))} to {d}")
    number = lo.let(f"fcmp olt {d} {size}, {lo.constant(float('inf'), 'double')}")
    zero = lo.let(f"fcmp oeq {d} {size}, {lo.constant(0.0, 'double')}")
    exponent = lo.let(f"select {b} {zero}, {t} {lo.constant(_NONE, 'i64')}, {t} {_op(lo, 'sub', field, bias)}")
    plain = lo.let(f"and {b} {number}, {lo.let(f'xor {b} {zero}, {lo.constant(_TRUE, _I1)}')}")
    return _select(lo, plain, fraction, value), exponent


_I1, _TRUE = "i1", "true"


def _times(lo: Writer, value: str, exponent: str) -> str:
    """value * 2 ** exponent, for exponents to which a double's leads by steps of one direction: exact where the result
    is normal."""
    limits = [lo.constant(v, "i64") for v in (-4000, 4000)]
    exponent = lo.call("smin", "i64", lo.call("smax", "i64", exponent, limits[0]), limits[1])
    quarter = _op(lo, "ashr", exponent, lo.constant(2, "i64"))
    rest = _op(lo, "sub", exponent, _op(lo, "mul", quarter, lo.constant(3, "i64")))
    for step in (quarter, quarter, quarter, rest):
        bits = _op(lo, "shl", _op(lo, "add", step, lo.constant(1023, "i64")), lo.constant(52, "i64"))
        power = lo.let(f"bitcast {lo.T('i64')} {bits} to {lo.T('double')}")
        value = lo.let(f"fmul {lo.T('double')} {value}, {power}")
    return value


def _op(lo: Writer, name: str, a: str, b: str) -> str:
    return lo.let(f"{name} {lo.T('i64')} {a}, {b}")


def _select(lo: Writer, condition: str, yes: str, no: str) -> str:
    return lo.let(f"select {lo.T('i1')} {condition}, {lo.T('double')} {yes}, {lo.T('double')} {no}")
