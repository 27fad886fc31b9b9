"""The approximate functions of PTX (ex2, lg2, sin, cos, tanh, rsqrt .approx.f32) as polynomials in LLVM IR.

The hardware uses tables; bits differ, errors are within what the PTX ISA documents: ex2 2 ulp of the correctly rounded
result, lg2 2^-22 relative (absolute in (0.5, 2)), sin and cos 2^-20.5 absolute in [-2 pi, 2 pi] and 2^-14.7 in
[-100 pi, 100 pi], tanh 2^-11 relative. Coefficients: ex2 and lg2 are minimax fits made with Remez exchange
(tests/test_emulator_approx.py measures the error against float64).
"""

from __future__ import annotations

from harness.emulator.types import Writer

# 2**f for f in [-1/2, 1/2]: degree 6, relative error 1.9e-9 before rounding
_EX2 = (1.0000000005541663, 0.6931472057372682, 0.240226468906344, 0.055503287769647074, 0.009618488957082073,
        0.0013399931219363259,
        0.00015345812012464277)  # fmt: skip
_TINY = 2.0**-126  # least normal float
_LEAST = {"float": _TINY, "double": 2.0**-1022}
SCALE = 2.0**64


def flush(lo: Writer, value: str, kind: str, scaled: str = "") -> str:
    """Subnormals to zero of the same sign (.ftz). scaled: the value times SCALE, where that is what decides."""
    size = lo.call("fabs", kind, scaled or value)
    small = lo.let(f"fcmp olt {lo.T(kind)} {size}, {lo.constant(_LEAST[kind] * (SCALE if scaled else 1), kind)}")
    zero = lo.call("copysign", kind, lo.constant(0.0, kind), value)
    return lo.let(f"select {lo.T('i1')} {small}, {lo.T(kind)} {zero}, {lo.T(kind)} {value}")


def saturate(lo: Writer, value: str, kind: str) -> str:
    """Clamp to [+0, 1]; a NaN becomes +0 (.sat)."""
    positive = lo.call("maximumnum", kind, value, lo.constant(0.0, kind))
    return lo.call("minimumnum", kind, positive, lo.constant(1.0, kind))


def _polynomial(lo: Writer, x: str, coefficients: tuple[float, ...]) -> str:
    value = lo.constant(_single(coefficients[-1]), "float")
    for c in reversed(coefficients[:-1]):
        value = lo.call("fma", "float", value, x, lo.constant(_single(c), "float"))
    return value


def _single(value: float) -> float:
    import struct

    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def ex2(lo: Writer, x: str) -> str:
    """2**x: split into a whole and a fraction in [-1/2, 1/2]; scale in two steps, so that subnormal results
    are right."""
    t, ti = lo.T("float"), lo.T("i32")
    # NaN is put aside by the comparison-free clamp below (maxnum returns the number) and restored at the end.
    low = lo.call("maxnum", "float", x, lo.constant(-151.0, "float"))
    clamped = lo.call("minnum", "float", low, lo.constant(128.0, "float"))
    whole = lo.call("rint", "float", clamped)
    fraction = lo.let(f"fsub {t} {clamped}, {whole}")
    value = _polynomial(lo, fraction, _EX2)
    n = lo.let(f"fptosi {t} {whole} to {ti}")
    half = lo.let(f"ashr {ti} {n}, {lo.constant(1, 'i32')}")
    for part in (half, lo.let(f"sub {ti} {n}, {half}")):
        biased = lo.let(f"add {ti} {part}, {lo.constant(127, 'i32')}")
        bits = lo.let(f"shl {ti} {biased}, {lo.constant(23, 'i32')}")
        value = lo.let(f"fmul {t} {value}, {lo.let(f'bitcast {ti} {bits} to {t}')}")
    nan = lo.let(f"fcmp uno {t} {x}, {x}")
    return lo.let(f"select {lo.T('i1')} {nan}, {t} {x}, {t} {value}")


