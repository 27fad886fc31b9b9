"""NumPy kernels for split_k_merge: honest ones, and mutants with one mistake each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.kernel_models import LOG2_E, ROUNDINGS, F, Inputs, Kernel, Rounding


def merge(inputs: Inputs, splits: slice = slice(None), **options: Any) -> dict[str, np.ndarray]:
    """The right answer in float32. Options: `m`, `l`, `partial_out` override inputs; `base2`, `noise` for exp;
    `subtract` False keeps the maximum in; `skip` False multiplies empty splits by 0; `late` divides at the end."""
    m, sums, parts = ({**inputs, **options}[name][splits] for name in ("m", "l", "partial_out"))
    top = m.max(axis=0)
    base = np.where(np.isfinite(top), top, F(0)) if options.get("subtract", True) else np.zeros_like(top)
    weights = _exp(m - base, options) * sums
    total = weights.sum(axis=0, dtype=F)
    skip, late = options.get("skip", True), options.get("late", False)
    if not late:
        weights = weights / np.where(total > 0, total, F(1))
    out = np.zeros(parts.shape[1:], F)
    for weight, part in zip(weights, parts, strict=True):
        out += np.where((weight[:, None] > 0) | (not skip), weight[:, None] * part, F(0))
    if late:
        out /= np.where(total > 0, total, F(1))[:, None]
    return {"out": out, "lse": base + np.where(total > 0, np.log(np.where(total > 0, total, F(1))), F(-np.inf))}


def _exp(x: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    y: np.ndarray = np.exp2(x * LOG2_E) if options.get("base2") else np.exp(x)
    noise = np.random.default_rng(1).uniform(-1, 1, x.shape).astype(F)
    return np.asarray(y * (1 + F(options.get("noise", 0)) * noise))


def _lse(inputs: Inputs, change: Any) -> dict[str, np.ndarray]:
    right = merge(inputs)
    return {"out": right["out"], "lse": change(right["lse"])}


def _rounded(to: Rounding, inputs: Inputs) -> dict[str, np.ndarray]:
    return merge(inputs, partial_out=to(inputs["partial_out"]))


def _nan_for_empty_rows(inputs: Inputs) -> dict[str, np.ndarray]:
    right = merge(inputs)
    return {"out": np.where(np.isinf(right["lse"])[:, None], F(np.nan), right["out"]), "lse": right["lse"]}


HONEST_KERNELS: dict[str, Kernel] = {
    "plain": merge,
    "divided at the end": lambda i: merge(i, late=True),
    "base 2": lambda i: merge(i, base2=True),
    "base 2, divided at the end": lambda i: merge(i, base2=True, late=True),
    "exp with noise": lambda i: merge(i, noise=2.0**-21),
    "last split first": lambda i: merge(i, slice(None, None, -1), late=True),
    "last split first, base 2 with noise": lambda i: merge(i, slice(None, None, -1), base2=True, noise=2.0**-21),
}
MUTANTS: dict[str, Kernel] = {
    **{f"partial_out in {name}": partial(_rounded, to) for name, to in ROUNDINGS.items()},
    "zeros": lambda i: {"out": np.zeros_like(merge(i)["out"]), "lse": merge(i)["lse"]},
    "weighted by l without m": lambda i: merge(i, m=np.where(i["l"] > 0, F(0), F(-np.inf))),
    "weighted by m without l": lambda i: merge(i, l=np.where(i["l"] > 0, F(1), F(0))),
    "plain mean": lambda i: merge(i, m=np.zeros_like(i["m"]), l=np.ones_like(i["l"])),
    "no maximum subtracted": lambda i: merge(i, subtract=False),
    "empty split times 0": lambda i: merge(i, skip=False),
    "last split dropped": lambda i: merge(i, slice(0, max(1, i["num_splits"] - 1))),
    "32 splits at most": lambda i: merge(i, slice(0, 32)),
    "64 dimensions of 128": lambda i: {**merge(i), "out": merge(i)["out"] * (np.arange(i["head_dim"]) < 64)},
    "NaN for an empty row": _nan_for_empty_rows,
    "lse in base 2": lambda i: _lse(i, lambda lse: lse * LOG2_E),
    "lse without m": lambda i: _lse(i, lambda lse: lse - i["m"].max(axis=0)),
    "lse is 0 for an empty row": lambda i: _lse(i, lambda lse: np.where(np.isinf(lse), F(0), lse)),
    "lse is finite for an empty row": lambda i: _lse(i, lambda lse: np.where(np.isinf(lse), F(-3e38), lse)),
}
