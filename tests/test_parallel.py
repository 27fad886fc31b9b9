"""Arrays drawn and references computed on threads do not depend on how many there are."""

from __future__ import annotations

import os

import numpy as np
import pytest

from harness import parallel


def _cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(count)))


def test_the_numbers_are_the_same_on_any_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (3, 1_000_001)  # more than two chunks, and the last one is short
    drawn = []
    for cores in (1, 2, 7):
        _cores(monkeypatch, cores)
        drawn.append(parallel.standard_normal(shape, np.random.default_rng(5)))
    assert drawn[0].dtype == np.float32 and drawn[0].shape == shape
    assert all(np.array_equal(drawn[0], other) for other in drawn[1:])
    assert abs(drawn[0].mean()) < 3e-3 and abs(drawn[0].std() - 1) < 3e-3
    assert len(np.unique(drawn[0][:, -1000:])) > 2990, "no chunk repeats another"


def test_small_arrays_are_what_the_generator_gives() -> None:
    ours = parallel.standard_normal((4, 5), np.random.default_rng(2))
    assert np.array_equal(ours, np.random.default_rng(2).standard_normal((4, 5), dtype=np.float32))


@pytest.mark.parametrize("cores", [1, 4])
def test_every_item_is_done_once_and_the_first_failure_comes_out(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    _cores(monkeypatch, cores)
    done: list[int] = []
    parallel.each(done.append, range(50))
    assert sorted(done) == list(range(50))
    parallel.each(done.append, [])
    with pytest.raises(ZeroDivisionError):
        parallel.each(lambda n: done.append(1 // n), [3, 0, 5])


def test_slices() -> None:
    assert list(parallel.slices(5, 2)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert list(parallel.slices(4, 2)) == [slice(0, 2), slice(2, 4)]
