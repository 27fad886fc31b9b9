"""How mma adds: bit for bit as an H200 did, and as the model of it that was found there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulator_kit import run
from tests.gpu import differential_mma, differential_mma_model
from tests.gpu.differential_children import Child
from tests.gpu.differential_shapes import SHAPES, Shape, decode, encode, fragments, kernel_text, result
from tests.gpu.differential_sides import emulator

pytestmark = pytest.mark.usefixtures("quick_compiler")

# On an H200: the largest error of random tiles, in units of 2^-24 (|c| + sum |a b|), and the largest difference from a
# chain of float multiply-adds. In these figures of some thousand results a single bit that is wrong shows.
FLOATS = {
    "m16n8k8 f16 f16 f32": (2.58664291541466, 4.233716634870731),
    "m16n8k8 f16 f16 f16": (7393.91519627966, 7393.421270208363),
    "m16n8k16 f16 f16 f32": (2.283408434575291, 4.713386543169852),
    "m16n8k16 f16 f16 f16": (7206.275778951558, 7208.794641482893),
    "m16n8k8 bf16 bf16 f32": (1.8671458744035572, 3.8736484083911593),
    "m16n8k16 bf16 bf16 f32": (2.549112747016362, 3.552097211443391),
    "m16n8k4 tf32 tf32 f32": (2.0611442034325513, 3.7275085738349802),
    "m16n8k8 tf32 tf32 f32": (2.7207652312655064, 4.233754616633395),
    "m16n8k32 e4m3 e4m3 f32": (0.7858377715788194, 1.5085482560661607),
    "m16n8k32 e5m2 e5m2 f32": (1.1197605464699742, 1.4627465047012764),
    "m16n8k32 e4m3 e5m2 f32": (1.2516062430259711, 1.5058272839262126),
    "m16n8k16 e4m3 e4m3 f32": (0.8478447751992045, 1.7902744899927236),
    "m16n8k16 e4m3 e4m3 f16": (10912.942612459496, 10912.942612459496),
    "m16n8k32 e4m3 e4m3 f16": (11726.042964448274, 11726.042964448274),
}
ALL = [s for s in SHAPES if s.c != "s32"]


def _name(s: Shape) -> str:
    return f"m16n8k{s.k} {s.a} {s.b} {s.c}"


class _Emulated(differential_mma.Sides):
    """The emulator where the probe expects a card."""

    def tiles(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return _multiply(self.shape, a, b, c)


def _multiply(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Bit patterns of D, of those of tiles."""
    registers = fragments(shape, a, b, c)
    ran = run(kernel_text(shape), [*registers, np.zeros_like(registers[2])], grid=len(a))
    assert ran.findings == []
    return result(shape, ran.arrays[3])


@pytest.mark.parametrize("shape", ALL, ids=_name)
def test_the_figures_of_a_card_are_met(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differential_mma.model, "models", lambda shape: [])
    found = differential_mma.random_data(_Emulated(shape, Child(emulator), Child(emulator), Path()))
    figures = [found["largest error"], found["largest difference from a chain"]]
    np.testing.assert_allclose(figures, FLOATS[_name(shape)], rtol=1e-8)  # NumPy sums doubles in an order of its own


