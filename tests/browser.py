"""A Chromium for tests of pages: found, started without a word to anybody, and watched.

Tests that need one are skipped where there is none, with the reason; under CI they fail instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--no-first-run",
)  # fmt: skip
_LOCAL = ("127.0.0.1", "localhost", "::1")


def executable() -> str:
    """The path of a Chromium; skips the test without one."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found:
        return found
    reason = f"no browser: none of {', '.join(_NAMES)} is on PATH (Debian: apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A started browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(_QUIET))
        try:
            yield browser
        finally:
            browser.close()


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds wrong with a page: its rules, and the elements. A page that was not left since is not given axe
    anew, which takes as long as the search."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]]


class Watched:
    """What a context's pages asked for and complained of. `left_home` are requests to other machines, `complaints`
    errors and warnings of the console and uncaught exceptions."""

    def __init__(self, context: BrowserContext):
        self.left_home: list[str] = []
        self.complaints: list[str] = []
        context.on("request", self._request)
        context.on("console", self._console)
        context.on("page", self._page)

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname not in _LOCAL:
            self.left_home.append(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _page(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
