"""NumPy kernels for flash_attention: honest ones, and mutants with one mistake each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.kernel_models import HONEST, ROUNDINGS, WRONG, F, Inputs, Kernel, Rounding, attend, every_second


def flash(inputs: Inputs, visible: np.ndarray | None = None, **options: Any) -> dict[str, np.ndarray]:
    """The right answer in float32; `visible` overrides the mask, other options are those of `attend`."""
    length = inputs["seq_len"]
    if visible is None:
        visible = _mask(inputs, 0)
    arrays = {name: options.pop(name, inputs[name]) for name in ("q", "k", "v", "scale")}
    assert visible.shape == (length, length)
    return {"out": attend(arrays["q"], arrays["k"], arrays["v"], arrays["scale"], visible, **options)}


def _mask(inputs: Inputs, shift: int) -> np.ndarray:
    """Row i sees keys up to i + shift; all of them without the causal flag."""
    length = inputs["seq_len"]
    if not inputs["causal"]:
        return np.ones((length, length), bool)
    return np.arange(length) <= np.arange(length)[:, None] + shift


def _only(inputs: Inputs, keys: np.ndarray) -> dict[str, np.ndarray]:
    return flash(inputs, _mask(inputs, 0) & keys)


def _padded(inputs: Inputs, tile: int = 32) -> dict[str, np.ndarray]:
    """The last tile's zero padding takes part in the softmax of rows that see the last key."""
    pad = -inputs["seq_len"] % tile
    k, v = (np.pad(inputs[name], ((0, 0), (0, pad), (0, 0))) for name in ("k", "v"))
    mask = np.pad(_mask(inputs, 0), ((0, 0), (0, pad)), mode="edge")
    return {"out": attend(inputs["q"], k, v, inputs["scale"], mask)}


def _rounded(to: Rounding, inputs: Inputs) -> dict[str, np.ndarray]:
    return flash(inputs, k=to(inputs["k"]), v=to(inputs["v"]))


def _half_head(inputs: Inputs) -> dict[str, np.ndarray]:
    out = flash(inputs, q=inputs["q"][..., :64].copy(), k=inputs["k"][..., :64], v=inputs["v"][..., :64])["out"]
    return {"out": np.pad(out, ((0, 0), (0, 0), (0, inputs["head_dim"] - 64)))}


def _unnormalised(inputs: Inputs) -> dict[str, np.ndarray]:
    ones = np.ones_like(inputs["v"])
    scores = inputs["q"] @ inputs["k"].transpose(0, 2, 1) * F(inputs["scale"])
    scores = np.where(_mask(inputs, 0), scores, F(-np.inf))
    total = np.exp(scores - scores.max(-1, keepdims=True)) @ ones
    return {"out": flash(inputs)["out"] * total}


def _keys(inputs: Inputs) -> np.ndarray:
    return np.arange(inputs["seq_len"])


HONEST_KERNELS: dict[str, Kernel] = {name: partial(flash, **options) for name, options in HONEST.items()}
MUTANTS: dict[str, Kernel] = {
    **{name: partial(flash, **options) for name, options in WRONG.items()},
    **{f"k and v in {name}": partial(_rounded, to) for name, to in ROUNDINGS.items()},
    "zeros": lambda i: {"out": np.zeros_like(i["q"])},
    "no scale": lambda i: flash(i, scale=1.0),
    "scale parameter ignored": lambda i: flash(i, scale=i["head_dim"] ** -0.5),
    "mean of v": lambda i: flash(i, q=np.zeros_like(i["q"])),
    "no mask": lambda i: flash(i, np.ones((i["seq_len"],) * 2, bool)),
    "mask shows one key too many": lambda i: flash(i, _mask(i, 1)),
    "mask hides the token itself": lambda i: flash(i, _mask(i, -1)),
    "causal without being asked": lambda i: flash(i, _mask({**i, "causal": 1}, 0)),
    "first key dropped": lambda i: _only(i, _keys(i) > 0),
    "last key dropped": lambda i: _only(i, _keys(i) < i["seq_len"] - 1),
    "tail after the last full tile dropped": lambda i: _only(i, _keys(i) < i["seq_len"] // 32 * 32),
    "second half dropped": lambda i: _only(i, _keys(i) < (i["seq_len"] + 1) // 2),
    "every second key": lambda i: _only(i, every_second(i["seq_len"])),
    "padding takes part": _padded,
    "64 dimensions of 128": _half_head,
    "not divided by the sum": _unnormalised,
    "all heads read head 0": lambda i: flash(i, k=np.repeat(i["k"][:1], i["batch_heads"], 0)),
    "rows shifted by one": lambda i: {"out": np.roll(flash(i)["out"], 1, axis=1)},
}
