"""FlashAttention forward: inputs, the float64 answer, honest kernels, the least work, and exact symmetries.

Shapes: q, k, v, out [batch_heads, seq_len, head_dim], lse [batch_heads, seq_len]; in the variant gqa q, out [batch,
num_heads, seq_len_q, head_dim], k, v [batch, num_kv_heads, seq_len_kv, head_dim]. With all heads in one axis, head h
reads key/value head h // group in every variant, and row i sees keys up to i + keys - rows under the mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness import attention_models, parallel, stored, symmetries
from harness.attention_data import SHAPERS, needle
from harness.disguise import Disguise

_TILE_EDGES = (0, 15, 16, 31, 32, 63, 64, 127, 128)
_SCORES_AT_ONCE = 1 << 22  # of one thread, so that long sequences fit into memory
_LSE_BYTES = np.dtype(np.float32).itemsize


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but the outputs. Raises ValueError for heads that cannot be shared out."""
    dimensions = _dimensions(case)
    scale = float(np.float32(case["scale"] or case["head_dim"] ** -0.5))
    kind = stored.element(case.get("dtype", "float32"))
    q_shape, kv_shape = _shapes(case)
    q, k, v = (parallel.standard_normal(shape, rng) for shape in (q_shape, kv_shape, kv_shape))
    SHAPERS[case["data"]](q, k, v, scale, rng)
    k = stored.rounded(k, kind)
    if case["data"] == "needles":
        heads = (array.reshape(-1, *array.shape[-2:]) for array in (q, stored.widened(k)))
        _aim(*heads, scale, bool(case["causal"]), rng)
    if case["value_scale"] != 1:
        v *= np.float32(case["value_scale"])
    q, v = (stored.rounded(array, kind) for array in (q, v))
    return {"q": q, "k": k, "v": v, "scale": scale, "causal": case["causal"], **dimensions}


