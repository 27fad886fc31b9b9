"""A warp may lose its turn at any loop header: results must be the same, bit for bit, wherever that happens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import cards, cases, problem, tracks
from harness.compile.build import compile_submission
from harness.devices.base import Program, RunLimits, RunResult
from harness.devices.cpu import EmulatorDevice
from harness.emulator import worker

ROOT = Path(__file__).resolve().parents[1]
CASES = {"flash_attention": "below_a_tile,needles_65", "paged_decode": "page_edges,shared_prefix", "split_k_merge": "empty_splits"}
SOURCES = sorted([*(ROOT / "solutions").glob("*/*.cu"), *(ROOT / "tests/submissions").glob("*/good*.cu")])
SLICES = (1, 70, 1000)  # warp-instructions


@pytest.mark.parametrize("source", [s for s in SOURCES if s.parent.name in CASES], ids=lambda s: "/".join(s.parts[-2:]))
def test_results_do_not_depend_on_where_warps_yield(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p = tracks.find(problem.load(source.parent.name), source.read_text()).problem
    compiled = compile_submission(source.read_text(), source.name, p.declaration(), cards.get("H100"))
    program = Program(source.name, compiled.ptx)
    for case in cases.build(p, CASES[p.id], 3):

        def run() -> RunResult:
            return EmulatorDevice().run(program, list(case.arguments), RunLimits(threads=1), seed=1)  # noqa: B023

        whole = run()
        assert not whole.findings, whole.findings[0].message
        for slice_ in SLICES:
            with monkeypatch.context() as patched:
                patched.setattr(worker, "FUEL_SLICE", slice_)
                parts = run()
            assert not parts.findings, (slice_, parts.findings[0].message)
            for name, expected in whole.outputs.items():
                np.testing.assert_array_equal(parts.outputs[name].view(np.uint8), expected.view(np.uint8), f"{case.name}, {slice_}")
