"""Narrow numbers: every one there is, ties, what is too large, and what is not a number."""

from __future__ import annotations

import numpy as np
import pytest

from harness import stored
from harness.dtypes import DTYPES

KINDS = sorted({stored.kv_element(dtype) for dtype in DTYPES}, key=str)
NARROW = [kind for kind in KINDS if kind.itemsize < 4]


def _all(kind: np.dtype) -> np.ndarray:
    """Every finite number of a narrow type, in order."""
    bits = np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}")
    values = bits.view(kind).astype(np.float32)
    return np.unique(values[np.isfinite(values)])


@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_numbers_of_the_type_stay_and_others_go_to_the_nearest(kind: np.dtype) -> None:
    values = _all(kind).astype(np.float64)
    assert stored.largest(kind) == values[-1]
    assert np.array_equal(stored.widened(stored.rounded(values.astype(np.float32), kind), np.float64), values)
    between = np.random.default_rng(1).uniform(-2, 2, 10_000).astype(np.float32)
    found = stored.widened(stored.rounded(between, kind), np.float64)
    place = np.clip(np.searchsorted(values, between), 1, len(values) - 1)
    nearest = np.minimum(np.abs(values[place] - between), np.abs(values[place - 1] - between))
    assert np.array_equal(np.abs(found - between), nearest)


@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_a_tie_goes_to_the_even_neighbour(kind: np.dtype) -> None:
    values = _all(kind)
    from_one = values[values >= 1][:3]  # bits even, odd, even
    ties = (from_one[:-1] + from_one[1:]) / 2
    assert stored.widened(stored.rounded(ties.astype(np.float32), kind)).tolist() == [from_one[0], from_one[2]]


@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_what_is_too_large_becomes_the_largest_and_nan_stays(kind: np.dtype) -> None:
    most = stored.largest(kind)
    found = stored.widened(stored.rounded(np.array([3e38, -3e38, np.inf, np.nan], np.float32)[:, None], kind))
    if most < 3e38:
        assert found[:2, 0].tolist() == [most, -most]
    assert found[2, 0] == most and np.isnan(found[3, 0]) and found.shape == (4, 1)


def test_float32_is_not_copied() -> None:
    array = np.ones((3, 4), np.float32)
    assert stored.rounded(array, stored.FLOAT32) is array and stored.widened(array) is array


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_large_arrays_and_parts_of_arrays(kind: np.dtype) -> None:
    array = np.random.default_rng(1).standard_normal((3, 700_001), dtype=np.float32)
    found = stored.rounded(array, kind)
    assert found.shape == array.shape and found.dtype == kind and found.flags.c_contiguous
    assert np.array_equal(found[1, 5:9], stored.rounded(array[1, 5:9], kind))
    assert np.array_equal(stored.widened(found[:, ::7]), stored.widened(found)[:, ::7])
