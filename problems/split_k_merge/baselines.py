"""What installed libraries take for the split-K merge: torch's own operations, and FlashInfer's merge_states.

Shapes: partial_out [num_splits, rows, head_dim]; m, l [num_splits, rows]; out [rows, head_dim]; lse [rows].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from harness.measure.candidates import Candidate, Inputs, Prepared

_MOST_HEADS = 32  # rows that one block of FlashInfer's kernel merges


def _torch(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """The weighted sum as a product of matrices, one for each row, and as an elementwise product with a sum."""
    own = str(inputs["partial_out"].dtype).removeprefix("torch.")
    yield Candidate("torch, softmax and bmm", own, lambda: Prepared(partial(_product, inputs, torch), _named))
    yield Candidate("torch, softmax and sum", own, lambda: Prepared(partial(_sum, inputs, torch), _named))


def _named(outputs: tuple[Any, Any]) -> dict[str, Any]:
    return dict(zip(("out", "lse"), outputs, strict=True))


def _weights(inputs: Inputs, torch: Any) -> tuple[Any, Any]:
    """[num_splits, rows] that sum to 1 in every row, and lse."""
    scores = inputs["m"] + inputs["l"].log()
    lse = scores.logsumexp(0)
    return (scores - lse).exp().to(inputs["partial_out"].dtype), lse


def _product(inputs: Inputs, torch: Any) -> tuple[Any, Any]:
    weights, lse = _weights(inputs, torch)
    return torch.bmm(weights.t()[:, None], inputs["partial_out"].transpose(0, 1))[:, 0], lse


def _sum(inputs: Inputs, torch: Any) -> tuple[Any, Any]:
    weights, lse = _weights(inputs, torch)
    return (weights[:, :, None] * inputs["partial_out"]).sum(0), lse


def _flashinfer(inputs: Inputs, torch: Any) -> Iterator[Candidate]:
    """Takes [tokens, splits, heads, head_dim] in 16 bits, and log-sum-exps to the base 2."""
    own = str(inputs["partial_out"].dtype).removeprefix("torch.")
    dtype, note = ("bfloat16", "partial_out rounded to bfloat16, ") if own == "float32" else (own, "")
    note += "splits laid inside tokens and log-sum-exps taken beforehand"
    yield Candidate("FlashInfer merge_states", dtype, partial(_states, inputs, torch, dtype), note)


def _states(inputs: Inputs, torch: Any, dtype: str) -> Prepared:
    import flashinfer

    splits, rows, head_dim = inputs["partial_out"].shape
    heads = next(count for count in range(_MOST_HEADS, 0, -1) if rows % count == 0)
    parts = inputs["partial_out"].to(getattr(torch, dtype)).masked_fill((inputs["l"] == 0)[:, :, None], 0)
    parts = parts.view(splits, -1, heads, head_dim).transpose(0, 1).contiguous()
    scores = (inputs["m"] + inputs["l"].log()) / math.log(2)
    scores = scores.view(splits, -1, heads).transpose(0, 1).contiguous()

    def answer(states: tuple[Any, Any]) -> dict[str, Any]:
        out, lse = states
        return {"out": out.view(rows, head_dim), "lse": lse.view(rows) * math.log(2)}

    return Prepared(lambda: flashinfer.merge_states(parts, scores), answer)


LIBRARIES = {"torch": _torch, "flashinfer": _flashinfer}
