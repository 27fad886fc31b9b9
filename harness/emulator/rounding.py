"""Directed rounding (.rm, .rp, .rz) of float operations, without touching the processor's rounding mode.

Everywhere the same idea: take the result rounded to nearest, find on which side of the exact result it lies from a
residual that has the exact one's sign, and move it by one step where that is the wrong side.

Residuals of floats are computed as doubles and are exact. Those of doubles (Boldo and Muller, Exact and Approximated
Error of the FMA, 2011) are taken of operands and results whose exponents were first moved to where nothing underflows
or overflows (scaling.py); of what is not exact even then, because the result is subnormal, the sign is.
"""

from __future__ import annotations

from harness.emulator import scaling
from harness.emulator.layout import LANES
from harness.emulator.types import Writer

DIRECTED = {"rm", "rp", "rz"}
_WORD = {"half": "i16", "float": "i32", "double": "i64"}
_WIDTH = {"half": 16, "float": 32, "double": 64}


def mode_of(mods: tuple[str, ...]) -> str:
    """The directed rounding asked for; empty for round to nearest."""
    return next((m for m in mods if m in DIRECTED), "")


def fused(lo: Writer, mode: str, a: str, b: str, c: str, kind: str = "float") -> str:
    """a * b + c, rounded once in the given direction."""
    if kind == "double":
        return _fused_double(lo, mode, a, b, c)
    x, y, z = (_widen(lo, v, kind) for v in (a, b, c))
    product = lo.let(f"fmul {lo.T('double')} {x}, {y}")
    total, error = _two_sum(lo, product, z)
    if mode == "rm":  # x - x is -0 when rounding down: the sum of the opposites, turned around
        opposite = _op(lo, "fadd", _negate(lo, product), _negate(lo, z))
        total = _negate(lo, opposite)
    near = lo.let(f"fptrunc {lo.T('double')} {total} to {lo.T('float')}")
    over = _op(lo, "fsub", _widen(lo, near, "float"), total)
    above, below = (_compare(lo, code, "double", over, error) for code in ("ogt", "olt"))
    return _move(lo, mode, near, above, below, "float")


def product(lo: Writer, mode: str, a: str, b: str, kind: str) -> str:
    """a * b: a fused operation with the zero that leaves a zero's sign alone in this mode."""
    return fused(lo, mode, a, b, lo.constant(0.0 if mode == "rm" else -0.0, kind), kind)


def _fused_double(lo: Writer, mode: str, a: str, b: str, c: str) -> str:
    near = lo.call("fma", "double", a, b, c)
    if mode == "rm":
        near = _negate(lo, lo.call("fma", "double", _negate(lo, a), b, _negate(lo, c)))
    x, y, z, n = scaling.product_and_term(lo, a, b, c, near)
    high = _op(lo, "fmul", x, y)
    low = lo.call("fma", "double", x, y, _negate(lo, high))
    first, second = _two_sum(lo, z, low)
    third, fourth = _two_sum(lo, high, first)
    left = _sum_of_three(lo, _op(lo, "fsub", third, n), fourth, second)
    zero = lo.constant(0.0, "double")
    above, below = (_compare(lo, code, "double", left, zero) for code in ("olt", "ogt"))
    return _move(lo, mode, near, *_overflowed(lo, near, (a, b, c), above, below), "double")


def _sum_of_three(lo: Writer, a: str, b: str, c: str) -> str:
    """a + b + c with the exact sum's sign."""
    high, low = _two_sum(lo, a, b)
    middle, last = _two_sum(lo, c, low)
    total, rest = _two_sum(lo, high, middle)
    return _op(lo, "fadd", total, _op(lo, "fadd", rest, last))


def _overflowed(lo: Writer, near: str, inputs: tuple[str, ...], above: str, below: str) -> tuple[str, str]:
    """An infinite result of finite inputs lies beyond the exact one."""
    b, infinity = lo.T("i1"), lo.constant(float("inf"), "double")
    finite = ""
    for v in inputs:
        small = _compare(lo, "olt", "double", lo.call("fabs", "double", v), infinity)
        finite = lo.let(f"and {b} {finite}, {small}") if finite else small
    up = _compare(lo, "oeq", "double", near, infinity)
    down = _compare(lo, "oeq", "double", _negate(lo, near), infinity)
    return (lo.let(f"or {b} {above}, {lo.let(f'and {b} {finite}, {up}')}"),
            lo.let(f"or {b} {below}, {lo.let(f'and {b} {finite}, {down}')}"))  # fmt: skip


