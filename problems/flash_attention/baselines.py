"""What installed libraries take for FlashAttention forward: torch's attention by backend, and FlashInfer's prefill.

Shapes: q, k, v, out [batch_heads, seq_len, head_dim].
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from harness.measure.candidates import Candidate, Inputs, Prepared

_ROUNDED = "inputs rounded to bfloat16"
_SCORE_COPIES = 4  # score matrices that torch's plain formulation holds at a time


def _torch(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """The backends that take float32, then those that need 16 bits (docs.pytorch.org, SDPBackend)."""
    from torch.nn.attention import SDPBackend

    own = str(inputs["q"].dtype).removeprefix("torch.")
    if own == "float32":
        yield _candidate(inputs, torch, "efficient", SDPBackend.EFFICIENT_ATTENTION, own)
        scores = inputs["batch_heads"] * inputs["seq_len"] ** 2 * inputs["q"].element_size()
        if _SCORE_COPIES * scores < torch.cuda.mem_get_info()[0]:
            yield _candidate(inputs, torch, "math", SDPBackend.MATH, own)
    narrow, note = ("bfloat16", _ROUNDED) if own == "float32" else (own, "")
    yield _candidate(inputs, torch, "flash", SDPBackend.FLASH_ATTENTION, narrow, note)
    yield _candidate(inputs, torch, "cuDNN", SDPBackend.CUDNN_ATTENTION, narrow, note)


def _candidate(inputs: Inputs, torch: Any, name: str, backend: Any, dtype: str, note: str = "") -> Candidate:
    return Candidate(f"torch SDPA, {name}", dtype, partial(_attention, inputs, torch, backend, dtype), note)


def _attention(inputs: Inputs, torch: Any, backend: Any, dtype: str) -> Prepared:
    from torch.nn.attention import sdpa_kernel

    q, k, v = (inputs[name].to(getattr(torch, dtype))[None] for name in ("q", "k", "v"))
    options = {"is_causal": bool(inputs["causal"]), "scale": inputs["scale"]}

    def run() -> Any:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    return Prepared(run, lambda out: {"out": out[0]})


def _flashinfer(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """FlashAttention-3's kernel where the card has wgmma, otherwise FlashAttention-2's. FlashInfer has no float32."""
    own = str(inputs["q"].dtype).removeprefix("torch.")
    dtype, note = ("bfloat16", f"{_ROUNDED}, ") if own == "float32" else (own, "")
    backend = "fa3" if torch.cuda.get_device_capability()[0] == 9 else "fa2"
    note += "heads laid innermost beforehand"
    yield Candidate(f"FlashInfer prefill, {backend}", dtype, partial(_prefill, inputs, torch, backend, dtype), note)


def _prefill(inputs: Inputs, torch: Any, backend: str, dtype: str) -> Prepared:
    import flashinfer

    q, k, v = (inputs[n].to(getattr(torch, dtype)).transpose(0, 1).contiguous() for n in ("q", "k", "v"))
    options = {"causal": bool(inputs["causal"]), "sm_scale": inputs["scale"], "backend": backend}
    return Prepared(
        lambda: flashinfer.single_prefill_with_kv_cache(q, k, v, **options),
        lambda out: {"out": out.transpose(0, 1)},
    )


LIBRARIES = {"torch": _torch, "flashinfer": _flashinfer}
