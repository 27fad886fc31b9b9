"""Paged decode attention: inputs, the float64 answer, honest float32 kernels, the least work, and exact symmetries.

Shapes: q, out [num_seqs, num_heads, head_dim]; k_cache, v_cache [num_blocks, page_size, num_kv_heads, head_dim];
block_table [num_seqs, max_blocks_per_seq]; context_lens [num_seqs].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness import attention_models, parallel, symmetries
from harness.attention_data import SHAPERS, needle
from harness.disguise import Disguise

_POISON = np.float32(1e4)  # size of what stands in slots that no sequence may read
_TOKENS_AT_ONCE = 8192  # of one thread in float64
_ELEMENT_BYTES = np.dtype(np.float32).itemsize
_INT_BYTES = np.dtype(np.int32).itemsize


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but `out`. Raises ValueError where the cache is too small for the case."""
    lens = np.array(case["lengths"] * case["repeat"], np.int32)
    table = _block_table(lens, case, rng)
    heads, kv_heads, head_dim, page_size = (case[n] for n in ("num_heads", "num_kv_heads", "head_dim", "page_size"))
    if heads % kv_heads:
        raise ValueError(f"num_heads {heads} is no multiple of num_kv_heads {kv_heads}")
    scale = float(np.float32(case["scale"] or head_dim**-0.5))
    q = parallel.standard_normal((len(lens), heads, head_dim), rng)
    k, v = (parallel.standard_normal((case["num_blocks"], page_size, kv_heads, head_dim), rng) for _ in "kv")
    SHAPERS[case["data"]](q, k, v, scale, rng)
    if case["data"] == "needles":
        _aim(q, k, table, lens, scale, rng)
    if case["value_scale"] != 1:
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
    shared_pages = _shared_pages(lens, case)
    pages = -(-lens // case["page_size"])
    free = rng.permutation(case["num_blocks"]).astype(np.int32)
    table = np.full((len(lens), max(1, int(pages.max()) + case["spare_columns"])), -1, np.int32)
    taken = 0
    for seq, count in enumerate(pages):
        shared = shared_pages[seq]
        own = int(count - shared)
        if taken + own >= len(free):
            raise ValueError(f"num_blocks {len(free)} leaves no page unused; give the case more")
        table[seq, :shared] = table[0, :shared]
        table[seq, shared:count] = free[taken : taken + own]
        taken += own
    return table


def _shared_pages(lens: np.ndarray, case: dict[str, Any]) -> np.ndarray:
    """How many pages each sequence has in common with the first; the first brings all of its own."""
    shared = np.minimum(case["shared_pages"], np.minimum(lens, lens[0]) // case["page_size"])
    shared[0] = 0
    return shared


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
    kv_heads, head_dim, lens = inputs["num_kv_heads"], inputs["head_dim"], inputs["context_lens"]
    k, v = (inputs[name].reshape(-1, kv_heads, head_dim) for name in ("k_cache", "v_cache"))
    out = np.zeros((len(lens), kv_heads, inputs["num_heads"] // kv_heads, head_dim))

    def fill(task: tuple[int, int]) -> None:
        seq, head = task
        slots = _slots(inputs["block_table"][seq], lens[seq], inputs["page_size"])
        q = inputs["q"][seq].reshape(out.shape[1:])[head].astype(np.float64)
        out[seq, head] = _attention(q, k[:, head], v[:, head], slots, inputs["scale"])

    parallel.each(fill, [(int(seq), head) for seq in np.flatnonzero(lens) for head in range(kv_heads)])
    return {"out": out.reshape(inputs["q"].shape)}


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, slots: np.ndarray, scale: float) -> np.ndarray:
    """softmax(q k^T scale) v for q [group, head_dim]; k and v [slots of the cache, head_dim], read at `slots`."""
    parts = [slots[part] for part in parallel.slices(len(slots), _TOKENS_AT_ONCE)]
    scores = np.hstack([q @ k[part].astype(np.float64).T for part in parts]) * scale
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    pieces = zip(np.split(weights, ends, axis=1), parts, strict=True)
    return np.asarray(sum(weight @ v[part].astype(np.float64) for weight, part in pieces))


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


def cost(case: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes and flops of both products. Bytes: each used slot of the cache once, however many share it; the
    table's entries of pages in use; all lengths; q of sequences that have a context; all of out."""
    lens = np.array(case["lengths"] * case["repeat"], np.int64)
    tokens, page_size = int(lens.sum()), case["page_size"]
    slots = tokens - page_size * int(_shared_pages(lens, case).sum())
    entries = int((-(-lens // page_size)).sum())
    rows = case["num_heads"] * (len(lens) + int(np.count_nonzero(lens)))  # of out and of q
    elements = case["head_dim"] * (2 * slots * case["num_kv_heads"] + rows)
    return {
        "bytes": elements * _ELEMENT_BYTES + (entries + len(lens)) * _INT_BYTES,
        "flops": 4 * case["num_heads"] * case["head_dim"] * tokens,
    }


def disguise(inputs: dict[str, Any], rng: np.random.Generator) -> Disguise:
    """Pages elsewhere and in another order; sequences of one length, KV heads with their query heads, and query heads
    of a group in another order; channels as in prefill. Unequal sequences stay in order, which may change the time."""
    head_dim, lens = inputs["head_dim"], inputs["context_lens"]
    seqs = symmetries.within_equal(lens, rng)
    pages, kv_heads, score_channels, channels = (
        symmetries.permutation(n, rng) for n in (len(inputs["k_cache"]), inputs["num_kv_heads"], head_dim, head_dim)
    )
    heads = _heads(kv_heads, inputs["num_heads"] // len(kv_heads), rng)
    gather = {
        "q": {0: seqs, 1: heads, 2: score_channels},
        "k_cache": {0: pages, 2: kv_heads, 3: score_channels},
        "v_cache": {0: pages, 2: kv_heads, 3: channels},
        "out": {0: seqs, 1: heads, 2: channels},
    }
    table = _reordered(inputs["block_table"], lens // inputs["page_size"], rng)[seqs]
    table = np.where(table < 0, table, symmetries.inverse(pages)[table])
    return Disguise(gather, _scales(inputs, rng), {"block_table": table.astype(np.int32)})


def _heads(kv_heads: np.ndarray, group: int, rng: np.random.Generator) -> np.ndarray:
    """For each new query head the old one: groups follow their KV head, and are shuffled inside."""
    return np.concatenate([head * group + symmetries.permutation(group, rng) for head in kv_heads])


def _reordered(table: np.ndarray, full_pages: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each row's full pages in another order, but for those that another sequence has too: kernels may look for a
    common beginning."""
    table = table.copy()
    uses = np.bincount(table[table >= 0], minlength=1)
    for row, full in zip(table, full_pages, strict=True):
        own = np.flatnonzero(uses[row[:full]] == 1)
        row[own] = row[rng.permutation(own)]
    return table


def _scales(inputs: dict[str, Any], rng: np.random.Generator) -> dict[str, dict[int, np.ndarray]]:
    """Factors on KV heads and channels. A query head of the disguised case goes with KV head `head // group`."""
    kv_heads, head_dim = inputs["num_kv_heads"], inputs["head_dim"]
    group = inputs["num_heads"] // kv_heads
    by_head, by_channel = (symmetries.paired(n, inputs["k_cache"].dtype, rng) for n in (kv_heads, head_dim))
    v_head, v_channel = (symmetries.factors(n, inputs["v_cache"].dtype, rng) for n in (kv_heads, head_dim))
    return {
        "q": {1: np.repeat(by_head[0], group), 2: by_channel[0]},
        "k_cache": {2: by_head[1], 3: by_channel[1]},
        "v_cache": {2: v_head, 3: v_channel},
        "out": {1: np.repeat(v_head, group), 2: v_channel},
    }
