"""`--schedule SEED`: blocks and warps in another order, and nothing that depends on it where a kernel is clean."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cards, cases, commandline, pipeline, problem, tracks
from harness.compile.build import compile_submission
from harness.devices.base import Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from harness.emulator.launch import Launcher, shape_of
from harness.emulator.memory import Memory
from harness.emulator.order import Shuffle
from harness.plan import FIRST_TENSOR_ID, Buffer, address
from harness.report import json as json_report
from harness.results import Report
from tests.emulator_kit import program_of, ptx_of

ROOT = Path(__file__).resolve().parents[1]
CASES = {"flash_attention": "needles_127_causal", "paged_decode": "page_edges", "split_k_merge": "uneven_sums"}
SOLUTIONS = sorted((ROOT / "solutions").glob("*/*.cu"))
ORDER = """__global__ void k(int* next, int* blocks, int* warps) {
    if (threadIdx.x == 0) blocks[atomicAdd(next, 1)] = blockIdx.x;
    if (threadIdx.x % 32 == 0 && blockIdx.x == 0) warps[atomicAdd(next + 1, 1)] = threadIdx.x / 32; }
"""


def _orders(schedule: int | None) -> tuple[list[int], list[int]]:
    """In which order 30 blocks and the 8 warps of one of them ran."""
    program, memory = program_of(ptx_of(ORDER)), Memory()
    args = b""
    for number, count in enumerate((2, 30, 8), FIRST_TENSOR_ID):
        memory.add(Buffer(number, "a", 4 * count), np.zeros(count, np.int32))
        args += address(number).to_bytes(8, "little")
    kernel = program.kernel(next(iter(program.kernel_addresses)), shape_of((256, 1, 1)))
    launcher = Launcher(memory, 1, schedule)
    assert launcher.launch(kernel, (30, 1, 1), (256, 1, 1), 0, args, 10**6, 20.0).hazards == []
    blocks, warps = (memory.regions[FIRST_TENSOR_ID + k].data.view(np.int32).tolist() for k in (1, 2))
    return blocks, warps


def test_blocks_and_warps_run_as_numbered_unless_a_seed_shuffles_them() -> None:
    assert _orders(None) == (list(range(30)), list(range(8)))
    seen = [_orders(seed) for seed in range(6)]
    for blocks, warps in seen:
        assert sorted(blocks) == list(range(30))
        assert sorted(warps) == list(range(8))
    assert len({tuple(blocks) for blocks, _ in seen}) > 3
    assert len({tuple(warps) for _, warps in seen}) > 3
    assert _orders(3) == seen[3]


@pytest.mark.parametrize("count", [1, 2, 3, 30, 97, 1 << 20, 3 * (1 << 33)])
def test_a_step_meets_every_block(count: int) -> None:
    shuffle = Shuffle(7)
    for _ in range(20):
        step, first = shuffle.blocks(count)
        assert math.gcd(step, count) == 1
        assert 0 <= first < count
        assert step * count + first < 1 << 64


@pytest.mark.parametrize("source", SOLUTIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_outputs_of_the_solutions_do_not_depend_on_it(source: Path) -> None:
    p = tracks.find(problem.load(source.parent.name), source.read_text()).problem
    (case,) = cases.build(p, CASES[p.id], 1)
    ptx = compile_submission(source.read_text(), source.name, p.declaration(), cards.get("H100")).ptx
    program, device = Program(source.name, ptx), EmulatorDevice()

    def outputs(schedule: int | None) -> dict[str, bytes]:
        result = device.run(program, list(case.arguments), RunLimits(threads=1, schedule=schedule), seed=1)
        assert result.findings == ()
        return {name: array.tobytes() for name, array in result.outputs.items()}

    expected = outputs(None)
    for seed in (1, 2):
        assert outputs(seed) == expected


def test_the_seed_reaches_the_device_the_report_and_the_command_that_repeats_it(
    report_of: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []
    original = pipeline.RunLimits

    def limits(**fields: Any) -> RunLimits:
        seen.append(fields["schedule"])
        return original(**fields)

    monkeypatch.setattr(pipeline, "RunLimits", limits)
    report = report_of("@run say", schedule=11)
    assert set(seen) == {11}
    assert json_report.as_dict(report)["schedule"] == 11
    assert json_report.as_dict(report_of("@run say"))["schedule"] is None
    parsed = commandline.judge_parser().parse(["p", "my.cu", "--schedule", "11"])
    assert parsed.schedule == 11
    assert "--schedule 11" in commandline.repeat(parsed, 3)
