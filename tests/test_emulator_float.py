"""Float and double instructions of the emulator against exact rational arithmetic, in every shape (tests/ptx_table.py)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests import exact_float as exact
from tests.ptx_table import Row, cells, check

MODES = ("rn", "rz", "rm", "rp")


def _minimum(a: float, b: float, nan_wins: bool = False, largest: bool = False) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan if nan_wins else b if math.isnan(a) else a
    if a == b == 0:
        negative = [math.copysign(1, v) < 0 for v in (a, b)]
        return -0.0 if (all(negative) if largest else any(negative)) else 0.0
    return max(a, b) if largest else min(a, b)


def _maximum(a: float, b: float, nan_wins: bool = False) -> float:
    return _minimum(a, b, nan_wins, largest=True)


def _saturate(a: float) -> float:
    return 0.0 if math.isnan(a) or a <= 0 else min(a, 1.0)


def _arithmetic(kind: str) -> list[Row]:
    one, two, three = (kind,), (kind,) * 2, (kind,) * 3
    modes = MODES if kind == "f32" else ("rn",)
    rows = [
        Row(f"add.{kind}", kind, two, lambda a, b: exact.add(a, b, kind)),
        Row(f"sub.{kind}", kind, two, lambda a, b: exact.add(a, -b, kind)),
        Row(f"mul.{kind}", kind, two, lambda a, b: exact.mul(a, b, kind)),
        Row(f"mul.{kind} {{d}}, {{a}}, {{a}}", kind, one, lambda a: exact.mul(a, a, kind)),
        Row(f"mad.rn.{kind}", kind, three, lambda a, b, c: exact.fma(a, b, c, kind)),
        Row(f"min.{kind}", kind, two, _minimum),
        Row(f"max.{kind}", kind, two, _maximum),
        Row(f"neg.{kind}", kind, one, lambda a: -a),
        Row(f"abs.{kind}", kind, one, abs),
        Row(f"copysign.{kind}", kind, two, lambda a, b: math.copysign(b, a)),
        Row(f"mov.{kind}", kind, one, lambda a: a),
        Row(f"selp.{kind}", kind, (kind, kind, "pred"), lambda a, b, p: a if p else b),
        Row(f"slct.{kind}.s32", kind, (kind, kind, "s32"), lambda a, b, s: a if s >= 0 else b),
        Row(f"slct.{kind}.f32", kind, (kind, kind, "f32"), lambda a, b, s: a if s >= 0 else b),
    ]
    for mode in modes:
        rows += [
            Row(f"add.{mode}.{kind}", kind, two, lambda a, b, m=mode: exact.add(a, b, kind, m)),
            Row(f"sub.{mode}.{kind}", kind, two, lambda a, b, m=mode: exact.add(a, -b, kind, m)),
            Row(f"mul.{mode}.{kind}", kind, two, lambda a, b, m=mode: exact.mul(a, b, kind, m)),
            Row(f"fma.{mode}.{kind}", kind, three, lambda a, b, c, m=mode: exact.fma(a, b, c, kind, m)),
            Row(f"div.{mode}.{kind}", kind, two, lambda a, b, m=mode: exact.div(a, b, kind, m)),
            Row(f"rcp.{mode}.{kind}", kind, one, lambda a, m=mode: exact.div(1.0, a, kind, m)),
            Row(f"sqrt.{mode}.{kind}", kind, one, lambda a, m=mode: exact.sqrt(a, kind, m)),
        ]
    for test, model in _TESTS.items():
        rows.append(Row(f"testp.{test}.{kind}", "pred", one, lambda a, m=model: m(a, 2.0 ** exact.FORMATS[kind][1])))
    return rows


def _of_both_signs(size: float, a: float, b: float) -> float:
    return math.copysign(size, math.copysign(1, a) * math.copysign(1, b))


_TESTS = {
    "finite": lambda a, least: math.isfinite(a),
    "infinite": lambda a, least: math.isinf(a),
    "number": lambda a, least: not math.isnan(a),
    "notanumber": lambda a, least: math.isnan(a),
    "normal": lambda a, least: a == 0 or (math.isfinite(a) and abs(a) >= least),
    "subnormal": lambda a, least: 0 < abs(a) < least,
}


def _directed_float() -> list[Row]:
    """Sums and products near the rounding boundary, where the wrong neighbour shows."""
    rows = []
    for mode in ("rz", "rm", "rp"):
        rows += [
            Row(f"fma.{mode}.f32 {{d}}, {{a}}, {{b}}, {{a}}", "f32", ("f32", "f32"), lambda a, b, m=mode: exact.fma(a, b, a, "f32", m)),
            Row(f"sub.{mode}.f32 {{d}}, {{a}}, {{a}}", "f32", ("f32",), lambda a, m=mode: exact.add(a, -a, "f32", m)),
        ]
    return rows


_THIRD = 1.3333333333333333


def _directed_double(op: str, count: int, model: Callable[..., float]) -> list[Row]:
    """Doubles with all bits in use, made from floats: residuals do not underflow there (harness/emulator/rounding.py)."""
    names = "abc"[:count]
    load = " ".join(f"cvt.f64.f32 %{n}, {{{n}}}; mul.rn.f64 %{n}, %{n}, 0d3FF5555555555555;" for n in names)
    registers = ", ".join(f"%{n}" for n in names)
    text = f"{{ .reg .f64 {registers}; {load} {op}.MODE.f64 {{d}}, {registers}; }}"
    return [
        Row(text.replace("MODE", mode), "f64", ("f32",) * count, lambda *v, m=mode: model(*(x * _THIRD for x in v), "f64", m))
        for mode in ("rz", "rm", "rp")
    ]


exact.FORMATS["endless"] = (24, -1000, 127)  # what the cards round to before they flush: f32 with no least exponent


def _at_the_least_normal() -> list[Row]:
    """Factors and quotients just below it, which as subnormals would round up to it."""
    rows = []
    for mode in MODES:
        rows += [
            Row(f"mul.{mode}.ftz.f32 {{d}}, {{a}}, 0f3F7FFFFF", "f32", ("f32",),
                lambda a, m=mode: exact.flush(exact.mul(exact.flush(a), 1 - 2.0**-24, "endless", m))),
            Row(f"fma.{mode}.ftz.f32 {{d}}, 0f3F7FFFFF, {{a}}, 0f80000000", "f32", ("f32",),
                lambda a, m=mode: exact.flush(exact.fma(exact.flush(a), 1 - 2.0**-24, -0.0, "endless", m))),
            Row(f"div.{mode}.ftz.f32 {{d}}, {{a}}, 0f7F000000", "f32", ("f32",),
                lambda a, m=mode: exact.flush(exact.div(exact.flush(a), 2.0**127, "endless", m))),
        ]  # fmt: skip
    return rows


def _flushed(kind: str = "f32") -> list[Row]:
    f, endless = exact.flush, "endless"
    two = (kind, kind)
    return [
        *_at_the_least_normal(),
        Row("add.ftz.f32", kind, two, lambda a, b: f(exact.add(f(a), f(b), kind))),
        Row("mul.rn.ftz.f32", kind, two, lambda a, b: f(exact.mul(f(a), f(b), endless))),
        Row("fma.rn.ftz.f32", kind, (kind,) * 3, lambda a, b, c: f(exact.fma(f(a), f(b), f(c), endless))),
        Row("div.rn.ftz.f32", kind, two, lambda a, b: f(exact.div(f(a), f(b), endless))),
        Row("rcp.rn.ftz.f32", kind, (kind,), lambda a: f(exact.div(1.0, f(a), kind))),
        Row("sqrt.rn.ftz.f32", kind, (kind,), lambda a: f(exact.sqrt(f(a), kind))),
        Row("min.ftz.f32", kind, two, lambda a, b: _minimum(f(a), f(b))),
        Row("max.ftz.f32", kind, two, lambda a, b: _maximum(f(a), f(b))),
        Row("neg.ftz.f32", kind, (kind,), lambda a: -f(a)),
        Row("abs.ftz.f32", kind, (kind,), lambda a: abs(f(a))),
        Row("setp.eq.ftz.f32", "pred", two, lambda a, b: f(a) == f(b)),
        Row("setp.ltu.ftz.f32", "pred", two, lambda a, b: not f(a) >= f(b)),
        Row("slct.ftz.f32.f32", kind, (kind,) * 3, lambda a, b, c: a if f(c) >= 0 else b),
        Row("add.sat.f32", kind, two, lambda a, b: _saturate(exact.add(a, b, kind))),
        Row("mul.sat.f32", kind, two, lambda a, b: _saturate(exact.mul(a, b, kind))),
        Row("fma.rn.sat.f32", kind, (kind,) * 3, lambda a, b, c: _saturate(exact.fma(a, b, c, kind))),
        Row("add.rz.sat.f32", kind, two, lambda a, b: _saturate(exact.add(a, b, kind, "rz"))),
        Row("add.ftz.sat.f32", kind, two, lambda a, b: _saturate(f(exact.add(f(a), f(b), kind)))),
        Row("min.NaN.f32", kind, two, lambda a, b: _minimum(a, b, True)),
        Row("min.xorsign.abs.f32", kind, two, lambda a, b: _of_both_signs(_minimum(abs(a), abs(b)), a, b)),
        Row("max.ftz.NaN.xorsign.abs.f32", kind, two, lambda a, b: _of_both_signs(-_minimum(-abs(f(a)), -abs(f(b)), True), a, b)),
        Row("max.NaN.f32", kind, two, lambda a, b: _maximum(a, b, True)),
    ]


_ORDERED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b and a == a and b == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_UNORDERED = {
    "equ": lambda a, b: a == b or a != a or b != b,
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: not a >= b,
    "leu": lambda a, b: not a > b,
    "gtu": lambda a, b: not a <= b,
    "geu": lambda a, b: not a < b,
    "num": lambda a, b: a == a and b == b,
    "nan": lambda a, b: a != a or b != b,
}


def _comparisons(kind: str) -> list[Row]:
    rows = [Row(f"setp.{n}.{kind}", "pred", (kind, kind), m) for n, m in (_ORDERED | _UNORDERED).items()]
    both = "{{ .reg .pred %p, %q; setp.lt.and.{k} %p|%q, {{a}}, {{b}}, !{{c}}; selp.u32 {{d}}, 1, 0, %p; @%q add.u32 {{d}}, {{d}}, 2; }}"
    return [
        *rows,
        Row(f"set.lt.u32.{kind}", "u32", (kind, kind), lambda a, b: -(a < b)),
        Row(f"set.neu.f32.{kind}", "f32", (kind, kind), lambda a, b: float(a != b)),
        Row(f"set.ge.or.s32.{kind}", "s32", (kind, kind, "pred"), lambda a, b, c: -(a >= b or c)),
        Row(both.format(k=kind), "u32", (kind, kind, "pred"), lambda a, b, c: (a < b and not c) + 2 * (not a < b and not c)),
    ]


TABLES = {
    "f32": _arithmetic("f32"),
    "f64": _arithmetic("f64"),
    "directed": _directed_float(),
    "directed double": [
        *_directed_double("add", 2, exact.add),
        *_directed_double("mul", 2, exact.mul),
        *_directed_double("div", 2, exact.div),
        *_directed_double("fma", 3, exact.fma),
        *_directed_double("sqrt", 1, exact.sqrt),
        *_directed_double("rcp", 1, lambda a, *rest: exact.div(1.0, a, *rest)),
    ],
    "flushed": _flushed(),
    "compare": _comparisons("f32") + _comparisons("f64"),
}


@pytest.mark.parametrize(("table", "shape"), cells(TABLES))
def test_float_instructions(table: str, shape: str, request: pytest.FixtureRequest) -> None:
    check(TABLES[table], shape, request)
