"""Half precision and packed halves, bit by bit against exact arithmetic, in every shape (tests/ptx_table.py)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests import exact_float as exact
from tests.emulator_kit import run
from tests.ptx_table import Bits, Row, cells, check

exact.FORMATS["bf16"] = (8, -126, 127)
Model = Callable[..., float]


def _decode(bits: int, kind: str) -> float:
    if kind == "bf16":
        return float(struct.unpack("<f", struct.pack("<I", (bits & 0xFFFF) << 16))[0])
    return float(struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0])


def _encode(value: float, kind: str) -> int:
    """The value is one of the format's; NaN as the cards write it."""
    if math.isnan(value):
        return 0x7FFF
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16 if kind == "bf16" else int(struct.unpack("<H", struct.pack("<e", value))[0])


def _normal(bits: int, kind: str) -> int:
    """One pattern for every NaN."""
    return 0x7FFF if math.isnan(_decode(bits, kind)) else bits & 0xFFFF


def _narrow(value: float, kind: str, mode: str = "rn") -> float:
    if not math.isfinite(value):
        return value
    return math.copysign(exact.rounded(Fraction(value), kind, mode), value)


def _least(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b, key=lambda v: (v, math.copysign(1, v)))


def _most(a: float, b: float) -> float:
    return -_least(-a, -b)


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
        "neg": (1, lambda a: -a),
        "abs": (1, abs),
    }


# A NaN has many patterns: make them one before results are compared.
_CANON = "{{ .reg .pred %n; .reg .b16 %v; {op}.{k} %v, {o}; setp.nan.{k} %n, %v, %v; selp.b16 {{d}}, 0x7FFF, %v, %n; }}"


def _scalar_rows(kind: str) -> list[Row]:
    rows = []
    for op, (count, model) in _models(kind).items():
        operands = ", ".join(f"{{{n}}}" for n in "abc"[:count])
        rows.append(Row(_CANON.format(op=op, k=kind, o=operands), "b16", ("b16",) * count,
                        lambda *v, m=model: Bits(_encode(m(*(_decode(x, kind) for x in v)), kind))))  # fmt: skip
    for test, model in {"lt": lambda a, b: a < b, "geu": lambda a, b: not a < b, "nan": lambda a, b: a != a or b != b}.items():
        rows.append(Row(f"setp.{test}.{kind}", "pred", ("b16", "b16"), lambda a, b, m=model: m(_decode(a, kind), _decode(b, kind))))
    rows.append(Row(f"set.le.u32.{kind}", "u32", ("b16", "b16"), lambda a, b: -(_decode(a, kind) <= _decode(b, kind))))
    return rows


def _packed_rows(kind: str) -> list[Row]:
    canon = (
        "{{ .reg .pred %n; .reg .b16 %l, %h; .reg .b32 %v; {op}.{k}x2 %v, {o}; mov.b32 {{%l, %h}}, %v; "
        "setp.nan.{k} %n, %l, %l; selp.b16 %l, 0x7FFF, %l, %n; setp.nan.{k} %n, %h, %h; selp.b16 %h, 0x7FFF, %h, %n; "
        "mov.b32 {{d}}, {{%l, %h}}; }}"
    )
    rows = []
    for op, (count, model) in _models(kind).items():
        operands = ", ".join(f"{{{n}}}" for n in "abc"[:count])
        text = canon.format(op=op, k=kind, o=operands)

        def both(*v: int, m: Model = model) -> Bits:
            low, high = (_encode(m(*(_decode(x >> shift, kind) for x in v)), kind) for shift in (0, 16))
            return Bits(high << 16 | low)

        rows.append(Row(text, "b32", ("b32",) * count, both))
    return rows


def _conversion_rows() -> list[Row]:
    canon = "{{ .reg .pred %n; .reg .b16 %v; cvt.{m}.{k}.f32 %v, {{a}}; setp.nan.{k} %n, %v, %v; selp.b16 {{d}}, 0x7FFF, %v, %n; }}"
    rows = []
    for kind in ("f16", "bf16"):
        for mode in ("rn", "rz"):
            text = canon.format(m=mode, k=kind)
            rows += [Row(text, "b16", ("f32",), lambda a, k=kind, m=mode: Bits(_encode(_narrow(a, k, m), k)))]
        rows.append(Row(f"cvt.f32.{kind}", "f32", ("b16",), lambda a, k=kind: _decode(a, k)))
        rows.append(
            Row(f"{{ .reg .f32 %x, %y; abs.f32 %x, {{a}}; min.f32 %x, %x, 0f42C80000; abs.f32 %y, {{b}}; min.f32 %y, %y, 0f42C80000; "
                f"cvt.rn.{kind}x2.f32 {{d}}, %x, %y; }}", "b32", ("f32", "f32"),
                lambda a, b, k=kind: Bits(_encode(_narrow(_least(abs(a), 100.0), k), k) << 16 | _encode(_narrow(_least(abs(b), 100.0), k), k)))
        )  # fmt: skip
    return rows


TABLES = {
    "f16": _scalar_rows("f16"),
    "bf16": _scalar_rows("bf16"),
    "f16x2": _packed_rows("f16"),
    "bf16x2": _packed_rows("bf16"),
    "convert": _conversion_rows(),
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
    want = [_encode(_fused(*(_decode(int(v), "f16") for v in row)), "f16") for row in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(ran.arrays[3], np.array(want, np.uint16))