def _dimensions(case: dict[str, Any]) -> dict[str, int]:
    """The sizes that solve() gets."""
    if case.get("variant", "base") != "gqa":
        return {name: case[name] for name in ("batch_heads", "seq_len", "head_dim")}
    batch, group = case["batch"], case["group"]
    if case["batch_heads"] % (batch * group):
        raise ValueError(f"batch_heads {case['batch_heads']} is no multiple of batch {batch} times group {group}")
    heads, keys = case["batch_heads"] // batch, case["seq_len_kv"]
    sizes = {"seq_len_q": case["seq_len"], "seq_len_kv": keys, "head_dim": case["head_dim"]}
    return {"batch": batch, "num_heads": heads, "num_kv_heads": heads // group, **sizes}


def _shapes(case: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of q and out, and of k and v."""
    sizes = _dimensions(case)
    if "batch_heads" in sizes:
        return tuple(sizes.values()), tuple(sizes.values())
    batch, heads, kv_heads, rows, keys, head_dim = sizes.values()
    return (batch, heads, rows, head_dim), (batch, kv_heads, keys, head_dim)


def _aim(q: np.ndarray, k: np.ndarray, scale: float, causal: bool, rng: np.random.Generator) -> None:
    """One query in 8 points at one key; under the mask, one more in 8 points at the first key it must not see. Shapes:
    q [heads, rows, head_dim], k [kv_heads, keys, head_dim]."""
    (heads, length, _), keys = q.shape, k.shape[1]
    for head in range(heads):
        kv_head, first = head // (heads // len(k)), int(rng.integers(8))
        for row in [*range(first, length, 8), length - 1]:
            visible = min(keys, row + 1 + keys - length) if causal else keys
            if visible > 0:
                q[head, row] = needle(k[kv_head, _target(visible, rng)], scale, visible)
        for row in range((first + 4) % 8, length - 1, 8) if causal else ():
            hidden = row + 1 + keys - length
            if hidden >= 0:
                q[head, row] = needle(k[kv_head, hidden], scale, max(hidden, 1))


def _target(visible: int, rng: np.random.Generator) -> int:
    """A key out of the first `visible`: often the first, the last, or one at a tile's edge."""
    edges = [edge for edge in _TILE_EDGES if edge < visible]
    return int(rng.choice([*edges, visible - 1, visible - 1, int(rng.integers(visible))]))


def _by_head(inputs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, k and v with all heads in one axis."""
    q, k, v = (inputs[name].reshape(-1, *inputs[name].shape[-2:]) for name in "qkv")
    return q, k, v


def expected(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The float64 answer from the inputs as stored."""
    q, k, v = _by_head(inputs)
    (heads, length, _), keys = q.shape, k.shape[1]
    shift, group = keys - length if inputs["causal"] else keys, heads // len(k)
    out, lse = np.zeros(q.shape), np.full(q.shape[:2], -np.inf)

    def fill(task: tuple[int, slice]) -> None:
        head, rows = task
        seen = slice(max(0, min(keys, rows.stop + shift)))
        parts = (q[head, rows], k[head // group, seen], v[head // group, seen])
        wide = [stored.widened(part, np.float64) for part in parts]
        out[head, rows], lse[head, rows] = _attention(*wide, inputs["scale"], rows.start + shift)

    rows_at_once = max(1, _SCORES_AT_ONCE // keys)
    parallel.each(fill, [(head, rows) for head in range(heads) for rows in parallel.slices(length, rows_at_once)])
    shape = inputs["q"].shape
    return {"out": out.reshape(shape), "lse": lse.reshape(shape[:-1])}


def _attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, last_seen: int
) -> tuple[np.ndarray, np.ndarray]:
    """softmax(q k^T scale) v and its log-sum-exp. Row r sees keys up to last_seen + r, and gives zeros without any."""
    if not len(k):
        return np.zeros(q.shape), np.full(len(q), -np.inf)
    scores = q @ k.T
    scores *= scale
    if last_seen < len(k) - 1:
        hidden = np.arange(len(k)) > last_seen + np.arange(len(q))[:, None]
        scores[hidden] = -np.inf
    top = scores.max(axis=1)
    top[np.isneginf(top)] = 0
    scores -= top[:, None]
    weights = np.exp(scores, out=scores)
    total = weights.sum(axis=1)
    some = total > 0
    log = np.log(total, out=np.full(len(total), -np.inf), where=some)
    return weights @ v / np.where(some, total, 1)[:, None], top + log


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What honest kernels answer."""
    task = attention_models.Task(*_by_head(inputs), inputs["scale"], bool(inputs["causal"]))
    shape = inputs["q"].shape
    for out, lse in attention_models.models(task):
        yield {"out": out.reshape(shape), "lse": lse.reshape(shape[:-1])}


def cost(case: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes (q, k, v read once, outputs written once; no q of a row without keys, no key that no row sees) and
    multiply-adds, counted as two, of both products."""
    q_shape, kv_shape = _shapes(case)
    heads, kv_heads = (int(np.prod(shape[:-2])) for shape in (q_shape, kv_shape))
    rows, keys, head_dim = q_shape[-2], kv_shape[-2], case["head_dim"]
    seeing = min(rows, keys) if case["causal"] else rows  # rows that see a key
    pairs = seeing * keys - seeing * (seeing - 1) // 2 if case["causal"] else rows * keys
    size = stored.element(case.get("dtype", "float32")).itemsize
    lse = heads * rows * _LSE_BYTES if case.get("variant") == "lse" else 0
    elements = head_dim * (heads * (seeing + rows) + 2 * kv_heads * keys)
    return {"bytes": elements * size + lse, "flops": 4 * heads * head_dim * pairs}


def disguise(inputs: dict[str, Any], rng: np.random.Generator) -> Disguise:
    """Heads in another order, query heads with the key/value head that they share; channels of q with k, and of v with
    out, in another order and scaled; without the mask, keys and queries in other orders."""
    head_axes = inputs["q"].ndim - 2
    gather, scale = _heads(inputs, rng)
    _channels(inputs, rng, head_axes + 1, gather, scale)
    if not inputs["causal"]:
        rows, keys = (symmetries.permutation(inputs[name].shape[-2], rng) for name in "qk")
        for name, order in (("q", rows), ("k", keys), ("v", keys), ("out", rows), ("lse", rows)):
            gather[name][head_axes] = order
    return Disguise(gather, scale)


_ByTensor = dict[str, dict[int, np.ndarray]]


def _heads(inputs: dict[str, Any], rng: np.random.Generator) -> tuple[_ByTensor, _ByTensor]:
    """Orders and factors along the axes in front of the rows."""
    gather: _ByTensor = {name: {} for name in ("q", "k", "v", "out", "lse")}
    scale: _ByTensor = {name: {} for name in ("q", "k", "v", "out")}
    for axis, kv_size in enumerate(inputs["k"].shape[:-2]):
        order, group = symmetries.permutation(kv_size, rng), inputs["q"].shape[axis] // kv_size
        of_q, of_k = symmetries.paired(kv_size, inputs["k"].dtype, rng)
        of_v = symmetries.factors(kv_size, inputs["v"].dtype, rng)
        heads = symmetries.grouped(order, group, rng)
        gather["q"][axis] = gather["out"][axis] = gather["lse"][axis] = heads
        gather["k"][axis] = gather["v"][axis] = order
        scale["q"][axis], scale["k"][axis] = np.repeat(of_q, group), of_k
        scale["v"][axis], scale["out"][axis] = of_v, np.repeat(of_v, group)
    return gather, scale


def _channels(
    inputs: dict[str, Any], rng: np.random.Generator, axis: int, gather: _ByTensor, scale: _ByTensor
) -> None:
    """Orders and factors along the last axis."""
    head_dim = inputs["q"].shape[-1]
    score_channels, channels = (symmetries.permutation(head_dim, rng) for _ in range(2))
    of_q, of_k = symmetries.paired(head_dim, inputs["k"].dtype, rng)
    of_v = symmetries.factors(head_dim, inputs["v"].dtype, rng)
    for name, order, factor in (
        ("q", score_channels, of_q), ("k", score_channels, of_k), ("v", channels, of_v), ("out", channels, of_v)
    ):  # fmt: skip
        gather[name][axis], scale[name][axis] = order, factor
