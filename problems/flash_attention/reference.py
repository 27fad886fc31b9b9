"""FlashAttention forward: inputs, the float64 answer, honest float32 kernels, the least work, and exact symmetries.

Shapes: q, k, v, out [batch_heads, seq_len, head_dim].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness import attention_models, parallel, symmetries
from harness.attention_data import SHAPERS, needle
from harness.disguise import Disguise

_TILE_EDGES = (0, 15, 16, 31, 32, 63, 64, 127, 128)
_SCORES_AT_ONCE = 1 << 22  # of one thread, so that long sequences fit into memory
_ELEMENT_BYTES = np.dtype(np.float32).itemsize


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but `out`."""
    shape = (case["batch_heads"], case["seq_len"], case["head_dim"])
    scale = float(np.float32(case["scale"] or case["head_dim"] ** -0.5))
    q, k, v = (parallel.standard_normal(shape, rng) for _ in range(3))
    SHAPERS[case["data"]](q, k, v, scale, rng)
    if case["data"] == "needles":
        _aim(q, k, scale, bool(case["causal"]), rng)
    if case["value_scale"] != 1:
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
    batch, length = out.shape[:2]

    def fill(task: tuple[int, slice]) -> None:
        head, rows = task
        keys = slice(rows.stop if inputs["causal"] else length)
        parts = {"q": rows, "k": keys, "v": keys}
        q, k, v = (inputs[name][head, part].astype(np.float64) for name, part in parts.items())
        out[head, rows] = _attention(q, k, v, inputs["scale"], rows.start if inputs["causal"] else None)

    rows_at_once = max(1, _SCORES_AT_ONCE // length)
    parallel.each(fill, [(head, rows) for head in range(batch) for rows in parallel.slices(length, rows_at_once)])
    return {"out": out}


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, first_row: int | None) -> np.ndarray:
    """softmax(q k^T scale) v; where `first_row` is given, row r sees keys up to first_row + r only."""
    scores = q @ k.T
    scores *= scale
    if first_row is not None:
        hidden = np.arange(len(k)) > first_row + np.arange(len(q))[:, None]
        scores[hidden] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores, out=scores)
    return np.asarray(weights @ v / weights.sum(axis=1, keepdims=True))


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What honest float32 kernels answer."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    for out in attention_models.models(q, k, v, inputs["scale"], bool(inputs["causal"])):
        yield {"out": out}


def cost(case: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes (q, k, v read once, out written once) and multiply-adds, counted as two, of both products."""
    heads, length, head_dim = case["batch_heads"], case["seq_len"], case["head_dim"]
    pairs = length * (length + 1) // 2 if case["causal"] else length * length
    return {"bytes": 4 * heads * length * head_dim * _ELEMENT_BYTES, "flops": 4 * heads * head_dim * pairs}


def disguise(inputs: dict[str, Any], rng: np.random.Generator) -> Disguise:
    """Heads in another order; channels of q with k, and of v with out, in another order and scaled; without the mask,
    keys and queries in other orders."""
    batch, length, head_dim = inputs["q"].shape
    heads, score_channels, channels = (symmetries.permutation(n, rng) for n in (batch, head_dim, head_dim))
    gather = {name: {0: heads, 2: score_channels} for name in ("q", "k")}
    gather |= {name: {0: heads, 2: channels} for name in ("v", "out")}
    if not inputs["causal"]:
        keys, queries = symmetries.permutation(length, rng), symmetries.permutation(length, rng)
        for name, order in (("q", queries), ("k", keys), ("v", keys), ("out", queries)):
            gather[name][1] = order
    by_head, by_channel = (symmetries.paired(n, inputs["k"].dtype, rng) for n in (batch, head_dim))
    values = {axis: symmetries.factors(n, inputs["v"].dtype, rng) for axis, n in ((0, batch), (2, head_dim))}
    scale = {"q": {0: by_head[0], 2: by_channel[0]}, "k": {0: by_head[1], 2: by_channel[1]}, "v": values, "out": values}
    return Disguise(gather, scale)
