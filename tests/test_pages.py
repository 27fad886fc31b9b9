"""The site's frame, the list of problems and the page of a problem, as a browser without scripts gets them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import problem as problems
from tests import api_kit, site_kit
from tests.site_kit import Filled
from web.pages import preferences, problem_page, rungs


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return site_kit.filled(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A site that nothing was submitted to."""
    site = api_kit.site(tmp_path_factory.mktemp("fresh"))
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
