"""The online-softmax page in a browser: keys, buttons and links step it, without scripts too, and axe finds nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import theatre_kit
from tests.browser import Watched, violations


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with theatre_kit.served() as home:
        yield f"{home}/theatre"


@pytest.fixture(scope="module")
def watched(browser: Browser) -> Iterator[tuple[Page, Watched]]:
    context = browser.new_context()
    seen = Watched(context)
    yield context.new_page(), seen
    context.close()


@pytest.fixture
def page(watched: tuple[Page, Watched]) -> Iterator[Page]:
    """One for all tests, which keep nothing in it. It must not complain, not even of the content security policy."""
    opened, seen = watched
    yield opened
    assert (seen.complaints, seen.left_home) == ([], [])


def shown(page: Page) -> str:
    """The heading of the one step that can be seen."""
    (heading,) = [h.text_content() or "" for h in page.locator("section.step > h2").all() if h.is_visible()]
    return heading


def test_arrow_keys_step_within_the_page_and_its_address(page: Page, address: str) -> None:
    page.goto(f"{address}?data=normal&tile=4")
    player = page.locator("#player")
    player.press("ArrowLeft")
    assert shown(page) == "Step 1 of 4: keys 0 to 3"
    player.press("ArrowRight")
    player.press("ArrowRight")
    assert shown(page) == "Step 3 of 4: keys 8 to 11"
    assert page.url.endswith("?data=normal&tile=4&step=3#player")
    assert page.locator(".where").text_content() == shown(page)
    assert page.locator(".history [aria-current]").get_attribute("data-step") == "3"
    player.press("End")
    assert shown(page).startswith("Step 4")
    expect(page.locator("a[rel=next]")).to_have_attribute("aria-disabled", "true")
    page.reload()
    assert shown(page).startswith("Step 4")


def test_links_step_without_loading_anew(page: Page, address: str) -> None:
    page.goto(f"{address}?tile=5&step=2")
    page.evaluate("window.same = true")
    page.locator("a[rel=prev]").click()
    assert shown(page).startswith("Step 1 of 4")
    page.locator("a[rel=next]").click()
    page.locator("a[rel=next]").click()
    assert shown(page).startswith("Step 3 of 4")
    page.locator(".history a").nth(3).click()
    assert shown(page) == "Step 4 of 4: key 15" and page.evaluate("window.same")


def test_play_runs_to_the_end_and_stops(page: Page, address: str) -> None:
    page.clock.install()
    page.goto(f"{address}?tile=8")
    button = page.locator("button.play")
    button.click()
    expect(button).to_have_text("Pause")
    page.clock.run_for(2000)
    assert shown(page).startswith("Step 2 of 2")
    expect(button).to_have_text("Play")
    button.click()
    assert shown(page).startswith("Step 1")
    button.click()
    page.clock.run_for(10000)
    assert shown(page).startswith("Step 1")


def test_who_wants_stillness_is_not_offered_play(page: Page, address: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(address)
    expect(page.locator("button.play")).to_be_hidden()
    page.emulate_media(reduced_motion="no-preference")
    expect(page.locator("button.play")).to_be_visible()


def test_without_scripts_links_and_the_form_do(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("heading", name="Step 2 of 4: keys 4 to 7")).to_be_visible()
    page.get_by_label("What if").select_option("keep_o")
    page.get_by_label("Keys in a tile").fill("2")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", name="Step 1 of 8: keys 0 to 1")).to_be_visible()
    expect(page.get_by_text("here is the mistake").first).to_be_visible()
    context.close()


@pytest.mark.parametrize("query", ["?step=3", "?data=padded&mistake=no_guard&tile=3&step=2"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_page(page: Page, address: str, query: str) -> None:
    """No rule of the style sheets asks for a width and a theme at once: each is seen once."""
    page.goto(address + query)
    for colours, width in (("light", 360), ("dark", 1100)):
        page.emulate_media(color_scheme=colours)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == [], (colours, width)
