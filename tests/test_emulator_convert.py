"""cvt of the emulator between every pair of types, against exact arithmetic, in every shape (tests/ptx_table.py)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from tests import exact_float as exact
from tests import narrow_float as narrow
from tests.emulator_kit import run
from tests.ptx_table import BITS, Bits, Row, cells, check

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
            for mode in ("rn", *DIRECTED):
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


HALVES = ("f16", "bf16")


def _half_rows() -> list[Row]:
    """To f16 and bf16 from every number and in every direction, NaNs as the cards write them."""
    rows = []
    for kind in HALVES:
        for mode in ("rn", *DIRECTED):
            for source in ("f32", "f64"):
                rows += [Row(f"cvt.{mode}.{kind}.{source}", "b16", (source,), partial(_to_half, source=source, kind=kind, mode=mode))]
            for source in INTEGERS if kind == "f16" else INTEGERS[2:]:  # bf16 knows no integers of 8 bits
                rows += [Row(f"cvt.{mode}.{kind}.{source}", "b16", (source,), lambda a, k=kind, m=mode: Bits(narrow.half_pattern(Fraction(a), k, m)))]
        for other in HALVES:
            modes = ("rni", "rzi", "rmi", "rpi") if other == kind else ("rn", *DIRECTED)
            rows += [Row(f"cvt.{mode}.{kind}.{other}", "b16", ("b16",), _between_halves(kind, other, mode)) for mode in modes]
        for mode in ("rn", "rz"):
            for relu, finite in ((True, False), (False, True), (True, True)):
                name = f"cvt.{mode}{'.relu' * relu}{'.satfinite' * finite}.{kind}"
                one = partial(_limited, kind=kind, mode=mode, relu=relu, finite=finite)
                rows += [Row(f"{name}.f32", "b16", ("f32",), lambda a, f=one: Bits(f(a)))]
                rows += [Row(f"{name}x2.f32", "b32", ("f32", "f32"), lambda a, b, f=one: Bits(f(a) << 16 | f(b)))]
            pair = partial(_limited, kind=kind, mode=mode)
            rows += [Row(f"cvt.{mode}.{kind}x2.f32", "b32", ("f32", "f32"), lambda a, b, f=pair: Bits(f(a) << 16 | f(b)))]
    rows += [Row("cvt.sat.f16.f16", "b16", ("b16",), _between_halves("f16", "f16", "sat"))]
    rows += [Row("cvt.rn.sat.f16.f32", "b16", ("f32",), lambda a: Bits(narrow.half_pattern(_unit(a), "f16")))]
    return rows


def _to_half(a: float, source: str, kind: str, mode: str) -> Bits:
    """Of a double that is a NaN the upper bits are kept, made quiet (F2F); of a float they are not."""
    if source == "f64" and math.isnan(a):
        bits = int(struct.unpack("<Q", struct.pack("<d", a))[0])
        form = {"f16": 0x7E00 | bits >> 42 & 0x3FF, "bf16": 0x7FC0 | bits >> 45 & 0x7F}[kind]
        return Bits(bits >> 48 & 0x8000 | form)
    return Bits(narrow.half_pattern(a, kind, mode))


def _unit(a: float) -> float:
    return 0.0 if math.isnan(a) or a <= 0 else min(a, 1.0)


def _limited(a: float, kind: str, mode: str, relu: bool = False, finite: bool = False) -> int:
    return narrow.half_pattern(narrow.limited(a, kind, relu, finite), kind, mode)


def _between_halves(target: str, source: str, mode: str) -> Callable[[int], Bits]:
    def convert(a: int) -> Bits:
        value = narrow.half_value(a, source)
        if mode == "sat":
            return Bits(narrow.half_pattern(_unit(value), target))
        if mode.endswith("i"):
            return Bits(narrow.half_pattern(exact.integral(value, mode), target))
        return Bits(narrow.half_pattern(value, target, mode))

    return convert


def _from_bfloat_rows() -> list[Row]:
    rows = [Row(f"cvt.{kind}.bf16", kind, ("b16",), lambda a: narrow.half_value(a, "bf16")) for kind in ("f32", "f64")]
    for target in INTEGERS[2:]:
        for mode in ("rni", "rzi", "rmi", "rpi"):
            model = _to_integer(target, "bf16", mode)
            rows += [Row(f"cvt.{mode}.{target}.bf16", _register(target), ("b16",), lambda a, f=model: f(narrow.half_value(a, "bf16")))]
    return rows


def _eight_bit_rows() -> list[Row]:
    rows = []
    for kind in narrow.EIGHT:
        for relu in (False, True):
            name = f"cvt.rn.satfinite{'.relu' * relu}.{kind}x2"
            one = partial(narrow.eight_pattern, kind=kind, relu=relu)
            rows += [
                Row(f"{name}.f32", "b16", ("f32", "f32"), lambda a, b, f=one: Bits(f(a) << 8 | f(b))),
                Row(f"{name}.f16x2", "b16", ("b32",), lambda a, f=one: Bits(
                    f(narrow.half_value(a >> 16, "f16")) << 8 | f(narrow.half_value(a, "f16")))),
            ]  # fmt: skip
    return rows


def _tf32_rows() -> list[Row]:
    rows = []
    for mode, relu in (("rn", False), ("rz", False), ("rn", True), ("rz", True)):
        def model(a: float, m: str = mode, relu: bool = relu) -> Bits:
            return Bits(narrow.tf32_pattern(narrow.limited(a, "tf32", relu), m))

        rows.append(Row(f"cvt.{mode}{'.relu' * relu}.tf32.f32", "b32", ("f32",), model))
    for finite in (False, True):
        text = f"{{ .reg .f32 %x; mov.b32 %x, {{a}}; cvt.rna{'.satfinite' * finite}.tf32.f32 {{d}}, %x; }}"
        rows.append(Row(text, "b32", ("b32",), partial(_away, finite=finite)))
    return rows


def _away(a: int, finite: bool) -> Bits:
    """.rna of a float's bits. A NaN is cut off, which may leave infinity; .satfinite takes one unit from both."""
    if a & 0x7FFFFFFF <= 0x7F800000:
        value = struct.unpack("<f", struct.pack("<I", a))[0]
        return Bits(narrow.tf32_pattern(narrow.limited(value, "tf32", finite=finite), "rna"))
    return Bits((a & -0x2000) - 0x2000 * finite)