def quotient(lo: Writer, mode: str, a: str, b: str, kind: str) -> str:
    """a / b. The residual a - near * b has the sign of b where the exact quotient is larger."""
    near = lo.let(f"fdiv {lo.T(kind)} {a}, {b}")
    x, y, q = (_widen(lo, v, kind) for v in (a, b, near))
    if kind == "double":
        x, y, q = scaling.quotient(lo, x, y, q)
    rest = lo.call("fma", "double", _negate(lo, q), y, x)
    rest = _op(lo, "fmul", lo.call("copysign", "double", lo.constant(1.0, "double"), y), rest)
    above, below = (_compare(lo, code, "double", rest, lo.constant(0.0, "double")) for code in ("olt", "ogt"))
    return _move(lo, mode, near, above, below, kind)


def root(lo: Writer, mode: str, a: str, kind: str) -> str:
    """The square root."""
    near = lo.call("sqrt", kind, a)
    x, r = (_widen(lo, v, kind) for v in (a, near))
    if kind == "double":
        x, r = scaling.square_and_root(lo, x, r)
    rest = lo.call("fma", "double", _negate(lo, r), r, x)
    above, below = (_compare(lo, code, "double", rest, lo.constant(0.0, "double")) for code in ("olt", "ogt"))
    return _move(lo, mode, near, above, below, kind)


def narrow(lo: Writer, mode: str, value: str, source: str, target: str) -> str:
    """A float of a wider type in a narrower one."""
    near = lo.let(f"fptrunc {lo.T(source)} {value} to {lo.T(target)}")
    back = lo.let(f"fpext {lo.T(target)} {near} to {lo.T(source)}")
    above, below = (_compare(lo, code, source, back, value) for code in ("ogt", "olt"))
    return _move(lo, mode, near, above, below, target)


def to_odd(lo: Writer, value: str) -> str:
    """A double cut off to a float whose last bit says whether anything was lost: rounding that to a half is rounding
    the double itself."""
    short = narrow(lo, "rz", value, "double", "float")
    lost = _compare(lo, "one", "double", _widen(lo, short, "float"), value)
    return _with_last_bit(lo, short, lost, "float")


def fused_to_odd(lo: Writer, a: str, b: str, c: str) -> str:
    """a * b + c of halves held as floats, in a float as `to_odd` gives it."""
    x, y, z = (_widen(lo, v, "float") for v in (a, b, c))
    total, error = _two_sum(lo, _op(lo, "fmul", x, y), z)
    zero = lo.constant(0.0, "double")
    lost = _compare(lo, "one", "double", error, zero)
    # Towards zero first: one step back where the error points there.
    sign = lo.call("copysign", "double", lo.constant(1.0, "double"), total)
    apart = _compare(lo, "olt", "double", _op(lo, "fmul", sign, error), zero)
    t = lo.T("i64")
    bits = lo.let(f"bitcast {lo.T('double')} {total} to {t}")
    bits = lo.let(f"sub {t} {bits}, {lo.let(f'zext {lo.T(_BIT)} {apart} to {t}')}")
    return to_odd(lo, _with_last_bit(lo, lo.let(f"bitcast {t} {bits} to {lo.T('double')}"), lost, "double"))


_BIT = "i1"


def _with_last_bit(lo: Writer, value: str, lost: str, kind: str) -> str:
    word = _WORD[kind]
    bits = lo.let(f"bitcast {lo.T(kind)} {value} to {lo.T(word)}")
    sticky = lo.let(f"or {lo.T(word)} {bits}, {lo.let(f'zext {lo.T(_BIT)} {lost} to {lo.T(word)}')}")
    return lo.let(f"bitcast {lo.T(word)} {sticky} to {lo.T(kind)}")


def from_integer(lo: Writer, mode: str, value: str, source: str, signed: bool, target: str) -> str:
    """An integer as a float."""
    sign, t = "s" if signed else "u", lo.T(target)
    bits = int(source[1:])
    near = lo.let(f"{sign}itofp {lo.T(source)} {value} to {t}")
    back = _whole(lo, near, source, signed, target)
    # 2 ** bits, which the largest values round to, is no value of the integer's type and comes back saturated.
    beyond = _compare(lo, "oge", target, near, lo.constant(2.0 ** (bits - signed), target))
    above = lo.let(f"or {lo.T('i1')} {beyond}, {lo.let(f'icmp {sign}gt {lo.T(source)} {back}, {value}')}")
    below = lo.let(f"icmp {sign}lt {lo.T(source)} {back}, {value}")
    return _move(lo, mode, near, above, below, target)


