"""A newcomer's first hour with the site that `judge.py serve` starts, in a real browser: open it, read a problem, edit
the starter, run it, see a finding on its line, mend it, submit, be accepted, stand on the leaderboard."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import Watched
from tests.test_serve import started
from web.editor import build

STARTER = Path(__file__).parent.parent / "problems" / "split_k_merge" / "starter.cu"
_PATIENCE = 60_000  # milliseconds; a bound for what hangs, not a measurement
_BODY = """
  __shared__ float weights[128];
  for (int s = d; s < num_splits; s += D) weights[s] = l[s * rows + row] > 0.0f ? m[s * rows + row] : -INFINITY;
  {barrier}
  if (row == 0 && d == 0) printf("%d splits\\n", num_splits);
  for (int s = 0; s < num_splits; ++s) largest = fmaxf(largest, weights[s]);
"""
_WALK = """
  for (int s = 0; s < num_splits; ++s) {
    if (weights[s] == -INFINITY) continue;
    const float weight = expf(weights[s] - largest) * l[s * rows + row];
    total += weight;
    sum += weight * partial_out[(size_t(s) * rows + row) * D + d];
  }
"""
_WORDS = {
    "en": {"run": "Run samples", "submit": "Submit", "race": "data race", "accepted": "accepted",
           "board": "Leaderboard", "report": "The whole report"},
    "zh": {"run": "运行样例", "submit": "提交", "race": "数据竞争", "accepted": "通过", "board": "排行榜",
           "report": "完整报告"},
}  # fmt: skip


class Visit:
    """A page of the workbench, with the code editor or with the text area that stands in for it."""

    def __init__(self, page: Page, words: dict[str, str], editor: bool):
        self.page, self.words, self.editor = page, words, editor
        self.field = page.locator("#editor .cm-content" if editor else "#source")
        self.results, self.status = page.locator("#results"), page.locator("#judging-status")

    def ready(self) -> None:
        expect(self.page.locator("#workbench[data-ready]")).to_have_count(1)
        expect(self.field).to_be_visible()

    def write(self, text: str) -> None:
        """In the place of all that is there, by the keyboard."""
        self.field.focus()
        for key in ("Control+A", "Delete"):
            self.page.keyboard.press(key)
        self.page.keyboard.insert_text(text)

    def drafted(self, line: str) -> None:
        """A line of what was written before is there."""
        if self.editor:
            expect(self.field).to_contain_text(line)
        else:
            expect(self.field).to_have_value(re.compile(re.escape(line)))

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=self.words[name], exact=True).click()

    def finished(self, verdict: str) -> None:
        expect(self.status).to_contain_text(self.words[verdict])


expect.set_options(timeout=_PATIENCE)


def solution(starter: str, barrier: str) -> str:
    """The starter with its three gaps filled; without the barrier it races."""
    text = starter.replace("float largest = -INFINITY;", "float largest = -INFINITY;" + _BODY.replace("{barrier}", barrier))
    text = text.replace("float total = 0.0f, sum = 0.0f;", "float total = 0.0f, sum = 0.0f;" + _WALK)
    text = text.replace("lse[row] = largest;", "lse[row] = total > 0.0f ? largest + logf(total) : -INFINITY;")
    assert text.count("weights") > 4 and "logf(total) :" in text
    return text


@pytest.mark.parametrize(("language", "scheme", "width", "editor"), [
    ("en", "light", 1440, True), ("zh", "dark", 390, False),
])  # fmt: skip
def test_from_the_first_page_to_the_leaderboard(
    browser: Browser, language: str, scheme: str, width: int, editor: bool, tmp_path: Path
) -> None:
    """With the editor the cache is everybody's, where its bundle is built once."""
    if editor:
        build.bundle(build=True)
    context = browser.new_context(
        locale={"en": "en-US", "zh": "zh-CN"}[language], color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": 900},
    )  # fmt: skip
    context.set_default_timeout(_PATIENCE)
    watched = Watched(context)
    with started(tmp_path, "--jobs", "1", cache=None if editor else tmp_path / "cache") as process:
        _walk(Visit(context.new_page(), _WORDS[language], editor), process.url)
    assert (watched.left_home, watched.complaints) == ([], [])
    context.close()


def _walk(visit: Visit, url: str) -> None:
    page = visit.page
    page.goto(url)
    page.locator("main a[href^='/problems/split_k_merge']").first.click()
    expect(page.locator("math").first).to_be_visible()
    visit.ready()
    racing = solution(STARTER.read_text(), "")
    visit.write(racing)
    visit.press("run")
    visit.finished("race")
    expect(visit.results).to_contain_text("Race on shared weights")
    line = racing[: racing.index("largest = fmaxf(largest, weights[s])")].count("\n") + 1
    expect(visit.results.get_by_role("button", name=re.compile(rf"\b{line}\b")).first).to_be_visible()
    expect(visit.results).to_contain_text("2 splits")

    page.get_by_role("link", name=visit.words["report"]).click()
    expect(page.locator(f"#L{line}")).to_be_visible()
    expect(page.locator("svg").first).to_be_visible()
    page.go_back()
    visit.ready()
    visit.drafted("__shared__ float weights[128];")

    visit.write(solution(STARTER.read_text(), "__syncthreads();"))
    visit.press("submit")
    visit.finished("accepted")
    page.get_by_role("link", name=visit.words["board"]).first.click()
    expect(page.get_by_role("link", name="split_k_merge.cu").first).to_be_visible()
