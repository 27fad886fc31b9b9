"""The site's frame, the list of problems and the page of a problem, as a browser without scripts gets them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import problem as problems
from tests import api_kit, site_kit
from tests.site_kit import Filled
from web.pages import home, preferences, problem_page, rungs
from web.store.records import Progress


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return site_kit.filled(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A site that nothing was submitted to."""
    site = api_kit.site(tmp_path_factory.mktemp("fresh"))
    return Filled(site, *site.browser(), {})


@pytest.fixture
def own(tmp_path: Path) -> Filled:
    """The same for one test, which may change it."""
    site = api_kit.site(tmp_path)
    return Filled(site, *site.browser(), {})


def test_a_newcomer_is_told_where_to_begin(fresh: Filled) -> None:
    page = fresh.page("/")
    assert "Start here" in page and 'href="/problems/split_k_merge">Begin with' in page
    assert all(f'href="/problems/{problem.id}"' in page for problem in problems.list_problems())


def test_the_list_shows_progress_and_the_last_submissions(filled: Filled) -> None:
    page = filled.page("/")
    assert "Start here" not in page and "Last submissions" in page
    row = page[page.index('href="/problems/split_k_merge"') :]
    row = row[: row.index("</tr>")]
    assert "solved" in row and "not tried" not in row and "2 submissions" in row  # runs of samples do not count
    assert f'href="/submissions/{filled.ids["queued"]}"' in page and filled.ids["race"] not in page  # the last six


def test_progress_is_told_in_three_states() -> None:
    progress = {"paged_decode": Progress("paged_decode", 2, 0), "split_k_merge": Progress("split_k_merge", 3, 1)}
    found = {entry.problem.id: entry.state for entry in home.entries_of(progress)}
    assert found == {"split_k_merge": "solved", "paged_decode": "tried", "flash_attention": "new"}
    assert list(found) == ["split_k_merge", "paged_decode", "flash_attention"]  # easy, medium, hard


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("difficulty=easy", {"split_k_merge"}),
        ("state=solved", {"split_k_merge"}),
        ("state=new", {"flash_attention", "paged_decode"}),
        ("tag=paging", {"paged_decode"}),
        ("tag=paging&difficulty=easy", set()),
        ("tag=no+such&difficulty=&state=x", {"split_k_merge", "flash_attention", "paged_decode"}),
    ],
)
def test_the_list_is_filtered_by_its_address(filled: Filled, query: str, found: set[str]) -> None:
    page = filled.page(f"/?{query}")
    table = page[page.find('class="figures stack problems"') :].partition("</table>")[0]
    assert set(re.findall(r'class="title" href="/problems/(\w+)"', table)) == found
    assert ("No problem has all of that" in page) == (not found)


@pytest.mark.parametrize("problem", problems.list_problems(), ids=lambda problem: problem.id)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_problem_in_every_track(filled: Filled, problem: problems.Problem, language: str) -> None:
    for track in problem.tracks():
        page = filled.page(f"/problems/{track.id}", lang=language, dtype=track.dtype, variant=track.variant)
        assert all(test.name in page for test in track.tests)
        assert all(benchmark.name in page for benchmark in track.benchmarks)
        assert "<math" in page and f'name="dtype" value="{track.dtype}"' in page


def test_a_problem_page_says_how_it_is_judged(filled: Filled) -> None:
    page = filled.page("/problems/paged_decode", dtype="float16")
    assert "20 s" in page and "4096 MiB" in page
    assert "0.006" in page and "0.00085" in page and "0.00043" in page  # harness.check.FLOORS
    assert page.count('<span class="tag">sample</span>') == len(problems.load("paged_decode").track("float16").samples)
    assert "NVIDIA H100" in page and "321 µs" in page  # 1.07 GB at 3.35 TB/s
    assert "from 25" in page  # the tiers of float16


def test_the_speed_of_light_is_that_of_the_card_that_is_asked_for(filled: Filled) -> None:
    assert "448 µs" in filled.page("/problems/paged_decode", card="H200")
    assert "NVIDIA H100" in filled.page("/problems/paged_decode", card="Voodoo 2")


def test_the_signature_has_shapes_and_is_a_declaration() -> None:
    text = problem_page.signature(problems.load("split_k_merge"))
    assert re.search(r"const float\* m, +// in \[num_splits, rows\]\n", text)
    bare = " ".join(re.sub(r"//.*", "", text).split())
    assert bare.replace("( ", "(").replace(" )", ")") == problems.load("split_k_merge").declaration()


def test_a_track_without_a_starter_begins_with_its_signature() -> None:
    track = problems.load("paged_decode").track("bfloat16", "lse")
    text = problem_page.starter(track)
    assert "float* lse" in text and "// your code" in text and text.count("{") == text.count("}") == 1


def test_the_editor_can_begin_with_a_submission(filled: Filled) -> None:
    page = filled.page("/problems/split_k_merge", source=filled.ids["race"])
    assert "// Mistake: no barrier between writing the weights" in page.partition("<textarea")[2]
    assert "TODO 1" in filled.page("/problems/split_k_merge", source="none").partition("<textarea")[2]


def test_there_is_a_choice_of_devices_where_a_card_was_found(own: Filled) -> None:
    assert 'id="device"' not in own.page("/problems/split_k_merge")
    own.site.app.state.queue = api_kit.StateOfQueue(card=True)
    assert '<option value="gpu">' in own.page("/problems/split_k_merge")


