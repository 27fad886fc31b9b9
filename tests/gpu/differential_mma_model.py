"""A model of how a matrix instruction sums products, with parameters that a card's results are searched for.

Products and the accumulator are brought to the largest exponent among them, cut there at `fraction` bits below it,
summed exactly, and the sum is rounded to the result's format; `block` products are summed at once, one block after
another. After Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ CS 2021) and Khattak,
Mikaitis, "Accurate models of NVIDIA tensor cores" (arXiv 2512.07004).
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


@dataclass(frozen=True)
class Model:
    """fraction: bits kept below the largest exponent; rounding of the sum: rz or rn; normalised: a product's exponent
    is that of its value, else the sum of its factors' exponents."""

    fraction: int
    block: int
    rounding: str
    normalised: bool

    def __str__(self) -> str:
        exponents = "of products" if self.normalised else "of factors"
        return f"{self.fraction} bits below the largest exponent ({exponents}), blocks of {self.block}, {self.rounding}"

    def sum(self, a: Array, b: Array, c: Array, kind: str) -> Array:
        """(n,) results of a, b (n, k) and c (n,), all float64 with values of their formats; `kind`: f32 or f16."""
        total = c
        for start in range(0, a.shape[1], self.block):
            part = slice(start, start + self.block)
            total = self._block(a[:, part], b[:, part], total, kind)
        return total

    def _block(self, a: Array, b: Array, c: Array, kind: str) -> Array:
        terms = np.concatenate([a * b, c[:, None]], axis=1)
        products = _exponent(a * b) if self.normalised else np.where(a * b != 0, _exponent(a) + _exponent(b), -2000)
        exponents = np.concatenate([products, _exponent(c)[:, None]], axis=1)
        unit = np.exp2(np.maximum(exponents.max(axis=1), -900) - self.fraction)
        whole = np.trunc(terms / unit[:, None]).sum(axis=1)
        return rounded(whole * unit, kind, self.rounding)


def _exponent(x: Array) -> Array:
    """floor(log2 |x|); far below everything for 0."""
    exponent: Array = np.where(x != 0, np.frexp(x)[1] - 1.0, -2000.0)
    return exponent


def rounded(x: Array, kind: str, mode: str) -> Array:
    """float64 values to a format: rz or rn, subnormals kept."""
    exponent = np.maximum(np.frexp(x)[1] - _PRECISION[kind], _LEAST[kind]).astype(np.float64)
    unit = np.exp2(exponent)
    whole = np.trunc(x / unit) if mode == "rz" else np.rint(x / unit)
    largest, value = _LARGEST[kind], whole * unit
    result: Array = np.where(np.abs(value) > largest, np.copysign(largest if mode == "rz" else np.inf, x), value)
    return result


def models(shape: Shape) -> list[Model]:
    """All that are tried for a shape."""
    blocks = [n for n in (2, 4, 8, 16, 32) if n <= shape.k and n * 8 >= shape.k]
    return [Model(*p) for p in product((10, 12, 13, 14, 22, 23, 24, 25, 26, 27, 40), blocks, ("rz", "rn"), (False, True))]


def search(shape: Shape, a: Array, b: Array, c: Array, found: Array) -> list[dict[str, object]]:
    """The models that give most of a card's results, best first: their parameters and the share of equal values."""
    scores = []
    for model in models(shape):
        with np.errstate(all="ignore"):
            equal = model.sum(a, b, c, shape.c) == found
        scores.append({**asdict(model), "text": str(model), "equal": float(equal.mean())})
    return sorted(scores, key=lambda s: -float(str(s["equal"])))


def fma_chain(a: Array, b: Array, c: Array) -> Array:
    """Float multiply-adds in the order of k. In float64 with one rounding to float: double rounding is rare."""
    total = c
    for k in range(a.shape[1]):
        total = (total + a[:, k] * b[:, k]).astype(np.float32).astype(np.float64)
    return total
