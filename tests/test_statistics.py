"""From samples to a median and its interval: recordings whose truth is known, coverage, the stop rule, windows, ties."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.measure.records import Sample, Timing
from harness.measure.statistics import (
    CHILDREN,
    LEAST,
    MOST,
    enough,
    interval,
    next_round,
    plans_per_window,
    summarise,
    ties,
)
from tests import recorded_samples


def samples(*children: list[float]) -> list[Sample]:
    return [Sample(seconds, child) for child, times in enumerate(children) for seconds in times]


def spread(around: float, width: float, count: int = LEAST) -> list[float]:
    """`count` times, evenly within `width` (relative, whole) of their median."""
    return list(around * (1 + np.linspace(-width / 2, width / 2, count)))


@pytest.mark.parametrize(
    ("name", "median_us", "noisy", "counted", "dropped", "more"),
    [
        ("quiet", 512.0, False, 90, 0, 0),
        ("drifting_clocks", 517.1, False, 180, 0, 0),  # 1 % slower in the middle than at the beginning
        ("slow_child", 512.9, True, 600, 0, 0),
        ("bimodal", 531.2, True, 600, 0, 0),
        ("interrupted", 512.0, False, 90, 0, 0),
        ("throttled_tail", 512.0, False, 160, 20, 0),
        ("throttled", 512.0, True, 130, 50, 60),
    ],
)
def test_recordings(name: str, median_us: float, noisy: bool, counted: int, dropped: int, more: int) -> None:
    recorded = recorded_samples.load(name)
    timing = summarise(recorded, plans_per_window=1)
    assert timing.seconds == pytest.approx(median_us * 1e-6, rel=1e-3)
    assert timing.low <= timing.seconds <= timing.high
    assert timing.low <= median_us * 1e-6 <= timing.high
    assert (timing.noisy, timing.samples, timing.dropped, timing.children) == (noisy, counted, dropped, 3)
    assert next_round(recorded) == more
    assert enough(recorded) == (more == 0)


def test_what_a_recording_tells_of_the_card() -> None:
    drifting = summarise(recorded_samples.load("drifting_clocks"), 1)
    assert drifting.sm_clock_mhz == (1905, 1980)
    assert drifting.memory_clock_mhz == (3201, 3201)
    assert drifting.temperature[0] >= 44 and drifting.temperature[1] <= 48
    capped = summarise(recorded_samples.load("throttled_tail"), 1)
    assert capped.throttled == ("power cap",)
    assert capped.sm_clock_mhz == (1980, 1980)  # of the samples that count


def test_quartiles_fastest_and_median_by_hand() -> None:
    timing = summarise(samples([1.0, 5.0, 2.0], [4.0, 3.0]), plans_per_window=7)
    assert (timing.quartiles, timing.seconds, timing.fastest) == ((2.0, 4.0), 3.0, 1.0)
    assert (timing.samples, timing.children, timing.plans_per_window, timing.noisy) == (5, 2, 7, True)


def test_interrupts_move_neither_median_nor_interval() -> None:
    recorded = recorded_samples.load("interrupted")
    assert max(sample.seconds for sample in recorded) > 2 * 512e-6
    assert summarise(recorded, 1).half_width < 0.001


def test_the_order_of_samples_and_the_names_of_children_do_not_matter() -> None:
    rng = np.random.default_rng(4)
    recorded = samples(*(list(rng.normal(1 + step, 0.01, 30)) for step in (0, 0.002, 0.003)))
    shuffled = list(recorded)
    random.Random(0).shuffle(shuffled)
    assert summarise(shuffled, 1) == summarise(recorded, 1)
    renamed = [dataclasses.replace(sample, child=10 + sample.child) for sample in recorded]
    assert summarise(renamed, 1) == summarise(recorded, 1)


def test_another_seed_changes_the_interval_by_little() -> None:
    recorded = recorded_samples.load("quiet")
    first, second = summarise(recorded, 1, rng_seed=0), summarise(recorded, 1, rng_seed=1)
    assert first == summarise(recorded, 1, rng_seed=0)
    assert first.low == pytest.approx(second.low, rel=1e-4)
    assert first.high == pytest.approx(second.high, rel=1e-4)


def test_children_that_differ_by_three_per_mille_are_no_narrower_than_their_range() -> None:
    timing = summarise(samples(*(spread(1 + step, 0.0002) for step in (-0.0015, 0, 0.0015))), 1)
    assert 0.0035 < timing.half_width < 0.0045  # 2.69 times half of their range
    assert not timing.noisy
    apart = summarise(samples(*(spread(1 + step, 0.0002) for step in (-0.005, 0, 0.005))), 1)
    assert apart.noisy


@pytest.mark.parametrize("count", [3, 6])
@pytest.mark.parametrize(
    ("between", "within", "skewed"),
    [(0, 0.005, False), (0.001, 0.002, False), (0.001, 0.002, True), (0.003, 0.002, False), (0.01, 0.001, False)],
)
def test_the_interval_covers_the_true_median(count: int, between: float, within: float, skewed: bool) -> None:
    """95 % are promised; below 90 % of 500 trials would be one in 20,000 by chance."""
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(500):
        offsets = between * rng.standard_normal((count, 1))
        scatter = rng.exponential(size=(count, LEAST)) - math.log(2) if skewed else rng.standard_normal((count, LEAST))
        low, high = interval(list(1 + offsets + within * scatter), resamples=400)
        covered += low <= 1 <= high  # between the processes lies some 0.0001 more where skewed
    assert covered >= 450


def test_more_samples_narrow_what_lies_within_children_alone() -> None:
    rng = np.random.default_rng(3)
    alike = [rng.normal(1, 0.01, 200) for _ in range(3)]
    differing = [times + step for times, step in zip(alike, (-0.01, 0, 0.01), strict=True)]

    def width(children: list[np.ndarray], count: int) -> float:
        low, high = interval([times[:count] for times in children])
        return high - low

    assert width(alike, 200) < 0.6 * width(alike, 30)
    assert width(differing, 200) > 0.04


def test_no_samples_are_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarise([], 1)


@pytest.mark.parametrize("seconds", [0.0, -1e-6, math.nan, math.inf])
def test_times_that_cannot_be_are_an_error(seconds: float) -> None:
    with pytest.raises(ValueError, match="child 1 took"):
        summarise(samples([1e-3], [seconds]), 1)


def test_one_sample_is_noisy() -> None:
    timing = summarise([Sample(2e-3, 0)], 1)
    assert (timing.low, timing.seconds, timing.high, timing.quartiles) == (2e-3, 2e-3, 2e-3, (2e-3, 2e-3))
    assert timing.noisy


def test_one_child_is_noisy_however_quiet() -> None:
    assert summarise(samples([1e-3] * 90), 1).noisy


def test_all_throttled_is_noisy_and_shows_what_was_seen() -> None:
    capped = [dataclasses.replace(sample, throttled=("heat", "power cap")) for sample in samples(*[[1e-3] * 30] * 3)]
    timing = summarise(capped, 1)
    assert (timing.seconds, timing.samples, timing.dropped, timing.noisy) == (1e-3, 0, 90, True)
    assert timing.throttled == ("heat", "power cap")


@pytest.mark.parametrize(("dropped", "noisy"), [(30, False), (31, True)])
def test_more_than_a_fifth_dropped_is_noisy(dropped: int, noisy: bool) -> None:
    taken = samples(*[[1e-3] * 50] * 3)
    for index in range(dropped):  # from each child in turn
        place = index % 3 * 50 + index // 3
        taken[place] = dataclasses.replace(taken[place], throttled=("power cap",))
    assert summarise(taken, 1).noisy == noisy


times = st.floats(1e-7, 10)
one_sample = st.builds(Sample, times, st.integers(0, 4), throttled=st.sampled_from([(), (), (), ("power cap",)]))


@settings(max_examples=60, deadline=None)
@given(st.lists(one_sample, min_size=1, max_size=40), st.integers(0, 100))
def test_every_figure_is_finite_and_in_order(taken: list[Sample], seed: int) -> None:
    timing = summarise(taken, 1, seed)
    low_quartile, high_quartile = timing.quartiles
    assert 0 < timing.fastest <= low_quartile <= timing.seconds <= high_quartile
    assert 0 < timing.low <= timing.seconds <= timing.high < math.inf
    assert timing.samples + timing.dropped == len(taken)
    json.dumps(dataclasses.asdict(timing), allow_nan=False)


def test_rounds_of_a_noisy_case_end_at_the_most() -> None:
    rng = np.random.default_rng(5)
    taken: list[Sample] = []
    rounds = []
    while not enough(taken):
        rounds.append(next_round(taken))
        for child in range(CHILDREN):
            taken += [Sample(seconds, child) for seconds in rng.uniform(1, 2, rounds[-1])]
    assert rounds == [30, 30, 60, 80]
    assert sum(rounds) == MOST
    assert summarise(taken, 1).noisy


def test_a_quiet_case_ends_after_one_round() -> None:
    assert next_round([]) == LEAST
    assert not enough([])
    assert enough(samples(*[spread(1e-3, 0.005)] * 3))


def test_rounds_in_fresh_children_end_too() -> None:
    rng = np.random.default_rng(6)
    taken: list[Sample] = []
    names = itertools.count()
    while count := next_round(taken):
        for child in itertools.islice(names, CHILDREN):
            taken += [Sample(seconds, child) for seconds in rng.uniform(1, 2, count)]
    assert len(taken) == CHILDREN * MOST


def test_sampling_goes_on_until_three_children_gave_their_least() -> None:
    quiet = spread(1e-3, 0.001)
    assert next_round(samples(quiet, quiet)) == LEAST
    assert not enough(samples(quiet, quiet, quiet[1:]))
    taken = samples(quiet, quiet, quiet)
    taken[40] = dataclasses.replace(taken[40], throttled=("power cap",))
    assert next_round(taken) == LEAST  # the second child has 29 that count


def test_throttled_samples_count_as_taken() -> None:
    capped = [dataclasses.replace(sample, throttled=("heat",)) for sample in samples(*[[1e-3] * MOST] * 3)]
    assert not enough(capped[:-1])
    assert enough(capped)


@pytest.mark.parametrize(
    ("one", "overhead", "most", "plans"),
    [
        (1e-3, 2e-6, 8, 1),
        (40e-6, 2e-6, 8, 1),  # just 20 overheads
        (39e-6, 2e-6, 8, 2),
        (10e-6, 2e-6, 8, 4),
        (3e-6, 2e-6, 64, 14),  # 13.3
        (3e-6, 2e-6, 8, 8),
        (0.0, 2e-6, 8, 8),
        (0.0, 0.0, 8, 1),
        (3e-6, 2e-6, 1, 1),
    ],
)
def test_short_plans_share_a_window(one: float, overhead: float, most: int, plans: int) -> None:
    assert plans_per_window(one, overhead, most) == plans


@pytest.mark.parametrize(("one", "overhead", "most"), [(math.nan, 1e-6, 4), (1e-6, math.inf, 4), (-1, 0, 4), (1, 1, 0)])
def test_windows_that_cannot_be_are_an_error(one: float, overhead: float, most: int) -> None:
    with pytest.raises(ValueError, match=r"duration|buffers"):
        plans_per_window(one, overhead, most)


def timing(seconds: float, half: float) -> Timing:
    return dataclasses.replace(
        summarise([Sample(seconds, 0)], 1), seconds=seconds, low=seconds - half, high=seconds + half
    )


def test_ties() -> None:
    assert ties(timing(1.0, 0.01), timing(1.024, 0.015))
    assert not ties(timing(1.0, 0.01), timing(1.026, 0.015))
    assert ties(timing(1.024, 0.015), timing(1.0, 0.01))
    assert ties(timing(1.0, 0.0), timing(1.0, 0.0))
