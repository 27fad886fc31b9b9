"""Statements, code and differences in a real browser: what only a browser knows about them."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from harness import problem
from tests.browser import violations
from web.rendering.code import code
from web.rendering.differences import diff
from web.rendering.statements import statement

ROOT = problem.ROOT.parent
STYLES = (ROOT / "web" / "static" / "statement.css").read_text()
PAPERS = {"light": "#ffffff; color: #1b1f24", "dark": "#14171a; color: #e7eaed"}
SOURCE = (ROOT / "solutions" / "split_k_merge" / "01_naive.cu").read_text()
LATER = (ROOT / "solutions" / "split_k_merge" / "02_vectorised.cu").read_text()


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 360, "height": 800})
    yield opened
    opened.close()


def show(page: Page, body: str, theme: str = "light", language: str = "en") -> None:
    """The body in a page that has no other styles than its ground and statement.css; all parts are unfolded."""
    page.set_content(
        f'<!doctype html><html lang="{language}" data-theme="{theme}"><head><title>t</title><style>'
        f"{STYLES} body {{ background: {PAPERS[theme]}; font: 16px sans-serif }} a {{ color: inherit }}</style></head>"
        f"<body><main><h1>t</h1>{body.replace('<details', '<details open')}</main></body></html>"
    )


def selected(page: Page, what: str) -> str:
    """What is copied when all of an element is selected."""
    found = page.evaluate(
        "what => { getSelection().selectAllChildren(document.querySelector(what)); return getSelection().toString() }",
        what,
    )
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["flash_attention", "paged_decode", "split_k_merge"])
def test_a_statement_fits_a_phone(page: Page, name: str, language: str) -> None:
    found = statement(problem.load(name), language)
    show(page, f'<div class="statement">{found.html}</div>', language=language)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    heights = page.evaluate("[...document.querySelectorAll('math')].map(math => math.getBoundingClientRect().height)")
    assert min(heights) > 3


def test_code_is_copied_without_its_numbers_and_long_lines_scroll(page: Page) -> None:
    show(page, code(SOURCE + "x" * 5000, marks={3: "error"}))
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert selected(page, ".code") == SOURCE + "x" * 1000
    show(page, diff("a\nb\n", "a\nc\n", ("one" * 99, "two")))
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert selected(page, ".code") == "a\nb\nc"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_in_the_way_of_a_reader_who_does_not_see_or_point(page: Page, theme: str) -> None:
    text = f'<div class="statement">{statement(problem.load("flash_attention"), "en").html}</div>'
    source = code(SOURCE, marks={3: "error", 14: "warning", 20: "info", 25: "other"})
    show(page, text + source + diff(SOURCE, LATER, ("one", "two")), theme)
    assert violations(page) == []
