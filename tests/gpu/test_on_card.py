"""Every solution and fixture on a real card; skipped, with the reason, where there is none."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from tests.gpu.verdict_table import Entry, entries, judge

pytestmark = pytest.mark.gpu
_SECONDS = 90.0


@pytest.fixture(scope="module")
def card() -> str:
    """The name of the card. It is looked at without a context, which would stay for the rest of the test run."""
    from harness.devices.gpu import detect_card

    try:
        return detect_card().full_name
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("entry", list(entries()), ids=lambda entry: entry.label)
def test_the_card_gives_the_declared_verdict(entry: Entry, card: str) -> None:
    if entry.emulator_only:
        pytest.skip(f"only the emulator sees it: {entry.emulator_only}")
    outcome = judge(entry, "gpu", _SECONDS)
    assert outcome.verdict == entry.expected, f"on {card}: {outcome.note}"
