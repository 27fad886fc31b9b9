"""A site whose store was filled by judging real submissions, without the queue: what tests of pages look at."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from harness import problem as problems
from harness import submission as submission_files
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.results import Report
from tests import api_kit, sample_reports
from web.store import judgings, submissions
from web.store.records import Kind, Request, Submission

SUBMISSIONS = Path(__file__).parent / "submissions"
PROBLEM = "split_k_merge"
HOSTILE_NAME = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}.cu"
HOSTILE_LINE = 'printf("</code></pre><script>alert(2)</script>");'


@dataclass
class Filled:
    """A site, a browser, and the submissions in its store by what came of them."""

    site: api_kit.Site
    browser: TestClient
    token: str
    ids: dict[str, str]

    def page(self, path: str, status: int = 200, **options: str) -> str:
        """The text of a page; `lang` chooses the language. It has passed what every page must hold to."""
        answer = self.browser.get(path, params=options or None)
        assert answer.status_code == status, answer.text
        check(answer.text)
        return answer.text

    def post(self, path: str, **fields: str) -> httpx2.Response:
        """Send a form of a page of this site."""
        data = {"csrf_token": self.token} | fields
        return self.browser.post(path, data=data, headers={"Origin": api_kit.URL}, follow_redirects=False)


def filled(folder: Path, **options: Any) -> Filled:
    """A store with a submission of every kind; `options` are those of the site's Settings."""
    site = api_kit.site(folder, **options)
    engine = site.engine
    race, good = text_of("missing_sync.cu"), text_of("good.cu")
    ids = {
        "race": judged(engine, race, "race.cu"),
        "wrong": judged(engine, text_of("layout_transposed.cu"), "wrong.cu"),
        "good": judged(engine, good, "good.cu"),
        "broken": judged(engine, good.replace("__global__", "__globl__", 1), HOSTILE_NAME),
        "hostile": judged(engine, f"// {HOSTILE_LINE}\n{good}", "hostile.cu"),
        "measured": written(engine, "measured.cu", good, sample_reports.measured(variant="base")),
        "modelled": written(engine, "modelled.cu", good, dataclasses.replace(sample_reports.modelled(), variant="base")),
    }
    ids["queued"] = submissions.add(engine, Request(PROBLEM, good, Kind.SUBMIT, "queued.cu"), 100)[0].id
    browser, token = site.browser()
    return Filled(site, browser, token, ids)


def text_of(name: str) -> str:
    """A fixture of the problem."""
    return (SUBMISSIONS / PROBLEM / name).read_text()


def judged(engine: Engine, source: str, name: str, dtype: str | None = None) -> str:
    """Send a run of the samples and write its verdict, as a worker would; the submission's id."""
    request = Request(PROBLEM, source, Kind.RUN, name, dtype, device="cpu")
    return _finished(engine, request, report_of(source, name, dtype)).id


def written(engine: Engine, name: str, source: str, report: Report) -> str:
    """A submission of all tests that has come to `report`; its id."""
    return _finished(engine, Request(PROBLEM, source, Kind.SUBMIT, name), report).id


@functools.cache
def report_of(source: str, name: str, dtype: str | None = None) -> Report:
    """The judging of a text in the emulator, with a known seed."""
    options = Options(device="cpu", dtype=dtype, cases="two_splits", seed=7, resource_seconds=0.0, trace=True)
    loaded = submission_files.from_bytes(name, source.encode())
    for event in judge(problems.load(PROBLEM), loaded, options):
        if isinstance(event, Finished):
            return event.report
    raise AssertionError("no report")


def _finished(engine: Engine, request: Request, report: Report) -> Submission:
    sent, _ = submissions.add(engine, request, most_queued=100)
    claim = judgings.claim(engine, "test")
    assert claim and claim.submission_id == sent.id
    assert judgings.finish(engine, claim, report)
    found = submissions.get(engine, sent.id)
    assert found
    return found


class _Checker(HTMLParser):
    """What every page keeps to."""

    VOID = frozenset({"meta", "link", "input", "br", "wbr", "img", "hr", "rect", "line", "circle", "polygon", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.fragments: set[str] = set()
        self.headings: list[int] = []
        self.buttons_without_words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert "style" not in found, f"a style attribute, which the policy forbids: {self.get_starttag_text()}"
        assert not any(name.startswith("on") for name in found), "a script in an attribute"
        if tag == "script":
            inline = "src" not in found and found.get("type") != "application/json"
            assert not inline, "an inline script"
        for name in ("src", "href", "action"):
            assert not (found.get(name) or "").startswith(("http:", "//", "javascript:")), found
        if identity := found.get("id"):
            assert identity not in self.ids, f"the id {identity!r} twice"
            self.ids.add(identity)
        if (found.get("href") or "").startswith("#"):
            self.fragments.add(str(found["href"])[1:])
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append(int(tag[1]))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
            self.open.pop()


def check(text: str) -> None:
    """That a page is well formed, has a title, a main part and one first heading, sends nobody to another site, holds
    no inline script or style, and that links within it arrive."""
    checker = _Checker()
    checker.feed(text)
    assert not [tag for tag in checker.open if tag not in ("p", "li")]
    assert checker.headings.count(1) == 1 and checker.headings[0] == 1, checker.headings
    assert all(b - a <= 1 for a, b in zip(checker.headings, checker.headings[1:], strict=False)), checker.headings
    assert checker.fragments <= checker.ids, checker.fragments - checker.ids
    assert "main" in checker.ids and "<title>" in text and '<html lang="' in text
