"""Cases are repeatable, lazy, complete, and hostile in the ways that the problems promise."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cases, problem, stored
from harness.errors import ProblemError, UsageError
from harness.prefetch import Prefetch
from harness.problem import Problem


def _one(problem_id: str, name: str, seed: int = 1) -> cases.Case:
    (case,) = cases.build(problem.load(problem_id), name, seed)
    return case


def _values(case: cases.Case) -> dict[str, Any]:
    return {a.name: a.value for a in case.arguments}


def test_a_case_is_repeatable_alone() -> None:
    alone = _one("paged_decode", "own_scale", seed=5)
    (in_company,) = (
        c for c in cases.build(problem.load("paged_decode"), "one_t*,own_scale", 5) if c.name == "own_scale"
    )
    other_seed = _one("paged_decode", "own_scale", seed=6)
    for a, b, c in zip(alone.arguments, in_company.arguments, other_seed.arguments, strict=True):
        if a.role == "in" and a.name != "context_lens":
            assert np.array_equal(np.asarray(a.value), np.asarray(b.value))
            assert not np.array_equal(np.asarray(a.value), np.asarray(c.value))


def test_equal_cases_of_other_names_differ() -> None:
    spec = problem.load("flash_attention").tests[0]
    reference = cases.load_reference(problem.load("flash_attention"))
    twin = problem.CaseSpec("twin", spec.parameters)
    q = [cases.build_one(problem.load("flash_attention"), reference, s, 1).arguments[0].value for s in (spec, twin)]
    assert not np.array_equal(np.asarray(q[0]), np.asarray(q[1]))


def test_selection() -> None:
    p = problem.load("flash_attention")
    assert cases.select(p) == cases.select(p, "tests") == p.tests
    assert cases.select(p, "benchmarks") == p.benchmarks
    assert [c.name for c in cases.select(p, "needles_65, one_*")] == ["one_token", "one_token_causal", "needles_65"]
    for bad in ("chapter_ful", "", "one_token,nothing*"):
        with pytest.raises(UsageError, match="of these: one_token, "):
            cases.build(p, bad, 1)


def test_seeds_are_secret_and_of_63_bits() -> None:
    seeds = {cases.fresh_seed() for _ in range(100)}
    assert len(seeds) == 100 and all(0 <= seed < 2**63 for seed in seeds) and max(seeds) > 2**55


def test_arguments_follow_the_signature() -> None:
    p, case = problem.load("paged_decode"), _one("paged_decode", "page_edges")
    assert [a.name for a in case.arguments] == [parameter.name for parameter in p.signature]
    assert {a.ctype for a in case.arguments} == {"float", "int"}
    out = next(a for a in case.arguments if a.role == "out").value
    assert isinstance(out, np.ndarray) and out.dtype == np.float32 and out.shape == case.expected["out"].shape
    assert case.expected["out"].dtype == np.float64
    assert case.cost.bytes > 0 and case.cost.flops > 0


@pytest.mark.parametrize("name", [spec.name for spec in problem.load("paged_decode").tests])
def test_paged_cases_are_hostile(name: str) -> None:
    case = _one("paged_decode", name)
    v = _values(case)
    table, lens, page_size = v["block_table"], v["context_lens"], v["page_size"]
    assert v["max_context_len"] == max(lens) and list(lens) == list(case.parameters["lengths"])  # type: ignore[call-overload]
    pages = -(-lens // page_size)
    for row, count in zip(table, pages, strict=True):
        assert (row[count:] == -1).all() and (row[:count] >= 0).all() and (row[:count] < len(v["k_cache"])).all()
    used = {int(page) for row, count in zip(table, pages, strict=True) for page in row[:count]}
    unused = sorted(set(range(len(v["k_cache"]))) - used)
    assert unused, "at least one page is never used"
    assert np.abs(v["k_cache"][unused]).std() > 1e3 and np.isfinite(v["k_cache"]).all()
    for row, length in zip(table, lens, strict=True):
        if length % page_size:
            assert np.abs(v["v_cache"][row[length // page_size], length % page_size :]).std() > 1e3
    assert not case.expected["out"][lens == 0].any()


@pytest.mark.parametrize("problem_id", ["flash_attention", "paged_decode", "split_k_merge"])
def test_tracks_draw_the_same_numbers_and_round_them(problem_id: str) -> None:
    p = problem.load(problem_id)
    for name in [spec.name for spec in p.tests if spec.parameters.get("data") != "needles"][:6]:
        (wide,) = cases.build(p, name, 3)
        for dtype in set(p.dtypes) - {"float32", "float8_e4m3"}:
            (narrow,) = cases.build(p.track(dtype), name, 3)
            for a, b in zip(wide.arguments, narrow.arguments, strict=True):
                if isinstance(a.value, np.ndarray) and isinstance(b.value, np.ndarray) and a.role == "in":
                    np.testing.assert_array_equal(stored.rounded(a.value, b.value.dtype), b.value, f"{name} {a.name}")


def test_an_8_bit_cache_uses_the_range_of_its_type_head_by_head() -> None:
    track = problem.load("paged_decode").track("float8_e4m3")
    for name in ("page_of_8", "large_scores_large_values", "own_scale"):
        (case,) = cases.build(track, name, 1)
        v = _values(case)
        for cache, scale in ((v["k_cache"], v["k_scale"]), (v["v_cache"], v["v_scale"])):
            assert cache.dtype == stored.kv_element("float8_e4m3") and v["q"].dtype == stored.element("bfloat16")
            values = np.abs(stored.widened(cache))
            used = np.sort(values.max(axis=(1, 3)), axis=0)  # [page, head]; unused pages hold rubbish up to the largest
            assert np.isfinite(values).all() and (used[-1] == 448).all() and (used[0] > 40).all()
            assert len(np.unique(np.round(scale / scale[0], 2))) == len(scale)


@pytest.mark.parametrize(("problem_id", "variant"), [("flash_attention", "base"), ("flash_attention", "gqa"), ("paged_decode", "base")])
def test_needles_survive_rounding(problem_id: str, variant: str) -> None:
    """The aimed queries of a narrow track give one key most of the weight, as in float32."""
    p = problem.load(problem_id)
    for dtype in p.dtypes:
        track = p.track(dtype, variant)
        needles = [spec.name for spec in track.tests if spec.parameters["data"] == "needles"]
        for case in cases.build(track, ",".join(needles), 2):
            v = _values(case)
            top = _largest_weights(v)
            aimed = top[top > 0.6]
            assert 0.8 < np.median(aimed) < 0.98, (dtype, case.name)
            assert len(aimed) > len(top) / 16, (dtype, case.name)


def _largest_weights(v: dict[str, Any]) -> np.ndarray:
    """Of every row: the weight of the key that has most of it; the mask is left out of account."""
    if "q" in v and "k" in v:
        q, k = (stored.widened(v[name]).reshape(-1, *v[name].shape[-2:]) for name in "qk")
        scores = [q[h] @ k[h * len(k) // len(q)].T * v["scale"] for h in range(len(q))]
        if v["causal"]:
            hidden = np.triu(np.ones(scores[0].shape, bool), 1 + k.shape[1] - q.shape[1])
            scores = [np.where(hidden, -1e30, s) for s in scores]
        return np.concatenate([_top(s) for s in scores])
    found = []
    keys = stored.widened(v["k_cache"]) * v.get("k_scale", np.ones(v["num_kv_heads"]))[:, None]
    for seq, length in enumerate(v["context_lens"]):
        token = np.arange(length)
        places = v["block_table"][seq, token // v["page_size"]], token % v["page_size"]
        for head in range(v["num_heads"] if length else 0):
            key = keys[places][:, head * v["num_kv_heads"] // v["num_heads"]]
            found.append(_top(stored.widened(v["q"])[seq, head] @ key.T * v["scale"]))
    return np.array(found)


def _top(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray((weights / weights.sum(-1, keepdims=True)).max(-1))


def test_a_group_that_does_not_divide_the_heads_is_explained() -> None:
    track = problem.load("flash_attention").track("float16", "gqa")
    spec = dataclasses.replace(track.tests[0], parameters={**track.tests[0].parameters, "group": 3})
    with pytest.raises(ProblemError, match="batch_heads 4 is no multiple of batch 2 times group 3"):
        cases.build_one(track, cases.load_reference(track), spec, 1)


def test_sequences_share_their_prefix() -> None:
    v = _values(_one("paged_decode", "shared_prefix"))
    assert len({tuple(row[:4]) for row in v["block_table"]}) == 1
    assert len({int(row[4]) for row in v["block_table"]} - {-1}) == 4


def test_needles_have_most_of_the_weight() -> None:
    v = _values(_one("flash_attention", "needles_129"))
    scores = v["q"].astype(np.float64) @ v["k"].astype(np.float64).transpose(0, 2, 1) * v["scale"]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    top = (weights / weights.sum(-1, keepdims=True)).max(-1)
    assert 0.75 < np.median(top[top > 0.5]) < 0.99
    assert 1 / 10 < (top > 0.6).mean() < 1 / 4


def test_scores_reach_far() -> None:
    def scores(name: str) -> np.ndarray:
        v = _values(_one("flash_attention", name))
        return np.asarray(v["q"] @ v["k"].transpose(0, 2, 1) * np.float32(v["scale"]))

    assert 60 < np.abs(scores("large_scores_causal")).max() < 120
    top = scores("offset_scores").max(-1)
    assert (np.abs(top) > 80).all() and (top > 0).any() and (top < 0).any()


def test_merge_cases_have_empty_splits() -> None:
    v = _values(_one("split_k_merge", "empty_rows"))
    empty = v["l"] == 0
    assert np.array_equal(empty, np.isneginf(v["m"])) and empty.all(axis=0).sum() >= 6
    assert np.isnan(v["partial_out"][empty]).all() and np.isfinite(v["partial_out"][~empty]).all()
    assert (v["l"][~empty] >= 1).all() and np.ptp(v["m"][~empty]) > 100


def test_inputs_cannot_be_changed_by_the_reference() -> None:
    array = _values(_one("split_k_merge", "one_split"))["m"]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


# A teacher's mistakes in reference.py.

_GOOD = """\
import numpy as np
def make_inputs(case, rng):
    return {"x": np.ones((case["n"], 4), np.float32), "n": case["n"]}
