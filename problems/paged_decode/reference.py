"""Paged decode attention: inputs, the float64 answer, honest kernels, the least work, and exact symmetries.

Shapes: q, out [num_seqs, num_heads, head_dim]; lse [num_seqs, num_heads]; k_cache, v_cache [num_blocks, page_size,
num_kv_heads, head_dim]; k_scale, v_scale [num_kv_heads] of a cache of 8 bits, whose keys are k_scale * stored;
block_table [num_seqs, max_blocks_per_seq]; context_lens [num_seqs].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness import attention_models, parallel, stored, symmetries
from harness.attention_data import SHAPERS, head_scales, needle
from harness.disguise import Disguise

_POISON = np.float32(1e4)  # size of what stands in slots that no sequence may read
_TOKENS_AT_ONCE = 8192  # of one thread in float64
_FLOAT_BYTES = _INT_BYTES = 4  # of lse, k_scale and v_scale; of block_table and context_lens


def make_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Every parameter of solve() but the outputs. Raises ValueError where the cache is too small for the case."""
    lens = np.array(case["lengths"] * case["repeat"], np.int32)
    table = _block_table(lens, case, rng)
    heads, kv_heads, head_dim, page_size = (case[n] for n in ("num_heads", "num_kv_heads", "head_dim", "page_size"))
    if heads % kv_heads:
        raise ValueError(f"num_heads {heads} is no multiple of num_kv_heads {kv_heads}")
    scale = float(np.float32(case["scale"] or head_dim**-0.5))
    q = parallel.standard_normal((len(lens), heads, head_dim), rng)
    k, v = (parallel.standard_normal((case["num_blocks"], page_size, kv_heads, head_dim), rng) for _ in "kv")
    SHAPERS[case["data"]](q, k, v, scale, rng)
    if case["value_scale"] != 1:
        v *= np.float32(case["value_scale"])
    dtype, unused = case.get("dtype", "float32"), ~_used_slots(table, lens, page_size, case["num_blocks"])
    inputs = _stored_cache(k, v, unused, stored.kv_element(dtype), rng)
    if case["data"] == "needles":
        _aim(q, inputs, table, lens, scale, rng)
    return inputs | {
        "q": stored.rounded(q, stored.element(dtype)), "block_table": table, "context_lens": lens,
        "num_seqs": len(lens), "num_heads": heads, "num_kv_heads": kv_heads, "head_dim": head_dim,
        "page_size": page_size, "max_blocks_per_seq": table.shape[1], "max_context_len": int(lens.max()),
        "scale": scale,
    }  # fmt: skip