# log2(1 + f) = f * P(f) for f in [sqrt(1/2) - 1, sqrt(2) - 1]: degree 9, relative error 4.1e-9 before rounding
_LG2 = (1.4426950408299362, -0.7213473515005817, 0.4808982410576148, -0.3606966494114156, 0.28856740838996464,
        -0.23961740352598038, 0.20460061957521097, -0.1910627547938827, 0.1861749623288618,
        -0.10994955190963349)  # fmt: skip


def lg2(lo: Writer, x: str) -> str:
    """log2(x): exponent plus a polynomial of the mantissa in [sqrt(1/2), sqrt(2))."""
    t, ti = lo.T("float"), lo.T("i32")
    small = lo.let(f"fcmp olt {t} {x}, {lo.constant(_TINY, 'float')}")
    grown = lo.let(f"fmul {t} {x}, {lo.constant(2.0**23, 'float')}")
    y = lo.let(f"select {lo.T('i1')} {small}, {t} {grown}, {t} {x}")
    bits = lo.let(f"bitcast {t} {y} to {ti}")
    shifted = lo.let(f"sub {ti} {bits}, {lo.constant(0x3F3504F3, 'i32')}")  # sqrt(1/2)
    exponent = lo.let(f"ashr {ti} {shifted}, {lo.constant(23, 'i32')}")
    mantissa_bits = lo.let(f"sub {ti} {bits}, {lo.let(f'shl {ti} {exponent}, {lo.constant(23, _I32)}')}")
    mantissa = lo.let(f"bitcast {ti} {mantissa_bits} to {t}")
    f = lo.let(f"fsub {t} {mantissa}, {lo.constant(1.0, 'float')}")
    fewer = lo.let(f"sub {ti} {exponent}, {lo.constant(23, 'i32')}")
    power = lo.let(f"select {lo.T('i1')} {small}, {ti} {fewer}, {ti} {exponent}")
    value = lo.call("fma", "float", _polynomial(lo, f, _LG2), f, lo.let(f"sitofp {ti} {power} to {t}"))
    zero = lo.let(f"fcmp oeq {t} {x}, {lo.constant(0.0, 'float')}")
    value = lo.let(f"select {lo.T('i1')} {zero}, {t} {lo.constant(float('-inf'), 'float')}, {t} {value}")
    positive = lo.let(f"fcmp oge {t} {x}, {lo.constant(0.0, 'float')}")  # false for NaN too
    value = lo.let(f"select {lo.T('i1')} {positive}, {t} {value}, {t} {lo.constant(float('nan'), 'float')}")
    infinite = lo.let(f"fcmp oeq {t} {x}, {lo.constant(float('inf'), 'float')}")
    return lo.let(f"select {lo.T('i1')} {infinite}, {t} {x}, {t} {value}")


_I32 = "i32"
_SIN = (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880)
_COS = (1.0, -1 / 2, 1 / 24, -1 / 720, 1 / 40320)


def _turn(lo: Writer, x: str) -> tuple[str, str]:
    """(quadrant, x minus that many right angles, in [-pi/4, pi/4])."""
    t = lo.T("float")
    quarters = lo.call("rint", "float", lo.let(f"fmul {t} {x}, {lo.constant(0.636619772367581343, 'float')}"))
    rest = x
    for part in (-1.5707963109016418, -1.5893254712295857e-08):  # pi/2 in two floats
        rest = lo.call("fma", "float", quarters, lo.constant(_single(part), "float"), rest)
    # Beyond 2**23 right angles a float has no fraction of one left: whatever comes out, it stays on the circle.
    rest = lo.call(
        "minnum", "float", lo.call("maxnum", "float", rest, lo.constant(-0.7854, "float")), lo.constant(0.7854, "float")
    )
    lo_quarters = lo.call(
        "minnum",
        "float",
        lo.call("maxnum", "float", quarters, lo.constant(-(2.0**30), "float")),
        lo.constant(2.0**30, "float"),
    )
    return lo.let(f"fptosi {t} {lo_quarters} to {lo.T('i32')}"), rest