def integer_to_odd(lo: Writer, value: str, source: str, signed: bool) -> str:
    """An integer cut off to a float whose last bit says whether anything was lost, as `to_odd` does for doubles."""
    if int(source[1:]) <= 16:
        return lo.let(f"{'s' if signed else 'u'}itofp {lo.T(source)} {value} to {lo.T('float')}")
    short = from_integer(lo, "rz", value, source, signed, "float")
    back = _whole(lo, short, source, signed, "float")
    lost = lo.let(f"icmp ne {lo.T(source)} {back}, {value}")
    return _with_last_bit(lo, short, lost, "float")


def _whole(lo: Writer, value: str, target: str, signed: bool, source: str) -> str:
    """A whole float as an integer, or the nearest one that the type has."""
    wide = f"v{LANES}" if lo.vec else ""
    short = {"float": "f32", "double": "f64"}[source]
    name = f"@llvm.fpto{'s' if signed else 'u'}i.sat.{wide}{target}.{wide}{short}"
    lo.declare(f"declare {lo.T(target)} {name}({lo.T(source)})")
    return lo.let(f"call {lo.T(target)} {name}({lo.T(source)} {value})")


def _move(lo: Writer, mode: str, near: str, above: str, below: str, kind: str) -> str:
    """`near`, or its neighbour where it lies above or below the exact value and must not."""
    b = lo.T("i1")
    down, up = _step(lo, near, True, kind), _step(lo, near, False, kind)
    if mode == "rm":
        return _select(lo, above, down, near, kind)
    if mode == "rp":
        return _select(lo, below, up, near, kind)
    bits = lo.let(f"bitcast {lo.T(kind)} {near} to {lo.T(_WORD[kind])}")
    negative = lo.let(f"icmp slt {lo.T(_WORD[kind])} {bits}, {lo.constant(0, _WORD[kind])}")
    wrong = lo.let(f"select {b} {negative}, {b} {below}, {b} {above}")
    return _select(lo, wrong, _select(lo, negative, up, down, kind), near, kind)


def _step(lo: Writer, value: str, down: bool, kind: str) -> str:
    """The next float below or above; from zero to the least subnormal."""
    word = _WORD[kind]
    t, ti, b = lo.T(kind), lo.T(word), lo.T("i1")
    bits = lo.let(f"bitcast {t} {value} to {ti}")
    negative = lo.let(f"icmp slt {ti} {bits}, {lo.constant(0, word)}")
    grow = lo.let(f"add {ti} {bits}, {lo.constant(1, word)}")
    shrink = lo.let(f"sub {ti} {bits}, {lo.constant(1, word)}")
    first, second = (grow, shrink) if down else (shrink, grow)
    moved = lo.let(f"select {b} {negative}, {ti} {first}, {ti} {second}")
    magnitude = lo.let(f"and {ti} {bits}, {lo.constant((1 << _WIDTH[kind] - 1) - 1, word)}")
    zero = lo.let(f"icmp eq {ti} {magnitude}, {lo.constant(0, word)}")
    least = lo.constant(1 - (1 << _WIDTH[kind] - 1) if down else 1, word)
    moved = lo.let(f"select {b} {zero}, {ti} {least}, {ti} {moved}")
    return lo.let(f"bitcast {ti} {moved} to {t}")


def _two_sum(lo: Writer, a: str, b: str) -> tuple[str, str]:
    """(a + b rounded, what the rounding left out) of doubles: Knuth."""
    total = _op(lo, "fadd", a, b)
    part = _op(lo, "fsub", total, a)
    left = _op(lo, "fsub", a, _op(lo, "fsub", total, part))
    return total, _op(lo, "fadd", left, _op(lo, "fsub", b, part))


def _op(lo: Writer, name: str, a: str, b: str) -> str:
    return lo.let(f"{name} {lo.T('double')} {a}, {b}")


def _negate(lo: Writer, value: str) -> str:
    return lo.let(f"fneg {lo.T('double')} {value}")


def _widen(lo: Writer, value: str, kind: str) -> str:
    return value if kind == "double" else lo.let(f"fpext {lo.T(kind)} {value} to {lo.T('double')}")


def _compare(lo: Writer, code: str, kind: str, a: str, b: str) -> str:
    return lo.let(f"fcmp {code} {lo.T(kind)} {a}, {b}")


def _select(lo: Writer, condition: str, yes: str, no: str, kind: str) -> str:
    return lo.let(f"select {lo.T('i1')} {condition}, {lo.T(kind)} {yes}, {lo.T(kind)} {no}")
