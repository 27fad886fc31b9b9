"""The references against a second one; limits that pass honest kernels and kill wrong ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness import cases, check, problem, stored
from tests import arithmetic, flakiness, flash_kernels, merge_kernels, paged_kernels

KERNELS = {"flash_attention": flash_kernels, "paged_decode": paged_kernels, "split_k_merge": merge_kernels}
IDS = sorted(KERNELS)
SEEDS = (1, 2, 3)
TILE = 7  # of the second reference; divides nothing


def _inputs(case: cases.Case) -> dict[str, Any]:
    return {a.name: a.value for a in case.arguments if a.role != "out"}


def _small(problem_id: str, seed: int) -> list[cases.Case]:
    names = ",".join(spec.name for spec in problem.load(problem_id).tests if not spec.name.startswith("chapter"))
    return list(cases.build(problem.load(problem_id), names, seed))


@pytest.fixture(scope="module", params=IDS)
def built(request: pytest.FixtureRequest) -> tuple[ModuleType, dict[int, list[cases.Case]]]:
    """The problem's kernels, and for each seed all of its small default cases."""
    return KERNELS[request.param], {seed: _small(request.param, seed) for seed in SEEDS}


def _accepted(case: cases.Case, kernel: Any) -> bool:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return not check.compare(case, kernel(_inputs(case)))[1]


def test_honest_kernels_pass_every_case(built: tuple[ModuleType, dict[int, list[cases.Case]]]) -> None:
    kernels, by_seed = built
    assert len(kernels.HONEST_KERNELS) >= 7
    for seed, built_cases in by_seed.items():
        for name, kernel in kernels.HONEST_KERNELS.items():
            refused = [case.name for case in built_cases if not _accepted(case, kernel)]
            assert not refused, f"{name}, seed {seed}"


def test_every_mutant_fails_some_case(built: tuple[ModuleType, dict[int, list[cases.Case]]]) -> None:
    kernels, by_seed = built
    assert len(kernels.MUTANTS) >= 12
    for seed, built_cases in by_seed.items():
        for name, kernel in kernels.MUTANTS.items():
            assert not all(_accepted(case, kernel) for case in built_cases), f"{name}, seed {seed}"


def test_limits_stay_near_the_floor(built: tuple[ModuleType, dict[int, list[cases.Case]]]) -> None:
    """A case on which honest kernels stray far would forgive wrong ones too."""
    for case in built[1][SEEDS[0]]:
        for limits in case.limits.values():
            if limits.kind == "rows":
                assert np.all(np.array(limits.abc) <= 4 * np.array(check.FLOORS["float32"])), case.name


@pytest.mark.parametrize("problem_id", IDS)
def test_honest_kernels_are_far_from_the_limits_of_benchmarks(problem_id: str) -> None:
    """Whose limits are the floors alone: honest models of that size would take longer than the benchmark."""
    p = problem.load(problem_id)
    reference = cases.load_reference(p)
    for spec in p.benchmarks:
        case = cases.build_one(p, reference, spec.modelled or spec, 1, honest=False)
        checked = {tensor.name: case.limits[tensor.name] for tensor in p.outputs}
        assert all(limits.abc in (check.FLOORS["float32"], (1.0, 0.0, 0.0)) for limits in checked.values())
        for model in reference.honest(_inputs(case)):
            for name, limits in checked.items():
                assert check.measure(model[name], case.expected[name], limits).ratio < 0.5, (spec.name, name)


@pytest.mark.parametrize("problem_id", IDS)
def test_benchmarks_are_of_data_for_which_that_holds(problem_id: str) -> None:
    p = problem.load(problem_id)
    plain = {"data": "normal", "value_scale": 1.0, "scale": 0.0, "spread": 3.0, "center": 0.0, "l_decades": 2.0}
    for spec in (*p.benchmarks, *(s.modelled for s in p.benchmarks if s.modelled)):
        assert {name: value for name, value in spec.parameters.items() if name in plain and plain[name] != value} == {}


# Tracks: honest kernels and cheats by the types that they compute in (tests/arithmetic.py), on one seed. Many seeds are
# for tests/flakiness.py.

BASE = [track for track in flakiness.tracks() if track.variant != "lse"]


@pytest.fixture(scope="module", params=BASE, ids=flakiness.label)
def drawn(request: pytest.FixtureRequest) -> list[flakiness.Drawn]:
    """All of a track's small cases."""
    return list(flakiness.draw(request.param, 1))


def test_honest_models_pass_limits_that_were_made_without_them(drawn: list[flakiness.Drawn]) -> None:
    ratios = {(case.name, name): ratio for case in drawn for name, ratio in flakiness.false_rejects(case)}
    assert len(ratios) >= 6 * len(drawn) / 2
    assert {key: ratio for key, ratio in ratios.items() if not ratio < 0.9} == {}


