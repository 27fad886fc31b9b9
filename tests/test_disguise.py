"""Disguised inputs have the disguised answer, exactly; and what a disguise must not be is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cases, problem
from harness.disguise import Disguise
from harness.errors import ProblemError
from harness.problem import Problem
from harness.signature import Tensor

IDS = ("flash_attention", "paged_decode", "split_k_merge")
SEEDS = range(3)
PROBLEMS = {problem_id: problem.load(problem_id) for problem_id in IDS}
TRACKS = [(i, d, v.name) for i, p in PROBLEMS.items() for d in p.dtypes for v in p.variants]


def _names(p: Problem) -> str:
    """Tests of plain data: what is timed is N(0, 1)."""
    plain = [s for s in p.tests if s.parameters.get("data", "normal") == "normal" and s.parameters["value_scale"] == 1]
    return ",".join(s.name for s in plain if not s.name.startswith(("chapter", "long", "gqa_long", "gqa_one_query")))


def _built(p: Problem, names: str, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    reference = cases.load_reference(p)
    for spec in cases.select(p, names):
        case = cases.build_one(p, reference, spec, seed, honest=False)
        yield case.name, {a.name: a.value for a in case.arguments if a.role != "out"}


def _drawn(p: Problem, inputs: dict[str, Any], seed: int) -> Disguise:
    return cases.draw_disguise(p, cases.load_reference(p), inputs, np.random.default_rng(seed))


def _disguised(drawn: Disguise, inputs: dict[str, Any]) -> dict[str, Any]:
    return {n: drawn.applied(n, x) if isinstance(x, np.ndarray) else x for n, x in inputs.items()}


def _distance(p: Problem, inputs: dict[str, Any], drawn: Disguise) -> float:
    """How far the answer to the disguised inputs is from the disguised answer, over the size of the latter's rows."""
    expected = cases.load_reference(p).expected
    plain, found = expected(inputs), expected(_disguised(drawn, inputs))
    worst = 0.0
    for name in (tensor.name for tensor in p.outputs):
        wanted = drawn.applied(name, plain[name])
        assert np.array_equal(np.isfinite(wanted), np.isfinite(found[name]))
        finite = np.isfinite(wanted)
        size = np.maximum(np.abs(np.where(finite, wanted, 0)).max(-1, keepdims=True), 1e-3)
        worst = max(worst, float((np.abs(np.where(finite, found[name] - np.where(finite, wanted, 0), 0)) / size).max()))
    return worst


@pytest.mark.parametrize("track", TRACKS, ids=" ".join)
def test_the_disguised_answer_is_the_answer_to_disguised_inputs(track: tuple[str, str, str]) -> None:
    p = PROBLEMS[track[0]].track(*track[1:])
    for seed in SEEDS:
        for name, inputs in _built(p, _names(p), seed):
            drawn = _drawn(p, inputs, seed)
            for tensor in (n for n, x in inputs.items() if isinstance(x, np.ndarray) and n not in drawn.replace):
                exact = drawn.applied(tensor, inputs[tensor].astype(np.float64))
                changed = drawn.applied(tensor, inputs[tensor]).astype(np.float64)
                np.testing.assert_array_equal(changed, exact, f"{name}: {tensor} was rounded")
            assert _distance(p, inputs, drawn) < 1e-12, (name, seed)


LARGE = {"flash_attention": "needles_65", "paged_decode": "page_edges", "split_k_merge": "empty_splits"}


def _pieces(drawn: Disguise) -> list[tuple[str, str, int]]:
    by_axis = [("gather", drawn.gather), ("scale", drawn.scale)]
    return [(field, name, axis) for field, tensors in by_axis for name in tensors for axis in tensors[name]]


def _without(drawn: Disguise, field: str, name: str, axis: int) -> Disguise:
    tensors = dict(getattr(drawn, field))
    tensors[name] = {a: values for a, values in tensors[name].items() if a != axis}
    return dataclasses.replace(drawn, **{field: tensors})


