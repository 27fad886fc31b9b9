"""solutions/paged_decode/06_balanced_splits.cu where the problem's tests do not go: shares over many sequences."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from harness import pipeline, problem, submission
from harness.events import Finished
from harness.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
SOLUTION = ROOT / "solutions/paged_decode/06_balanced_splits.cu"
SHAPE = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 64, "page_size": 8}
LENGTHS = {
    "three_sequences_to_a_lane_of_the_prefix_sum": [(37 * k) % 11 for k in range(70)],
    "shares_begin_where_sequences_do": [64] * 132,  # two tiles for each of 66 shares
    "empty_at_both_ends": [0] * 33 + [700] + [0] * 40,
    "a_long_one_behind_many_short_ones": [1] * 65 + [4000],
}


def _case(name: str, lengths: list[int]) -> dict[str, object]:
    pages = sum(-(-length // 8) for length in lengths) + 1
    return {"name": name, "lengths": lengths, "num_blocks": pages, **SHAPE}


def test_shares_of_many_sequences(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "problems/paged_decode", tmp_path / "paged_decode")
    file = tmp_path / "paged_decode/problem.yaml"
    tests = [_case(name, lengths) for name, lengths in LENGTHS.items()]
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "tests": tests}, sort_keys=False))
    options = pipeline.Options(device="cpu", seed=1, resource_seconds=0)
    *_, last = pipeline.judge(problem.load(str(file.parent)), submission.load(SOLUTION), options)
    assert isinstance(last, Finished)
    assert {c.name: c.verdict for c in last.report.cases} == dict.fromkeys(LENGTHS, Verdict.ACCEPTED)
