"""The tensor-core rungs of paged_decode on shapes that the problem's own tests leave out: more sequences than a warp has
lanes, groups of query heads that fill two operands, or the third of four in part, and more KV heads than blocks fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from harness import events, pipeline, problem, submission

ROOT = Path(__file__).resolve().parents[1]
RUNGS = ("07_tensor_cores", "08_fp8")
CASES = [
    {"name": "seventy_sequences", "lengths": [37 * i % 150 for i in range(70)], "num_heads": 4, "num_kv_heads": 2,
     "head_dim": 64, "page_size": 8, "num_blocks": 900},
    {"name": "group_of_12", "lengths": [300, 0, 65], "num_heads": 24, "num_kv_heads": 2, "head_dim": 128,
     "page_size": 16, "num_blocks": 40, "data": "needles"},
    {"name": "group_of_20", "lengths": [700, 64], "num_heads": 40, "num_kv_heads": 2, "head_dim": 64, "page_size": 64,
     "num_blocks": 20, "data": "needles"},
    {"name": "many_kv_heads", "lengths": [33, 64, 5], "num_heads": 300, "num_kv_heads": 300, "head_dim": 64,
     "page_size": 16, "num_blocks": 12},
]  # fmt: skip


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> problem.Problem:
    """paged_decode with these cases as its tests."""
    directory = tmp_path_factory.mktemp("problems") / "paged_decode"
    shutil.copytree(ROOT / "problems" / "paged_decode", directory)
    described = yaml.safe_load((directory / "problem.yaml").read_text())
    described["tests"] = CASES
    (directory / "problem.yaml").write_text(yaml.safe_dump(described, sort_keys=False))
    return problem.load(str(directory))


@pytest.mark.parametrize("rung", RUNGS)
def test_other_shapes_are_accepted(rung: str, shapes: problem.Problem) -> None:
    source = submission.load(ROOT / "solutions" / "paged_decode" / f"{rung}.cu")
    *_, last = pipeline.judge(shapes, source, pipeline.Options(device="cpu", seed=7, resource_seconds=0))
    assert isinstance(last, events.Finished)
    assert last.report.verdict == "accepted", [(c.name, c.verdict, c.findings[:2]) for c in last.report.cases]
    assert len(last.report.cases) == len(CASES)
