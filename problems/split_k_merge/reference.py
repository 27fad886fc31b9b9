"""Split-K merge: inputs, the float64 answer, honest float32 kernels, and the least work.

Shapes: partial_out [num_splits, rows, head_dim]; m, l [num_splits, rows]; out [rows, head_dim]; lse [rows].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

_LARGE = np.float32(1e4)
_LOG2_E = np.float32(1.4426950408889634)


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but `out` and `lse`."""
    splits, rows, head_dim = (case[name] for name in ("num_splits", "rows", "head_dim"))
    partial_out = rng.standard_normal((splits, rows, head_dim), dtype=np.float32)
    partial_out *= np.float32(case["value_scale"])
    m = case["center"] + case["spread"] * rng.uniform(-1, 1, (splits, rows))
    log_l = case["l_decades"] * np.log(10) * rng.uniform(0, 1, (splits, rows))
    m = (m - log_l if case["balanced"] else m).astype(np.float32)
    sums = np.exp(log_l).astype(np.float32)
    empty = rng.random((splits, rows)) < case["empty"]
    empty[:, rng.permutation(rows)[: case["empty_rows"]]] = True
    m[empty], sums[empty] = -np.inf, 0
    _spoil(partial_out, empty, case["empty_holds"])
    return {"partial_out": partial_out, "m": m, "l": sums, "num_splits": splits, "rows": rows, "head_dim": head_dim}


def _spoil(partial_out: np.ndarray, empty: np.ndarray, empty_holds: str) -> None:
    """What an empty split holds counts for nothing: large numbers, or NaN."""
    partial_out[empty] = partial_out[empty] * _LARGE if empty_holds == "large" else np.nan


def expected(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The float64 answer from the float32 inputs; zeros and -inf for a row whose splits are all empty."""
    m, sums = inputs["m"].astype(np.float64), inputs["l"].astype(np.float64)
    top = m.max(axis=0)
    weights = np.exp(m - np.where(np.isfinite(top), top, 0)) * sums  # 0 where m is -inf
    total = weights.sum(axis=0)
    out = np.zeros((inputs["rows"], inputs["head_dim"]))
    for weight, part in zip(weights, inputs["partial_out"], strict=True):
        used = weight > 0  # an empty split may hold NaN
        out[used] += weight[used, None] * part[used]
    some = total > 0
    out[some] /= total[some, None]
    lse = np.full(inputs["rows"], -np.inf)
    lse[some] = top[some] + np.log(total[some])
    return {"out": out, "lse": lse}


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What honest float32 kernels answer."""
    yield _two_passes(inputs, np.exp)
    yield _two_passes(inputs, lambda x: np.exp2(x * _LOG2_E))
    yield _online(inputs)


def _two_passes(inputs: dict[str, Any], exp: Any) -> dict[str, np.ndarray]:
    """The maximum first; then the weights, already divided by their sum; then the weighted sum."""
    m, sums, rows = inputs["m"], inputs["l"], inputs["rows"]
    top = m.max(axis=0)
    weights = np.where(sums > 0, exp(m - np.where(np.isfinite(top), top, np.float32(0))) * sums, np.float32(0))
    total = np.zeros(rows, np.float32)
    for weight in weights:
        total += weight
    weights /= np.where(total > 0, total, np.float32(1))
    out = np.zeros((rows, inputs["head_dim"]), np.float32)
    for weight, part in zip(weights, inputs["partial_out"], strict=True):
        out += np.where(weight[:, None] > 0, weight[:, None] * part, np.float32(0))
    return {"out": out, "lse": _lse(top, total)}


def _online(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """One pass over the splits with running maximum, sum and output."""
    rows = inputs["rows"]
    top, total = np.full(rows, -np.inf, np.float32), np.zeros(rows, np.float32)
    out = np.zeros((rows, inputs["head_dim"]), np.float32)
    for m, sums, part in zip(inputs["m"], inputs["l"], inputs["partial_out"], strict=True):
        used = sums > 0
        new = np.maximum(top[used], m[used])
        correction, weight = np.exp(top[used] - new), np.exp(m[used] - new) * sums[used]
        total[used] = total[used] * correction + weight
        out[used] = out[used] * correction[:, None] + weight[:, None] * part[used]
        top[used] = new
    some = total > 0
    out[some] /= total[some, None]
    return {"out": out, "lse": _lse(top, total)}


def _lse(top: np.ndarray, total: np.ndarray) -> np.ndarray:
    lse = np.full_like(top, -np.inf)
    lse[total > 0] = top[total > 0] + np.log(total[total > 0])
    return lse


def cost(inputs: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes (what is not empty read once, out and lse written once), and a multiply-add per element read."""
    used = int((inputs["l"] > 0).sum())
    rows, head_dim = inputs["rows"], inputs["head_dim"]
    return {
        "bytes": 4 * (used * head_dim + 2 * inputs["m"].size + rows * (head_dim + 1)),
        "flops": 2 * used * head_dim,
    }
