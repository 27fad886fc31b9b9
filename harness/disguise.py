"""Changes of a case's inputs whose effect on the answer is known exactly, so that each timed launch gets fresh inputs
and is still checked against the one stored reference.

A problem's reference.py draws one with `disguise(inputs, rng)`. For every tensor that it names, inputs and outputs
alike,

    new[i0, i1, ...] = old[gather0[i0], gather1[i1], ...] * scale0[i0] * scale1[i1] * ...

and tensors in `replace` are given whole (page tables, lengths). Factors are powers of two with a sign, which every
floating-point type multiplies by without rounding. Outputs change by the same rule, so that dividing an output by its
factors gives exactly the errors that the undisguised output would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

PerAxis = Mapping[int, np.ndarray]


@dataclass(frozen=True)
class Disguise:
    """By tensor: for an axis, the old index of each new one (int32), and a factor for each new index (float32)."""

    gather: Mapping[str, PerAxis] = field(default_factory=dict)
    scale: Mapping[str, PerAxis] = field(default_factory=dict)
    replace: Mapping[str, np.ndarray] = field(default_factory=dict)

    def applied(self, name: str, array: np.ndarray) -> np.ndarray:
        """The tensor as the kernel sees it; for an output, the reference as the kernel must answer it."""
        if name in self.replace:
            return self.replace[name]
        for axis, index in self.gather.get(name, {}).items():
            array = np.take(array, index, axis)
        for axis, factors in self.scale.get(name, {}).items():
            shape = [1] * array.ndim
            shape[axis] = len(factors)
            array = array * factors.reshape(shape).astype(array.dtype)
        return np.ascontiguousarray(array)

    def removed(self, name: str, array: np.ndarray) -> np.ndarray:
        """An output that a kernel wrote, as it would be without the disguise."""
        for axis, factors in self.scale.get(name, {}).items():
            shape = [1] * array.ndim
            shape[axis] = len(factors)
            array = array / factors.reshape(shape).astype(array.dtype)
        for axis, index in self.gather.get(name, {}).items():
            array = np.take(array, np.argsort(index), axis)
        return np.ascontiguousarray(array)
