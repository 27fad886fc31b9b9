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
    models: dict[str, tuple[int, Model]] = {
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
    return models | (_flushed_models() if kind == "f16" else {})


def _flushed_models() -> dict[str, tuple[int, Model]]:
    """.ftz and .sat, which only f16 has."""

    def flush(v: float) -> float:
        return exact.flush(v, "f16")

    def unit(v: float) -> float:
        return 0.0 if math.isnan(v) or v <= 0 else min(v, 1.0)

    return {
        "add.ftz": (2, lambda a, b: flush(exact.add(flush(a), flush(b), "f16"))),
        "mul.ftz": (2, lambda a, b: flush(exact.mul(flush(a), flush(b), "f16"))),
        "add.sat": (2, lambda a, b: unit(exact.add(a, b, "f16"))),
        "fma.rn.ftz.sat": (3, lambda a, b, c: flush(unit(exact.fma(flush(a), flush(b), flush(c), "f16")))),
        "max.ftz": (2, lambda a, b: _most(flush(a), flush(b))),
    }


def _half(value: float, kind: str, op: str, operand: int) -> int:
    """The result's pattern: a NaN's is the canonical one; neg and abs touch nothing but the sign of a number."""
    if op in ("neg", "abs") and not math.isnan(value):
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


@pytest.mark.parametrize(("kind", "name"), [("f16", "__half"), ("bf16", "__nv_bfloat16")])
def test_a_product_and_a_sum_are_contracted_unless_their_rounding_is_asked_for(kind: str, name: str) -> None:
    """As ptxas does it: __hmul and __hadd may become one operation, __hmul_rn and __hadd_rn may not."""
    text = f"""#include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __global__ void k(const {name}2* a, const {name}2* b, const {name}2* c, {name}2 (*d)[6]) {{
        int i = blockIdx.x * 32 + threadIdx.x; {name} x = a[i].x, y = b[i].x, z = c[i].x;
        d[i][0] = __hadd2(__hmul2(a[i], b[i]), c[i]); d[i][1] = __hsub2(c[i], __hmul2(a[i], b[i])); d[i][2] = __hsub2(__hmul2(a[i], b[i]), c[i]);
        d[i][3] = __hadd2(__hmul2_rn(a[i], b[i]), c[i]); d[i][4] = __hadd2_rn(__hmul2(a[i], b[i]), c[i]);
        d[i][5] = {name}2(z + x * y, __hadd(z, __hmul_rn(x, y))); }}"""
    rng = np.random.default_rng(9)
    patterns = [np.array([narrow.half_pattern(v, kind) for v in rng.normal(0, 1, 512)], np.uint16) for _ in range(3)]
    ran = run(text, [*patterns, np.zeros((256, 6, 2), np.uint16)], 8, level="full")
    assert ran.findings == []
    a, b, c = ([narrow.half_value(int(v), kind) for v in p] for p in patterns)
    for n in range(512):
        x, y, z = a[n], b[n], c[n]
        rounded = exact.mul(x, y, kind)
        want = [exact.fma(x, y, z, kind), exact.fma(-x, y, z, kind), exact.fma(x, y, -z, kind), *[exact.add(rounded, z, kind)] * 2]
        want.append(want[0] if n % 2 == 0 else exact.add(exact.mul(a[n - 1], b[n - 1], kind), c[n - 1], kind))
        assert list(ran.arrays[3][n // 2, :, n % 2]) == [narrow.half_pattern(v, kind) for v in want], n


@pytest.mark.parametrize(("kind", "relative"), [("f16", 2.0**-9.9), ("bf16", 2.0**-7)])
def test_exponentials_and_tangents_of_every_half(kind: str, relative: float) -> None:
    """Within the errors that the PTX ISA documents (tanh: 2^-10.987 for f16, 2^-8 for bf16), packed and not."""
    ftz = ".ftz" if kind == "bf16" else ""
    text = f"""__global__ void k(unsigned (*d)[2], unsigned short (*e)[2]) {{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x, pair = i | (65535u - i) << 16; unsigned short h = (unsigned short)i;
        asm("ex2.approx{ftz}.{kind}x2 %0, %1;" : "=r"(d[i][0]) : "r"(pair)); asm("tanh.approx.{kind}x2 %0, %1;" : "=r"(d[i][1]) : "r"(pair));
        asm("ex2.approx{ftz}.{kind} %0, %1;" : "=h"(e[i][0]) : "h"(h)); asm("tanh.approx.{kind} %0, %1;" : "=h"(e[i][1]) : "h"(h)); }}"""
    ran = run(text, [np.zeros((65536, 2), np.uint32), np.zeros((65536, 2), np.uint16)], 256, 256)
    assert ran.findings == []
    single = ran.arrays[1].astype(np.uint32)
    np.testing.assert_array_equal(ran.arrays[0], single | single[::-1] << 16)
    x = np.array([narrow.half_value(i, kind) for i in range(65536)])
    found = np.array([[narrow.half_value(int(v), kind) for v in row] for row in single])
    tiny = 2.0 ** exact.FORMATS[kind][1]
    with np.errstate(all="ignore"):
        for k, exact_values in enumerate((np.exp2(x), np.tanh(x))):
            bound = (relative, 2.0**-10.987 if kind == "f16" else 2.0**-8)[k] + 2.0 ** -exact.FORMATS[kind][0]
            limit = np.maximum(np.abs(exact_values), tiny) * bound
            plain = np.isfinite(exact_values) & (np.abs(exact_values) < 65504 if kind == "f16" else np.abs(exact_values) < 3e38)
            assert (np.abs(found[:, k] - exact_values) <= limit)[plain & ~((kind == "bf16") & (np.abs(exact_values) < 1.01 * tiny))].all()
            assert (single[np.isnan(x), k] == 0x7FFF).all()
            assert (found[np.isinf(exact_values), k] == np.inf).all()
