"""A model of how a matrix instruction sums products, with parameters that a card's results are searched for.

Products and the accumulator are brought to the largest exponent among them, cut there at `fraction` bits below it,
summed exactly, and the sum is rounded to the result's format; `block` products are summed at once, one block after
another. After Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ CS 2021), Khattak,
Mikaitis, "Accurate models of NVIDIA tensor cores" (arXiv 2512.07004), and for subnormals and zeros Xie et al., "MMA-Sim"
(arXiv 2511.10909). `h200` is the model that gives every result of an H200.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from tests.gpu.differential_shapes import Shape

Array = np.ndarray
_LEAST = {"f32": -149, "f16": -24}  # exponent of the least subnormal
_PRECISION = {"f32": 24, "f16": 11}
_LARGEST = {"f32": (2 - 2.0**-23) * 2.0**127, "f16": 65504.0}
_FLOOR = -126  # the largest exponent is at least this
_EXPONENTS = {"bf16": -126, "tf32": -126, "f32": -126}  # of the least normal numbers; of halves, which fp8 becomes, -14
_FP8 = ("e4m3", "e5m2")


@dataclass(frozen=True)
class Model:
    """fraction: bits kept below the largest exponent; rounding of the sum: rz or rn; normalised: a product's exponent
    is that of its value, else the sum of its factors' exponents; pairs: those k come first whose k % 4 < 2; last: the
    accumulator is added to the sum of the products, rounded to nearest."""

    fraction: int
    block: int
    rounding: str
    normalised: bool
    pairs: bool = False
    last: bool = False

    def __str__(self) -> str:
        exponents = "of products" if self.normalised else "of factors"
        order = ", pairs of k apart" * self.pairs + ", accumulator last" * self.last
        return f"{self.fraction} bits below the largest exponent ({exponents}), blocks of {self.block}, {self.rounding}{order}"

    def sum(self, a: Array, b: Array, c: Array, kind: str, factors: str = "f16") -> Array:
        """(n,) results of a, b (n, k) and c (n,), all float64 with values of their formats; `kind`: f32 or f16;
        `factors`: the format of a and b. What is not finite follows IEEE 754."""
        total = np.zeros_like(c) if self.last else c
        order = np.arange(a.shape[1])
        if self.pairs:
            order = order[np.argsort(order % 4 // 2, kind="stable")]
        for start in range(0, a.shape[1], self.block):
            part = order[start : start + self.block]
            total = self._block(a[:, part], b[:, part], total, kind, factors)
        return rounded(total + c, kind, "rn") if self.last else total

    def _block(self, a: Array, b: Array, c: Array, kind: str, factors: str) -> Array:
        least = _EXPONENTS.get(factors, -14)
        terms = np.concatenate([a * b, c[:, None]], axis=1)
        products = _exponent(a * b) if self.normalised else _exponent(a, least) + _exponent(b, least)
        start = _exponent(c, _EXPONENTS.get(kind, -14))
        exponents = np.concatenate([np.where(a * b != 0, products, _FLOOR), start[:, None]], axis=1)
        unit = np.exp2(np.maximum(exponents.max(axis=1), _FLOOR) - self.fraction)
        whole = np.trunc(terms / unit[:, None]).sum(axis=1) + 0.0
        special = terms.sum(axis=1)
        return np.where(np.isfinite(special), rounded(whole * unit, kind, self.rounding), special)


def h200(shape: Shape, a: Array, b: Array, c: Array) -> Array:
    """What an H200's instruction of this shape gives; arguments as of `Model.sum`."""
    eight = shape.a in _FP8
    model = Model(25, shape.k // 2 if eight else shape.k, "rz" if shape.c == "f32" else "rn", False, eight, eight)
    return model.sum(a, b, c, shape.c, shape.a)


def _exponent(x: Array, least: int = -2000) -> Array:
    """floor(log2 |x|) and at least `least`; far below everything for 0."""
    exponent: Array = np.where(x != 0, np.maximum(np.frexp(x)[1] - 1.0, least), -2000.0)
    return exponent


def rounded(x: Array, kind: str, mode: str) -> Array:
    """float64 values to a format: rz or rn, subnormals kept; what is too large is infinite."""
    exponent = np.maximum(np.frexp(x)[1] - _PRECISION[kind], _LEAST[kind]).astype(np.float64)
    unit = np.exp2(exponent)
    value = (np.trunc(x / unit) if mode == "rz" else np.rint(x / unit)) * unit
    result: Array = np.where(np.abs(value) > _LARGEST[kind], np.copysign(np.inf, x), value) + 0.0  # no -0
    return np.where(np.isfinite(x), result, x)


def models(shape: Shape) -> list[Model]:
    """All that are tried for a shape."""
    blocks = [n for n in (2, 4, 8, 16, 32) if n <= shape.k and n * 8 >= shape.k]
    found = [Model(*p) for p in product((10, 12, 13, 14, 22, 23, 24, 25, 26, 27, 40), blocks, ("rz", "rn"), (False, True))]
    if shape.a in _FP8:
        orders = ((False, True), (True, False), (True, True))
        found += [Model(24 + n, b, r, False, *o) for n, b, r, o in product(range(3), blocks, ("rz", "rn"), orders)]
    return found


def search(shape: Shape, a: Array, b: Array, c: Array, found: Array) -> list[dict[str, object]]:
    """The models that give most of a card's results, best first: their parameters and the share of equal values."""
    scores = []
    for model in models(shape):
        with np.errstate(all="ignore"):
            equal = model.sum(a, b, c, shape.c, shape.a) == found
        scores.append({**asdict(model), "text": str(model), "equal": float(equal.mean())})
    return sorted(scores, key=lambda s: -float(str(s["equal"])))


def fma_chain(a: Array, b: Array, c: Array) -> Array:
    """Float multiply-adds in the order of k. In float64 with one rounding to float: double rounding is rare."""
    total = c
    for k in range(a.shape[1]):
        total = (total + a[:, k] * b[:, k]).astype(np.float32).astype(np.float64)
    return total