TABLES = {
    "integers": _integer_rows(),
    "to integer": _float_to_integer_rows(),
    "from integer": _integer_to_float_rows(),
    "floats": _float_rows(),
    "halves": _half_rows(),
    "from bfloat": _from_bfloat_rows(),
    "eight bits": _eight_bit_rows(),
    "tf32": _tf32_rows(),
}


@pytest.mark.parametrize(("table", "shape"), cells(TABLES))
def test_conversions(table: str, shape: str, request: pytest.FixtureRequest) -> None:
    check(TABLES[table], shape, request)


def test_every_half_as_eight_bits_and_every_pair_of_eight_bits_as_halves() -> None:
    text = """#include <cuda_fp16.h>
    __global__ void k(const unsigned* in, unsigned short (*narrow)[2], unsigned (*wide)[4]) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; unsigned v = in[i]; unsigned short s = (unsigned short)i;
        asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(narrow[i][0]) : "r"(v));
        asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(narrow[i][1]) : "r"(v));
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide[i][0]) : "h"(s));
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(wide[i][1]) : "h"(s));
        asm("cvt.rn.relu.f16x2.e4m3x2 %0, %1;" : "=r"(wide[i][2]) : "h"(s));
        asm("cvt.rn.relu.f16x2.e5m2x2 %0, %1;" : "=r"(wide[i][3]) : "h"(s));
    }"""
    words = np.arange(65536, dtype=np.uint32)
    ran = run(text, [words | words[::-1] << 16, np.zeros((65536, 2), np.uint16), np.zeros((65536, 4), np.uint32)], 256, 256)
    assert ran.findings == []
    halves = [narrow.half_value(h, "f16") for h in range(65536)]
    for k, kind in enumerate(narrow.EIGHT):
        one = np.array([narrow.eight_pattern(v, kind) for v in halves], np.uint16)
        np.testing.assert_array_equal(ran.arrays[1][:, k], one | one[::-1] << 8)
        for relu in (False, True):
            values = [narrow.limited(narrow.eight_value(byte, kind), "f16", relu) for byte in range(256)]
            one = np.array([narrow.half_pattern(v, "f16") for v in values], np.uint32)
            pairs = np.arange(65536)
            np.testing.assert_array_equal(ran.arrays[2][:, k + 2 * relu], one[pairs & 255] | one[pairs >> 8] << 16)
