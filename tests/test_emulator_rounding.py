"""Directed rounding of doubles of all sizes, against exact rationals: also where residuals, products or results are
subnormal or beyond the largest number."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from tests import exact_float as exact
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

MODES = {"rz": "rz", "ru": "rp", "rd": "rm"}
OPERATIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "__dadd": (2, exact.add),
    "__dmul": (2, exact.mul),
    "__ddiv": (2, exact.div),
    "__dsqrt": (1, exact.sqrt),
    "__fma": (3, exact.fma),
}
_LEAST, _LARGEST = 2.0**-1074, (2 - 2.0**-52) * 2.0**1023
_EDGES = (0.0, _LEAST, 3 * _LEAST, 2.0**-1022 - _LEAST, 2.0**-1022, 2.0**-540 * 1.1, 1.0, 1 + 2.0**-52, 3.0, 2.0**900 / 3, _LARGEST, math.inf)
_TIED = ((1.0, 1.0, _LEAST), (2.0**-537, 2.0**-538, _LEAST), (2.0**-538, 2.0**-538, 2 * _LEAST), (1 + 2.0**-52, 1 + 2.0**-52, -1.0 - 2.0**-51),
         (2.0**1023, 2.0, -_LARGEST), (_LARGEST, 2.0, -_LARGEST), (2.0**-1000, 2.0**-900, _LARGEST), (2.0**-1000, -(2.0**-900), _LEAST))  # fmt: skip


def _of_any_size(rng: random.Random) -> float:
    exponent = rng.choice((0, rng.randrange(3), rng.randrange(2047), rng.randrange(2047), 2046 - rng.randrange(3), 1023 + rng.randrange(-60, 60)))
    fraction = rng.getrandbits(52) if rng.random() < 0.7 else rng.getrandbits(rng.randrange(1, 52))
    return float(struct.unpack("<d", struct.pack("<Q", rng.getrandbits(1) << 63 | exponent << 52 | fraction))[0])


def _near_a_number(rng: random.Random) -> tuple[float, float, float]:
    """A product and a term that nearly cancel, or the product's neighbours: what is left is as small as it can be."""
    a = _of_any_size(rng)
    b = math.ldexp(1 + rng.getrandbits(52) * 2.0**-52, rng.randrange(-1074, -900) - math.frexp(a)[1]) if abs(a) > 2.0**-20 else _of_any_size(rng)
    c = -a * b
    return a, b, c if math.isfinite(c) else 1.0


def _operands() -> np.ndarray:
    rng = random.Random(7)
    rows = [(s * a, b, -s * a) for a, b, s in product(_EDGES, _EDGES, (1, -1))] + list(_TIED)
    rows += [tuple(_of_any_size(rng) for _ in range(3)) for _ in range(500)]  # type: ignore[misc]
    rows += [_near_a_number(rng) for _ in range(300)]
    rows += [rows[0]] * (-len(rows) % 32)
    return np.array(rows)


def _same(a: float, b: float) -> bool:
    return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("name", OPERATIONS)
def test_directed_results_are_the_exact_ones_rounded_once(name: str) -> None:
    count, model = OPERATIONS[name]
    values = _operands()
    arguments = ", ".join("abc"[:count])
    stores = " ".join(f"out[3 * t + {n}] = {name}_{mode}({arguments});" for n, mode in enumerate(MODES))
    text = f"""extern "C" __global__ void kernel(const double* in, double* out) {{
        const int t = blockIdx.x * 32 + threadIdx.x; const double a = in[3 * t], b = in[3 * t + 1], c = in[3 * t + 2];
        {stores} }}"""
    out = run(text, [values.ravel(), np.zeros(values.size)], len(values) // 32, 32).arrays[1].reshape(-1, 3)
    wrong = []
    for row, found in zip(values.tolist(), out.tolist(), strict=True):
        for mode, got in zip(MODES.values(), found, strict=True):
            want = model(*row[:count], "f64", mode)
            if not _same(got, want):
                wrong.append(f"{name} {mode} of {[v.hex() for v in row[:count]]}: {got.hex()}, not {want.hex()}")
    assert wrong == []
