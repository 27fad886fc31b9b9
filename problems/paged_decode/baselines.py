"""What installed libraries take for paged decode attention: FlashInfer's paged decode, and torch's attention on keys
and values that were gathered beforehand.

Shapes: q, out [num_seqs, num_heads, head_dim]; lse [num_seqs, num_heads]; k_cache, v_cache [num_blocks, page_size,
num_kv_heads, head_dim]; k_scale, v_scale [num_kv_heads] of a cache of 8 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from harness.measure.candidates import Candidate, Inputs, Prepared

_CUDA_CORE_GROUPS = (1, 2, 3, 4, 8)  # query heads a key/value head that FlashInfer's CUDA-core kernel is built for
_WORKSPACE = 256 << 20  # bytes that FlashInfer may use for split contexts; twice what it recommends
_ROUNDED = "q and cache rounded to bfloat16"
_GATHERED = "contexts gathered into dense tensors beforehand"
_FOLDED = "k_scale multiplied into q beforehand, v_scale into out afterwards"


def _torch(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """A group's query heads are the rows of one attention matrix, so that its keys are read once. Needs equal lengths:
    dense tensors have no others; and more than 8 bits, and no log-sum-exps."""
    from torch.nn.attention import SDPBackend

    lengths = inputs["context_lens"]
    if int(lengths.min()) != int(lengths.max()) or not int(lengths.max()):
        return
    if "k_scale" in inputs or "lse" in inputs["outputs"]:
        return
    own = str(inputs["q"].dtype).removeprefix("torch.")
    if own == "float32":
        yield _candidate(inputs, torch, "efficient", SDPBackend.EFFICIENT_ATTENTION, own, _GATHERED)
        yield _candidate(inputs, torch, "math", SDPBackend.MATH, own, _GATHERED)
    narrow, note = ("bfloat16", f"{_ROUNDED}, {_GATHERED}") if own == "float32" else (own, _GATHERED)
    yield _candidate(inputs, torch, "flash", SDPBackend.FLASH_ATTENTION, narrow, note)
    yield _candidate(inputs, torch, "cuDNN", SDPBackend.CUDNN_ATTENTION, narrow, note)


def _candidate(inputs: Inputs, torch: Any, name: str, backend: Any, dtype: str, note: str) -> Candidate:
    return Candidate(f"torch SDPA, {name}", dtype, partial(_attention, inputs, torch, backend, dtype), note)


def _attention(inputs: Inputs, torch: Any, backend: Any, dtype: str) -> Prepared:
    from torch.nn.attention import sdpa_kernel

    kind = getattr(torch, dtype)
    seqs, heads, head_dim = inputs["q"].shape
    q = inputs["q"].to(kind).view(seqs, inputs["num_kv_heads"], -1, head_dim)
    slots = _slots(inputs, torch)
    caches = (inputs[name].flatten(0, 1) for name in ("k_cache", "v_cache"))
    k, v = (cache[slots].to(kind).transpose(1, 2).contiguous() for cache in caches)

    def run() -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=inputs["scale"])

    return Prepared(run, lambda out: {"out": out.reshape(seqs, heads, head_dim)})


def _slots(inputs: Inputs, torch: Any) -> Any:
    """[num_seqs, length]: each token's slot in the cache seen as one list."""
    page_size, table = inputs["page_size"], inputs["block_table"].long()
    token = torch.arange(int(inputs["context_lens"][0]), device=table.device)
    return table[:, token // page_size] * page_size + token % page_size


def _flashinfer(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """On tensor cores and on CUDA cores. FlashInfer has no float32, and takes no empty sequence."""
    if not int(inputs["context_lens"].min()):
        return
    own = "float8_e4m3" if "k_scale" in inputs else str(inputs["q"].dtype).removeprefix("torch.")
    notes = {"float32": ("bfloat16", _ROUNDED), "float8_e4m3": (own, _FOLDED)}
    dtype, note = notes.get(own, (own, ""))
    yield Candidate("FlashInfer decode, tensor cores", dtype, partial(_decode, inputs, torch, dtype, True), note)
    if inputs["num_heads"] // inputs["num_kv_heads"] in _CUDA_CORE_GROUPS:
        yield Candidate("FlashInfer decode, CUDA cores", dtype, partial(_decode, inputs, torch, dtype, False), note)


def _decode(inputs: Inputs, torch: Any, dtype: str, tensor_cores: bool) -> Prepared:
    import flashinfer

    q, k, v = _tensors(inputs, torch, dtype)
    workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=tensor_cores)
    shape = (inputs["num_heads"], inputs["num_kv_heads"], inputs["head_dim"], inputs["page_size"])
    wrapper.plan(*_pages(inputs, torch), *shape, q_data_type=q.dtype, kv_data_type=k.dtype, sm_scale=inputs["scale"])
    lse = "lse" in inputs["outputs"]
    return Prepared(partial(wrapper.run, q, (k, v), return_lse=lse), partial(_answer, inputs))


def _tensors(inputs: Inputs, torch: Any, dtype: str) -> tuple[Any, Any, Any]:
    """q and the caches as FlashInfer takes them. It knows a factor for all heads; those of each head go into q."""
    q, k, v = (inputs[name] for name in ("q", "k_cache", "v_cache"))
    if dtype == "float8_e4m3":
        return (q * _by_query_head(inputs, "k_scale")).to(q.dtype), k, v
    kind = getattr(torch, dtype)
    return q.to(kind), k.to(kind), v.to(kind)


def _by_query_head(inputs: Inputs, name: str) -> Any:
    """[num_heads, 1] of factors [num_kv_heads]."""
    return inputs[name].repeat_interleave(inputs["num_heads"] // inputs["num_kv_heads"])[:, None]


def _answer(inputs: Inputs, outputs: Any) -> dict[str, Any]:
    """FlashInfer's log-sum-exps are to the base 2."""
    out, lse = outputs if isinstance(outputs, tuple) else (outputs, None)
    if "v_scale" in inputs:
        out = out * _by_query_head(inputs, "v_scale")
    return {"out": out} if lse is None else {"out": out, "lse": lse * math.log(2)}


def _pages(inputs: Inputs, torch: Any) -> tuple[Any, Any, Any]:
    """FlashInfer's page table: where each sequence's pages begin in a list, that list, and tokens on the last page."""
    table, lengths, page_size = inputs["block_table"], inputs["context_lens"], inputs["page_size"]
    counts = (lengths + page_size - 1) // page_size
    begin = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int()
    used = torch.arange(table.shape[1], device=table.device) < counts[:, None]
    return begin, table[used].int(), ((lengths - 1) % page_size + 1).int()


LIBRARIES = {"torch": _torch, "flashinfer": _flashinfer}
