"""Cards are found by the names that people type, and a wrong name shows the right ones."""

import pytest

from harness import cards
from harness.errors import UsageError


@pytest.mark.parametrize("spelling", ["RTX 4090", "rtx4090", "rtx-4090", "RTX_4090"])
def test_spelling_does_not_matter(spelling: str) -> None:
    assert cards.get(spelling).name == "RTX 4090"


def test_the_default_is_an_h100() -> None:
    card = cards.get(cards.DEFAULT)
    assert (card.cc, card.sms, card.shared_per_block_optin) == ((9, 0), 132, 227 * 1024)


def test_a_wrong_name_lists_all_and_guesses() -> None:
    with pytest.raises(UsageError, match=r"did you mean H100\?.*T4, A100, L4, RTX 4090, H100, H200"):
        cards.get("H10")


@pytest.mark.parametrize("name", cards.names())
def test_limits_fit_together(name: str) -> None:
    card = cards.get(name)
    assert card.shared_per_block <= card.shared_per_block_optin <= card.shared_per_sm
    assert card.shared_per_block_optin + card.shared_reserved <= card.shared_per_sm
    assert card.threads_per_sm % 32 == 0
    assert card.arch.rstrip("a") == f"{card.cc[0]}{card.cc[1]}"