def test_a_start_is_no_alarm(own: Filled) -> None:
    own.site.app.state.queue = api_kit.StateOfQueue(starting=True)
    page = own.page("/")
    assert 'class="starting"' in page and "The judge is starting." in page and 'class="banner"' not in page
    own.site.app.state.queue = api_kit.StateOfQueue("the <scheduler> is gone")
    page = own.page("/", lang="zh")
    assert 'class="banner"' in page and "目前没有在评测。" in page and "the &lt;scheduler&gt; is gone" in page


def test_what_is_not_there_is_told_in_a_page(filled: Filled) -> None:
    for path, status, words in (
        ("/nothing", 404, "There is nothing here"),
        ("/problems/none", 404, "Problems: flash_attention, paged_decode, split_k_merge"),
        ("/problems/split_k_merge?dtype=int4", 422, "It has: float32, float16, bfloat16"),
        ("/submissions/none", 404, "There is no such submission"),
        ("/problems/split_k_merge/ladder?rung=77", 404, "Rungs: 01, 02, 03"),
    ):
        page = filled.page(path, status)
        assert words in page and 'href="/"' in page
    assert "这里什么也没有" in filled.page("/nothing", 404, lang="zh")
    refused = filled.browser.delete("/submissions", headers={"X-Judge-Client": "test"})
    assert refused.status_code == 405 and "This address does not take that" in refused.text


def test_a_failure_of_the_site_is_a_page_with_a_number(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "ladder", lambda problem: 1 // 0)
    answer = filled.browser.get("/problems/split_k_merge/ladder")
    assert answer.status_code == 500 and "The site made a mistake" in answer.text
    assert re.search(r"error [0-9a-f]{8}", answer.text) and "ZeroDivisionError" not in answer.text


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-GB,en;q=0.9,zh;q=0.8", "en"),
        ("fr, zh-TW;q=0.5", "zh"),
        ("zh;q=0", "en"),
        ("de-DE", "en"),
        ("zh;q=banana, en;q=0.1", "en"),
        ("," * 5000 + "zh", "en"),
    ],
)
def test_the_browser_s_language(filled: Filled, header: str, language: str) -> None:
    answer = filled.browser.get("/", headers={"Accept-Language": header})
    assert f'<html lang="{preferences.TAGS[language]}"' in answer.text
    assert answer.headers["content-language"] == preferences.TAGS[language]


def test_a_choice_is_kept_and_the_address_comes_first(tmp_path: Path) -> None:
    site = api_kit.site(tmp_path)
    browser = Filled(site, *site.browser(), {})
    answer = browser.post("/preferences", lang="zh", back="/problems/paged_decode?dtype=float16")
    assert answer.status_code == 303 and answer.headers["location"] == "/problems/paged_decode?dtype=float16"
    browser.post("/preferences", theme="dark")
    page = browser.page("/")
    assert 'lang="zh-Hans" data-theme="dark"' in page and "题目" in page
    assert '<html lang="en"' in browser.page("/", lang="en")
    browser.post("/preferences", lang="tlh", theme="x")
    assert 'lang="zh-Hans" data-theme="dark"' in browser.page("/")


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example", "/a\nb", "x", "/%"])
def test_a_choice_leads_nowhere_else(filled: Filled, back: str) -> None:
    where = filled.post("/preferences", back=back).headers["location"]
    assert where in ("/", "/%")


def test_a_form_without_the_token_changes_nothing(filled: Filled) -> None:
    answer = filled.browser.post("/preferences", data={"lang": "zh"}, follow_redirects=False)
    assert answer.status_code == 403 and "not accepted" in answer.text


def test_pages_are_small(filled: Filled) -> None:
    """The first page with all that it loads; 300 KB are allowed. A problem, without the editor's bundle."""
    static = Path(problem_page.__file__).parent.parent / "static"
    for path in ("/", "/problems/paged_decode"):
        page = filled.page(path)
        files = re.findall(r'(?:href|src)="/static/([\w.]+)"', page)
        scripts = sum(file.stat().st_size for file in static.glob("*.js")) if "workbench.js" in files else 0
        assert len(page.encode()) + scripts + sum((static / name).stat().st_size for name in set(files)) < 300_000


def test_both_dark_themes_are_one_and_paper_stays_white() -> None:
    """A chosen theme and that of the system say the same; neither holds in print."""
    css = (Path(problem_page.__file__).parent.parent / "static" / "site.css").read_text()
    blocks = re.findall(r'@media screen[^{]*\{\s*:root\[data-theme="(dark|auto)"\] \{([^}]*)\}', css)
    assert [name for name, _ in blocks] == ["dark", "auto"]
    chosen, system = (" ".join(block.split()) for _, block in blocks)
    assert chosen == system and "--paper" in chosen


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(theme: str) -> None:
    """At least 4.5:1, for all colours of words on all that they are written on (WCAG 2, success criterion 1.4.3)."""
    css = (Path(problem_page.__file__).parent.parent / "static" / "site.css").read_text()
    where = r":root \{" if theme == "light" else r':root\[data-theme="dark"\] \{'
    found = re.search(where + r"([^}]*)\}", css)
    assert found
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", found[1]))
    pairs = [(word, back) for word in ("ink", "muted", "accent", "good", "warn", "bad") for back in ("paper", "panel")]
    pairs += [("accent", "accent-paper"), ("ink", "warn-paper"), ("ink", "bad-paper"), ("on-accent", "accent")]
    assert all(contrast(colours[word], colours[back]) >= 4.5 for word, back in pairs)


def contrast(first: str, second: str) -> float:
    """Of two colours, #rrggbb, as WCAG 2 defines it."""
    light, dark = sorted(map(_luminance, (first, second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
