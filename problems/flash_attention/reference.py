"""FlashAttention forward: inputs, the float64 answer, honest float32 kernels, and the least work.

Shapes: q, k, v, out [batch_heads, seq_len, head_dim].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness import attention_models
from harness.attention_data import SHAPERS, needle

_TILE_EDGES = (0, 15, 16, 31, 32, 63, 64, 127, 128)
_ROWS_AT_ONCE = 1024  # of the score matrix, so that long sequences fit into memory


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but `out`."""
    shape = (case["batch_heads"], case["seq_len"], case["head_dim"])
    scale = float(np.float32(case["scale"] or case["head_dim"] ** -0.5))
    q, k, v = (rng.standard_normal(shape, dtype=np.float32) for _ in range(3))
    SHAPERS[case["data"]](q, k, v, scale, rng)
    if case["data"] == "needles":
        _aim(q, k, scale, bool(case["causal"]), rng)
    v *= np.float32(case["value_scale"])
    dimensions = {name: case[name] for name in ("batch_heads", "seq_len", "head_dim", "causal")}
    return {"q": q, "k": k, "v": v, "scale": scale, **dimensions}


def _aim(q: np.ndarray, k: np.ndarray, scale: float, causal: bool, rng: np.random.Generator) -> None:
    """One query in 8 points at one key; under the mask, one more in 8 points at the first key it must not see."""
    batch, length, _ = q.shape
    for head in range(batch):
        first = int(rng.integers(8))
        for row in [*range(first, length, 8), length - 1]:
            visible = row + 1 if causal else length
            q[head, row] = needle(k[head, _target(visible, rng)], scale, visible)
        for row in range((first + 4) % 8, length - 1, 8) if causal else ():
            q[head, row] = needle(k[head, row + 1], scale, row + 1)


def _target(visible: int, rng: np.random.Generator) -> int:
    """A key out of the first `visible`: often the first, the last, or one at a tile's edge."""
    edges = [edge for edge in _TILE_EDGES if edge < visible]
    return int(rng.choice([*edges, visible - 1, visible - 1, int(rng.integers(visible))]))


def expected(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The float64 answer from the float32 inputs."""
    out = np.empty(inputs["q"].shape)
    for head in range(inputs["batch_heads"]):
        q, k, v = (inputs[name][head].astype(np.float64) for name in ("q", "k", "v"))
        for start in range(0, inputs["seq_len"], _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            out[head, rows] = _attention(q[rows], k, v, inputs["scale"], start if inputs["causal"] else None)
    return {"out": out}


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, first_row: int | None) -> np.ndarray:
    """softmax(q k^T scale) v; where `first_row` is given, row r sees keys up to first_row + r only."""
    scores = q @ k.T * scale
    if first_row is not None:
        hidden = np.arange(len(k)) > first_row + np.arange(len(q))[:, None]
        scores[hidden] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=1, keepdims=True))


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What honest float32 kernels answer."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    for out in attention_models.models(q, k, v, inputs["scale"], bool(inputs["causal"])):
        yield {"out": out}


def cost(inputs: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes (q, k, v read once, out written once) and multiply-adds, counted as two, of both products."""
    length = inputs["seq_len"]
    pairs = length * (length + 1) // 2 if inputs["causal"] else length * length
    return {
        "bytes": 4 * inputs["q"].nbytes,
        "flops": 4 * inputs["batch_heads"] * inputs["head_dim"] * pairs,
    }