def expected(inputs):
    return {"out": inputs["x"].astype(np.float64)}
def honest(inputs):
    yield {"out": inputs["x"]}
def cost(case):
    return {"bytes": 1, "flops": 1}
"""


def _problem(tmp_path: Path, tiny: Problem, source: str) -> Problem:
    (tmp_path / "reference.py").write_text(source)
    return dataclasses.replace(tiny, directory=tmp_path)


@pytest.fixture
def tiny(doubling: Problem) -> Problem:
    """A problem of one input x [n, 4] and one output of the same shape."""
    return doubling


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", ""),
        ("def cost", "def costs", r"no function cost; it must define make_inputs, expected, honest, cost"),
        ("import numpy", "import nunpy", r"ModuleNotFoundError: No module named 'nunpy'"),
        ('case["n"], 4', 'case["m"], 4', r"make_inputs\(\) on case one: KeyError: 'm'"),
        (', "n": case["n"]', "", r"must return a dict of exactly n, x"),
        ('"n": case["n"]', '"n": 1.0', r"n must be an int of 32 bits, found 1\.0"),
        ("4), np.float32", "4), np.float64", r"x must be a C-contiguous array of float32 \(1, 4\), found float64"),
        ("4), np.float32)", "5), np.float32)", r"found float32 \(1, 5\)"),
        ("astype(np.float64)", "copy()", r"expected\(\) on case one: out must be a C-contiguous array of float64"),
        ("astype(np.float64)", "astype(np.float64) * np.nan", r"out holds NaN"),
        ("astype(np.float64)", "astype(np.float64) * np.inf", r"out is not finite, which `check: rows` cannot"),
        ('{"out": inputs["x"].a', '{"o": inputs["x"].a', r"must give a dict of exactly out"),
        ('yield {"out": inputs["x"]}', "yield {}", r"honest\(\) on case one: must give a dict of exactly out"),
        ('yield {"out"', 'yield {"out" + 1', r"honest\(\) on case one: TypeError"),
        ('"bytes": 1, ', "", r"cost\(\) on case one: must return"),
        ("import numpy", "raise SystemExit(5)\nimport numpy", r"reference\.py:1: SystemExit: 5"),
        (
            "    return {",
            "    raise SystemExit\n    return {",
            r"reference\.py:3: make_inputs\(\) on case one: SystemExit$",
        ),
        ("    return {", "    raise GeneratorExit\n    return {", r"make_inputs\(\) on case one: GeneratorExit$"),
        (
            "    return {",
            "    raise ValueError('a\\nb')\n    return {",
            r"make_inputs\(\) on case one: ValueError: a b$",
        ),
        (
            "    return {",
            "    return None\n    return {",
            r"make_inputs\(\) on case one: must return a dict of exactly n, x",
        ),
        (
            '{"out": inputs["x"].astype(np.float64)}',
            "None",
            r"expected\(\) on case one: must give a dict of exactly out",
        ),
        ('inputs["x"].astype(np.float64)}', "[[1.0]]}", r"expected\(\) on case one: out must be an array, found list"),
    ],
)
def test_a_broken_reference_is_explained(tmp_path: Path, tiny: Problem, old: str, new: str, message: str) -> None:
    assert old in _GOOD
    broken = _problem(tmp_path, tiny, _GOOD.replace(old, new, 1))
    if not message:
        assert next(cases.build(broken, "one", 1)).cost == cases.Cost(1, 1)
        return
    with pytest.raises(ProblemError, match=message) as caught:
        next(cases.build(broken, "one", 1))
    assert "reference.py" in str(caught.value)


def test_a_reference_that_raises_keyboard_interrupt_is_no_interrupt(tmp_path: Path, tiny: Problem) -> None:
    broken = _problem(tmp_path, tiny, _GOOD.replace("    return {", "    raise KeyboardInterrupt\n    return {", 1))
    with Prefetch(cases.build(broken, "one", 1)) as ahead, pytest.raises(ProblemError, match="KeyboardInterrupt"):
        next(iter(ahead))
    with pytest.raises(
        KeyboardInterrupt
    ):  # in the main thread it may be the user's, unless Ctrl-C raises another class
        next(cases.build(broken, "one", 1))
    previous = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        with pytest.raises(ProblemError, match=r"make_inputs\(\) on case one: KeyboardInterrupt"):
            next(cases.build(broken, "one", 1))
    finally:
        signal.signal(signal.SIGINT, previous)


def test_a_function_cannot_take_inputs_from_the_next(tmp_path: Path, tiny: Problem) -> None:
    greedy = _GOOD.replace('return {"out": inputs["x"].astype', 'return {"out": inputs.pop("x").astype')
    assert next(cases.build(_problem(tmp_path, tiny, greedy), "one", 1)).name == "one"


def test_a_case_beyond_the_memory_limit(tmp_path: Path, tiny: Problem) -> None:
    huge = _problem(tmp_path, tiny, _GOOD.replace('case["n"], 4', "5_000_000, 4").replace('case["n"]}', "5_000_000}"))
    with pytest.raises(ProblemError, match=r"the tensors take 152 MiB, limits.memory_mib allows 64"):
        next(cases.build(huge, "one", 1))
