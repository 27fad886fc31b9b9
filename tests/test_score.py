"""Speed of light, floor, shares, overall score and tiers, against numbers worked out by hand on an H200's ceilings."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.measure.records import Benchmark, Ceilings, Sample, Timing
from harness.measure.score import (
    CEILING_SPREAD,
    benchmark,
    floor,
    modelled_benchmark,
    overall,
    speed_of_light,
    tier,
    under_floor,
)
from harness.measure.statistics import summarise

MB = 10**6
L2 = 50 * MB
FMA = 60e12
H200 = Ceilings("NVIDIA H200", "580.159", copy=4.0e12, read=4.4e12, rates={"fma": FMA, "bf16": 790e12})
TF32X3 = 130e12  # three products of tf32 for one: the fastest way to float32's accuracy


ONE_SECOND = summarise([Sample(1.0, child) for child in range(3) for _ in range(30)], 1)


def timed(seconds: float) -> Timing:
    return dataclasses.replace(ONE_SECOND, seconds=seconds)


def near(found: tuple[object, ...], expected: tuple[object, ...]) -> bool:
    return all(a == (pytest.approx(b) if isinstance(b, float) else b) for a, b in zip(found, expected, strict=True))


def of(seconds: float, bytes: int = 4400 * MB, flops: int = 0, written: int = 0) -> Benchmark:
    return benchmark(bytes, flops, written, timed(seconds), H200, FMA, TF32X3, L2)


def test_speed_of_light_is_the_longer_of_both() -> None:
    assert near(speed_of_light(4400 * MB, 6 * 10**9, 4.4e12, FMA), (1e-3, "memory"))
    assert near(speed_of_light(440 * MB, 6 * 10**10, 4.4e12, FMA), (1e-3, "compute"))
    assert speed_of_light(10, 10, 1.0, 1.0) == (10.0, "memory")
    assert speed_of_light(10, 0, 1.0, 0.0) == (10.0, "memory")  # a card without the unit, and no need of it


@pytest.mark.parametrize(
    ("bytes", "flops", "bandwidth", "rate", "message"),
    [
        (0, 0, 1.0, 1.0, "no speed of light"),
        (1, 0, 0.0, 1.0, "bytes at a ceiling of 0.0"),
        (1, 1, 1.0, 0.0, "operations at a ceiling of 0.0"),
        (1, 1, math.nan, 1.0, "bytes at a ceiling of nan"),
        (-1, 1, 1.0, 1.0, "-1 bytes"),
    ],
)
def test_what_has_no_speed_of_light(bytes: int, flops: int, bandwidth: float, rate: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        speed_of_light(bytes, flops, bandwidth, rate)


def test_floor_forgives_written_bytes_as_far_as_the_l2_holds_them() -> None:
    through = 1.03 * 4.4e12
    assert floor(4532 * MB, 0, 0, H200, TF32X3, L2) == pytest.approx(1e-3)
    assert floor(4532 * MB, 20 * MB, 0, H200, TF32X3, L2) == pytest.approx(4512 * MB / through)
    assert floor(4532 * MB, 2000 * MB, 0, H200, TF32X3, L2) == pytest.approx(4482 * MB / through)
    assert floor(20 * MB, 20 * MB, 0, H200, TF32X3, L2) == 0.0
    assert floor(20 * MB, 20 * MB, 1339 * 10**8, H200, TF32X3, L2) == pytest.approx(1e-3)  # but it computes


def test_figures_of_a_memory_bound_benchmark() -> None:
    found = of(2e-3, 4400 * MB, 6 * 10**9, 100 * MB)
    assert found.score == pytest.approx(50)
    assert near((found.sol_seconds, found.bound), (1e-3, "memory"))
    assert found.floor_seconds == pytest.approx(4350 * MB / (1.03 * 4.4e12))
    assert near((found.bandwidth, found.rate), (2.2e12, 3e12))
    assert near((found.bandwidth_share, found.rate_share), (0.5, 0.05))
    assert found.timing is not None and found.seconds == found.timing.seconds
    assert not found.modelled and not under_floor(found)


def test_figures_of_a_compute_bound_benchmark() -> None:
    """16 heads of 16,384 queries and keys, 128 channels, as the 4 n n d of attention: 2.2 TFLOP."""
    flops, bytes = 4 * 16 * 16384**2 * 128, 4 * 16 * 16384 * 128 * 4
    found = of(60e-3, bytes, flops, bytes // 4)
    assert found.bound == "compute"
    assert found.score == pytest.approx(100 * 36.650e-3 / 60e-3, rel=1e-4)
    assert found.floor_seconds == pytest.approx(16.4227e-3, rel=1e-4)
    assert found.rate_share == pytest.approx(found.score / 100)


@pytest.mark.parametrize(
    ("what", "seconds", "bytes", "flops", "written", "cheat"),
    [
        ("reading at the measured ceiling", 1e-3, 4400 * MB, 0, 0, False),
        ("2 % above it, as ceilings scatter", 1e-3 / 1.02, 4400 * MB, 0, 0, False),
        ("4 % above it", 1e-3 / 1.04, 4400 * MB, 0, 0, True),
        ("inputs that the L2 still holds", 5e-6, 40 * MB, 0, 0, True),
        ("an output that the L2 still holds", 5e-6, 40 * MB, 0, 40 * MB, False),
        ("a large output, written at the speed of the L2", 0.5e-3, 4400 * MB, 0, 2200 * MB, True),
        ("three products of tf32 for one", 1e-3, MB, 125 * 10**9, 0, False),
        ("bf16 where float32 is asked for", 1e-3, MB, 700 * 10**9, 0, True),
        ("an empty kernel", 2e-6, 400 * MB, 0, 4 * MB, True),
        ("a tiny case, launches are all", 5e-6, MB, 10**6, 0, False),
    ],
)
def test_what_is_faster_than_physics(
    what: str, seconds: float, bytes: int, flops: int, written: int, cheat: bool
) -> None:
    assert under_floor(of(seconds, bytes, flops, written)) == cheat, what


def test_the_known_fraud_on_a_card_without_faster_units() -> None:
    """89.7 TFLOP/s in float32 were once reported of a card that has 66.9."""
    card = dataclasses.replace(H200, rates={"fma": 66.9e12})
    reported = benchmark(MB, 897 * 10**9, 0, timed(10e-3), card, 66.9e12, 66.9e12, L2)
    assert reported.rate == pytest.approx(89.7e12)
    assert under_floor(reported)


def test_a_score_over_100_is_shown_as_it_is() -> None:
    found = of(1e-3 / 1.02)
    assert found.score == pytest.approx(102)
    assert not under_floor(found)


def test_a_copy_loses_what_reading_gains() -> None:
    assert of(4400 * MB / H200.copy, written=2200 * MB).score == pytest.approx(100 * 4.0 / 4.4)


amounts = st.integers(10**3, 10**13)


@given(amounts, amounts, st.floats(0, 1), st.floats(1e-6, 1), st.floats(1.01, 100))
def test_faster_is_better_in_every_figure(bytes: int, flops: int, part: float, seconds: float, times: float) -> None:
    fast, slow = (of(time, bytes, flops, int(part * bytes)) for time in (seconds, seconds * times))
    assert fast.score > slow.score
    assert fast.bandwidth_share > slow.bandwidth_share and fast.rate_share > slow.rate_share
    assert fast.floor_seconds == slow.floor_seconds
    assert under_floor(fast) or not under_floor(slow)


@given(amounts, amounts, st.floats(1e-6, 1), st.floats(0.1, 10))
def test_a_card_and_a_time_that_scale_together_score_the_same(
    bytes: int, flops: int, seconds: float, scale: float
) -> None:
    faster = dataclasses.replace(H200, copy=H200.copy * scale, read=H200.read * scale)
    here = benchmark(bytes, flops, 0, timed(seconds), H200, FMA, TF32X3, L2)
    there = benchmark(bytes, flops, 0, timed(seconds / scale), faster, FMA * scale, TF32X3 * scale, L2)
    assert there.score == pytest.approx(here.score)
    assert there.floor_seconds == pytest.approx(here.floor_seconds / scale)


@given(amounts, amounts, st.floats(0, 1))
def test_the_floor_lies_below_the_speed_of_light(bytes: int, flops: int, part: float) -> None:
    sol_seconds, _ = speed_of_light(bytes, flops, H200.bandwidth, FMA)
    assert floor(bytes, int(part * bytes), flops, H200, FMA, L2) * CEILING_SPREAD <= sol_seconds * (1 + 1e-12)


def test_the_floor_is_never_above_what_the_score_knows() -> None:
    found = benchmark(MB, 60 * 10**9, 0, timed(1e-3), H200, FMA, fastest_rate=FMA / 2, l2_bytes=L2)
    assert found.score == pytest.approx(100)
    assert not under_floor(found)


def test_figures_of_a_modelled_benchmark() -> None:
    found = modelled_benchmark(1100 * MB, 6 * 10**9, 4400 * MB, 0.2e-3, H200, FMA, "repeat 2 of 64")
    assert found.score == pytest.approx(25)
    assert found.seconds == pytest.approx(1e-3)
    assert near((found.sol_seconds, found.bound), (0.25e-3, "memory"))
    assert near((found.bandwidth_share, found.rate_share), (0.25, 0.1))
    assert near((found.bandwidth, found.rate), (1.1e12, 6e12))
    assert (found.modelled, found.moved_bytes, found.emulated) == (True, 4400 * MB, "repeat 2 of 64")
    assert found.timing is None and found.floor_seconds == 0 and not under_floor(found)


def test_a_modelled_case_takes_no_less_than_its_operations() -> None:
    wasteful = modelled_benchmark(MB, 6 * 10**9, MB, 0.2e-3, H200, FMA, "")
    assert wasteful.seconds == pytest.approx(0.2e-3)
    uncounted = modelled_benchmark(MB, 6 * 10**9, MB, 0, H200, FMA, "")
    assert uncounted.seconds == pytest.approx(0.1e-3)
    assert wasteful.score == uncounted.score == pytest.approx(100)  # the score is that of the traffic


def test_no_traffic_no_score() -> None:
    with pytest.raises(ValueError, match="moved no byte"):
        modelled_benchmark(MB, 0, 0, 0, H200, FMA, "")


def test_overall_is_the_geometric_mean() -> None:
    assert overall([of(1e-3), of(4e-3)]) == pytest.approx(50)
    assert overall([of(2e-3)]) == pytest.approx(50)
    assert overall([of(1e-3), of(2e-3), of(4e-3)]) == pytest.approx(overall([of(2e-3)] * 3))


def test_modelled_and_measured_scores_never_mix() -> None:
    with pytest.raises(ValueError, match="all measured or all modelled"):
        overall([of(1e-3), modelled_benchmark(MB, 0, MB, 0, H200, FMA, "")])
    with pytest.raises(ValueError, match="needs benchmarks"):
        overall([])


@pytest.mark.parametrize(
    ("score", "name"), [(44.999, ""), (45, "pass"), (69.9, "pass"), (70, "strong"), (101, "stretch"), (0, "")]
)
def test_tiers(score: float, name: str) -> None:
    assert tier(score, {"pass": 45, "strong": 70, "stretch": 88}) == name
    assert tier(score, {"stretch": 88, "strong": 70, "pass": 45}) == name


def test_without_tiers_a_score_has_no_name() -> None:
    assert tier(99, {}) == ""