def test_narrow_limits_stay_near_the_floor(drawn: list[flakiness.Drawn]) -> None:
    for case in drawn:
        for limits in case.limits.values():
            if limits.kind == "rows":
                assert np.all(np.array(limits.abc) <= 2 * np.array(check.FLOORS[case.track.dtype])), case.name


def test_computing_in_too_narrow_a_type_is_refused(drawn: list[flakiness.Drawn]) -> None:
    track = drawn[0].track
    found = arithmetic.cheats(track.id, track.dtype)
    assert len(found) >= 7
    sharpest_first = sorted(drawn, key=lambda case: "long_sums" not in case.name)
    for name, how in found.items():
        assert any(case.run(how) > 1.2 for case in sharpest_first), name


def test_lost_precision_shows_in_the_whole_tensor_too(drawn: list[flakiness.Drawn]) -> None:
    """Figure C alone refuses sums of outputs in the type of the inputs; honest models keep to two thirds of it."""
    track = drawn[0].track
    cheat = next(how for name, how in arithmetic.cheats(track.id, track.dtype).items() if "sums of outputs" in name)
    ratios = []
    for case in drawn:
        figures = [case.total(model["out"]) for model in case.honest]
        ratios.append(case.total(case.outputs(cheat)["out"]))
        assert max(figures, default=0) < 1, case.name
    assert max(ratios) > 1.2


