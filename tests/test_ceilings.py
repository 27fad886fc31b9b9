"""Ceilings are what the fastest of our kernels takes, checked, and remembered only as long as they hold."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness import cards
from harness.cards import Card
from harness.compile import cache
from harness.devices.driver import DriverError
from harness.errors import JudgeError, UsageError
from harness.measure import ceiling_bench, ceiling_cache, ceilings
from harness.measure.ceiling_bench import Effort
from harness.measure.records import Ceilings
from tests.fake_ceilings import FakeCard

NBYTES = 16 << 20
SMALL = Effort(
    windows=3, repeats=2, warm_seconds=0.01, least_bytes=NBYTES, most_bytes=NBYTES, steps=2, tiles_n=8, rounds=4
)
FREE = 4 * NBYTES
COMPILED = functools.cache(ceiling_bench.compiled)
NOW = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "compiled", COMPILED)


def small(name: str) -> Card:
    return replace(cards.get(name), sms=4, l2_bytes=1 << 20)


def measured(driver: FakeCard, name: str = "L4", free: int = FREE) -> Ceilings:
    return ceilings.measure(driver, small(name), free, lambda: 1500, SMALL)


def test_rates_are_work_over_time() -> None:
    seconds: dict[str, float | Callable[[], float]] = {"copy": 2e-3, "read": 1e-3, "multiply_add": 5e-3, "resident_e4m3": 4e-3}
    found = measured(FakeCard(seconds))
    assert found.copy == pytest.approx(2 * NBYTES / 2e-3)
    assert found.read == pytest.approx(NBYTES / 1e-3)
    assert found.rates["fma"] == pytest.approx(2 * 8 * 4 * 256 * 4 * 256 / 5e-3)
    assert found.rates["e4m3"] == pytest.approx(2 * 8 * 128 * 128 * 6 * 32 * 4 / 4e-3)
    assert found.rates["bf16"] == pytest.approx(2 * 8 * 128 * 128 * 6 * 16 * 4 / 1e-3)
    assert (found.card, found.driver, found.sm_clock_mhz) == ("NVIDIA L4", "580.1", 1500)
    assert datetime.fromisoformat(found.date).tzinfo and not found.cached and not found.modelled


def test_a_product_of_warpgroups_counts_its_own_type() -> None:
    found = measured(FakeCard({f"product_{unit}": 1e-3 for unit in ("f16", "bf16", "tf32", "e4m3")}), "H100")
    bf16 = 2 * (2 * 128) * (8 * 256) * (2 * 64) / 1e-3
    assert found.rates["bf16"] == pytest.approx(bf16)
    assert found.rates == pytest.approx({"fma": found.rates["fma"], "f16": bf16, "bf16": bf16, "tf32": bf16 / 2, "e4m3": 2 * bf16})


def test_the_fastest_way_to_copy_counts() -> None:
    found = measured(FakeCard({"copy": 3e-3, "copy_bulk": 2e-3, "read": 1e-3, "read_bulk": 2e-3}), "H100")
    assert [found.copy, found.read] == pytest.approx([2 * NBYTES / 2e-3, NBYTES / 1e-3])


def test_one_slow_window_in_three_does_not_matter() -> None:
    turns: Iterator[float] = itertools.cycle([1e-3, 1e-3, 9e-3])
    assert measured(FakeCard({"read": lambda: next(turns)})).read == pytest.approx(NBYTES / 1e-3)


def test_the_best_of_some_medians_counts_for_bandwidth() -> None:
    launches = 5 + SMALL.windows  # of a median
    turns: Iterator[float] = iter([1e-3] * 2 * launches + [3e-3] * launches + [1e-3] * launches)
    assert measured(FakeCard({"read": lambda: next(turns)})).read == pytest.approx(NBYTES / 1e-3)


@pytest.mark.parametrize(
    ("name", "units"),
    [("T4", {"fma", "f16"}), ("A100", {"fma", "f16", "bf16", "tf32"}), ("L4", {"fma", "f16", "bf16", "tf32", "e4m3"})],
)
def test_a_unit_that_the_card_lacks_is_absent(name: str, units: set[str]) -> None:
    assert set(measured(FakeCard({}), name).rates) == units == set(ceilings.datasheet(cards.get(name)).rates)


@pytest.mark.parametrize(("name", "wrong", "what"), [
    ("L4", "bf16", "bf16 products.*wrong"), ("H100", "e4m3", "e4m3 products.*wrong"),
    ("H100", "tf32", "tf32 products.*wrong"), ("L4", "copy", "copies: the copy differs"),
])  # fmt: skip
def test_a_kernel_with_a_wrong_result_shows_nothing(name: str, wrong: str, what: str) -> None:
    with pytest.raises(JudgeError, match=what):
        measured(FakeCard({}, wrong), name)


def test_a_kernel_that_fails_is_named() -> None:
    driver = FakeCard({})

    def fails(*_: object) -> None:
        raise DriverError(719, "cuCtxSynchronize", "unspecified launch failure")

    driver.kernels["resident_tf32"] = fails
    with pytest.raises(JudgeError, match=r"cannot measure the rate of tf32 products: .*unspecified launch failure"):
        measured(driver)


def test_a_kernel_that_is_missing_is_named() -> None:
    driver = FakeCard({})
    del driver.kernels["multiply_add"]
    with pytest.raises(JudgeError, match="float32 multiply-adds: there is no kernel multiply_add"):
        measured(driver)


def test_a_kernel_that_hangs_is_an_error() -> None:
    driver = FakeCard({})
    driver.hangs = True
    with pytest.raises(JudgeError, match="copies: still runs"):
        measured(driver)


def test_too_little_memory_is_said() -> None:
    with pytest.raises(JudgeError, match="only 63 MiB of NVIDIA L4 are free"):
        measured(FakeCard({}), free=FREE - 1)


def test_a_card_whose_matrix_units_nobody_drives_is_refused() -> None:
    card = replace(small("H100"), cc=(10, 0), arch="100a", full_name="NVIDIA B200")
    with pytest.raises(UsageError, match="NVIDIA B200"):
        ceilings.measure(FakeCard({}), card, FREE, effort=SMALL)


def test_the_memory_is_given_back() -> None:
    driver = FakeCard({})
    measured(driver)
    assert not driver.blocks


FIGURES = Ceilings("NVIDIA L4", "580.1", 2e11, 2.1e11, {"fma": 3e13, "bf16": 1e14}, NOW.isoformat(), 1500)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_ceilings_are_remembered_for_the_card_and_the_driver(folder: Path) -> None:
    ceilings.remember(FIGURES)
    assert ceilings.known("NVIDIA L4", "580.1", NOW) == replace(FIGURES, cached=True)
    assert ceilings.known("NVIDIA L4", "580.2", NOW) is None
    assert ceilings.known("NVIDIA H200", "580.1", NOW) is None


@pytest.mark.parametrize(("days", "holds"), [(6.9, True), (7.1, False), (-0.1, False)])
def test_they_hold_for_seven_days(folder: Path, days: float, holds: bool) -> None:
    ceilings.remember(FIGURES)
    assert (ceilings.known("NVIDIA L4", "580.1", NOW + timedelta(days=days)) is not None) == holds


def test_other_kernels_are_other_ceilings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings.remember(FIGURES)
    changed = ceiling_cache._HERE / "records.py"
    monkeypatch.setattr(ceiling_cache, "_OURS", (*ceiling_cache._OURS, changed.name))
    assert ceilings.known("NVIDIA L4", "580.1", NOW) is None


def test_a_damaged_file_is_no_file(folder: Path) -> None:
    ceilings.remember(FIGURES)
    (entry,) = cache.directory().iterdir()
    entry.write_bytes(entry.read_bytes()[:-9] + b"999999999")
    assert ceilings.known("NVIDIA L4", "580.1", NOW) is None


@pytest.mark.parametrize("payload", [
    b"", b"[]", b"{", b'{"card": 1}', b'{"card": "a", "driver": "b", "copy": 1, "read": 1, "date": "no"}',
    b'{"card": "a", "driver": "b", "copy": 1, "read": 1, "rates": {"fma": NaN}, "date": "2026-01-10T00:00:00+00:00"}',
    b'{"card": "a", "driver": "b", "copy": 1, "read": 1, "rates": {"fma": 1}, "date": "2026-01-10T00:00:00"}',
    b'{"card": "c", "driver": "b", "copy": 1, "read": 1, "rates": {"fma": 1}, "date": "2026-01-10T00:00:00+00:00"}',
])  # fmt: skip
def test_what_another_version_kept_is_no_ceiling(folder: Path, payload: bytes) -> None:
    cache.put(ceiling_cache._key("a", "b"), payload)
    assert ceilings.known("a", "b", NOW) is None


@pytest.mark.parametrize("figures", [replace(FIGURES, modelled=True), replace(FIGURES, cached=True)])
def test_only_fresh_measurements_are_remembered(folder: Path, figures: Ceilings) -> None:
    ceilings.remember(figures)
    assert ceilings.known("NVIDIA L4", "580.1", NOW) is None


def test_the_data_sheet_says_that_nothing_was_measured() -> None:
    sheet = ceilings.datasheet(cards.get("H200"))
    assert (sheet.modelled, sheet.date, sheet.bandwidth) == (True, "", 4.8e12)
    assert sheet.rates == {"fma": 66.9e12, "f16": 989.4e12, "bf16": 989.4e12, "tf32": 494.7e12, "e4m3": 1978.9e12}


def with_rates(**rates: float) -> Ceilings:
    return replace(FIGURES, rates=rates)


@pytest.mark.parametrize(("dtype", "rates", "rate", "fastest"), [
    ("float32", {"fma": 60.0}, 60, 60),
    ("float32", {"fma": 60.0, "f16": 120.0, "tf32": 90.0}, 60, 60),
    ("float32", {"fma": 60.0, "tf32": 390.0, "f16": 780.0, "bf16": 750.0}, 130, 260),
    ("float16", {"fma": 60.0, "f16": 780.0, "bf16": 790.0}, 780, 790),
    ("bfloat16", {"fma": 60.0, "f16": 790.0, "bf16": 780.0, "e4m3": 1500.0}, 780, 790),
    ("bfloat16", {"fma": 8.0, "f16": 65.0}, 8, 65),
    ("float8_e4m3", {"fma": 60.0, "f16": 790.0, "bf16": 780.0, "e4m3": 1500.0}, 780, 790),
    ("float8_e4m3", {"fma": 60.0, "f16": 780.0}, 60, 780),
])  # fmt: skip
def test_rates_by_type(dtype: str, rates: dict[str, float], rate: float, fastest: float) -> None:
    found = with_rates(**rates)
    assert (ceilings.rate_for(found, dtype), ceilings.fastest_rate_for(found, dtype)) == (rate, fastest)


def test_another_type_has_no_ceiling() -> None:
    with pytest.raises(JudgeError, match="int8"):
        ceilings.rate_for(FIGURES, "int8")


def test_counted_operations_take_the_time_of_the_units_that_do_them() -> None:
    """A float32 kernel on multiply-adds is not modelled as if matrix units helped it, nor three products of tf32 as one."""
    card = dataclasses.replace(FIGURES, rates={"fma": 60e12, "tf32": 400e12, "bf16": 800e12})
    assert ceilings.work_seconds(card, "float32", {"fma": 50 * 10**9, "special": 10**10}) == pytest.approx(1e-3)
    assert ceilings.work_seconds(card, "float32", {"tensor": 4 * 10**11, "fma": 10**9}) == pytest.approx(1e-3)
    assert ceilings.work_seconds(card, "bfloat16", {"tensor": 4 * 10**11}) == pytest.approx(0.5e-3)
    assert ceilings.work_seconds(card, "bfloat16", {}) == 0
    without = dataclasses.replace(FIGURES, rates={"fma": 60e12})
    assert ceilings.work_seconds(without, "float16", {"tensor": 6 * 10**10}) == pytest.approx(1e-3)
