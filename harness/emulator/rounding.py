"""Directed rounding (.rm, .rp, .rz) of float operations, without touching the processor's rounding mode.

The exact result is held as a double plus its rounding error (Knuth's two-sum; a product of floats is exact in a
double). Its nearest float is then moved by one step where it lies on the wrong side of the exact value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.emulator.lower import Lowering

DIRECTED = {"rm", "rp", "rz"}


def mode_of(mods: tuple[str, ...]) -> str:
    """The directed rounding asked for; empty for round to nearest."""
    return next((m for m in mods if m in DIRECTED), "")


def fused(lo: Lowering, mode: str, a: str, b: str, c: str) -> str:
    """a * b + c of floats, rounded once in the given direction."""
    d = lo.T("double")
    x, y, z = (lo.let(f"fpext {lo.T('float')} {v} to {d}") for v in (a, b, c))
    product = lo.let(f"fmul {d} {x}, {y}")
    total = lo.let(f"fadd {d} {product}, {z}")
    part = lo.let(f"fsub {d} {total}, {product}")
    left = lo.let(f"fsub {d} {product}, {lo.let(f'fsub {d} {total}, {part}')}")
    error = lo.let(f"fadd {d} {left}, {lo.let(f'fsub {d} {z}, {part}')}")
    return narrow(lo, mode, total, error)


def narrow(lo: Lowering, mode: str, value: str, error: str | None = None) -> str:
    """The double `value` (+ error) as a float, rounded in the given direction."""
    t, d, b = lo.T("float"), lo.T("double"), lo.T("i1")
    near = lo.let(f"fptrunc {d} {value} to {t}")
    over = lo.let(f"fsub {d} {lo.let(f'fpext {t} {near} to {d}')}, {value}")
    bound = error if error is not None else lo.constant(0.0, "double")
    above = lo.let(f"fcmp ogt {d} {over}, {bound}")
    below = lo.let(f"fcmp olt {d} {over}, {bound}")
    down, up = _step(lo, near, down=True), _step(lo, near, down=False)
    if mode == "rz":  # towards zero: down where the value is positive, up where it is negative
        positive = lo.let(f"fcmp ogt {d} {value}, {lo.constant(0.0, 'double')}")
        wrong = lo.let(f"select {b} {positive}, {b} {above}, {b} {below}")
        stepped = lo.let(f"select {b} {positive}, {t} {down}, {t} {up}")
    else:
        wrong, stepped = (above, down) if mode == "rm" else (below, up)
    return lo.let(f"select {b} {wrong}, {t} {stepped}, {t} {near}")


def _step(lo: Lowering, value: str, down: bool) -> str:
    """The next float below or above; from zero to the least subnormal."""
    t, ti, b = lo.T("float"), lo.T("i32"), lo.T("i1")
    bits = lo.let(f"bitcast {t} {value} to {ti}")
    negative = lo.let(f"icmp slt {ti} {bits}, {lo.constant(0, 'i32')}")
    grow = lo.let(f"add {ti} {bits}, {lo.constant(1, 'i32')}")
    shrink = lo.let(f"sub {ti} {bits}, {lo.constant(1, 'i32')}")
    first, second = (grow, shrink) if down else (shrink, grow)
    moved = lo.let(f"select {b} {negative}, {ti} {first}, {ti} {second}")
    zero = lo.let(f"fcmp oeq {t} {value}, {lo.constant(0.0, 'float')}")
    least = lo.constant(0x80000001 - (1 << 32) if down else 1, "i32")
    moved = lo.let(f"select {b} {zero}, {ti} {least}, {ti} {moved}")
    return lo.let(f"bitcast {ti} {moved} to {t}")
