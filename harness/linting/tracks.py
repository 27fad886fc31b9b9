"""The macros that make a kernel file fit a track of its problem (harness/linting/kernels.py documents them)."""

from __future__ import annotations

from harness.dtypes import ELEMENTS, KV_ELEMENTS
from harness.problem import Problem
from harness.signature import Tensor


def declaration(track: Problem) -> str:
    """solve()'s declaration in the track, after the macros."""
    scaled = any(isinstance(p, Tensor) and p.name == "k_scale" for p in track.signature)
    macros = {
        "ELEMENT": ELEMENTS[track.dtype],
        "KV_ELEMENT": KV_ELEMENTS[track.dtype],
        "FP8_SCALES": str(int(scaled)),
        f"VARIANT_{track.variant.upper()}": "1",
    }
    return "\n".join([*(f"#define {name} {value}" for name, value in macros.items()), track.declaration()])
