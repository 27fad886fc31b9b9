"""Attention on tensor cores: whole kernels with their host code, through the emulator, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import cards
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from tests.matrix_kit import DECODE

KERNELS = Path(__file__).parent / "kernels"
HEADS = 2
# file -> (C type, its header, kind in tests.matrix_kit)
FILES = {"flash_bf16_mma": ("__nv_bfloat16", "cuda_bf16.h", "bf16"), "flash_f16_wmma": ("__half", "cuda_fp16.h", "f16")}


def _program(name: str) -> Program:
    kind, header, _ = FILES[name]
    declaration = f'#include <{header}>\nextern "C" void solve(const {kind}*, const {kind}*, const {kind}*, float*, int, int, float);'
    path = KERNELS / f"{name}.cu"
    return Program(path.name, compile_submission(path.read_text(), path.name, declaration, cards.get("H100")).ptx)


def _inputs(kind: str, shape: tuple[int, ...]) -> list[np.ndarray]:
    """q, k and v as bit patterns."""
    values = np.random.default_rng(0).standard_normal((3, *shape)).astype(np.float32)
    if kind == "bf16":
        return list((values.view(np.uint32) >> 16).astype(np.uint16))
    return list(values.astype(np.float16).view(np.uint16))


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    scores = q @ k.transpose(0, 2, 1) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out: np.ndarray = weights @ v / weights.sum(-1, keepdims=True)
    return out


@pytest.mark.parametrize("length", [1, 63, 64, 100])
@pytest.mark.parametrize("name", FILES)
def test_flash_attention(name: str, length: int) -> None:
    """Whole and ragged tiles. Weights are rounded to the inputs' type, by at most half a unit of 2^-8 or 2^-11."""
    kind = FILES[name][2]
    inputs, scale = _inputs(kind, (HEADS, length, 64)), 0.125
    arguments = [Argument(x, value, "in", FILES[name][0]) for x, value in zip("qkv", inputs, strict=True)]
    arguments += [Argument("out", np.zeros((HEADS, length, 64), np.float32), "out", "float"), Argument("batch_heads", HEADS, "scalar", "int"),
                  Argument("seq_len", length, "scalar", "int"), Argument("scale", scale, "scalar", "float")]  # fmt: skip
    result = EmulatorDevice().run(_program(name), arguments, RunLimits(threads=1), seed=1)
    assert result.findings == ()
    assert result.unwritten == {}
    q, k, v = (DECODE[kind](x) for x in inputs)
    unit = {"bf16": 2.0**-8, "f16": 2.0**-11}[kind]
    bound = unit * _attention(q, k, np.abs(v), scale) + 1e-5
    assert (np.abs(result.outputs["out"] - _attention(q, k, v, scale)) <= bound).all()
