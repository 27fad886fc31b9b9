"""Rungs of the ladder where the problems' own tests do not go: shares over many sequences, groups that fill several
operands, rows enough for a tile of them to each warp of a large card."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import events, pipeline, problem, submission
from harness.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
Case = dict[str, Any]


def _decode(name: str, lengths: list[int], **changes: object) -> Case:
    case = {"name": name, "lengths": lengths, "num_heads": 4, "num_kv_heads": 2, "head_dim": 64, "page_size": 8} | changes
    return case | {"num_blocks": sum(-(-length // int(str(case["page_size"]))) for length in lengths) + 1}


SEQUENCES = [
    _decode("three_sequences_to_a_lane_of_the_prefix_sum", [(37 * k) % 11 for k in range(70)]),
    _decode("shares_begin_where_sequences_do", [64] * 132),  # two tiles for each of 66 shares
    _decode("empty_at_both_ends", [0] * 33 + [700] + [0] * 40),
    _decode("a_long_one_behind_many_short_ones", [1] * 65 + [4000]),
    _decode("seventy_sequences", [37 * k % 150 for k in range(70)]),
]
HEADS = [
    _decode("group_of_12", [300, 0, 65], num_heads=24, head_dim=128, page_size=16, data="needles"),
    _decode("group_of_20", [700, 64], num_heads=40, page_size=64, data="needles"),
    _decode("more_kv_heads_than_blocks_fit", [33, 64, 5], num_heads=300, num_kv_heads=300, page_size=16),
]
ROWS = [
    {"name": "rows_16385", "num_splits": 3, "rows": 16385, "head_dim": 64, "empty": 0.2},
    {"name": "rows_16390", "num_splits": 9, "rows": 16390, "head_dim": 128, "empty_rows": 5, "empty_holds": "nan"},
]
CASES = {
    "paged_decode/06_balanced_splits": SEQUENCES,
    "paged_decode/07_tensor_cores": SEQUENCES[-1:] + HEADS,
    "paged_decode/08_fp8": SEQUENCES[-1:] + HEADS,
    "split_k_merge/03_persistent": ROWS,
}


@pytest.mark.parametrize("name", CASES)
def test_a_rung_is_accepted_on_other_shapes(name: str, tmp_path: Path) -> None:
    source = submission.load(ROOT / "solutions" / f"{name}.cu")
    own = _with_tests(name.split("/")[0], CASES[name], tmp_path)
    *_, last = pipeline.judge(own, source, pipeline.Options(device="cpu", seed=7, resource_seconds=0))
    assert isinstance(last, events.Finished)
    found = {case.name: case.verdict for case in last.report.cases}
    assert found == dict.fromkeys([case["name"] for case in CASES[name]], Verdict.ACCEPTED), last.report.findings


def _with_tests(problem_id: str, cases: list[Case], directory: Path) -> problem.Problem:
    """The problem with these cases for its tests."""
    shutil.copytree(ROOT / "problems" / problem_id, directory / problem_id)
    file = directory / problem_id / "problem.yaml"
    changed = yaml.safe_load(file.read_text()) | {"tests": cases, "samples": [case["name"] for case in cases[:1]]}
    file.write_text(yaml.safe_dump(changed, sort_keys=False))
    return problem.load(str(file.parent))
