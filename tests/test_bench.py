"""A benchmark's session over the emulated card: windows, comparison, and what a cheat meets there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from harness import cards, check
from harness.cases import Case
from harness.compile import nvrtc
from harness.devices.base import Argument, RunLimits
from harness.devices.bench import Bench, Compiled, Round, Setting
from harness.devices.replay import Kernels
from harness.disguise import Disguise
from harness.emulator import ptx
from harness.measure.clocks import Watch
from harness.measure.judge_kernels import JudgeKernels, compile_judge_kernels
from harness.plan import FIRST_TENSOR_ID, Buffer, Launch, LaunchPlan, address
from tests.emulated_driver import EmulatedDriver

ROWS, WIDTH = 6, 64
CARD = dataclasses.replace(cards.get("H100"), sms=2, l2_bytes=4096, threads_per_sm=1024)
DOUBLE = """
extern "C" __global__ void doubled(const float* x, float* out, float* scratch, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * x[i];
}
"""
