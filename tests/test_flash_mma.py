"""Rung 6 of flash_attention has a kernel for short sequences and one for long ones, which the problem's tests hardly
reach: it is judged here, at the least length it takes, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import cards
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from tests.matrix_kit import DECODE

RUNG = Path(__file__).resolve().parents[1] / "solutions/flash_attention/06_cp_async.cu"
TYPE = "__nv_bfloat16"
DECLARATION = f"""#include <cuda_bf16.h>
extern "C" void solve(const {TYPE}*, const {TYPE}*, const {TYPE}*, {TYPE}*, int, int, int, float, int);"""
LENGTH = 1029  # a few rows beyond 1024, which are the last for the other kernel and whole blocks of this
UNIT = 2.0**-8  # of bfloat16: at most this part of a number is lost in rounding it


@pytest.fixture(scope="module")
def program() -> Program:
    source = RUNG.read_text()
    return Program(RUNG.name, compile_submission(source, RUNG.name, DECLARATION, cards.get("H100")).ptx)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = q @ k.transpose(0, 2, 1) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out: np.ndarray = weights @ v / weights.sum(-1, keepdims=True)
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_kernel_of_long_sequences(program: Program, head_dim: int, causal: bool) -> None:
    """Scores grow along the keys, so that the running maximum is raised again and again, and at times left alone."""
    shape = (1, LENGTH, head_dim)
    values = np.random.default_rng(0).standard_normal((3, *shape)).astype(np.float32)
    values[1] *= np.linspace(0.5, 4.0, LENGTH, dtype=np.float32)[:, None]
    inputs = list((values.view(np.uint32) >> 16).astype(np.uint16))
    arguments = [Argument(x, value, "in", TYPE) for x, value in zip("qkv", inputs, strict=True)]
    arguments.append(Argument("out", np.zeros(shape, np.uint16), "out", TYPE))
    numbers = {"batch_heads": 1, "seq_len": LENGTH, "head_dim": head_dim}
    arguments += [Argument(name, value, "scalar", "int") for name, value in numbers.items()]
    arguments.append(Argument("scale", head_dim**-0.5, "scalar", "float"))
    arguments.append(Argument("causal", int(causal), "scalar", "int"))
    result = EmulatorDevice().run(program, arguments, RunLimits(threads=1), seed=1)
    assert result.findings == ()
    assert result.unwritten == {}
    q, k, v = (DECODE["bf16"](x) for x in inputs)
    expected = _attention(q, k, v, causal)
    of_weights, of_output = UNIT * _attention(q, k, np.abs(v), causal), UNIT * np.abs(expected)
    assert (np.abs(DECODE["bf16"](result.outputs["out"]) - expected) <= of_weights + of_output + 1e-5).all()
