"""The references against a second one; limits that pass honest kernels and kill wrong ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness import cases, check, problem
from tests import flash_kernels, merge_kernels, paged_kernels

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
                assert np.all(np.array(limits.abc) <= 4 * np.array(check.FLOORS)), case.name


@pytest.mark.parametrize("problem_id", IDS)
def test_honest_kernels_are_far_from_the_limits_of_benchmarks(problem_id: str) -> None:
    """Whose limits are the floors alone: honest models of that size would take longer than the benchmark."""
    p = problem.load(problem_id)
    reference = cases.load_reference(p)
    for spec in p.benchmarks:
        case = cases.build_one(p, reference, spec.modelled or spec, 1, honest=False)
        checked = {tensor.name: case.limits[tensor.name] for tensor in p.outputs}
        assert all(limits.abc in (check.FLOORS, (1.0, 0.0, 0.0)) for limits in checked.values())
        for model in reference.honest(_inputs(case)):
            for name, limits in checked.items():
                assert check.measure(model[name], case.expected[name], limits).ratio < 0.5, (spec.name, name)


@pytest.mark.parametrize("problem_id", IDS)
def test_benchmarks_are_of_data_for_which_that_holds(problem_id: str) -> None:
    p = problem.load(problem_id)
    plain = {"data": "normal", "value_scale": 1.0, "scale": 0.0, "spread": 3.0, "center": 0.0, "l_decades": 2.0}
    for spec in (*p.benchmarks, *(s.modelled for s in p.benchmarks if s.modelled)):
        assert {name: value for name, value in spec.parameters.items() if name in plain and plain[name] != value} == {}


# A second float64 reference, by tiles, written apart from the first.


def _blocked(q: np.ndarray, keys: Iterator[tuple[np.ndarray, np.ndarray]], scale: float) -> np.ndarray:
    """Online softmax of one query [D] over blocks of (k, v)."""
    top, total, out = -np.inf, 0.0, np.zeros(q.shape)
    for k, v in keys:
        s = np.einsum("nd,d->n", k, q) * scale
        new = max(top, s.max())
        total = total * np.exp(top - new) + np.exp(s - new).sum()
        out = out * np.exp(top - new) + np.einsum("n,nd->d", np.exp(s - new), v)
        top = new
    return out / total if total else out


def _blocked_flash(i: dict[str, Any]) -> dict[str, np.ndarray]:
    q, k, v = (i[name].astype(np.float64) for name in "qkv")
    out = np.zeros(q.shape)
    for head in range(i["batch_heads"]):
        for row in range(i["seq_len"]):
            end = row + 1 if i["causal"] else i["seq_len"]
            blocks = (slice(s, min(s + TILE, end)) for s in range(0, end, TILE))
            out[head, row] = _blocked(q[head, row], ((k[head, b], v[head, b]) for b in blocks), i["scale"])
    return {"out": out}


def _blocked_paged(i: dict[str, Any]) -> dict[str, np.ndarray]:
    out = np.zeros(i["q"].shape)
    for seq, length in enumerate(i["context_lens"]):
        for head in range(i["num_heads"]):
            out[seq, head] = _blocked(i["q"][seq, head].astype(np.float64), _pages(i, seq, head, length), i["scale"])
    return {"out": out}


def _pages(i: dict[str, Any], seq: int, head: int, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    kv_head = head * i["num_kv_heads"] // i["num_heads"]
    for column in range(-(-length // i["page_size"])):
        page, slots = i["block_table"][seq, column], min(i["page_size"], length - column * i["page_size"])
        yield tuple(cache[page, :slots, kv_head].astype(np.float64) for cache in (i["k_cache"], i["v_cache"]))


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


@pytest.mark.parametrize("problem_id", IDS)
def test_two_float64_references_agree(problem_id: str) -> None:
    for case in _small(problem_id, 5):
        second = SECOND[problem_id](_inputs(case))
        for name, first in case.expected.items():
            np.testing.assert_allclose(second[name], first, rtol=0, atol=1e-12 * _size(first), err_msg=case.name)


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
        second = _blocked(q[row], iter([(k[:end], v[:end])]), 0.125)
        np.testing.assert_allclose(second, case.expected["out"][3, row], atol=1e-12)


def test_the_chapter_decode_case() -> None:
    (case,) = cases.build(problem.load("paged_decode"), "chapter", 9)
    inputs = _inputs(case)
    assert list(inputs["context_lens"]) == [1, 17, 1000, 4096]
    assert (inputs["num_heads"], inputs["num_kv_heads"], inputs["head_dim"], inputs["page_size"]) == (32, 8, 128, 16)
    for seq, head in ((0, 0), (1, 31), (2, 5), (3, 17)):
        pages = _pages(inputs, seq, head, int(inputs["context_lens"][seq]))
        row = _blocked(inputs["q"][seq, head].astype(np.float64), pages, inputs["scale"])
        np.testing.assert_allclose(row, case.expected["out"][seq, head], atol=1e-12)
