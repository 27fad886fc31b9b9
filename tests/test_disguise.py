"""Disguised inputs have the disguised answer, exactly; and what a disguise must not be is refused."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Stored:
    """A floating-point type by definition. `like`: a NumPy type of its size, by which a disguise knows it."""

    like: type[np.generic]
    bits: int  # of the significand
    least: int  # exponent of the smallest normal number
    largest: float

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """The nearest numbers of the type, in float32; NaN stays."""
        wide = x.astype(np.float64)
        quantum = 2.0 ** (np.maximum(np.frexp(wide)[1] - 1, self.least) - (self.bits - 1))
        near = np.clip(np.rint(wide / quantum) * quantum, -self.largest, self.largest)
        return np.asarray(near, np.float32)


STORED = {
    "float32": Stored(np.float32, 24, -126, 3.4028234663852886e38),
    "float16": Stored(np.float16, 11, -14, 65504.0),
    "bfloat16": Stored(np.uint16, 8, -126, 3.3895313892515355e38),
    "e4m3": Stored(np.uint8, 4, -6, 448.0),
}


def _elements(p: Problem) -> list[str]:
    return [t.name for t in p.tensors if t.type == "element"]


def _names(p: Problem) -> str:
    """Tests of plain data: what is timed is N(0, 1)."""
    plain = [s for s in p.tests if s.parameters.get("data", "normal") == "normal" and s.parameters["value_scale"] == 1]
    return ",".join(s.name for s in plain if not s.name.startswith("chapter"))


def _inputs(p: Problem, stored: Stored, seed: int) -> list[tuple[str, dict[str, Any]]]:
    built = cases.build(p, _names(p), seed)
    found = [(case.name, {a.name: a.value for a in case.arguments if a.role != "out"}) for case in built]
    for _, inputs in found:
        inputs.update({name: stored.rounded(np.asarray(inputs[name])) for name in _elements(p) if name in inputs})
    return found


def _drawn(p: Problem, inputs: dict[str, Any], stored: Stored, seed: int) -> Disguise:
    """A disguise for tensors of that type."""
    as_stored = {n: np.empty(inputs[n].shape, stored.like) for n in _elements(p) if n in inputs}
    drawn = cases.load_reference(p).disguise({**inputs, **as_stored}, np.random.default_rng(seed))
    assert isinstance(drawn, Disguise)
    return drawn


def _disguised(drawn: Disguise, inputs: dict[str, Any]) -> dict[str, Any]:
    return {n: drawn.applied(n, x) if isinstance(x, np.ndarray) else x for n, x in inputs.items()}


def _distance(p: Problem, inputs: dict[str, Any], drawn: Disguise) -> float:
    """How far the answer to the disguised inputs is from the disguised answer, over the size of the latter's rows."""
    expected = cases.load_reference(p).expected
    plain, found = expected(inputs), expected(_disguised(drawn, inputs))
    worst = 0.0
    for name, answer in plain.items():
        wanted = drawn.applied(name, answer)
        assert np.array_equal(np.isfinite(wanted), np.isfinite(found[name]))
        finite = np.isfinite(wanted)
        size = np.maximum(np.abs(np.where(finite, wanted, 0)).max(-1, keepdims=True), 1e-3)
        worst = max(worst, float((np.abs(np.where(finite, found[name] - np.where(finite, wanted, 0), 0)) / size).max()))
    return worst


@pytest.mark.parametrize("kind", sorted(STORED))
@pytest.mark.parametrize("problem_id", IDS)
def test_the_disguised_answer_is_the_answer_to_disguised_inputs(problem_id: str, kind: str) -> None:
    p, stored = problem.load(problem_id), STORED[kind]
    for seed in SEEDS:
        for name, inputs in _inputs(p, stored, seed):
            drawn = _drawn(p, inputs, stored, seed)
            changed = _disguised(drawn, inputs)
            for tensor in set(_elements(p)) & set(inputs):
                np.testing.assert_array_equal(stored.rounded(changed[tensor]), changed[tensor], f"{name}: {tensor}")
            assert _distance(p, inputs, drawn) < 1e-12, (name, seed)


LARGE = {"flash_attention": "needles_65", "paged_decode": "page_edges", "split_k_merge": "empty_splits"}


def _pieces(drawn: Disguise) -> list[tuple[str, str, int]]:
    by_axis = [("gather", drawn.gather), ("scale", drawn.scale)]
    return [(field, name, axis) for field, tensors in by_axis for name in tensors for axis in tensors[name]]


def _without(drawn: Disguise, field: str, name: str, axis: int) -> Disguise:
    tensors = dict(getattr(drawn, field))
    tensors[name] = {a: values for a, values in tensors[name].items() if a != axis}
    return dataclasses.replace(drawn, **{field: tensors})


@pytest.mark.parametrize("problem_id", IDS)
def test_no_part_of_a_disguise_can_be_missing(problem_id: str) -> None:
    """Each gather and each factor of each tensor and axis changes the answer: none of them is idle."""
    p = problem.load(problem_id)
    (case,) = cases.build(p, LARGE[problem_id], 1)
    inputs = {a.name: a.value for a in case.arguments if a.role != "out"}
    drawn = _drawn(p, inputs, STORED["float32"], 4)
    checked = [piece for piece in _pieces(drawn) if not _identity(drawn, *piece)]
    assert len(checked) >= 10
    for piece in checked:
        assert _distance(p, inputs, _without(drawn, *piece)) > 1e-3, piece
    if drawn.replace:
        assert _distance(p, inputs, dataclasses.replace(drawn, replace={})) > 1e-3


def _identity(drawn: Disguise, field: str, name: str, axis: int) -> bool:
    """Sequences of different lengths keep their places."""
    values = getattr(drawn, field)[name][axis]
    return bool(np.array_equal(values, np.arange(len(values))))


def test_decode_moves_pages_but_not_a_common_beginning() -> None:
    p = problem.load("paged_decode")
    (case,) = cases.build(p, "shared_prefix", 1)
    inputs = {a.name: a.value for a in case.arguments if a.role != "out"}
    old = np.asarray(inputs["block_table"])
    tables = [_drawn(p, inputs, STORED["float32"], seed).replace["block_table"] for seed in range(8)]
    assert all(np.array_equal(table < 0, old < 0) for table in tables)
    assert all((table[:, :4] == table[0, :4]).all() for table in tables)
    assert len({tuple(table[0, :4]) for table in tables}) == 8


def test_pages_of_a_sequence_and_equal_sequences_change_places() -> None:
    p = problem.load("paged_decode")
    spec = dataclasses.replace(p.tests[0], parameters={**p.tests[0].parameters, "lengths": [40] * 6 + [7], "num_blocks": 20})
    inputs = cases.load_reference(p).make_inputs(dict(spec.parameters), np.random.default_rng(1))
    drawn = _drawn(p, inputs, STORED["float32"], 1)
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