def _stored_cache(
    k: np.ndarray, v: np.ndarray, unused: np.ndarray, kind: np.dtype[Any], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The caches as they are stored, with rubbish in unused slots; in 8 bits with the factors of each KV head, of
    generators of their own, so that all else is drawn alike in every track."""
    inputs: dict[str, np.ndarray] = {}
    for name, cache, generator in zip("kv", (k, v), rng.spawn(2), strict=True):
        if kind.itemsize == 1:
            scales = inputs[f"{name}_scale"] = head_scales(cache, stored.largest(kind), generator)
            cache /= scales[:, None]
        cache[unused] *= _POISON
        inputs[f"{name}_cache"] = stored.rounded(cache, kind)
    return inputs


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
    q: np.ndarray, cache: dict[str, np.ndarray], table: np.ndarray, lens: np.ndarray, scale: float,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Every second query head points at one token: in turn the last, the first, those at a page's edge, any."""
    page_size, kv_heads = cache["k_cache"].shape[1:3]
    flat = stored.widened(cache["k_cache"]).reshape(-1, *cache["k_cache"].shape[2:])
    k_scale = cache.get("k_scale", np.ones(kv_heads, np.float32))
    group = q.shape[1] // kv_heads
    for seq in np.flatnonzero(lens):
        length = int(lens[seq])
        last_page = (length - 1) // page_size * page_size
        targets = [length - 1, 0, last_page, max(last_page - 1, 0), int(rng.integers(length))]
        slots = _slots(table[seq], length, page_size)
        for turn, head in enumerate(range(seq % 2, q.shape[1], 2)):
            key = flat[slots[targets[(turn + seq) % 5]], head // group] * k_scale[head // group]
            q[seq, head] = needle(key, scale, length)


def _sequences(inputs: dict[str, Any]) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """(sequence, q [kv_heads, group, head_dim], k and v [kv_heads, length, head_dim]) of all that are not empty."""
    kv_heads, head_dim = inputs["num_kv_heads"], inputs["head_dim"]
    k, v = (inputs[name].reshape(-1, kv_heads, head_dim) for name in ("k_cache", "v_cache"))
    for seq in np.flatnonzero(inputs["context_lens"]):
        slots = _slots(inputs["block_table"][seq], inputs["context_lens"][seq], inputs["page_size"])
        q = inputs["q"][seq].reshape(kv_heads, -1, head_dim)  # head h reads kv head h // group
        yield int(seq), q, k[slots].transpose(1, 0, 2), v[slots].transpose(1, 0, 2)


def expected(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The float64 answer from the inputs as stored; zeros, and an lse of -inf, for an empty context."""
    kv_heads, head_dim, lens = inputs["num_kv_heads"], inputs["head_dim"], inputs["context_lens"]
    k, v = (inputs[name].reshape(-1, kv_heads, head_dim) for name in ("k_cache", "v_cache"))
    k_scale, v_scale = (inputs.get(name, np.ones(kv_heads)).astype(np.float64) for name in ("k_scale", "v_scale"))
    out = np.zeros((len(lens), kv_heads, inputs["num_heads"] // kv_heads, head_dim))
    lse = np.full(out.shape[:-1], -np.inf)

    def fill(task: tuple[int, int]) -> None:
        seq, head = task
        slots = _slots(inputs["block_table"][seq], lens[seq], inputs["page_size"])
        q = stored.widened(inputs["q"][seq].reshape(out.shape[1:])[head], np.float64)
        weighed, lse[seq, head] = _attention(q, k[:, head], v[:, head], slots, inputs["scale"] * k_scale[head])
        out[seq, head] = weighed * v_scale[head]

    parallel.each(fill, [(int(seq), head) for seq in np.flatnonzero(lens) for head in range(kv_heads)])
    shape = inputs["q"].shape
    return {"out": out.reshape(shape), "lse": lse.reshape(shape[:-1])}


def _attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, slots: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """softmax(q k^T scale) v and its log-sum-exp for q [group, head_dim]; k and v [slots of the cache, head_dim], read
    at `slots`."""
    parts = [slots[part] for part in parallel.slices(len(slots), _TOKENS_AT_ONCE)]
    scores = np.hstack([q @ stored.widened(k[part], np.float64).T for part in parts]) * scale
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    ends = np.cumsum([len(part) for part in parts])[:-1]
    pieces = zip(np.split(weights, ends, axis=1), parts, strict=True)
    out = sum(weight @ stored.widened(v[part], np.float64) for weight, part in pieces)
    return np.asarray(out), (top + np.log(total))[:, 0]


def honest(inputs: dict[str, Any]) -> Iterator[dict[str, np.ndarray]]:
    """What honest kernels answer. Long sequences have fewer models than short ones; only those of all count."""
    by_sequence: dict[int, list[attention_models.Answer]] = {}
    scales = {name: inputs.get(name) for name in ("k_scale", "v_scale")}
    for seq, q, k, v in _sequences(inputs):
        task = attention_models.Task(q, k, v, inputs["scale"], **scales)
        by_sequence[seq] = list(attention_models.models(task))
    for parts in zip(*by_sequence.values(), strict=False):
        out = np.zeros(inputs["q"].shape, np.float32)
        lse = np.full(out.shape[:-1], -np.inf, np.float32)
        for seq, (some_out, some_lse) in zip(by_sequence, parts, strict=True):
            out[seq], lse[seq] = some_out.reshape(out.shape[1:]), some_lse.reshape(-1)
        yield {"out": out, "lse": lse}


def cost(case: dict[str, Any]) -> dict[str, int]:
    """Fewest bytes and flops of both products. Bytes: each used slot of the cache once, however many share it, and the
    factors of a cache of 8 bits; the table's entries of pages in use; all lengths; q of sequences that have a context;
    all of the outputs."""
    lens = np.array(case["lengths"] * case["repeat"], np.int64)
    tokens, page_size = int(lens.sum()), case["page_size"]
    slots = tokens - page_size * int(_shared_pages(lens, case).sum())
    entries = int((-(-lens // page_size)).sum())
    rows = case["num_heads"] * (len(lens) + int(np.count_nonzero(lens)))  # of out and of q
    element, kv_element = (of(case.get("dtype", "float32")).itemsize for of in (stored.element, stored.kv_element))
    factors = 2 * case["num_kv_heads"] if kv_element == 1 and tokens else 0
    sums = case["num_heads"] * len(lens) if case.get("variant") == "lse" else 0
    elements = case["head_dim"] * (2 * slots * case["num_kv_heads"] * kv_element + rows * element)
    return {
        "bytes": elements + (factors + sums) * _FLOAT_BYTES + (entries + len(lens)) * _INT_BYTES,
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
    heads = symmetries.grouped(kv_heads, inputs["num_heads"] // len(kv_heads), rng)
    gather = {
        "q": {0: seqs, 1: heads, 2: score_channels},
        "k_cache": {0: pages, 2: kv_heads, 3: score_channels},
        "v_cache": {0: pages, 2: kv_heads, 3: channels},
        "k_scale": {0: kv_heads},
        "v_scale": {0: kv_heads},
        "out": {0: seqs, 1: heads, 2: channels},
        "lse": {0: seqs, 1: heads},
    }
    table = _reordered(inputs["block_table"], lens // inputs["page_size"], rng)[seqs]
    table = np.where(table < 0, table, symmetries.inverse(pages)[table])
    return Disguise(gather, _scales(inputs, rng), {"block_table": table.astype(np.int32)})


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
    """Factors on KV heads and channels. A query head of the disguised case goes with KV head `head // group`. Factors
    that a cache of 8 bits has of its own take powers of two, for which bfloat16 has the exponents."""
    kv_heads, head_dim = inputs["num_kv_heads"], inputs["head_dim"]
    group = inputs["num_heads"] // kv_heads
    by_head, by_channel = (symmetries.paired(n, inputs["k_cache"].dtype, rng) for n in (kv_heads, head_dim))
    v_head, v_channel = (symmetries.factors(n, inputs["v_cache"].dtype, rng) for n in (kv_heads, head_dim))
    k_power, v_power = (symmetries.powers(kv_heads, rng) if "k_scale" in inputs else np.float32(1) for _ in "kv")
    return {
        "q": {1: np.repeat(by_head[0] / k_power, group), 2: by_channel[0]},
        "k_cache": {2: by_head[1], 3: by_channel[1]},
        "v_cache": {2: v_head, 3: v_channel},
        "out": {1: np.repeat(v_head * v_power, group), 2: v_channel},
    } | ({"k_scale": {0: k_power}, "v_scale": {0: v_power}} if "k_scale" in inputs else {})
