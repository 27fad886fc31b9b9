"""Every page in a browser: on a phone and on a wide screen, light and dark, in both languages, for readers who do not
see or point, without a request to anywhere else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvicorn
from playwright.sync_api import Browser, expect

from tests import site_kit
from tests.api_kit import StateOfQueue
from tests.browser import Watched, violations
from tests.site_kit import Filled
from web.queue.base import NoQueue
from web.store import judgings, submissions
from web.store.records import Kind, Request

PAGES = (
    "/", "/problems/split_k_merge", "/submissions", "/submissions/{race}", "/submissions/{measured}",
    "/submissions/{wrong}", "/submissions/{queued}", "/submissions/{good}/compare/{race}",
    "/problems/paged_decode/ladder", "/problems/split_k_merge/ladder?rung=2", "/problems/split_k_merge/leaderboard",
    "/nothing",
)  # fmt: skip
READ = PAGES[:2] + PAGES[3:5] + PAGES[9:10]  # in the dark, too: they have all kinds of elements
WAYS = (("light", "1440", "en"), ("dark", "360", "zh"))
_SIZES = "[document.documentElement.scrollWidth, window.innerWidth]"
_PAPER = "getComputedStyle(document.documentElement).backgroundColor"


@dataclass
class Served:
    """A filled site at an address of its own."""

    filled: Filled
    url: str

    def path(self, page: str) -> str:
        return self.url + page.format(**self.filled.ids)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The site on a free port, which its guard knows."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        filled = site_kit.filled(tmp_path_factory.mktemp("site"), port=port)
        server = uvicorn.Server(uvicorn.Config(filled.site.app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield Served(filled, f"http://localhost:{port}")
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_pages_serve_every_reader(served: Served, browser: Browser, way: tuple[str, str, str]) -> None:
    theme, width, language = way
    opened = browser.new_context(
        color_scheme="dark" if theme == "dark" else "light", viewport={"width": int(width), "height": 900},
        locale=language, reduced_motion="reduce",
    )  # fmt: skip
    watched, found = Watched(opened), []
    page = opened.new_page()
    for path in PAGES:
        answer = page.goto(served.path(path))
        assert answer and answer.status == (404 if path == "/nothing" else 200), path
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        if path in READ or theme == "light":
            found += [(path, *violation) for violation in violations(page)]
        wide, room = page.evaluate(_SIZES)
        assert wide <= room, f"{path} scrolls sideways"
    assert found == []
    assert (watched.left_home, _unexpected(watched)) == ([], [])
    opened.close()


def _unexpected(watched: Watched) -> list[str]:
    """All but what Chromium says of the page that is not there."""
    return [words for words in watched.complaints if "404 (Not Found)" not in words]


def test_the_keyboard_comes_to_the_content_first(served: Served, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(served.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.close()


def test_the_keyboard_comes_to_the_editor_at_once(served: Served, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"{served.url}/problems/split_k_merge")
    page.locator("#workbench[data-ready]").wait_for()
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the editor"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('#editor, #source')")
    page.close()


def test_a_verdict_on_a_phone_stays_in_its_column(served: Served, browser: Browser) -> None:
    opened = browser.new_context(viewport={"width": 360, "height": 800})
    page = opened.new_page()
    page.goto(f"{served.url}/submissions")
    wide = "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.textContent)"
    assert page.locator(".stack tbody td").evaluate_all(wide) == []
    opened.close()


def test_choices_of_colours_and_language_are_kept(served: Served, browser: Browser) -> None:
    opened = browser.new_context(color_scheme="light")
    page = opened.new_page()
    page.goto(f"{served.url}/problems/paged_decode?dtype=float16")
    light = page.evaluate(_PAPER)
    page.get_by_role("button", name="Dark").click()
    assert page.url.endswith("/problems/paged_decode?dtype=float16") and page.evaluate(_PAPER) != light
    page.get_by_role("button", name="中文").click()
    page.get_by_role("link", name="解法阶梯").click()
    assert page.get_by_role("heading", level=1).inner_text().startswith("解法阶梯")
    assert page.evaluate(_PAPER) != light
    opened.close()


def test_without_scripts_a_solution_is_sent_by_a_form(served: Served, browser: Browser) -> None:
    opened = browser.new_context(java_script_enabled=False)
    page = opened.new_page()
    page.goto(f"{served.url}/problems/split_k_merge?dtype=float16")
    page.get_by_role("textbox", name="kernel").fill("// mine\nint x;")
    page.get_by_role("textbox", name="Name").fill("second try")
    page.get_by_role("button", name="Submit").click()
    assert page.get_by_role("heading", level=1).inner_text() == "second try.cu"
    assert "/submissions/" in page.url and "queued" in page.inner_text("main") and "// mine" in page.inner_text("main")
    page.get_by_role("button", name="Cancel the judging").click()
    assert "cancelled" in page.inner_text("main")
    opened.close()


def test_what_the_judge_is_at_is_kept_true(served: Served, browser: Browser) -> None:
    state = served.filled.site.app.state
    state.queue = StateOfQueue(starting=True)
    opened = browser.new_context()
    watched = Watched(opened)
    page = opened.new_page()
    page.goto(served.url)
    line = page.locator("#judge-state")
    expect(line).to_have_text("The judge is starting.")
    assert violations(page) == []
    state.queue = StateOfQueue("no <b>worker</b>")
    expect(line).to_have_text("Nothing is judged at the moment. no <b>worker</b>")
    assert violations(page) == []
    state.queue = NoQueue()
    expect(line).to_have_count(0)
    assert watched.complaints == []
    opened.close()


def test_the_place_of_a_waiting_submission_counts_down(served: Served, browser: Browser) -> None:
    engine = served.filled.site.engine
    first, second = (
        submissions.add(engine, Request(site_kit.PROBLEM, "// x", Kind.SUBMIT, f"{name}.cu"), 100)[0]
        for name in ("first", "second")
    )
    opened = browser.new_context()
    watched = Watched(opened)
    page = opened.new_page()
    page.goto(f"{served.url}/submissions/{second.id}")
    place = judgings.position(engine, second.run_id)
    assert place and place > 1
    expect(page.locator("#live")).to_contain_text(f"waits in the queue place {place}")
    judgings.request_cancel(engine, first.id)
    expect(page.locator("#live")).to_contain_text(f"waits in the queue place {place - 1}")
    judgings.request_cancel(engine, second.id)
    expect(page.locator("main")).to_contain_text("cancelled")
    assert watched.complaints == []
    opened.close()


def test_a_waiting_submission_shows_its_steps_and_then_its_verdict(served: Served, browser: Browser) -> None:
    engine, good = served.filled.site.engine, site_kit.text_of("good.cu")
    sent, _ = submissions.add(engine, Request(site_kit.PROBLEM, good, Kind.RUN, "live.cu"), 100)
    opened = browser.new_context()
    watched = Watched(opened)
    page = opened.new_page()
    page.goto(f"{served.url}/submissions/{sent.id}")
    claim = judgings.claim(engine, "test")
    assert claim and claim.submission_id == sent.id  # runs come before submissions of all tests
    case = {"name": "two_splits", "number": 1, "total": 3}
    judgings.add_events(engine, claim, [("case_started", case), ("case_finished", case | {"verdict": "accepted"})])
    expect(page.locator("#live")).to_contain_text("1 of 3 cases")
    assert judgings.finish(engine, claim, site_kit.report_of(good, "good.cu"))
    expect(page.get_by_role("heading", name="What the warps did")).to_be_visible()
    assert page.title().startswith("live.cu: accepted") and watched.complaints == []
    opened.close()


def test_a_waiting_page_comes_back_after_the_site_refused_its_stream(served: Served, browser: Browser) -> None:
    engine, streams = served.filled.site.engine, served.filled.site.app.state.streams
    good = site_kit.text_of("good.cu")
    sent, _ = submissions.add(engine, Request(site_kit.PROBLEM, good, Kind.RUN, "back.cu"), 100)
    streams.closing = True  # answers 503, after which a browser does not try again by itself
    page = browser.new_page()
    with page.expect_response(lambda answer: answer.url.startswith(f"{served.url}/api/") and answer.status == 503):
        page.goto(f"{served.url}/submissions/{sent.id}")
    streams.closing = False
    claim = judgings.claim(engine, "test")
    assert claim and claim.submission_id == sent.id
    with page.expect_navigation():
        assert judgings.finish(engine, claim, site_kit.report_of(good, "good.cu"))
    assert page.title().startswith("back.cu: accepted")
    page.close()
