"""Questions about honest rounding: solutions with each kind of exponential, and attention of installed libraries.

Figures are A, B and C of harness/check.py: the worst over the cases, over the floor of the limits of float32, and by
themselves where another type is asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from harness import attention_data, check

_ROOT = Path(__file__).resolve().parents[2]
_SOLUTIONS = ("flash_attention/01_row_per_thread", "flash_attention/02_tiled", "paged_decode/01_block_per_head",
              "paged_decode/03_gqa_group")  # fmt: skip
_HELPERS = """
__device__ __forceinline__ float by_exp2f(float x) { return exp2f(x * 1.4426950408889634f); }
__device__ __forceinline__ float by_ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}
#line 1
"""
# What stands for "__expf" of the solution.
_EXPONENTIALS = {"__expf": "__expf", "expf": "expf", "exp2f": "by_exp2f", "ex2.approx": "by_ex2_approx"}
_KINDS = ("normal", "wide", "outliers", "large_scores", "offset_scores")
_SHAPES = ((256, 64), (1024, 128), (4096, 64), (4096, 128))  # seq_len, head_dim
_HEADS = 2


def solution(name: str, exponential: str) -> dict[str, Any]:
    """All tests of the problem, judged on the card."""
    from harness import pipeline, problem
    from harness.events import Finished
    from harness.submission import from_bytes

    text = (_ROOT / "solutions" / f"{name}.cu").read_text()
    if "__expf(" not in text:
        raise ValueError(f"{name} has no __expf")
    submission = from_bytes("solution.cu", (_HELPERS + text.replace("__expf(", _EXPONENTIALS[exponential] + "(")).encode())
    options = pipeline.Options(device="gpu", seed=1, cache=False, resource_seconds=0)
    *_, last = pipeline.judge(problem.load(_ROOT / "problems" / name.split("/")[0]), submission, options)
    assert isinstance(last, Finished)
    answer: dict[str, Any] = {"verdict": str(last.report.verdict), "cases": len(last.report.cases)}
    for letter, field, place in (("A", "row_max", 0), ("B", "row_norm", 1), ("C", "total_norm", 2)):
        floor = check.FLOORS["float32"][place]
        worst = max(
            ((getattr(e, field) / floor, getattr(e, field) / e.limits[place], case.name)
             for case in last.report.cases for e in case.errors if e.limits[1]),
            default=(0.0, 0.0, "none"),
        )  # fmt: skip
        answer[f"{letter}_over_floor"] = f"{worst[0]:.4g} ({worst[1]:.3g} of its limit, {worst[2]})"
    return answer


def sdpa(dtype: str, backend: str) -> dict[str, Any]:
    """torch's attention of that backend against float64 of the same stored inputs; the worst over kinds and shapes."""
    torch: Any = import_module("torch")
    attention: Any = import_module("torch.nn.attention")
    kind = getattr(torch, dtype)
    answer: dict[str, Any] = {}
    limits = check.ErrorLimits("rows", check.FLOORS["float32"])
    for data in _KINDS:
        worst, where = [0.0] * 3, [""] * 3
        for seq_len, head_dim in _SHAPES:
            for causal in (False, True):
                tensors = [torch.from_numpy(x).cuda().to(kind)[None] for x in _qkv(data, seq_len, head_dim)]
                with attention.sdpa_kernel(getattr(attention.SDPBackend, backend)):
                    found = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)
                expected = _float64(tensors, causal)
                errors = check.measure(found.float().cpu().numpy(), expected.cpu().numpy(), limits)
                figures = (*errors.per_row.max(axis=0), errors.total)
                for i, figure in enumerate(figures):
                    if not figure <= worst[i]:
                        worst[i], where[i] = float(figure), f"{seq_len}x{head_dim}{' causal' if causal else ''}"
        answer[data] = ", ".join(f"{n} {w:.3g} ({at})" for n, w, at in zip("ABC", worst, where, strict=True))
    answer["torch"] = torch.__version__
    return answer


def _qkv(data: str, seq_len: int, head_dim: int) -> list[np.ndarray]:
    rng = np.random.default_rng([seq_len, head_dim])
    q, k, v = (rng.standard_normal((_HEADS, seq_len, head_dim), dtype=np.float32) for _ in range(3))
    attention_data.SHAPERS[data](q, k, v, head_dim**-0.5, rng)
    return [q, k, v]


def _float64(tensors: list[Any], causal: bool) -> Any:
    torch: Any = import_module("torch")
    q, k, v = (tensor.double() for tensor in tensors)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.softmax(scores, -1) @ v


def _questions() -> dict[str, Callable[[], dict[str, Any]]]:
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for dtype, backends in (("bfloat16", ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")),
                            ("float16", ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")),
                            ("float32", ("EFFICIENT_ATTENTION", "MATH"))):  # fmt: skip
        for backend in backends:
            found[f"sdpa_{dtype}_{backend.lower()}"] = partial(sdpa, dtype, backend)
    for exponential in _EXPONENTIALS:
        for name in _SOLUTIONS:
            found[f"{name}_{exponential}"] = partial(solution, name, exponential)
    return found


QUESTIONS = _questions()
