"""Cost models against a count over the drawn inputs, and against what a reference solution touches in the emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cards, cases, problem
from harness.cases import Case, Cost
from harness.compile.build import compile_submission
from harness.devices.base import Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from harness.problem import CaseSpec, Problem
from harness.report.benchmark_table import benchmark_lines
from tests import flakiness

SOLUTIONS = Path(__file__).resolve().parents[1] / "solutions"
IDS = ("flash_attention", "paged_decode", "split_k_merge")
Inputs = dict[str, Any]


def _count_flash(i: Inputs, lse: bool) -> Cost:
    q, k = i["q"], i["k"]
    heads, keys = q.size // (q.shape[-2] * q.shape[-1]), k.shape[-2]
    seen = [min(keys, max(0, row + 1 + keys - q.shape[-2])) if i["causal"] else keys for row in range(q.shape[-2])]
    queries = heads * sum(count > 0 for count in seen) * q.shape[-1] * q.itemsize
    sums = 4 * heads * q.shape[-2] if lse else 0
    return Cost(queries + 2 * k.nbytes + q.nbytes + sums, 4 * heads * i["head_dim"] * sum(seen))


def _count_paged(i: Inputs, lse: bool) -> Cost:
    slots, entries, tokens, queries = set(), 0, 0, 0
    for row, length in zip(i["block_table"], i["context_lens"].tolist(), strict=True):
        for token in range(length):
            slots.add((int(row[token // i["page_size"]]), token % i["page_size"]))
        entries += -(-length // i["page_size"])
        tokens += length
        queries += i["num_heads"] * (length > 0)
    rows = (queries + i["num_heads"] * i["num_seqs"]) * i["q"].itemsize
    rows += 2 * len(slots) * i["num_kv_heads"] * i["k_cache"].itemsize
    factors = i["k_scale"].nbytes + i["v_scale"].nbytes if "k_scale" in i and tokens else 0
    sums = 4 * i["num_heads"] * i["num_seqs"] if lse else 0
    nbytes = rows * i["head_dim"] + factors + sums + 4 * (entries + i["num_seqs"])
    return Cost(nbytes, 4 * i["num_heads"] * i["head_dim"] * tokens)


def _count_merge(i: Inputs, lse: bool = False) -> Cost:
    used, size = int(np.count_nonzero(i["l"])), i["partial_out"].itemsize
    out = i["rows"] * i["head_dim"] * size
    return Cost(used * i["head_dim"] * size + i["m"].nbytes + 4 * used + out + 4 * i["rows"], 2 * used * i["head_dim"])


COUNTS = {"flash_attention": _count_flash, "paged_decode": _count_paged, "split_k_merge": _count_merge}


@pytest.mark.parametrize("track", list(flakiness.tracks()), ids=flakiness.label)
def test_the_cost_is_what_a_count_over_the_inputs_gives(track: Problem) -> None:
    """Whatever the seed, since the cost is told from a case's parameters alone."""
    reference = cases.load_reference(track)
    for spec in track.tests:
        parameters = {**spec.parameters, "dtype": track.dtype, "variant": track.variant}
        for seed in range(1 if spec.name.startswith("chapter") else 3):
            inputs = reference.make_inputs(parameters, np.random.default_rng(seed))
            found = cases.cost(track, reference, spec)
            assert found == COUNTS[track.id](inputs, track.variant == "lse"), (spec.name, seed)


def test_more_empty_rows_than_rows_and_all_splits_empty() -> None:
    p = problem.load("split_k_merge")
    reference = cases.load_reference(p)
    for changes in ({"empty": 1.0}, {"empty_rows": 99}, {"empty": 0.3, "empty_rows": 2}, {"empty": 0.01}):
        spec = CaseSpec("odd", {**p.tests[1].parameters, "rows": 3, **changes})
        inputs = reference.make_inputs(dict(spec.parameters), np.random.default_rng(1))
        assert cases.cost(p, reference, spec) == _count_merge(inputs), changes


# The least that one of the solutions of each problem touches, and what it reads although it need not.


def _no_more(case: Case) -> dict[str, int]:
    return {}


def _queries_of_empty_sequences(case: Case) -> dict[str, int]:
    """They are loaded before the length is looked at."""
    i: Inputs = {a.name: a.value for a in case.arguments}
    return {"q": int(np.count_nonzero(i["context_lens"] == 0)) * i["num_heads"] * i["head_dim"] * 4}


def _sums_of_empty_splits(case: Case) -> dict[str, int]:
    """Whether a split is empty is seen at l, although the maximum over m has told it already."""
    sums = next(np.asarray(a.value) for a in case.arguments if a.name == "l")
    return {"l": 4 * int(np.count_nonzero(sums == 0))}


TOUCHED = (
    ("flash_attention", "02_tiled.cu", _no_more),
    ("paged_decode", "01_block_per_head.cu", _queries_of_empty_sequences),
    ("split_k_merge", "01_naive.cu", _sums_of_empty_splits),
)


@pytest.mark.parametrize(("problem_id", "name", "beyond"), TOUCHED, ids=IDS)
def test_a_solution_touches_what_the_cost_says(problem_id: str, name: str, beyond: Any) -> None:
    p = problem.load(problem_id)
    source = (SOLUTIONS / problem_id / name).read_text()
    compiled = compile_submission(source, name, p.declaration(), cards.get("H100"))
    for case in cases.build(p, "tests", 3):
        arguments = list(case.arguments)
        result = EmulatorDevice().run(Program(name, compiled.ptx), arguments, RunLimits(), 0)
        assert not result.findings and result.traffic is not None
        touched = {t.tensor: t.read.distinct_bytes + t.write.distinct_bytes for t in result.traffic.tensors}
        assert sum(touched.values()) == case.cost.bytes + sum(beyond(case).values()), (case.name, touched)


def test_show_tells_the_speed_of_light_on_a_card() -> None:
    """Of one case by hand: 16 heads of 16384, 128 wide, take 4 * 16 * 16384^2 * 128 operations."""
    lines = benchmark_lines(problem.load("flash_attention"), cards.get("H100"))
    place = next(i for i, line in enumerate(lines) if line.startswith("heads_16_seq_16384_d128 "))
    assert lines[place].split() == ["heads_16_seq_16384_d128", "compute", "537", "MB", "2.20", "T", "4096", "13.3", "ms", "arithmetic"]
    assert lines[place + 1] == "  batch_heads 16, seq_len 16384, head_dim 128, causal 0"
    decode = benchmark_lines(problem.load("paged_decode"), cards.get("L4"))
    one = next(line for line in decode if line.startswith("seqs_1_len_131072 "))
    assert "3.58 ms  memory" in one
