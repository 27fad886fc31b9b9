"""cvt of the emulator between every pair of types, against exact arithmetic, in every shape (tests/ptx_table.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest

from tests import exact_float as exact
from tests.ptx_table import BITS, Row, cells, check

INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FLOATS = ("f16", "f32", "f64")
DIRECTED = ("rz", "rm", "rp")


def _range(kind: str) -> tuple[int, int]:
    bits = BITS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _clamp(value: int, kind: str) -> int:
    low, high = _range(kind)
    return min(max(value, low), high)


def _wrap(value: int, kind: str) -> int:
    low, _ = _range(kind)
    return (value - low) % (1 << BITS[kind]) + low


def _register(kind: str) -> str:
    """The type of the register that receives an integer: 8 bits are extended to 16 there."""
    return kind[0] + "16" if BITS[kind] == 8 else kind


def _integer_rows() -> list[Row]:
    rows = []
    for source in INTEGERS:
        for target in INTEGERS:
            d = _register(target)
            rows.append(Row(f"cvt.{target}.{source}", d, (source,), lambda a, t=target: _wrap(a, t)))
            if {_clamp(limit, target) for limit in _range(source)} != set(_range(source)):
                rows.append(Row(f"cvt.sat.{target}.{source}", d, (source,), lambda a, t=target: _clamp(a, t)))
    return rows


def _to_integer(target: str, source: str, mode: str) -> Callable[[float], int]:
    def convert(a: float) -> int:
        if math.isnan(a):
            return _wrap(1 << (BITS[target] - 1), target) if source == "f64" or BITS[target] == 64 else 0
        if math.isinf(a):
            return _range(target)[a > 0]
        return _clamp(int(exact.integral(a, mode)), target)

    return convert


def _float_to_integer_rows() -> list[Row]:
    rows = []
    for source in FLOATS:
        for target in INTEGERS:
            modes = ("rni", "rzi", "rmi", "rpi") if BITS[target] >= 32 else ("rzi",)
            rows += [Row(f"cvt.{mode}.{target}.{source}", _register(target), (source,), _to_integer(target, source, mode)) for mode in modes]
    return rows


def _whole(value: int, kind: str, mode: str) -> float:
    return exact.rounded(Fraction(value), kind, mode)


def _integer_to_float_rows() -> list[Row]:
    rows = []
    for source in INTEGERS:
        for target in FLOATS:
            for mode in ("rn", *DIRECTED) if target != "f16" else ("rn",):
                model = partial(_whole, kind=target, mode=mode)
                rows += [Row(f"cvt.{mode}.{target}.{source}", target, (source,), model)]
    return rows


def _narrow(target: str, mode: str = "rn", *, flush: bool = False, saturate: bool = False) -> Callable[[float], float]:
    def convert(a: float) -> float:
        if flush:
            a = exact.flush(a)
        if math.isfinite(a):
            a = math.copysign(exact.rounded(Fraction(a), target, mode), a)
        if saturate:
            a = 0.0 if math.isnan(a) or a <= 0 else min(a, 1.0)
        return exact.flush(a) if flush and target == "f32" else a

    return convert


def _float_rows() -> list[Row]:
    rows = [
        Row("cvt.f64.f32", "f64", ("f32",), lambda a: a),
        Row("cvt.f32.f16", "f32", ("f16",), lambda a: a),
        Row("cvt.f64.f16", "f64", ("f16",), lambda a: a),
        Row("cvt.rn.f16.f64", "f16", ("f64",), _narrow("f16")),
        Row("cvt.ftz.f64.f32", "f64", ("f32",), exact.flush),
        Row("cvt.rn.ftz.f32.f64", "f32", ("f64",), lambda a: exact.flush(_narrow("f32")(a))),
        Row("cvt.rn.ftz.f16.f32", "f16", ("f32",), _narrow("f16", flush=True)),
        Row("cvt.sat.f32.f32", "f32", ("f32",), _narrow("f32", saturate=True)),
        Row("cvt.rn.sat.f32.f64", "f32", ("f64",), _narrow("f32", saturate=True)),
        Row("cvt.ftz.sat.f32.f32", "f32", ("f32",), _narrow("f32", flush=True, saturate=True)),
        Row("cvt.rzi.ftz.s32.f32", "s32", ("f32",), _to_integer("s32", "f32", "rzi")),
    ]
    for mode in ("rn", *DIRECTED):
        rows.append(Row(f"cvt.{mode}.f32.f64", "f32", ("f64",), _narrow("f32", mode)))
        if mode in ("rn", "rz"):
            rows.append(Row(f"cvt.{mode}.f16.f32", "f16", ("f32",), _narrow("f16", mode)))
    for kind in FLOATS:
        for mode in ("rni", "rzi", "rmi", "rpi"):
            rows += [Row(f"cvt.{mode}.{kind}.{kind}", kind, (kind,), partial(exact.integral, mode=mode))]
    return rows


TABLES = {
    "integers": _integer_rows(),
    "to integer": _float_to_integer_rows(),
    "from integer": _integer_to_float_rows(),
    "floats": _float_rows(),
}


@pytest.mark.parametrize(("table", "shape"), cells(TABLES))
def test_conversions(table: str, shape: str, request: pytest.FixtureRequest) -> None:
    check(TABLES[table], shape, request)
