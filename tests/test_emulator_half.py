"""Half precision and packed halves, bit by bit against exact arithmetic, in every shape (tests/ptx_table.py)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests import exact_float as exact
from tests import narrow_float as narrow
from tests.emulator_kit import run
from tests.ptx_table import Bits, Row, cells, check

Model = Callable[..., float]


def _least(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b, key=lambda v: (v, math.copysign(1, v)))


def _most(a: float, b: float) -> float:
    return -_least(-a, -b)


def _signed(choose: Callable[[float, float], float], a: float, b: float) -> float:
    """.xorsign.abs: the sizes are compared, the signs multiplied."""
    sizes = [abs(v) for v in (a, b) if not math.isnan(v)]
    if not sizes:
        return math.nan
    return math.copysign(choose(sizes[0], sizes[-1]), math.copysign(1, a) * math.copysign(1, b))


def _models(kind: str) -> dict[str, tuple[int, Model]]:
    return {
        "add": (2, lambda a, b: exact.add(a, b, kind)),
        "sub": (2, lambda a, b: exact.add(a, -b, kind)),
        "mul": (2, lambda a, b: exact.mul(a, b, kind)),
        "fma.rn": (3, lambda a, b, c: exact.fma(a, b, c, kind)),
        "fma.rn.relu": (3, lambda a, b, c: 0.0 if (v := exact.fma(a, b, c, kind)) <= 0 else v),
        "min": (2, _least),
        "max": (2, _most),
        "max.NaN": (2, lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else _most(a, b)),
        "min.xorsign.abs": (2, lambda a, b: _signed(min, a, b)),
        "max.NaN.xorsign.abs": (2, lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else _signed(max, a, b)),
        "neg": (1, lambda a: -a),
        "abs": (1, abs),
    }


def _half(value: float, kind: str, op: str, operand: int) -> int:
    """The result's pattern: a NaN's is the canonical one, but neg and abs only touch the sign."""
    if op in ("neg", "abs"):
        return operand ^ 0x8000 if op == "neg" else operand & 0x7FFF
    return narrow.half_pattern(value, kind)


def _scalar_rows(kind: str) -> list[Row]:
    rows = []
    for op, (count, model) in _models(kind).items():

        def one(*v: int, m: Model = model, op: str = op) -> Bits:
            return Bits(_half(m(*(narrow.half_value(x, kind) for x in v)), kind, op, v[0]))

        rows.append(Row(f"{op}.{kind}", "b16", ("b16",) * count, one))
    for test, model in {"lt": lambda a, b: a < b, "geu": lambda a, b: not a < b, "nan": lambda a, b: a != a or b != b}.items():
        rows.append(Row(f"setp.{test}.{kind}", "pred", ("b16", "b16"),
                        lambda a, b, m=model: m(narrow.half_value(a, kind), narrow.half_value(b, kind))))  # fmt: skip
    rows.append(Row(f"set.le.u32.{kind}", "u32", ("b16", "b16"), lambda a, b: -(narrow.half_value(a, kind) <= narrow.half_value(b, kind))))
    return rows


def _packed_rows(kind: str) -> list[Row]:
    rows = []
    for op, (count, model) in _models(kind).items():

        def both(*v: int, m: Model = model, op: str = op) -> Bits:
            low, high = (
                _half(m(*(narrow.half_value(x >> shift, kind) for x in v)), kind, op, v[0] >> shift & 0xFFFF) for shift in (0, 16)
            )
            return Bits(high << 16 | low)

        rows.append(Row(f"{op}.{kind}x2", "b32", ("b32",) * count, both))
    both_lower = "{{ .reg .pred %p, %q; setp.lt.{k}x2 %p|%q, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p; @%q add.u32 {{d}}, {{d}}, 2; }}"
    rows.append(Row(both_lower.format(k=kind), "u32", ("b32", "b32"), lambda a, b: sum(
        (narrow.half_value(a >> 16 * k, kind) < narrow.half_value(b >> 16 * k, kind)) << k for k in range(2))))  # fmt: skip
    one = narrow.half_pattern(1.0, kind)
    rows.append(Row(f"set.gtu.{kind}x2.{kind}x2", "b32", ("b32", "b32"), lambda a, b: sum(
        (one if not narrow.half_value(a >> 16 * k, kind) <= narrow.half_value(b >> 16 * k, kind) else 0) << 16 * k for k in range(2))))  # fmt: skip
    return rows


TABLES = {
    "f16": _scalar_rows("f16"),
    "bf16": _scalar_rows("bf16"),
    "f16x2": _packed_rows("f16"),
    "bf16x2": _packed_rows("bf16"),
}


@pytest.mark.parametrize(("table", "shape"), cells(TABLES))
def test_half_instructions(table: str, shape: str, request: pytest.FixtureRequest) -> None:
    check(TABLES[table], shape, request)


def _fused(a: float, b: float, c: float) -> float:
    return exact.fma(a, b, c, "f16")


def test_fused_halves_are_rounded_once() -> None:
    """Sums of a product and a number so much smaller that it only decides a tie."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0x3C00, 0x4C00, 512, dtype=np.uint16) for _ in range(2))
    c = rng.integers(1, 0x400, 512, dtype=np.uint16) | rng.integers(0, 2, 512, dtype=np.uint16) << 15
    text = """#include <cuda_fp16.h>
    __global__ void k(const __half* a, const __half* b, const __half* c, __half* d) { int i = blockIdx.x * 32 + threadIdx.x; d[i] = __hfma(a[i], b[i], c[i]); }"""
    ran = run(text, [a, b, c, np.zeros(512, np.uint16)], 16)
    want = [narrow.half_pattern(_fused(*(narrow.half_value(int(v), "f16") for v in row)), "f16") for row in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(ran.arrays[3], np.array(want, np.uint16))
