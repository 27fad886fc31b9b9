"""Paged decode attention: inputs, the float64 answer, honest float32 kernels, and the least work.

Shapes: q, out [num_seqs, num_heads, head_dim]; k_cache, v_cache [num_blocks, page_size, num_kv_heads, head_dim];
block_table [num_seqs, max_blocks_per_seq]; context_lens [num_seqs].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness import attention_models
from harness.attention_data import SHAPERS, needle

_POISON = np.float32(1e4)  # size of what stands in slots that no sequence may read


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but `out`. Raises ValueError where the cache is too small for the case."""
    lens = np.array(case["lengths"] * case["repeat"], np.int32)
    table = _block_table(lens, case, rng)
    heads, kv_heads, head_dim, page_size = (case[n] for n in ("num_heads", "num_kv_heads", "head_dim", "page_size"))
    if heads % kv_heads:
        raise ValueError(f"num_heads {heads} is no multiple of num_kv_heads {kv_heads}")
    scale = float(np.float32(case["scale"] or head_dim**-0.5))
    q = rng.standard_normal((len(lens), heads, head_dim), dtype=np.float32)
    k, v = (rng.standard_normal((case["num_blocks"], page_size, kv_heads, head_dim), dtype=np.float32) for _ in "kv")
    SHAPERS[case["data"]](q, k, v, scale, rng)
    if case["data"] == "needles":
        _aim(q, k, table, lens, scale, rng)
    v *= np.float32(case["value_scale"])
    unused = ~_used_slots(table, lens, page_size, case["num_blocks"])
    k[unused] *= _POISON
    v[unused] *= _POISON
    return {
        "q": q, "k_cache": k, "v_cache": v, "block_table": table, "context_lens": lens,
        "num_seqs": len(lens), "num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim,
        "page_size": page_size, "max_blocks_per_seq": table.shape[1], "max_context_len": int(lens.max()),
        "scale": scale,
    }  # fmt: skip


def _block_table(lens: np.ndarray, case: dict[str, Any], rng: np.random.Generator) -> np.ndarray:
    """Pages in random order; -1 where a sequence has no page; the first `shared_pages` are those of sequence 0."""
    pages = -(-lens // case["page_size"])
    free = rng.permutation(case["num_blocks"]).astype(np.int32)
    table = np.full((len(lens), max(1, int(pages.max()) + case["spare_columns"])), -1, np.int32)
    taken = 0
    for seq, count in enumerate(pages):
        shared = min(case["shared_pages"], lens[seq] // case["page_size"], lens[0] // case["page_size"]) if seq else 0
        own = int(count - shared)
        if taken + own >= len(free):
            raise ValueError(f"num_blocks {len(free)} leaves no page unused; give the case more")
        table[seq, :shared] = table[0, :shared]
        table[seq, shared:count] = free[taken : taken + own]
        taken += own
    return table


def _slots(table_row: np.ndarray, length: int, page_size: int) -> np.ndarray:
    """For each token of a sequence: its slot in the cache seen as one list, page * page_size + offset."""
    token = np.arange(length)
    return table_row[token // page_size].astype(np.int64) * page_size + token % page_size


def _used_slots(table: np.ndarray, lens: np.ndarray, page_size: int, num_blocks: int) -> np.ndarray:
    """[num_blocks, page_size], true where some sequence has a token."""
    used = np.zeros(num_blocks * page_size, bool)
    for row, length in zip(table, lens, strict=True):
        used[_slots(row, length, page_size)] = True
    return used.reshape(num_blocks, page_size)


def _aim(
    q: np.ndarray, k: np.ndarray, table: np.ndarray, lens: np.ndarray, scale: float, rng: np.random.Generator
) -> None:
    """Every second query head points at one token: in turn the last, the first, those at a page's edge, any."""
    page_size, kv_heads = k.shape[1:3]
    flat = k.reshape(-1, *k.shape[2:])
    group = q.shape[1] // kv_heads
    for seq in np.flatnonzero(lens):
        length = int(lens[seq])
        last_page = (length - 1) // page_size * page_size
        targets = [length - 1, 0, last_page, max(last_page - 1, 0), int(rng.integers(length))]
        slots = _slots(table[seq], length, page_size)
        for turn, head in enumerate(range(seq % 2, q.shape[1], 2)):
            q[seq, head] = needle(flat[slots[targets[(turn + seq) % 5]], head // group], scale, length)


def _sequences(inputs: dict[str, Any]) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """(sequence, q [kv_heads, group, head_dim], k and v [kv_heads, length, head_dim]) of all that are not empty."""
    kv_heads, head_dim = inputs["num_kv_heads"], inputs["head_dim"]
    k, v = (inputs[name].reshape(-1, kv_heads, head_dim) for name in ("k_cache", "v_cache"))
    for seq in np.flatnonzero(inputs["context_lens"]):
        slots = _slots(inputs["block_table"][seq], inputs["context_lens"][seq], inputs["page_size"])
        q = inputs["q"][seq].reshape(kv_heads, -1, head_dim)  # head h reads kv head h // group
        yield int(seq), q, k[slots].transpose(1, 0, 2), v[slots].transpose(1, 0, 2)


def expected(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The float64 answer from the float32 inputs; zeros for an empty context."""
    out = np.zeros(inputs["q"].shape)
    for seq, q, k, v in _sequences(inputs):
        for kv_head, rows in enumerate(out[seq].reshape(q.shape)):
            q64, k64, v64 = (x[kv_head].astype(np.float64) for x in (q, k, v))
            rows[:] = _attention(q64, k64, v64, inputs["scale"])
    return {"out": out}


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    """softmax(q k^T scale) v for q [group, head_dim], k and v [length, head_dim]."""
    scores = q @ k.T * scale
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=1, keepdims=True))


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What honest float32 kernels answer. Long sequences have fewer models than short ones; only those of all count."""
    by_sequence: dict[int, list[np.ndarray]] = {}
    for seq, q, k, v in _sequences(inputs):
        by_sequence[seq] = list(attention_models.models(q, k, v, inputs["scale"]))
    for parts in zip(*by_sequence.values(), strict=False):
        out = np.zeros(inputs["q"].shape, np.float32)
        for seq, part in zip(by_sequence, parts, strict=True):
            out[seq] = part.reshape(out.shape[1:])
        yield {"out": out}


def cost(inputs: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes (each used slot of the cache read once, however many share it) and flops of both products."""
    lens, page_size, table = inputs["context_lens"], inputs["page_size"], inputs["block_table"]
    slots = int(_used_slots(table, lens, page_size, len(inputs["k_cache"])).sum())
    kv_bytes = slots * inputs["num_kv_heads"] * inputs["head_dim"] * 2 * 4
    table_bytes = 4 * int((-(-lens // page_size)).sum()) + lens.nbytes
    return {
        "bytes": kv_bytes + 2 * inputs["q"].nbytes + table_bytes,
        "flops": 4 * inputs["num_heads"] * inputs["head_dim"] * int(lens.sum(dtype=np.int64)),
    }
