"""What installed libraries take for FlashAttention forward: torch's attention by backend, and FlashInfer's prefill.

Shapes: q, k, v, out [batch_heads, seq_len, head_dim], lse [batch_heads, seq_len]; in the variant gqa q, out [batch,
num_heads, seq_len_q, head_dim], k, v [batch, num_kv_heads, seq_len_kv, head_dim].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from harness.measure.candidates import Candidate, Inputs, Prepared

_ROUNDED = "inputs rounded to bfloat16"
_REPEATED = "key/value heads repeated beforehand"
_SCORE_COPIES = 4  # score matrices that torch's plain formulation holds at a time
_WORKSPACE = 256 << 20  # bytes that FlashInfer may use; twice what it recommends


def _narrow(inputs: Inputs) -> tuple[str, str]:
    """The type for libraries that have no float32, and a note where that is not the case's own."""
    own = str(inputs["q"].dtype).removeprefix("torch.")
    return ("bfloat16", _ROUNDED) if own == "float32" else (own, "")


def _torch(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """The backends that take float32, then those that need 16 bits (docs.pytorch.org, SDPBackend). Torch's `is_causal`
    is aligned to the first key; where there are other keys than queries only its flash kernel, called by itself, has
    the mask that is aligned to the last, and of log-sum-exps only single kernels tell."""
    from torch.nn.attention import SDPBackend

    q, k = inputs["q"], inputs["k"]
    aligned, lse = not inputs["causal"] or q.shape[-2] == k.shape[-2], "lse" in inputs["outputs"]
    grouped = q.ndim == 4 and q.shape[1] != k.shape[1]
    if str(q.dtype) == "torch.float32" and aligned:
        efficient = partial(_efficient, inputs, torch)
        yield Candidate("torch SDPA, efficient", "float32", efficient, _REPEATED if grouped else "")
        scores = math.prod(q.shape[:-1]) * k.shape[-2] * q.element_size()
        if not lse and _SCORE_COPIES * scores < torch.cuda.mem_get_info()[0]:
            plain = partial(_attention, inputs, torch, SDPBackend.MATH, "float32")
            yield Candidate("torch SDPA, math", "float32", plain)
    dtype, note = _narrow(inputs)
    flash = _flash if lse or not aligned else partial(_attention, backend=SDPBackend.FLASH_ATTENTION)
    yield Candidate("torch SDPA, flash", dtype, partial(flash, inputs, torch, dtype=dtype), note)
    if aligned and not lse:
        cudnn = partial(_attention, inputs, torch, SDPBackend.CUDNN_ATTENTION, dtype)
        yield Candidate("torch SDPA, cuDNN", dtype, cudnn, note)


def _batched(inputs: Inputs, torch: Any, dtype: str) -> tuple[Any, Any, Any]:
    """q, k and v with an axis for the batch."""
    q, k, v = (inputs[name].to(getattr(torch, dtype)) for name in ("q", "k", "v"))
    return (q, k, v) if q.ndim == 4 else (q[None], k[None], v[None])


def _answer(inputs: Inputs, outputs: tuple[Any, ...]) -> dict[str, Any]:
    """out, and lse where there is one, in the shapes of the case."""
    shape = inputs["q"].shape
    answer = {"out": outputs[0].reshape(shape)}
    if len(outputs) > 1:  # some kernels fill rows up
        answer["lse"] = outputs[1][..., : shape[-2]].reshape(shape[:-1])
    return answer


def _attention(inputs: Inputs, torch: Any, backend: Any, dtype: str) -> Prepared:
    from torch.nn.attention import sdpa_kernel

    q, k, v = _batched(inputs, torch, dtype)
    options = {"is_causal": bool(inputs["causal"]), "scale": inputs["scale"], "enable_gqa": q.shape[1] != k.shape[1]}

    def run() -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    return Prepared(run, lambda out: _answer(inputs, (out,)))


def _flash(inputs: Inputs, torch: Any, dtype: str) -> Prepared:
    """The kernel itself, which gives log-sum-exps too; its mask is aligned to the last key."""
    q, k, v = _batched(inputs, torch, dtype)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention
    run = partial(kernel, q, k, v, 0.0, bool(inputs["causal"]), False, scale=inputs["scale"])
    return Prepared(run, lambda outputs: _answer(inputs, outputs[:2]))


def _efficient(inputs: Inputs, torch: Any) -> Prepared:
    """The kernel itself, which gives log-sum-exps too, and does not know of groups."""
    q, k, v = _batched(inputs, torch, "float32")
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    kernel = torch.ops.aten._scaled_dot_product_efficient_attention
    lse = "lse" in inputs["outputs"]
    run = partial(kernel, q, k, v, None, lse, 0.0, bool(inputs["causal"]), scale=inputs["scale"])
    return Prepared(run, lambda outputs: _answer(inputs, outputs[: 1 + lse]))


def _flashinfer(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """FlashAttention-3's kernel where the card has wgmma, otherwise FlashAttention-2's. FlashInfer has no float32; its
    mask is aligned to the last key."""
    dtype, note = _narrow(inputs)
    backend = "fa3" if torch.cuda.get_device_capability()[0] == 9 else "fa2"
    note = ", ".join(filter(None, (note, "heads laid innermost beforehand")))
    prefill = _prefill if inputs["q"].ndim == 3 or len(inputs["q"]) == 1 else _ragged
    yield Candidate(f"FlashInfer prefill, {backend}", dtype, partial(prefill, inputs, torch, backend, dtype), note)


def _prefill(inputs: Inputs, torch: Any, backend: str, dtype: str) -> Prepared:
    """Of one sequence."""
    import flashinfer

    q, k, v = (x[0].transpose(0, 1).contiguous() for x in _batched(inputs, torch, dtype))
    options = {"causal": bool(inputs["causal"]), "sm_scale": inputs["scale"], "backend": backend}
    lse = "lse" in inputs["outputs"]
    run = partial(flashinfer.single_prefill_with_kv_cache, q, k, v, return_lse=lse, **options)
    return Prepared(run, lambda outputs: _heads_first(inputs, outputs if lse else (outputs,)))


def _heads_first(inputs: Inputs, outputs: tuple[Any, ...]) -> dict[str, Any]:
    """FlashInfer's [rows, heads, ...], its log-sum-exps to the base 2."""
    out, *lse = outputs
    return _answer(inputs, (out.transpose(0, 1), *(each.t() * math.log(2) for each in lse)))


def _ragged(inputs: Inputs, torch: Any, backend: str, dtype: str) -> Prepared:
    """Of a batch: sequences one behind another."""
    import flashinfer

    q, k, v = (x.transpose(1, 2).contiguous() for x in _batched(inputs, torch, dtype))
    (batch, rows, heads, head_dim), (keys, kv_heads) = q.shape, k.shape[1:3]
    workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=q.device)
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace, "NHD", backend=backend)
    begins = (torch.arange(batch + 1, dtype=torch.int32, device=q.device) * length for length in (rows, keys))
    options = {"causal": bool(inputs["causal"]), "sm_scale": inputs["scale"]}
    wrapper.plan(*begins, heads, kv_heads, head_dim, q_data_type=q.dtype, kv_data_type=q.dtype, **options)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    answer = partial(_batch_first, inputs, batch)
    return Prepared(lambda: wrapper.run(q, k, v), answer)


def _batch_first(inputs: Inputs, batch: int, out: Any) -> dict[str, Any]:
    return {"out": out.unflatten(0, (batch, -1)).transpose(1, 2).reshape(inputs["q"].shape)}


LIBRARIES = {"torch": _torch, "flashinfer": _flashinfer}