def _circle(lo: Writer, x: str, advance: int) -> str:
    t, ti, b = lo.T("float"), lo.T("i32"), lo.T("i1")
    quadrant, r = _turn(lo, x)
    quadrant = lo.let(f"add {ti} {quadrant}, {lo.constant(advance, 'i32')}")
    square = lo.let(f"fmul {t} {r}, {r}")
    sine = lo.let(f"fmul {t} {r}, {_polynomial(lo, square, _SIN)}")
    cosine = _polynomial(lo, square, _COS)
    odd = lo.let(f"trunc {ti} {quadrant} to {b}")
    value = lo.let(f"select {b} {odd}, {t} {cosine}, {t} {sine}")
    second = lo.let(f"trunc {ti} {lo.let(f'lshr {ti} {quadrant}, {lo.constant(1, _I32)}')} to {b}")
    value = lo.let(f"select {b} {second}, {t} {lo.let(f'fneg {t} {value}')}, {t} {value}")
    size = lo.call("fabs", "float", x)
    finite = lo.let(f"fcmp olt {t} {size}, {lo.constant(float('inf'), 'float')}")
    return lo.let(f"select {b} {finite}, {t} {value}, {t} {lo.constant(float('nan'), 'float')}")


def sin(lo: Writer, x: str) -> str:
    zero = lo.let(f"fcmp oeq {lo.T('float')} {x}, {lo.constant(0.0, 'float')}")  # which keeps its sign
    return lo.let(f"select {lo.T('i1')} {zero}, {lo.T('float')} {x}, {lo.T('float')} {_circle(lo, x, 0)}")


def cos(lo: Writer, x: str) -> str:
    return _circle(lo, x, 1)


def tanh(lo: Writer, x: str) -> str:
    """1 - 2 / (e**2x + 1)."""
    t = lo.T("float")
    e = ex2(lo, lo.let(f"fmul {t} {x}, {lo.constant(_single(2.885390081777927), 'float')}"))
    below = lo.let(f"fadd {t} {e}, {lo.constant(1.0, 'float')}")
    part = lo.let(f"fdiv {t} {lo.constant(2.0, 'float')}, {below}")
    value = lo.let(f"fsub {t} {lo.constant(1.0, 'float')}, {part}")
    size = lo.call("fabs", "float", x)
    small = lo.let(f"fcmp olt {t} {size}, {lo.constant(0.02, 'float')}")  # the difference above cancels there
    cube = lo.let(f"fmul {t} {x}, {lo.let(f'fmul {t} {x}, {x}')}")
    near = lo.call("fma", "float", cube, lo.constant(_single(-1 / 3), "float"), x)
    value = lo.let(f"select {lo.T('i1')} {small}, {t} {near}, {t} {value}")
    return lo.call("copysign", "float", value, x)


def rsqrt(lo: Writer, x: str) -> str:
    """1 / sqrt(x), by way of doubles: two float roundings would add up to more than the documented 2^-22.9."""
    d, t = lo.T("double"), lo.T("float")
    root = lo.call("sqrt", "double", lo.let(f"fpext {t} {x} to {d}"))
    return lo.let(f"fptrunc {d} {lo.let(f'fdiv {d} {lo.constant(1.0, _DOUBLE)}, {root}')} to {t}")


_DOUBLE = "double"


def upper_word(lo: Writer, value: str) -> str:
    """A double without the lower half of its bits: rcp and rsqrt.approx.ftz.f64 read and give no more (PTX ISA)."""
    d, t = lo.T("double"), lo.T("i64")
    bits = lo.let(f"and {t} {lo.let(f'bitcast {d} {value} to {t}')}, {lo.constant(-1 << 32, 'i64')}")
    return flush(lo, lo.let(f"bitcast {t} {bits} to {d}"), "double")
