"""NumPy kernels for paged_decode: honest ones, and mutants with one mistake each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.kernel_models import HONEST, ROUNDINGS, WRONG, F, Inputs, Kernel, Rounding, attend

Page = Callable[[Inputs, int, np.ndarray], np.ndarray]


def _table(inputs: Inputs, seq: int, token: np.ndarray) -> np.ndarray:
    return np.asarray(inputs["block_table"][seq, token // inputs["page_size"]])


def paged(
    inputs: Inputs,
    page: Page = _table,
    kv_head: Callable[[int, int, int], int] = lambda head, heads, kv_heads: head // (heads // kv_heads),
    tokens: Callable[[Inputs, int], np.ndarray] = lambda inputs, length: np.arange(length),
    empty: float = 0.0,
    **options: Any,
) -> dict[str, np.ndarray]:
    """The right answer in float32; the arguments say how tokens and heads are found, or what goes wrong there."""
    k_cache, v_cache, scale = (options.pop(name, inputs[name]) for name in ("k_cache", "v_cache", "scale"))
    heads, kv_heads = inputs["num_heads"], inputs["num_kv_heads"]
    chosen = [kv_head(head, heads, kv_heads) for head in range(heads)]
    out = np.full(inputs["q"].shape, empty, F)
    for seq, length in enumerate(inputs["context_lens"]):
        token = tokens(inputs, int(length))
        if len(token):
            places = page(inputs, seq, token), token % inputs["page_size"]
            k, v = (cache[places].transpose(1, 0, 2)[chosen] for cache in (k_cache, v_cache))
            out[seq] = attend(inputs["q"][seq][:, None], k, v, scale, **options)[:, 0]
    return {"out": out}


def _rounded(to: Rounding, inputs: Inputs) -> dict[str, np.ndarray]:
    return paged(inputs, k_cache=to(inputs["k_cache"]), v_cache=to(inputs["v_cache"]))


def _whole_pages(inputs: Inputs, length: int) -> np.ndarray:
    return np.arange(-(-length // inputs["page_size"]) * inputs["page_size"])


def _full_pages(inputs: Inputs, length: int) -> np.ndarray:
    return np.arange(length // inputs["page_size"] * inputs["page_size"])


def _page_of_16(inputs: Inputs, seq: int, token: np.ndarray) -> np.ndarray:
    return np.asarray(inputs["block_table"][seq, np.minimum(token // 16, inputs["max_blocks_per_seq"] - 1)])


def _consecutive(inputs: Inputs, seq: int, token: np.ndarray) -> np.ndarray:
    page = seq * inputs["max_blocks_per_seq"] + token // inputs["page_size"]
    return np.asarray(page % len(inputs["k_cache"]))


HONEST_KERNELS: dict[str, Kernel] = {name: partial(paged, **options) for name, options in HONEST.items()}
MUTANTS: dict[str, Kernel] = {
    **{name: partial(paged, **options) for name, options in WRONG.items()},
    **{f"cache in {name}": partial(_rounded, to) for name, to in ROUNDINGS.items()},
    "zeros": lambda i: {"out": np.zeros_like(i["q"])},
    "no scale": lambda i: paged(i, scale=1.0),
    "scale parameter ignored": lambda i: paged(i, scale=i["head_dim"] ** -0.5),
    "mean of v": lambda i: paged(i, k_cache=np.zeros_like(i["k_cache"])),
    "head % num_kv_heads": lambda i: paged(i, kv_head=lambda head, heads, kv_heads: head % kv_heads),
    "kv head 0 for all": lambda i: paged(i, kv_head=lambda head, heads, kv_heads: 0),
    "head // num_kv_heads": lambda i: paged(i, kv_head=lambda h, heads, kv_heads: min(h // kv_heads, kv_heads - 1)),
    "page table ignored": lambda i: paged(i, _consecutive),
    "table of sequence 0 for all": lambda i: paged(i, lambda inputs, seq, token: _table(inputs, 0, token)),
    "first page for all tokens": lambda i: paged(i, lambda inputs, seq, token: _table(inputs, seq, token * 0)),
    "page size 16 throughout": lambda i: paged(i, _page_of_16),
    "tail of the last page included": lambda i: paged(i, tokens=_whole_pages),
    "last token dropped": lambda i: paged(i, tokens=lambda inputs, length: np.arange(length - 1)),
    "first token dropped": lambda i: paged(i, tokens=lambda inputs, length: np.arange(1, length)),
    "last page dropped": lambda i: paged(i, tokens=lambda inputs, length: _full_pages(inputs, length - 1)),
    "tail after the last full page dropped": lambda i: paged(i, tokens=_full_pages),
    "second half dropped": lambda i: paged(i, tokens=lambda inputs, length: np.arange((length + 1) // 2)),
    "every second token": lambda i: paged(i, tokens=lambda inputs, length: np.arange(0, length, 2)),
    "NaN for an empty context": lambda i: paged(i, empty=np.nan),
    "64 dimensions of 128": lambda i: {"out": np.where(np.arange(i["head_dim"]) < 64, paged(i)["out"], F(0))},
}
