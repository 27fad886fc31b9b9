"""Floating point by exact rational arithmetic: what IEEE 754 asks for, rounded once, in any direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

# precision in bits, exponent of the least normal number, exponent of the largest
FORMATS = {"f16": (11, -14, 15), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}


def rounded(value: Fraction, kind: str, mode: str = "rn") -> float:
    """The nearest number of a format, or its neighbour in a direction. Zero comes out positive."""
    if value == 0:
        return 0.0
    precision, least, largest = FORMATS[kind]
    size, sign = abs(value), -1.0 if value < 0 else 1.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, least) - precision + 1)
    whole, rest = divmod(size, quantum)
    if mode == "rn":
        up = rest * 2 > quantum or (rest * 2 == quantum and whole % 2 == 1)
    else:
        up = rest != 0 and ((mode == "rp" and sign > 0) or (mode == "rm" and sign < 0))
    result = (whole + up) * quantum
    limit = (2 - Fraction(1, 1 << (precision - 1))) * Fraction(2) ** largest
    if result > limit:
        outward = mode == "rn" or (mode == "rp" and sign > 0) or (mode == "rm" and sign < 0)
        return sign * math.inf if outward else sign * float(limit)
    return sign * float(result)


def fma(a: float, b: float, c: float, kind: str, mode: str = "rn") -> float:
    """a * b + c rounded once."""
    if not all(map(math.isfinite, (a, b, c))):
        try:
            return a * b + c if math.isfinite(c) or not (math.isfinite(a) and math.isfinite(b)) else c
        except OverflowError:
            return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return rounded(exact, kind, mode)
    negative = math.copysign(1, a) * math.copysign(1, b) < 0
    if a * b == 0 and (a == 0 or b == 0) and negative == (math.copysign(1, c) < 0):
        return -0.0 if negative else 0.0  # zeros of one sign
    return -0.0 if mode == "rm" else 0.0


def add(a: float, b: float, kind: str, mode: str = "rn") -> float:
    return fma(a, 1.0, b, kind, mode)


def mul(a: float, b: float, kind: str, mode: str = "rn") -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b
    exact = Fraction(a) * Fraction(b)
    return math.copysign(rounded(exact, kind, mode), math.copysign(1, a) * math.copysign(1, b))


def div(a: float, b: float, kind: str, mode: str = "rn") -> float:
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    if math.isinf(a) or b == 0:
        return sign * math.inf
    if math.isinf(b):
        return sign * 0.0
    return math.copysign(rounded(Fraction(a) / Fraction(b), kind, mode), sign)


def sqrt(a: float, kind: str, mode: str = "rn") -> float:
    if a < 0:
        return math.nan
    if a == 0 or not math.isfinite(a):
        return a
    exact = Fraction(a)
    shift = 2 * (200 + max(0, -math.frexp(a)[1]))  # an even power that leaves far more bits than any format has
    scaled = exact.numerator * (1 << shift) // exact.denominator
    root = math.isqrt(scaled)
    sticky = root * root != scaled or scaled * exact.denominator != exact.numerator << shift
    return rounded(Fraction(2 * root + sticky, 1 << (shift // 2 + 1)), kind, mode)


def integral(a: float, mode: str) -> float:
    """A float rounded to an integer, as a float; the sign of zero is kept."""
    if not math.isfinite(a):
        return a
    direction: dict[str, Callable[[float], int]] = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    whole = direction[mode](a)
    return math.copysign(float(whole), a)


def flush(a: float, kind: str = "f32") -> float:
    """Subnormals to zero of the same sign."""
    return math.copysign(0.0, a) if abs(a) < 2.0 ** FORMATS[kind][1] else a
