"""Bits that a card gave (an H200; tests/gpu/differential_tables.py), where the PTX ISA leaves them open or ptxas its own
way: patterns of NaNs, results at the least normal, positions and lengths beyond a register."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from harness.emulator.errors import UnsupportedPtx
from tests.emulator_kit import run
from tests.ptx_table import LANES, Row, kernel_text

pytestmark = pytest.mark.usefixtures("quick_compiler")

QUIET, OTHER, SIGNALLING, INVALID = 0x7FF8 << 48, 0xFFF8000000000001, 0x7FF0000000000001, 0xFFF8 << 48
ONE, INFINITY = 0x3FF << 52, 0x7FF << 52


@dataclass(frozen=True)
class Case:
    """An instruction, its types, and tuples of operands and a result."""

    text: str
    types: str  # of the result and the operands
    tuples: tuple[tuple[int, ...], ...]


_TWO = ((OTHER, QUIET, QUIET), (QUIET, OTHER, OTHER), (OTHER, ONE, OTHER), (ONE, SIGNALLING, SIGNALLING | QUIET), (QUIET, SIGNALLING, SIGNALLING | QUIET))
_THREE = ((OTHER, QUIET, 0, QUIET), (OTHER, ONE, QUIET, QUIET), (ONE, QUIET, OTHER, QUIET), (OTHER, ONE, ONE, OTHER), (INFINITY, 0, OTHER, OTHER),
          (INFINITY, 0, ONE, INVALID))  # fmt: skip
_PICKED = ((OTHER, QUIET, QUIET), (QUIET, OTHER, OTHER), (QUIET, SIGNALLING, SIGNALLING | QUIET), (OTHER, ONE, ONE), (ONE, QUIET, ONE))
_SIGNS = ((QUIET, QUIET), (OTHER, OTHER), (SIGNALLING, SIGNALLING | QUIET))
_HALF = 0x380FFFFFE0000000  # of the double (1 - 2^-24) 2^-126
CASES = [
    *(Case(f"{op}.{mode}.f64", "f64 f64 f64", _TWO) for op in ("add", "sub", "mul") for mode in ("rn", "rz", "rm", "rp")),
    *(Case(f"mul.{mode}.f64", "f64 f64 f64", ((INFINITY, 0, INVALID),)) for mode in ("rn", "rm")),
    *(Case(f"sub.{mode}.f64", "f64 f64 f64", ((INFINITY, INFINITY, INVALID),)) for mode in ("rn", "rm")),
    *(Case(f"fma.{mode}.f64", "f64 f64 f64 f64", _THREE) for mode in ("rn", "rz", "rm", "rp")),
    *(Case(f"{op}.f64", "f64 f64 f64", _PICKED) for op in ("min", "max")),
    *(Case(f"{op}.f64", "f64 f64", _SIGNS) for op in ("neg", "abs")),
    *(Case(f"cvt.{mode}.f32.f64", "f32 f64", ((QUIET, 0x7FC00000), (OTHER, 0xFFC00000), ((1 << 63) - 1, 0x7FFFFFFF), (SIGNALLING, 0x7FC00000)))
      for mode in ("rn", "rp", "rn.ftz")),
    Case("cvt.rn.f16.f64", "b16 f64", ((QUIET, 0x7E00), (OTHER, 0xFE00), ((1 << 63) - 1, 0x7FFF))),
    Case("cvt.rz.bf16.f64", "b16 f64", ((QUIET, 0x7FC0), (OTHER, 0xFFC0), ((1 << 63) - 1, 0x7FFF))),
    Case("cvt.f32.bf16", "f32 b16", ((0x7FC0, 0x7FC00000), (0xFF81, 0xFF810000))),
    Case("cvt.f64.f32", "f64 f32", ((0x7FC00000, QUIET),)),
    Case("cvt.ftz.f64.f32", "f64 f32", ((0x7FC00000, 0x7FFFFFFFE0000000),)),
    Case("cvt.rna.tf32.f32", "b32 f32", ((0x7F800001, 0x7F800000), (0x7FC00000, 0x7FC00000), (0x7FFFFFFF, 0x7FFFE000), (0x7F7FFFFF, 0x7F800000))),
    Case("cvt.rna.satfinite.tf32.f32", "b32 f32", ((0x7F800001, 0x7F7FE000), (0x7FFFFFFF, 0x7FFFC000), (0xFF800000, 0xFF7FE000))),
    *(Case(f"cvt.{mode}.tf32.f32", "b32 f32", ((0x7FC00000, 0x7FFFE000),)) for mode in ("rn", "rz", "rn.relu")),
    *(Case(f"{op}.f16", "b16 b16", ((0x7E00, 0x7FFF), (0xFC01, 0x7FFF))) for op in ("neg", "abs")),
    *(Case(f"{op}.bf16x2", "b32 b32", ((0xFFFFFFFE, 0x7FFF7FFF), (0x3F807F81, 0x3F807FFF | (op == "neg") << 31))) for op in ("neg", "abs")),
    Case("mul.rn.ftz.f32", "f32 f32 f32", ((0xBF7FFFFF, 0x00800000, 0x80000000), (0x3F7FFFFF, 0x80800000, 0x80000000), (0x3F800000, 0x00800000, 0x00800000))),
    Case("fma.rn.ftz.f32", "f32 f32 f32 f32", ((0x80800000, 0xBF7FFFFF, 0xFF, 0),)),
    Case("div.rn.ftz.f32", "f32 f32 f32", ((0x3FFFFFFF, 0x7F000000, 0),)),
    Case("cvt.rn.ftz.f32.f64", "f32 f64", ((0x380FFFFFF0000000, 0x00800000), (0xB80FFFFFEFFFFFFF, 0x80000000))),
    Case("cvt.rp.ftz.f32.f64", "f32 f64", ((_HALF, 0x00800000), (_HALF - 1, 0), (0xB80FFFFFFFFFFFFF, 0x80000000))),
    Case("cvt.rm.ftz.f32.f64", "f32 f64", ((1 << 63 | _HALF, 0x80800000), (0x380FFFFFFFFFFFFF, 0))),
    Case("fns.b32", "b32 b32 b32 b32", ((0, 0, 0x80000000, 0), (0xFFFFFFFF, 5, 0x80000000, 0))),
    Case("bfe.u64", "b64 b64 b32 b32", ((1, 0x80000000, 1, 0), (0xFFFFFFFFFFFFFFFF, 8, 0x100, 0x00FFFFFFFFFFFFFF))),
    Case("bfe.s64", "b64 b64 b32 b32", ((1, 0x80000000, 1, 0), (1 << 63, 0x100, 1, 0xFFFFFFFFFFFFFFFF))),
    Case("bfi.b64", "b64 b64 b64 b32 b32", ((0x3F, 0, 0, 0x80000000, 0x3F), (0x3F, 7, 0x100, 4, 7))),
    *(Case(f"rem.{kind}", " ".join([f"b{kind[1:]}"] * 3), ((5, 0, (1 << int(kind[1:])) - 1), (5, 3, 2))) for kind in ("s16", "u32", "s32", "u64")),
    *(Case(f"testp.normal.f{bits}", f"pred f{bits}", ((0, 1), (1 << bits - 1, 1), (1, 0))) for bits in (32, 64)),
    Case("vadd.u32.u32.u32.sat {d}, {a}, {b}, {c}", "b32 b32 b32 b32", ((0xFFFFFFFF, 1, 0, 0),)),
    Case("vadd.u32.u32.u32.max {d}, {a}, {b}, {c}", "b32 b32 b32 b32", ((0x80000000, 0, 0x80000001, 0x80000000),)),
    Case("vadd.u32.u32.u32.sat.min {d}, {a}, {b}, {c}", "b32 b32 b32 b32", ((0xFFFFFFFF, 1, 1, 0),)),
    Case("vsub.u32.u32.u32.sat.min {d}, {a}, {b}, {c}", "b32 b32 b32 b32", ((0x80000000, 0, 0x80000001, 0x80000001),)),
    Case("vmax.s32.u32.s32.max {d}, {a}, {b}, {c}", "b32 b32 b32 b32", ((0x80000000, 0, 0, 0x80000000),)),
    Case("vabsdiff.s32.u32.s32.max {d}, {a}, {b}, {c}", "b32 b32 b32 b32", ((0x80000000, 0, 0, 0x80000000),)),
]  # fmt: skip


@pytest.mark.parametrize("shape", ["varying", "uniform"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text.split(" ")[0])
def test_bits_are_the_cards(case: Case, shape: str) -> None:
    d, *kinds = case.types.split()
    row = Row(case.text, d, tuple(kinds), lambda *v: 0)
    order = [k for _, k in sorted((kind, k) for k, kind in enumerate(kinds))]
    tuples = np.array(case.tuples, np.uint64)[np.arange(LANES) % len(case.tuples)]
    grid = LANES if shape == "uniform" else 1
    ran = run(kernel_text([row], shape, LANES), [np.ascontiguousarray(tuples[:, order].T), np.zeros(LANES, np.uint64)], grid, LANES)
    found = dict(zip(map(tuple, tuples[:, :-1].tolist()), ran.arrays[1].tolist(), strict=True))
    assert found == {t[:-1]: t[-1] for t in case.tuples}


@pytest.mark.parametrize("text", ["cvt.sat.bf16.bf16", "cvt.rn.sat.bf16.f32", "cvt.rn.satfinite.tf32.f32"])
def test_what_the_assembler_refuses_is_not_known(text: str) -> None:
    source = "f32" if text.endswith("f32") else "b16"
    row = Row(text, "b32" if "tf32" in text else "b16", (source,), lambda a: 0)
    with pytest.raises(UnsupportedPtx):
        run(kernel_text([row], "varying", LANES), [np.zeros(LANES, np.uint64)] * 2, 1, LANES)
