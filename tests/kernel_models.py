"""NumPy models of kernels that the checker must accept, and of wrong ones that it must refuse.

They share no code with harness/attention_models.py, from which the limits are derived. Each takes the inputs of a case
(reference.make_inputs) and returns its outputs as float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Inputs = dict[str, Any]
Kernel = Callable[[Inputs], dict[str, np.ndarray]]
Rounding = Callable[[np.ndarray], np.ndarray]
F = np.float32
LOG2_E = F(np.log2(np.e))


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    visible: np.ndarray | None = None,
    *,
    chunk: int = 1 << 30,
    dot: str = "blas",
    base2: bool = False,
    noise: float = 0.0,
    subtract: bool = True,
    correct: bool = True,
    p_type: type = F,
) -> np.ndarray:
    """softmax(q k^T scale) v in float32 for q [B, R, D], k and v [B, N, D], chunk after chunk of keys.

    visible [R, N] or None; the other arguments say how the kernel computes, or what it gets wrong.
    """
    factor = F(scale) * LOG2_E if base2 else F(scale)
    exp = np.exp2 if base2 else np.exp
    rng = np.random.default_rng(1)
    top = np.full((*q.shape[:2], 1), -np.inf, F)
    total, out = np.zeros_like(top), np.zeros_like(q)
    for start in range(0, k.shape[1], chunk):
        keys = slice(start, start + chunk)
        s = _dot(q * factor if base2 else q, k[:, keys], dot)
        s = s if base2 else s * factor
        if visible is not None:
            s = np.where(visible[None, :, keys], s, F(-np.inf))
        new = np.maximum(top, s.max(-1, keepdims=True)) if subtract else np.zeros_like(top)
        base = np.where(np.isfinite(new), new, F(0))  # a row that has seen nothing yet
        p = (exp(s - base) * (1 + F(noise) * rng.uniform(-1, 1, s.shape).astype(F))).astype(p_type).astype(F)
        correction = exp(top - base) if correct and subtract else F(1)
        total = total * correction + p.sum(-1, keepdims=True)
        out = out * correction + p @ v[:, keys]
        top = new
    return np.asarray(out / total)


def _dot(q: np.ndarray, k: np.ndarray, how: str) -> np.ndarray:
    """q k^T: as BLAS does, in one accumulator, or as 32 lanes that add up by halves."""
    if how == "blas":
        return np.asarray(q @ k.transpose(0, 2, 1))
    products = q[:, :, None, :] * k[:, None, :, :]
    if how == "lanes":
        lanes = products.reshape(*products.shape[:3], -1, 32).sum(axis=3, dtype=F)
        while lanes.shape[-1] > 1:
            half = lanes.shape[-1] // 2
            lanes = lanes[..., :half] + lanes[..., half:]
        return np.asarray(lanes[..., 0])
    order = range(q.shape[2]) if how == "forward" else reversed(range(q.shape[2]))
    total = np.zeros(products.shape[:3], F)
    for d in order:
        total += products[..., d]
    return total


HONEST: dict[str, dict[str, Any]] = {
    "whole": {},
    "tile of 16": {"chunk": 16},
    "tile of 32, one accumulator": {"chunk": 32, "dot": "forward"},
    "tile of 64, last dimension first": {"chunk": 64, "dot": "backward"},
    "key by key": {"chunk": 1, "dot": "lanes"},
    "lanes": {"chunk": 128, "dot": "lanes"},
    "exp with noise": {"noise": 2.0**-20},
    "base 2": {"base2": True, "chunk": 64, "dot": "forward"},
    "base 2 with noise": {"base2": True, "chunk": 32, "noise": 2.0**-21},
}
WRONG: dict[str, dict[str, Any]] = {
    "no maximum subtracted": {"subtract": False},
    "old output not rescaled": {"chunk": 16, "correct": False},
    "weights in half precision": {"p_type": np.float16},
}


def bfloat16(x: np.ndarray) -> np.ndarray:
    """Rounded to the nearest bfloat16, as float32."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(F)


def tf32(x: np.ndarray) -> np.ndarray:
    """Rounded to 10 bits of mantissa, as float32."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).astype(np.uint32).view(F)


def half(x: np.ndarray) -> np.ndarray:
    """Rounded to float16, as float32."""
    return x.astype(np.float16).astype(F)


ROUNDINGS: dict[str, Rounding] = {"half": half, "bfloat16": bfloat16, "tf32": tf32}


def every_second(keys: int) -> np.ndarray:
    """[keys], true for even ones."""
    return np.asarray(np.arange(keys) % 2 == 0)
