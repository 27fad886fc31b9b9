"""The problem page's workbench in a real browser, in front of a judge that answers as each test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.workbench_kit import MAX_BYTES, TOKEN, FakeJudge, finding, serving
from web.editor import build

PAGE = "/problems/flash_attention"
CASE = {"type": "case_finished", "number": 1, "total": 1, "seconds": 0.01, "stdout": "", "findings": []}
RACE = finding("data_race", 9, message="key_tile raced.", other={"line": 15, "file": "", "write": False, "missing": False})
DIAGNOSTIC = {"line": 4, "column": 1, "severity": "error", "message": 'identifier "foo" is undefined'}


@pytest.fixture(scope="module")
def bundle() -> Path:
    """Built once into this user's cache; where the registry cannot be reached the tests fail and say so."""
    built = build.bundle(build=True)
    assert built
    return built


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu", "--no-first-run"]
        )
        yield browser
        browser.close()


@pytest.fixture
def judge(bundle: Path) -> Iterator[FakeJudge]:
    with serving(FakeJudge(bundle=bundle)) as judge:
        yield judge


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(5000)
    yield context
    context.close()


@pytest.fixture
def opened(context: BrowserContext, judge: FakeJudge) -> Iterator[Callable[..., Page]]:
    """Opens the problem page; whatever the console reports (a policy violation, an exception) fails the test."""
    complaints: list[str] = []

    def open_page(path: str = PAGE) -> Page:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(judge.url + path)
        expect(typing_place(page)).to_be_visible()
        return page

    yield open_page
    expected = ("(Service Unavailable)", "(Too Many Requests)", "(Content Too Large)", "(Request Entity Too Large)",
                "(Forbidden)", "net::ERR")  # fmt: skip
    assert [words for words in complaints if not any(part in words for part in expected)] == []


@pytest.fixture(params=["editor", "text area"])
def place(request: pytest.FixtureRequest, judge: FakeJudge) -> str:
    """Runs a test with the editor and with what stands in for it."""
    if request.param == "text area":
        judge.bundle = None
    return str(request.param)


def typing_place(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Your kernel, CUDA C++")


def text_of(page: Page) -> str:
    """What would be judged."""
    found: str = page.evaluate(
        """() => document.querySelector("#source:not([hidden])")?.value
           ?? document.querySelector("#editor").shadowRoot.querySelector(".cm-content").cmTile.view.state.doc.toString()"""
    )
    return found


def write(page: Page, text: str) -> None:
    """In place of all that is there."""
    typing_place(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def add_at_top(page: Page, text: str) -> None:
    typing_place(page).click()
    page.keyboard.press("Control+Home")
    page.keyboard.insert_text(text)


def status(page: Page) -> Locator:
    return page.locator("#judging-status")


def run(page: Page) -> None:
    page.get_by_role("button", name="Run samples").click()


def squiggles(page: Page) -> Locator:
    return page.locator(".cm-lintRange-error")


def test_a_run_is_shown_case_by_case(opened: Callable[..., Page], judge: FakeJudge, place: str) -> None:
    page = opened()
    write(page, "// mine\n")
    run(page)
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    judge.emit("compiling", seed=1)
    expect(status(page)).to_have_text("Compiling…")
    judge.emit("compiled", ok=True, seconds=0.5, log="", diagnostics=[])
    judge.emit("case_started", name="one_token", number=1, total=2)
    expect(page.get_by_role("row", name="one_token")).to_contain_text("running")
    judge.emit(**CASE | {"name": "one_token", "verdict": "accepted", "ratio": 0.25, "stdout": "m = 1 <b>\n"}) if False else judge.emit(
        "case_finished", **{**CASE, "name": "one_token", "verdict": "accepted", "ratio": 0.25, "stdout": "m = 1 <b>\n"}
    )
    expect(page.get_by_role("row", name="one_token")).to_contain_text("accepted0.25010 ms")
    expect(page.get_by_label("What case one_token printed")).to_have_text("m = 1 <b>\n")
    judge.emit("case_finished", **{**CASE, "name": "two", "verdict": "wrong_answer", "ratio": "NaN"})
    judge.emit("finished", verdict="wrong_answer", passed=1, total=2, seconds=1.5, score=None, modelled=True, tier="",
               findings=[])  # fmt: skip
    expect(status(page)).to_have_text("Finished: wrong answer. 1 of 2 cases passed in 1.5 s")
    expect(page.get_by_role("row", name="two")).to_contain_text("✗ wrong answerNaN")
    expect(page.get_by_role("link", name="The whole report")).to_have_attribute("href", "/submissions/s1")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    sent = judge.bodies[0]
    assert sent == {"problem": "flash_attention", "name": "flash_attention.cu", "dtype": "float32", "variant": "base",
                    "kind": "run", "source": "// mine\n", "device": "auto"}  # fmt: skip
    assert judge.headers[0]["x-csrf-token"] == TOKEN
    assert len(judge.headers[0]["idempotency-key"]) == 32
