"""The standing kernels of the problems here: how many there are, and that lint tells the two kinds apart with the real
compiler and emulator. `judge.py lint` runs them all; here is a sample, small enough for every day."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from harness import problem as problems
from harness.linting import costs
from harness.linting.case_store import CaseStore
from harness.linting.kernels import standing, starters
from harness.linting.lint import LintOptions, lint
from harness.linting.records import Check, KernelResult, Outcome
from harness.linting.tracks import declaration
from harness.problem import BASE, Problem

IDS = ("flash_attention", "paged_decode", "split_k_merge")
LEAST = {("bad", True): 25, ("honest", True): 7, ("bad", False): 5, ("honest", False): 3}  # by kind, and in base or not


@pytest.mark.parametrize("problem_id", IDS)
def test_every_track_has_its_standing_kernels(problem_id: str) -> None:
    problem = problems.load(problem_id)
    for kind in ("bad", "honest"):
        kernels = standing(problem, kind)
        for track in problem.tracks():
            count = sum(kernel.is_for(track) for kernel in kernels)
            assert count >= LEAST[kind, track.variant == BASE], (kind, track.dtype, track.variant)
        assert len({(kernel.about, kernel.variants) for kernel in kernels}) == len(kernels)
    assert [kernel.path.name for kernel in starters(problem)][:1] == ["starter.cu"]


def test_macros_tell_a_kernel_its_track() -> None:
    lines = declaration(problems.load("paged_decode").track("float8_e4m3", "lse")).splitlines()
    assert lines[:4] == [
        "#define ELEMENT __nv_bfloat16", "#define KV_ELEMENT __nv_fp8_e4m3", "#define FP8_SCALES 1", "#define VARIANT_LSE 1",
    ]  # fmt: skip
    assert "#define FP8_SCALES 0" in declaration(problems.load("flash_attention"))


# Some of each problem: a learner's mistake, a cheat that comes near, and kernels that are right.
SAMPLE = {
    ("flash_attention", "float32", BASE): ("weights_in_half,mask_shows_next,tile_edge_dropped", "thread_per_row"),
    ("flash_attention", "bfloat16", "gqa"): ("gqa_mask_top_left,gqa_kv_head_modulo", "gqa_warp_per_row"),
    ("paged_decode", "float8_e4m3", BASE): ("scales_of_first_head,weights_in_fp8,kv_head_modulo", "warp_per_head"),
    ("paged_decode", "float16", "lse"): ("lse_without_maximum", "warp_per_head_lse"),
    ("split_k_merge", "float16", BASE): ("weights_without_m,partials_in_bfloat16,empty_split_counts", "pairs_of_pairs"),
}


@pytest.mark.parametrize("track", SAMPLE, ids=", ".join)
def test_a_sample_of_them_is_told_apart(track: tuple[str, str, str]) -> None:
    problem_id, dtype, variant = track
    bad, honest = SAMPLE[track]
    options = LintOptions(seeds=1, first_seed=11, jobs=1, dtype=dtype, variant=variant, only=f"{bad},honest/{honest}")
    report = lint(problems.load(problem_id), options)
    assert len(report.kernels) == bad.count(",") + 2
    assert report.sound, [(kernel.name, kernel.reason) for kernel in report.kernels]
    assert all(kernel.margin is not None and kernel.margin > 1 for kernel in report.kernels if kernel.kind == "bad")


@pytest.fixture(scope="module")
def merge() -> Problem:
    return problems.load("split_k_merge")


def _honest(touched: Mapping[str, int]) -> KernelResult:
    return KernelResult("h.cu", "h.cu", "honest", "", "float32", BASE, Outcome.SOUND, "", 1, 1, touched=touched)


def test_the_byte_model_is_set_against_the_nearest_honest_kernel(merge: Problem) -> None:
    store = CaseStore(merge)
    exact = {spec.name: store.get(merge, spec, 1).cost.bytes for spec in merge.tests}
    wasteful, frugal = ({name: int(share * n) for name, n in exact.items()} for share in (1.5, 0.7))
    assert costs.byte_model(merge, store, [_honest(exact)]).outcome is Outcome.SOUND
    assert costs.byte_model(merge, store, [_honest(t) for t in (wasteful, exact, frugal)]).outcome is Outcome.SOUND
    low = costs.byte_model(merge, store, [_honest(wasteful)])
    assert low.outcome is Outcome.REFUSED and "touch 50% more bytes than cost() says" in low.message
    high = costs.byte_model(merge, store, [_honest({**exact, "two_splits": 8})])
    assert high.outcome is Outcome.REFUSED and "no honest kernel touched more than 8" in high.message


def _counting(counted: Mapping[str, float]) -> KernelResult:
    return dataclasses.replace(_honest({}), counted={name: int(n) for name, n in counted.items()})


def test_the_flops_are_set_against_those_that_honest_kernels_do(merge: Problem) -> None:
    store = CaseStore(merge)
    said = {spec.name: store.get(merge, spec, 1).cost.flops for spec in merge.tests}

    def check(*shares: float) -> Check:
        kernels = [_counting({name: n * share for name, n in said.items()}) for share in shares]
        return costs.flop_model(merge, store, kernels)

    sound = check(0.5, 1.5, 17)  # one leaves out what does not count
    assert sound.outcome is Outcome.SOUND
    assert float(sound.figures["share"]) == pytest.approx(2, rel=0.01)
    assert check(0.97).outcome is check(4.9).outcome is Outcome.SOUND
    high = check(0.2, 0.5, 1.1)
    assert high.outcome is Outcome.REFUSED
    assert "reference.py: cost() says " in high.message and "but honest kernels do " in high.message
    low = check(5.5, 20)
    assert (low.outcome, "18% of the flops" in low.message) == (Outcome.WARNING, True)
    assert "no test is large enough" in costs.flop_model(merge, store, [_honest({})]).message


def test_memory_is_told_from_parameters(merge: Problem) -> None:
    store = CaseStore(merge)
    fine = costs.memory(merge, store, 1)
    assert (fine.outcome, round(float(fine.figures["mib"]))) == (Outcome.SOUND, 1072)  # 32 x 65536 x 128 floats and more
    small = dataclasses.replace(merge, limits=dataclasses.replace(merge.limits, memory_mib=1000))
    refused = costs.memory(small, store, 1)
    assert refused.outcome is Outcome.REFUSED
    assert "rows_65536_splits_32 takes at least 1072 MiB of 1000" in refused.message