def test_honest_models_answer_in_the_type_of_the_outputs(drawn: list[flakiness.Drawn]) -> None:
    kind = stored.element(drawn[0].track.dtype)
    for case in drawn:
        for model in case.honest:
            np.testing.assert_array_equal(stored.widened(stored.rounded(model["out"], kind)), model["out"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3"])
def test_a_log_sum_exp_needs_more_than_the_type_of_the_inputs(dtype: str) -> None:
    track = problem.load("paged_decode").track(dtype, "lse")
    drawn = list(flakiness.draw(track, 1))
    assert max(ratio for case in drawn for _, ratio in flakiness.false_rejects(case)) < 0.9
    own = arithmetic.OF_DTYPE[dtype]
    for how in (arithmetic.Arithmetic(p=own, s=arithmetic.BF16), arithmetic.Arithmetic(p=own, l_sum=own)):
        worst = max(check.measure(arithmetic.paged(case.inputs, how, dtype)["lse"], case.expected["lse"],
                                  case.limits["lse"]).ratio for case in drawn)  # fmt: skip
        assert worst > 1.2


@pytest.mark.parametrize("problem_id", IDS)
def test_narrow_kernels_keep_to_the_limits_of_benchmarks(problem_id: str) -> None:
    """Of the smallest that is modelled; those have no limits but the floors."""
    p = problem.load(problem_id)
    reference = cases.load_reference(p)
    for dtype in p.dtypes[1:]:
        track = p.track(dtype)
        specs = [spec.modelled for spec in track.benchmarks if spec.modelled]
        spec = min(specs, key=lambda s: cases.cost(track, reference, s).flops)
        case = cases.build_one(track, reference, spec, 1, honest=False)
        assert case.limits["out"].abc == check.FLOORS[dtype]
        for model in reference.honest(_inputs(case)):
            assert check.measure(model["out"], case.expected["out"], case.limits["out"]).ratio < 0.8, spec.name


# A second float64 reference, by tiles, written apart from the first.


def _blocked(q: np.ndarray, keys: Iterator[tuple[np.ndarray, np.ndarray]], scale: float) -> tuple[np.ndarray, float]:
    """Online softmax of one query [D] over blocks of (k, v), and its log-sum-exp."""
    top, total, out = -np.inf, 0.0, np.zeros(q.shape)
    for k, v in keys:
        s = np.einsum("nd,d->n", k, q) * scale
        new = max(top, s.max())
        total = total * np.exp(top - new) + np.exp(s - new).sum()
        out = out * np.exp(top - new) + np.einsum("n,nd->d", np.exp(s - new), v)
        top = new
    return (out / total, top + np.log(total)) if total else (out, -np.inf)


def _blocked_flash(i: dict[str, Any]) -> dict[str, np.ndarray]:
    q, k, v = (i[name].astype(np.float64) for name in "qkv")
    if q.ndim == 3:  # every head of a batch of one has keys of its own
        q, k, v = q[None], k[None], v[None]
    (batch, heads, rows, _), keys = q.shape, k.shape[2]
    out, lse = np.zeros(q.shape), np.zeros(q.shape[:-1])
    for place in np.ndindex(batch, heads, rows):
        kv = place[0], place[1] * k.shape[1] // heads
        end = max(0, place[2] + 1 + keys - rows) if i["causal"] else keys
        blocks = (slice(s, min(s + TILE, end)) for s in range(0, end, TILE))
        out[place], lse[place] = _blocked(q[place], ((k[kv][b], v[kv][b]) for b in blocks), i["scale"])
    return {"out": out.reshape(i["q"].shape), "lse": lse.reshape(i["q"].shape[:-1])}


def _blocked_paged(i: dict[str, Any]) -> dict[str, np.ndarray]:
    out = np.zeros(i["q"].shape)
    lse = np.zeros(out.shape[:-1])
    for seq, length in enumerate(i["context_lens"]):
        for head in range(i["num_heads"]):
            q, pages = i["q"][seq, head].astype(np.float64), _pages(i, seq, head, length)
            out[seq, head], lse[seq, head] = _blocked(q, pages, i["scale"])
    return {"out": out, "lse": lse}


def _pages(i: dict[str, Any], seq: int, head: int, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    kv_head = head * i["num_kv_heads"] // i["num_heads"]
    factors = [float(i[name][kv_head]) if name in i else 1.0 for name in ("k_scale", "v_scale")]
    for column in range(-(-length // i["page_size"])):
        page, slots = i["block_table"][seq, column], min(i["page_size"], length - column * i["page_size"])
        k, v = (i[name][page, :slots, kv_head].astype(np.float64) for name in ("k_cache", "v_cache"))
        yield k * factors[0], v * factors[1]


def _blocked_merge(i: dict[str, Any]) -> dict[str, np.ndarray]:
    """Each split stands for one key of score m + ln l and value partial_out."""
    out, lse = np.zeros((i["rows"], i["head_dim"])), np.full(i["rows"], -np.inf)
    for row in range(i["rows"]):
        used = np.flatnonzero(i["l"][:, row])
        if len(used):
            score = i["m"][used, row] + np.log(i["l"][used, row].astype(np.float64))
            lse[row] = np.logaddexp.reduce(score)
            out[row] = np.einsum("s,sd->d", np.exp(score - lse[row]), i["partial_out"][used, row].astype(np.float64))
    return {"out": out, "lse": lse}


SECOND = {"flash_attention": _blocked_flash, "paged_decode": _blocked_paged, "split_k_merge": _blocked_merge}
SECOND_TRACKS = [
    ("flash_attention", "float32", "lse"), ("flash_attention", "bfloat16", "gqa"), ("paged_decode", "float16", "lse"),
    ("paged_decode", "float8_e4m3", "lse"), ("split_k_merge", "float32", "base"), ("split_k_merge", "bfloat16", "base"),
]  # fmt: skip


@pytest.mark.parametrize("track", SECOND_TRACKS, ids=" ".join)
def test_two_float64_references_agree(track: tuple[str, str, str]) -> None:
    p = problem.load(track[0]).track(*track[1:])
    reference = cases.load_reference(p)
    for spec in p.tests:
        if not spec.name.startswith(("chapter", "long", "gqa_long")):
            case = cases.build_one(p, reference, spec, 5, honest=False)
            second = SECOND[p.id](_inputs(case))
            assert set(case.expected) == {tensor.name for tensor in p.outputs}
            for name, first in case.expected.items():
                atol = 1e-12 * _size(first)
                np.testing.assert_allclose(second[name], first, rtol=0, atol=atol, err_msg=f"{spec.name} {name}")


def _size(x: np.ndarray) -> float:
    return max(1.0, float(np.abs(x[np.isfinite(x)]).max(initial=0)))


@pytest.mark.parametrize("name", ["chapter_full", "chapter_causal"])
def test_the_chapter_flash_cases_against_a_few_rows(name: str) -> None:
    (case,) = cases.build(problem.load("flash_attention"), name, 9)
    inputs = _inputs(case)
    assert inputs["q"].shape == (8, 1000, 64)
    rows = (0, 1, 63, 64, 999)
    for row in rows:
        end = row + 1 if inputs["causal"] else 1000
        q, k, v = (inputs[n][3].astype(np.float64) for n in "qkv")
        second, _ = _blocked(q[row], iter([(k[:end], v[:end])]), 0.125)
        np.testing.assert_allclose(second, case.expected["out"][3, row], atol=1e-12)


def test_the_chapter_decode_case() -> None:
    (case,) = cases.build(problem.load("paged_decode"), "chapter", 9)
    inputs = _inputs(case)
    assert list(inputs["context_lens"]) == [1, 17, 1000, 4096]
    assert (inputs["num_heads"], inputs["num_kv_heads"], inputs["head_dim"], inputs["page_size"]) == (32, 8, 128, 16)
    for seq, head in ((0, 0), (1, 31), (2, 5), (3, 17)):
        pages = _pages(inputs, seq, head, int(inputs["context_lens"][seq]))
        row, _ = _blocked(inputs["q"][seq, head].astype(np.float64), pages, inputs["scale"])
        np.testing.assert_allclose(row, case.expected["out"][seq, head], atol=1e-12)
