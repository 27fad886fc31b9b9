"""out = x * cache (times a row's factor, where the cache is of eight bits), and the sum of each row.

Shapes: x, cache, out [rows, columns]; factor, sum [rows].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from harness import symmetries
from harness.disguise import Disguise

_STORED: dict[str, Any] = {  # x and cache
    "float32": (np.float32, np.float32),
    "float16": (np.float16, np.float16),
    "bfloat16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    "float8_e4m3": (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn),
}


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    rows, columns = case["rows"], case["columns"]
    stored = _STORED[case["dtype"]]
    x, cache = (rng.standard_normal((rows, columns), dtype=np.float32).astype(kind) for kind in stored)
    factor = np.exp2(rng.integers(-2, 3, rows)).astype(np.float32)
    given = {"factor": factor} if case["dtype"] == "float8_e4m3" else {}
    return {"x": x, "cache": cache, **given, "rows": rows, "columns": columns}


def expected(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    out = inputs["x"].astype(np.float64) * inputs["cache"].astype(np.float64)
    out *= inputs.get("factor", np.ones(len(out)))[:, None].astype(np.float64)
    return {"out": out, "sum": out.sum(axis=1)}


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    answer = expected(inputs)
    yield {"out": answer["out"].astype(inputs["x"].dtype), "sum": answer["sum"].astype(np.float32)}


def cost(case: dict[str, Any]) -> dict[str, int]:
    elements = case["rows"] * case["columns"]
    element, cached = (np.dtype(kind).itemsize for kind in _STORED[case["dtype"]])
    more = 4 * case["rows"] * ((case["dtype"] == "float8_e4m3") + (case["variant"] == "sums"))
    return {"bytes": elements * (2 * element + cached) + more, "flops": elements}


def disguise(inputs: dict[str, Any], rng: np.random.Generator) -> Disguise:
    """Rows in another order and with other signs; `sum` and `factor` move with them, where they are there."""
    rows, signs = (draw(inputs["rows"], rng) for draw in (symmetries.permutation, lambda n, r: r.choice([-1, 1], n)))
    names = ("x", "cache", "factor", "out", "sum")
    scale = {name: {0: signs.astype(np.float32)} for name in ("x", "out", "sum")}
    return Disguise({name: {0: rows} for name in names}, scale)