@pytest.mark.parametrize("track", TRACKS, ids=" ".join)
def test_no_part_of_a_disguise_can_be_missing(track: tuple[str, str, str]) -> None:
    """Each gather and each factor of each tensor and axis changes the answer: none of them is idle."""
    p = PROBLEMS[track[0]].track(*track[1:])
    ((_, inputs),) = _built(p, "gqa_pairs" if p.variant == "gqa" else LARGE[p.id], 1)
    drawn = _drawn(p, inputs, 4)
    checked = [piece for piece in _pieces(drawn) if not _identity(drawn, *piece)]
    assert len(checked) >= 10
    for piece in checked:
        assert _distance(p, inputs, _without(drawn, *piece)) > 1e-3, piece
    if drawn.replace:
        assert _distance(p, inputs, dataclasses.replace(drawn, replace={})) > 1e-3


def _identity(drawn: Disguise, field: str, name: str, axis: int) -> bool:
    """Sequences of different lengths keep their places; of two heads, none may have been changed."""
    values = getattr(drawn, field)[name][axis]
    return bool(np.array_equal(values, np.arange(len(values)) if field == "gather" else np.ones(len(values))))


def test_query_heads_stay_with_their_key_value_head() -> None:
    p = PROBLEMS["flash_attention"].track("bfloat16", "gqa")
    ((_, inputs),) = _built(p, "gqa_fours_more_keys_causal", 1)
    seen = set()
    for seed in range(8):
        drawn = _drawn(p, inputs, seed)
        assert (drawn.gather["q"][1].reshape(-1, 4) // 4 == drawn.gather["k"][1][:, None]).all()
        assert 2 not in drawn.gather["k"] and 2 not in drawn.gather["q"], "the mask fixes the order of keys and queries"
        seen.add(tuple(drawn.gather["q"][1]))
    assert len(seen) == 8


def test_decode_moves_pages_but_not_a_common_beginning() -> None:
    p = problem.load("paged_decode")
    (case,) = cases.build(p, "shared_prefix", 1)
    inputs = {a.name: a.value for a in case.arguments if a.role != "out"}
    old = np.asarray(inputs["block_table"])
    tables = [_drawn(p, inputs, seed).replace["block_table"] for seed in range(8)]
    assert all(np.array_equal(table < 0, old < 0) for table in tables)
    assert all((table[:, :4] == table[0, :4]).all() for table in tables)
    assert len({tuple(table[0, :4]) for table in tables}) == 8


def test_pages_of_a_sequence_and_equal_sequences_change_places() -> None:
    p = problem.load("paged_decode")
    spec = dataclasses.replace(p.tests[0], parameters={**p.tests[0].parameters, "lengths": [40] * 6 + [7], "num_blocks": 20})
    inputs = cases.load_reference(p).make_inputs(dict(spec.parameters), np.random.default_rng(1))
    drawn = _drawn(p, inputs, 1)
    assert sorted(drawn.gather["q"][0][:6]) == list(range(6)) != list(drawn.gather["q"][0][:6])
    old_pages = drawn.gather["k_cache"][0][np.maximum(drawn.replace["block_table"], 0)]
    rows = inputs["block_table"][drawn.gather["q"][0]]
    assert (old_pages[:6, 2] == rows[:6, 2]).all(), "a page that is not full stays the last"
    assert any(list(new[:2]) != list(row[:2]) for new, row in zip(old_pages, rows, strict=True))
    assert all(sorted(new[:2]) == sorted(row[:2]) for new, row in zip(old_pages[:6], rows[:6], strict=True))
    assert _distance(p, inputs, drawn) < 1e-12


# What draw_disguise() refuses

GOOD = """\
import numpy as np
from harness.disguise import Disguise
def make_inputs(case, rng): pass
def expected(inputs): pass
def honest(inputs): pass
def cost(case): pass
OTHER = np.ones((3, 4), np.float32)
ORDER = np.array([2, 0, 1], np.int32)
SIGNS = np.array([-1, 0.5, 2, 4], np.float32)
def disguise(inputs, rng):
    return Disguise({"x": {0: ORDER}, "out": {0: ORDER}}, {"x": {1: SIGNS}, "out": {1: SIGNS}})
"""
INPUTS = {"x": np.ones((3, 4), np.float32), "n": 3}


def _draw(tmp_path: Path, tiny: Problem, source: str) -> Disguise:
    (tmp_path / "reference.py").write_text(source)
    broken = dataclasses.replace(tiny, directory=tmp_path)
    return cases.draw_disguise(broken, cases.load_reference(broken), INPUTS, np.random.default_rng(1))


def test_a_problem_without_a_disguise_has_none(tmp_path: Path, doubling: Problem) -> None:
    drawn = _draw(tmp_path, doubling, GOOD.replace("def disguise", "def other"))
    assert drawn == Disguise() and drawn.applied("x", INPUTS["x"]).tobytes() == INPUTS["x"].tobytes()  # type: ignore[attr-defined,arg-type]


def test_a_good_disguise_is_taken_as_an_object_or_a_dict(tmp_path: Path, doubling: Problem) -> None:
    for source in (GOOD, GOOD.replace("Disguise({", "dict(gather={").replace("}, {", "}, scale={")):
        drawn = _draw(tmp_path, doubling, source)
        assert drawn.applied("out", np.ones((3, 4)))[0].tolist() == [-1, 0.5, 2, 4]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return Disguise", "raise KeyError('w')\n    return Disguise", r"reference\.py:11: disguise\(\): KeyError: 'w'"),
        ("return Disguise", "return 3\n    return Disguise", "must return a Disguise, or a dict of gather, scale, replace, found int"),
        ("return Disguise(", "return dict(a=0) or Disguise(", "must return a Disguise, or a dict"),
        ('{"x": {0: ORDER}, "out"', '{"y": {0: ORDER}, "out"', "gather names 'y', which is no tensor; tensors: x, out"),
        ('{"x": {0: ORDER}, "out": {0: ORDER}}', "[]", "gather must be a dict by tensor, found list"),
        ('{"x": {0: ORDER}', '{"x": ORDER', "gather: x must be a dict by axis, found ndarray"),
        ('{"x": {0: ORDER}', '{"x": {2: ORDER}', "gather: x has no axis 2; axes are 0 to 1"),
        ("np.int32", "np.int64", r"gather: axis 0 of x must be a C-contiguous array of int32 \(3,\), found int64"),
        ("[2, 0, 1]", "[2, 0, 1, 3]", r"array of int32 \(3,\), found int32 \(4,\)"),
        ("[2, 0, 1]", "[2, 0, 2]", "gather: axis 0 of x is no permutation of 0 to 2"),
        ("[2, 0, 1]", "[2, 0, -1]", "is no permutation"),
        ("0.5, 2", "0.75, 2", "scale: axis 1 of x holds a factor that is no power of two"),
        ("0.5, 2", "0, 2", "no power of two"),
        ("0.5, 2", "np.nan, 2", "no power of two"),
        ("0.5, 2", "np.inf, 2", "no power of two"),
        ("{1: SIGNS}})", "{1: SIGNS}}, {'x': OTHER})", "replace: x is also gathered or scaled"),
        ("{1: SIGNS}})", "{1: SIGNS}}, {'out': OTHER})", "replace: out is an output"),
        ('{"x": {0: ORDER}, "out": {0: ORDER}}, {"x": {1: SIGNS}, "out": {1: SIGNS}}', "{}, {}, {'x': [1]}", "replace: x must be an array"),
    ],
)  # fmt: skip
def test_a_broken_disguise_is_explained(tmp_path: Path, doubling: Problem, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ProblemError, match=message) as caught:
        _draw(tmp_path, doubling, GOOD.replace(old, new, 1))
    assert "reference.py" in str(caught.value) and "disguise()" in str(caught.value)


def test_integers_have_no_factors() -> None:
    p = problem.load("paged_decode")
    (case,) = cases.build(p, "one_token", 1)
    inputs = {a.name: a.value for a in case.arguments if a.role != "out"}
    reference = cases.load_reference(p)
    assert isinstance(p.tensors[3], Tensor) and p.tensors[3].name == "block_table"
    good = reference.disguise
    bad = Disguise(scale={"context_lens": {0: np.ones(1, np.float32)}})
    reference.disguise = lambda inputs, rng: bad  # type: ignore[attr-defined]
    with pytest.raises(ProblemError, match="scale: context_lens holds integers"):
        cases.draw_disguise(p, reference, inputs, np.random.default_rng(1))
    reference.disguise = good  # type: ignore[attr-defined]
    assert cases.draw_disguise(p, reference, inputs, np.random.default_rng(1)).replace
