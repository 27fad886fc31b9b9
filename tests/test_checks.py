"""Planted faults are found as what they are, on their lines; clean kernels that look suspicious raise no alarm.

The kernels and how their lines are marked: tests/checks/README.md.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.check_fixtures import CLEAN, FAULTS, SIGNATURES, described, marks, run, signature

pytestmark = pytest.mark.usefixtures("quick_compiler")


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found_on_its_line(name: str) -> None:
    marked, result = marks(FAULTS[name].read_text()), run(FAULTS[name])
    assert any(f.kind in marked.kinds and marked.tells(f) for f in result.findings), described(result)
    assert all(marked.allow(f) for f in result.findings), described(result)


@pytest.mark.parametrize("name", CLEAN)
def test_clean_kernel_raises_no_alarm(name: str) -> None:
    result = run(CLEAN[name])
    assert not result.findings, described(result)
    assert not result.unwritten, "it did not run to its end"


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_announced(name: str) -> None:
    """One kind, that of its directory, and for races both ends; the first line says what is wrong."""
    text = FAULTS[name].read_text()
    marked = marks(text)
    assert marked.kinds == {FAULTS[name].parent.name}
    assert bool(marked.other) == (marked.kinds == {"data_race"})
    assert text.startswith("// ")
    assert signature(text) in SIGNATURES


@pytest.mark.parametrize("name", CLEAN)
def test_clean_kernel_says_why_it_is_right(name: str) -> None:
    text = CLEAN[name].read_text()
    assert not marks(text).lines
    assert text.startswith("// ")
    assert signature(text) in SIGNATURES


def test_every_kind_of_check_is_tried() -> None:
    kinds = Counter(FAULTS[name].parent.name for name in FAULTS)
    assert sum(kinds.values()) >= 65
    assert len(CLEAN) >= 45
    searched = {
        "data_race", "uninitialized_read", "out_of_bounds", "misaligned", "read_only_write", "barrier_divergence",
        "invalid_shuffle", "async_hazard", "deadlock",
    }  # fmt: skip
    assert searched <= set(kinds)