def _want(shape: Shape, bits: list[np.ndarray]) -> np.ndarray:
    """Bit patterns of D after the model; one NaN for all."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = [decode(x, kind) for x, kind in zip(bits, (shape.a, shape.b, shape.c), strict=True)]
    for x, pattern, kind in zip(values, bits, (shape.a, shape.b, shape.c), strict=True):
        if kind in _NOT_FINITE:
            x[:] = _special(x, pattern, kind)
    with np.errstate(all="ignore"):
        found = differential_mma_model.h200(shape, *differential_mma.products(*values))
        patterns = encode(found, shape.c)
    canonical = 0x7FFF if shape.c == "f16" else 0x7FFFFFFF
    return np.where(np.isnan(found), canonical, patterns).reshape(bits[2].shape)


_NOT_FINITE = {"e4m3": (0x7F,), "e5m2": (0x7C, 0x7E)}  # patterns that the probe's formats read as numbers
_SPECIAL = {"f16": (0x7C00, 0x7D01), "bf16": (0x7F80, 0x7F81), "tf32": (0x7F800000, 0x7F802000), "f32": (0x7F800000, 0x7F800001), **_NOT_FINITE}


def _special(values: np.ndarray, bits: np.ndarray, kind: str) -> np.ndarray:
    size = bits & np.uint32(0x7F)
    infinite = (size == 0x7C) & (kind == "e5m2")
    nan = (size == 0x7F) if kind == "e4m3" else size > 0x7C
    return np.where(nan, np.nan, np.where(infinite, np.copysign(np.inf, values), values))


@pytest.mark.parametrize("shape", ALL, ids=_name)
def test_any_bit_patterns(shape: Shape) -> None:
    """Numbers of all sizes, subnormals and zeros, sums that overflow; the signs of zeros count."""
    bits = list(differential_mma.patterns(shape, 12, seed=11))
    np.testing.assert_array_equal(_multiply(shape, *bits), _want(shape, bits))


@pytest.mark.parametrize("shape", ALL, ids=_name)
def test_zeros_and_numbers_of_one_size(shape: Shape) -> None:
    """Neither subnormal nor infinite factors, as is usual; every other row of A is all zero, B has zeros everywhere.
    From tile to tile products grow, through the bounds within which floats can hold them; accumulators are of any size."""
    rng, tiles = np.random.default_rng(3), 48
    wide = shape.a in ("bf16", "tf32")
    least, most = (-60, 66) if wide else {"e4m3": (-6, 7), "e5m2": (-14, 14)}.get(shape.a, (-14, 14))
    size = np.linspace(least, most, tiles)[:, None, None].round()
    a, b = (rng.uniform(1, 1.9, n) * rng.choice([-1, 1], n) * np.exp2(size) for n in ((tiles, 16, shape.k), (tiles, shape.k, 8)))
    a[:, ::2] = 0
    a[rng.random(a.shape) < 0.3] = 0
    b[rng.random(b.shape) < 0.3] = 0
    bits = [encode(differential_mma._as(a, shape.a), shape.a), encode(differential_mma._as(b, shape.b), shape.b)]
    bits.append(differential_mma.patterns(shape, tiles, seed=13)[2])
    np.testing.assert_array_equal(_multiply(shape, *bits), _want(shape, bits))


@pytest.mark.parametrize("shape", ALL, ids=_name)
def test_infinities_and_nan(shape: Shape) -> None:
    """A few in each matrix: infinity times zero, infinities that cancel, and numbers beside them in other rows."""
    rng = np.random.default_rng(2)
    bits = list(differential_mma.patterns(shape, 12, seed=12))
    for n, kind in enumerate((shape.a, shape.b, shape.c)):
        width = differential_mma._WORDS[kind][0]
        signed = rng.choice(np.array(_SPECIAL[kind]), bits[n].shape) | rng.integers(0, 2, bits[n].shape) << (width - 1)
        bits[n] = np.where(rng.random(bits[n].shape) < 0.02, signed, bits[n]).astype(np.uint32)
    want = _want(shape, bits)
    assert 0 < (~np.isfinite(decode(want, shape.c))).mean() < 0.9
    np.testing.assert_array_equal(_multiply(shape, *bits), want)


def test_a_small_term_is_lost_beside_terms_that_cancel() -> None:
    """25 bits are kept, towards zero, in whatever order the terms stand; a chain of multiply-adds would keep all."""
    shape = Shape(16, "f16", "f16", "f32")
    a, b, c = np.zeros((4, 16, 16)), np.zeros((4, 16, 8)), np.zeros((4, 16, 8))
    b[:, :, 0] = 1
    for tile, (places, small) in enumerate([((0, 1, 2), 2.0**-10), ((0, 1, 2), 2.0**-11), ((14, 3, 0), -(2.0**-11)), ((9, 8, 1), 1.9 * 2.0**-10)]):
        for k, value in zip(places, (2.0**15, -(2.0**15), small), strict=True):
            a[tile, 0, k] = value
    found = decode(_multiply(shape, encode(a, "f16"), encode(b, "f16"), encode(c, "f32")), "f32")[:, 0, 0]
    np.testing.assert_array_equal(found, [2.0**-10, 0, 0, 2.0**-10])
