"""NumPy models of attention and merge kernels by the types that they compute in: honest ones as a tensor core or a thread
would do it, and cheats that save time by computing in something narrower than they may.

They share no code with harness/attention_models.py, from which limits are derived. A kernel is an `Arithmetic`: a
rounding for each place where a kernel holds numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Inputs = dict[str, Any]
Rounding = Callable[[np.ndarray], np.ndarray]
F = np.float32
MANY = 64  # keys, or splits, beyond which one is left out by those that leave one out
STEP = 16  # terms that one instruction of a tensor core adds up


def exact(x: np.ndarray) -> np.ndarray:
    """float32 stays what it is."""
    return x


def to(kind: Any) -> Rounding:
    """Rounded to a type, as float32. What is too large becomes the type's largest."""
    most = float(ml_dtypes.finfo(kind).max)
    return lambda x: np.clip(x, -most, most).astype(kind).astype(F)


HALF, BF16 = to(np.float16), to(ml_dtypes.bfloat16)
E4M3, E5M2 = to(ml_dtypes.float8_e4m3fn), to(ml_dtypes.float8_e5m2)
OF_DTYPE = {"float32": exact, "float16": HALF, "bfloat16": BF16, "float8_e4m3": BF16}  # queries, answers, weights


def tf32(x: np.ndarray) -> np.ndarray:
    """Rounded to 10 bits of mantissa, as float32."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).astype(np.uint32).view(F)


@dataclass(frozen=True)
class Arithmetic:
    """How one kernel computes. Each rounding is applied where the name says."""

    q: Rounding = exact
    kv: Rounding = exact  # stored keys and values
    folded: Rounding | None = None  # of q times scale * log2(e); None: scores are multiplied in float32
    s: Rounding = exact  # scores
    s_sum: Rounding = exact  # the accumulator of scores, after every STEP dimensions
    p: Rounding = exact  # weights, before they meet the values
    p_summed: bool = False  # whether rounded weights are summed, too
    o_sum: Rounding = exact  # the accumulator of outputs, after every STEP keys
    l_sum: Rounding = exact  # that of weights
    tensor_core: bool = False  # sums are cut off as an H200 does it
    dropped: Callable[[int], int] | None = None  # a key that is left out where there are many, by their number
    own_scales: bool = True  # False: factors of head 0 serve for all


def _product(a: np.ndarray, b: np.ndarray, rounding: Rounding, tensor_core: bool) -> np.ndarray:
    """a [heads, rows, n] b [heads, n, columns], STEP terms after the others."""
    if rounding is exact and not tensor_core:
        return np.asarray(a @ b)
    total = np.zeros((*a.shape[:2], b.shape[2]), F)
    for start in range(0, a.shape[2], STEP):
        left, right = a[..., start : start + STEP], b[:, start : start + STEP]
        total = _fused(total, left, right) if tensor_core else rounding(total + left @ right)
    return total


def _fused(total: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """One instruction's sum: every term cut off at 2^-24 of the largest, which is no finer than the card does it
    (harness/emulator/matrix_fused.py), the sum at 24 bits."""
    terms = left[..., None].astype(np.float64) * right[:, None].astype(np.float64)
    terms = np.concatenate([terms, total[:, :, None].astype(np.float64)], axis=2)
    return _cut(_cut(terms, 24, np.abs(terms).max(axis=2, keepdims=True)).sum(axis=2), 23).astype(F)


def _cut(x: np.ndarray, bits: int, like: np.ndarray | None = None) -> np.ndarray:
    """Towards zero, to so many bits behind the leading one of `like`."""
    quantum = np.ldexp(1.0, np.frexp(np.abs(x) if like is None else like)[1] - 1 - bits)
    return np.asarray(np.trunc(x / quantum) * quantum)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: np.ndarray, visible: np.ndarray | None, how: Arithmetic
) -> tuple[np.ndarray, np.ndarray]:
    """out [heads, rows, head_dim] and lse [heads, rows] for q [heads, rows, head_dim], k and v [heads, keys, head_dim],
    scale [heads, 1, 1] and visible [rows, keys]."""
    q, k, v = how.q(q), how.kv(k), how.kv(v)
    log2_e = F(np.log2(np.e))
    left = q if how.folded is None else how.folded(q * scale * log2_e)
    s = _product(left, k.transpose(0, 2, 1), how.s_sum, how.tensor_core)
    s = how.s(s if how.folded else s * scale * log2_e)
    if visible is not None:
        s = np.where(visible, s, F(-np.inf))
    if how.dropped and s.shape[-1] > MANY:
        s[..., how.dropped(s.shape[-1])] = -np.inf
    top = s.max(-1, keepdims=True)
    weights = np.exp2(s - np.where(np.isfinite(top), top, F(0)))
    p = how.p(weights)
    total = _product(p if how.p_summed else weights, np.ones((*s.shape[::2], 1), F), how.l_sum, False)
    some = total > 0
    out = _product(p, v, how.o_sum, how.tensor_core) / np.where(some, total, F(1))
    with np.errstate(divide="ignore"):
        return out, ((top + np.log2(total)) * F(np.log(2)))[..., 0]


def flash(inputs: Inputs, how: Arithmetic, dtype: str) -> dict[str, np.ndarray]:
    """flash_attention in every variant."""
    q, k, v = (inputs[name].reshape(-1, *inputs[name].shape[-2:]).astype(F) for name in "qkv")
    k, v = (np.repeat(x, len(q) // len(k), 0) for x in (k, v))
    rows, keys = q.shape[1], k.shape[1]
    visible = np.arange(keys) <= np.arange(rows)[:, None] + keys - rows if inputs["causal"] else None
    out, lse = attend(q, k, v, np.full((len(q), 1, 1), inputs["scale"], F), visible, how)
    shape = inputs["q"].shape
    return {"out": OF_DTYPE[dtype](out).reshape(shape), "lse": lse.reshape(shape[:-1])}


def paged(inputs: Inputs, how: Arithmetic, dtype: str) -> dict[str, np.ndarray]:
    """paged_decode in every variant."""
    kv_heads = inputs["num_kv_heads"]
    out = np.zeros(inputs["q"].shape, F)
    lse = np.full(out.shape[:-1], -np.inf, F)
    k_scale, v_scale = (inputs.get(name, np.ones(kv_heads, F)) for name in ("k_scale", "v_scale"))
    if not how.own_scales:
        k_scale, v_scale = (np.full(kv_heads, factors[0]) for factors in (k_scale, v_scale))
    for seq, q, k, v in _contexts(inputs):
        scale = (F(inputs["scale"]) * k_scale)[:, None, None]
        some, sums = attend(q, k, v, scale, None, how)
        out[seq], lse[seq] = (some * v_scale[:, None, None]).reshape(out.shape[1:]), sums.reshape(-1)
    return {"out": OF_DTYPE[dtype](out), "lse": lse}


def _contexts(inputs: Inputs) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """(sequence, q [kv_heads, group, head_dim], k and v [kv_heads, tokens, head_dim]) of those that are not empty."""
    for seq, length in enumerate(inputs["context_lens"].tolist()):
        if length:
            token = np.arange(length)
            places = inputs["block_table"][seq, token // inputs["page_size"]], token % inputs["page_size"]
            k, v = (inputs[name][places].astype(F).transpose(1, 0, 2) for name in ("k_cache", "v_cache"))
            q = inputs["q"][seq].astype(F)
            yield seq, q.reshape(inputs["num_kv_heads"], -1, q.shape[-1]), k, v


def merge(inputs: Inputs, how: Arithmetic, dtype: str) -> dict[str, np.ndarray]:
    """split_k_merge: `kv` is applied to partial outputs, `p` to weights, `o_sum` after every split."""
    m, sums, rows = inputs["m"], inputs["l"], inputs["rows"]
    top = m.max(axis=0)
    weights = how.s(np.exp(m - np.where(np.isfinite(top), top, F(0)))) * sums
    if how.dropped and len(weights) > MANY:
        weights[how.dropped(len(weights))] = 0
    total = np.zeros(rows, F)
    for weight in weights:
        total = how.l_sum(total + weight)
    some = np.where(total > 0, total, F(1))
    out = np.zeros((rows, inputs["head_dim"]), F)
    for weight, part in zip(how.p(weights / some), inputs["partial_out"], strict=True):
        used = np.where((sums > 0).any(axis=0)[:, None] & (weight[:, None] > 0), how.kv(part.astype(F)), F(0))
        out = how.o_sum(out + weight[:, None] * used)
    with np.errstate(divide="ignore"):
        return {"out": OF_DTYPE[dtype](out), "lse": top + np.log(total)}


KERNELS = {"flash_attention": flash, "paged_decode": paged, "split_k_merge": merge}


def honest(dtype: str) -> dict[str, Arithmetic]:
    """Kernels that must be accepted in a dtype."""
    own = OF_DTYPE[dtype]
    found = {"float32 throughout": Arithmetic(), "weights rounded": Arithmetic(p=own)}
    if own is not exact:
        found["tensor cores"] = Arithmetic(p=own, tensor_core=True)
        found["rounded weights summed"] = Arithmetic(p=own, p_summed=True)
    return found


def doubtful(dtype: str) -> dict[str, Arithmetic]:
    """Kernels that real libraries have, whose loss is near the limits: shown, not judged."""
    own = OF_DTYPE[dtype]
    if own is exact:
        return {}
    return {
        "q * scale * log2(e) rounded": Arithmetic(p=own, folded=own),
        "scores in float16": Arithmetic(p=own, s=HALF),
        "sums of scores in float16": Arithmetic(p=own, s_sum=HALF),
    }


def cheats(problem_id: str, dtype: str) -> dict[str, Arithmetic]:
    """Kernels that must be refused in a dtype."""
    own = OF_DTYPE[dtype]
    found = {
        "first of many keys dropped": Arithmetic(p=own, dropped=lambda keys: 0),
        "last of many keys dropped": Arithmetic(p=own, dropped=lambda keys: keys - 1),
        "one of many keys dropped": Arithmetic(p=own, dropped=lambda keys: keys // 2),
    }
    return found | _cheats(problem_id == "split_k_merge", own)[dtype]


def _cheats(merging: bool, own: Rounding) -> dict[str, dict[str, Arithmetic]]:
    bf16_scores = {} if merging else {"scores in bfloat16": Arithmetic(p=own, s=BF16)}
    float32 = {
        "weights in float16": Arithmetic(p=HALF),
        "values in float16": Arithmetic(kv=HALF),
        "values in tf32": Arithmetic(kv=tf32),
        "values in bfloat16": Arithmetic(kv=BF16),
        "sums of outputs in float16": Arithmetic(o_sum=HALF),
        "sums of weights in float16": Arithmetic(l_sum=HALF),
        **bf16_scores,
    }
    float16 = {
        "sums of outputs in float16": Arithmetic(p=own, o_sum=HALF),
        "sums of weights in float16": Arithmetic(p=own, l_sum=HALF),
        "sums of weights in bfloat16": Arithmetic(p=own, l_sum=BF16),
        "values in bfloat16": Arithmetic(p=own, kv=BF16),
        "values in e4m3": Arithmetic(p=own, kv=E4M3),
        "weights in bfloat16": Arithmetic(p=BF16),
        "weights in e4m3": Arithmetic(p=E4M3),
        **bf16_scores,
    }
    bfloat16 = {
        "sums of outputs in bfloat16": Arithmetic(p=own, o_sum=BF16),
        "sums of weights in bfloat16": Arithmetic(p=own, l_sum=BF16),
        "values in e4m3": Arithmetic(p=own, kv=E4M3),
        "weights in e4m3": Arithmetic(p=E4M3),
        **bf16_scores,
    }
    float8 = {
        "sums of outputs in bfloat16": Arithmetic(p=own, o_sum=BF16),
        "cache in e5m2": Arithmetic(p=own, kv=E5M2),
        "weights in e4m3": Arithmetic(p=E4M3),
        "weights in e5m2": Arithmetic(p=E5M2),
        "q in e4m3": Arithmetic(p=own, q=E4M3),
        "scales of head 0 for all": Arithmetic(p=own, own_scales=False),
        **bf16_scores,
    }
    return {"float32": float32, "float16": float16, "bfloat16": bfloat16, "float8_e4m3": float8}
