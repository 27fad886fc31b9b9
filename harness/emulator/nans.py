"""Which NaN an operation of doubles gives, as the cards have it.

Those of f32 and of the halves have one pattern for every NaN. Those of f64 give the first NaN in this order: the second
factor or term, the third operand of a fused operation, the first operand; made quiet, its sign and its payload kept. An
operation of numbers without a result gives 0xFFF8000000000000, which is what x86 gives as well. Found on an H200 with
tests/gpu/differential_tables.py.
"""

from __future__ import annotations

import math

from harness.emulator.types import Writer

_QUIET = 1 << 51


def operands(lo: Writer, value: str, kind: str, *of: str) -> str:
    """`value`, or the last operand of `of` that is a NaN."""
    for v in of if kind == "double" else ():
        value = _select(lo, v, _quiet(lo, v), value)
    return value


def directed(lo: Writer, value: str, kind: str, *of: str) -> str:
    """The same where `value` comes from steps (rounding.py) that do not keep what its own NaNs look like."""
    if kind != "double":
        return value
    return operands(lo, instead(lo, value, kind), kind, *of)


def instead(lo: Writer, value: str, kind: str, nan: str = "") -> str:
    """`value`; where it is a NaN, `nan` made quiet, or the NaN of operations of numbers."""
    if kind != "double":
        return value
    return _select(lo, value, _quiet(lo, nan) if nan else lo.constant(-math.nan, "double"), value)


def _quiet(lo: Writer, value: str) -> str:
    bits = lo.let(f"bitcast {lo.T('double')} {value} to {lo.T('i64')}")
    bits = lo.let(f"or {lo.T('i64')} {bits}, {lo.constant(_QUIET, 'i64')}")
    return lo.let(f"bitcast {lo.T('i64')} {bits} to {lo.T('double')}")


def _select(lo: Writer, tested: str, yes: str, no: str) -> str:
    """`yes` where `tested` is a NaN."""
    nan = lo.let(f"fcmp uno {lo.T('double')} {tested}, {tested}")
    return lo.let(f"select {lo.T('i1')} {nan}, {lo.T('double')} {yes}, {lo.T('double')} {no}")
