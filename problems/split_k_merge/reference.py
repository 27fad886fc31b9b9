"""Split-K merge: inputs, the float64 answer, honest kernels, the least work, and exact symmetries.

Shapes: partial_out [num_splits, rows, head_dim]; m, l [num_splits, rows]; out [rows, head_dim]; lse [rows].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness import parallel, stored, symmetries
from harness.disguise import Disguise

_LARGE = np.float32(1e4)
_LOG2_E = np.float32(1.4426950408889634)
_ROWS_AT_ONCE = 1024  # of one thread
_FLOAT_BYTES = np.dtype(np.float32).itemsize  # of m, l and lse


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but `out` and `lse`."""
    splits, rows, head_dim = (case[name] for name in ("num_splits", "rows", "head_dim"))
    partial_out = parallel.standard_normal((splits, rows, head_dim), rng)
    if case["value_scale"] != 1:
        partial_out *= np.float32(case["value_scale"])
    m = case["center"] + case["spread"] * rng.uniform(-1, 1, (splits, rows))
    log_l = case["l_decades"] * np.log(10) * rng.uniform(0, 1, (splits, rows))
    m = (m - log_l if case["balanced"] else m).astype(np.float32)
    sums = np.exp(log_l).astype(np.float32)
    empty = _empty(case, rng)
    m[empty], sums[empty] = -np.inf, 0
    _spoil(partial_out, empty, case["empty_holds"])
    partial_out = stored.rounded(partial_out, stored.element(case.get("dtype", "float32")))
    return {"partial_out": partial_out, "m": m, "l": sums, "num_splits": splits, "rows": rows, "head_dim": head_dim}


def _empty(case: dict[str, Any], rng: np.random.Generator) -> np.ndarray:
    """[num_splits, rows]: `empty_rows` whole rows, and the share `empty` of all other splits."""
    splits, rows = case["num_splits"], case["rows"]
    empty = np.zeros((splits, rows), bool)
    if case["empty"] or case["empty_rows"]:
        order = rng.permutation(rows)
        empty[:, order[: case["empty_rows"]]] = True
        others = order[case["empty_rows"] :]
        chosen = rng.permutation(splits * len(others))[: round(case["empty"] * splits * len(others))]
        empty[chosen % splits, others[chosen // splits]] = True
    return empty


def _spoil(partial_out: np.ndarray, empty: np.ndarray, empty_holds: str) -> None:
    """What an empty split holds counts for nothing: large numbers, or NaN."""
    partial_out[empty] = partial_out[empty] * _LARGE if empty_holds == "large" else np.nan


def expected(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The float64 answer from the inputs as stored; zeros and -inf for a row whose splits are all empty."""
    out, lse = np.zeros((inputs["rows"], inputs["head_dim"])), np.full(inputs["rows"], -np.inf)

    def fill(rows: slice) -> None:
        m, sums = (inputs[name][:, rows].astype(np.float64) for name in ("m", "l"))
        out[rows], lse[rows] = _merged(inputs["partial_out"][:, rows], m, sums)

    parallel.each(fill, parallel.slices(inputs["rows"], _ROWS_AT_ONCE))
    return {"out": out, "lse": lse}


def _merged(partial_out: np.ndarray, m: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """out [rows, head_dim] and lse [rows] of some rows."""
    top = m.max(axis=0)
    weights = np.exp(m - np.where(np.isfinite(top), top, 0)) * sums  # 0 where m is -inf
    total = weights.sum(axis=0)
    out = np.zeros(partial_out.shape[1:])
    for weight, part in zip(weights, partial_out, strict=True):
        used = weight > 0  # an empty split may hold NaN
        out[used] += weight[used, None] * stored.widened(part[used], np.float64)
    lse, some = np.full(len(total), -np.inf), total > 0
    out[some] /= total[some, None]
    lse[some] = top[some] + np.log(total[some])
    return out, lse


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What honest kernels answer: sums in float32, and where partial outputs are narrower, weights too that are rounded
    to their type, as tensor cores need them."""
    kind = inputs["partial_out"].dtype
    parts = [stored.widened(part) for part in inputs["partial_out"]]
    models = [_two_passes(inputs, parts, np.exp), _two_passes(inputs, parts, _exp_of_base_2), _online(inputs, parts)]
    if kind != stored.FLOAT32:
        models += [_two_passes(inputs, parts, np.exp, kind, divided) for divided in (True, False)]
    for model in models:
        yield {**model, "out": stored.widened(stored.rounded(model["out"], kind))}


def _exp_of_base_2(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp2(x * _LOG2_E))


def _two_passes(
    inputs: dict[str, Any], parts: list[np.ndarray], exp: Any, kind: np.dtype[Any] = stored.FLOAT32,
    divided: bool = True,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The maximum first; then the weights of type `kind`, already `divided` by their sum, or else by the largest; then
    the weighted sum."""
    m, sums, rows = inputs["m"], inputs["l"], inputs["rows"]
    top = m.max(axis=0)
    weights = np.where(sums > 0, exp(m - np.where(np.isfinite(top), top, np.float32(0))) * sums, np.float32(0))
    total = np.zeros(rows, np.float32)
    for weight in weights:
        total += weight
    divisor = np.where(total > 0, total if divided else weights.max(axis=0), np.float32(1))
    weights = stored.widened(stored.rounded(weights / divisor, kind))
    out = np.zeros((rows, inputs["head_dim"]), np.float32)
    for weight, part in zip(weights, parts, strict=True):
        out += np.where(weight[:, None] > 0, weight[:, None] * part, np.float32(0))
    if not divided:
        out *= (divisor / np.where(total > 0, total, np.float32(1)))[:, None]
    return {"out": out, "lse": _lse(top, total)}


def _online(inputs: dict[str, Any], parts: list[np.ndarray]) -> dict[str, np.ndarray]:
    """One pass over the splits with running maximum, sum and output."""
    rows = inputs["rows"]
    top, total = np.full(rows, -np.inf, np.float32), np.zeros(rows, np.float32)
    out = np.zeros((rows, inputs["head_dim"]), np.float32)
    for m, sums, part in zip(inputs["m"], inputs["l"], parts, strict=True):
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


def cost(case: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes (all of m, which tells what is empty; partial_out and l of what is not; out and lse), and a
    multiply-add per element read."""
    splits, rows, head_dim = (case[name] for name in ("num_splits", "rows", "head_dim"))
    candidates = splits * max(0, rows - case["empty_rows"])
    used = candidates - round(case["empty"] * candidates)
    size = stored.element(case.get("dtype", "float32")).itemsize
    return {
        "bytes": (used + rows) * head_dim * size + (splits * rows + used + rows) * _FLOAT_BYTES,
        "flops": 2 * used * head_dim,
    }


def disguise(inputs: dict[str, Any], rng: np.random.Generator) -> Disguise:
    """Splits, rows and channels in other orders; rows and channels of partial_out and out scaled. (A shifted m, or a
    scaled l, would change lse by what rounds.)"""
    sizes = inputs["partial_out"].shape
    splits, rows, channels = (symmetries.permutation(n, rng) for n in sizes)
    by_row, by_channel = (symmetries.factors(n, inputs["partial_out"].dtype, rng) for n in sizes[1:])
    gather = {
        "partial_out": {0: splits, 1: rows, 2: channels},
        "m": {0: splits, 1: rows},
        "l": {0: splits, 1: rows},
        "out": {0: rows, 1: channels},
        "lse": {0: rows},
    }
    return Disguise(gather, {"partial_out": {1: by_row, 2: by_channel}, "out": {0: by_row, 1: by_channel}})
