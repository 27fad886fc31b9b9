"""Pages of submissions: while they wait, what came of them and why, the history, two of them compared."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path

import pytest

from harness.results import CaseResult
from harness.verdict import Verdict
from tests import api_kit, sample_reports, site_kit
from tests.site_kit import Filled
from web.pages import comparison, submission_page
from web.store import judgings, submissions
from web.store.records import Kind, Request, State, StoredEvent


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return site_kit.filled(tmp_path_factory.mktemp("site"))


@pytest.fixture
def empty(tmp_path: Path) -> Filled:
    site = api_kit.site(tmp_path)
    return Filled(site, *site.browser(), {})


def test_a_race_shows_both_lines_and_both_threads(filled: Filled) -> None:
    page = filled.page(f"/submissions/{filled.ids['race']}")
    why = page[page.index('class="finding bad-side"') :].partition("</article>")[0]
    assert "data race" in why and "no __syncthreads() between the two" in why
    first, second = why.split('class="side">')[1:3]
    assert 'href="#L21">race.cu:21</a>' in first and "kernel merge" in first and "thread (" in first
    assert 'href="#L16">race.cu:16</a>' in second and "written by" in second and "kernel merge" in second
    assert "weights" in first and "expf" in second  # the code of each
    assert '<svg viewBox' in why and "thread-one" in why and "thread-two" in why
    source = page[page.index('id="source"') :]
    assert re.search(r'class="line marked error" id="L21"', source)
    assert re.search(r'class="line marked other" id="L16"', source)


def test_a_wrong_answer_shows_where_it_is_wrong(filled: Filled) -> None:
    page = filled.page(f"/submissions/{filled.ids['wrong']}")
    assert "wrong answer" in page and "elements of out differ from the float64 reference" in page
    assert "heat-" in page and "up to 1000 \N{MULTIPLICATION SIGN} the limit" in page and 'href="/static/charts.css"' in page


def test_what_the_warps_did_is_drawn(filled: Filled) -> None:
    page = filled.page(f"/submissions/{filled.ids['good']}")
    warps = page[page.index('id="warps"') :].partition("</section>")[0]
    assert "sectors" in warps and warps.count("<svg") >= 4 and re.search(r'<a href="#L\d+">line \d+', warps)


def test_a_compile_error_is_marked_and_a_hostile_name_is_harmless(filled: Filled) -> None:
    page = filled.page(f"/submissions/{filled.ids['broken']}")
    assert "compile error" in page and "What the compiler said" in page
    assert re.search(r'class="line marked error" id="L\d+"', page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x202e.cu" in page
    assert "<script>alert" not in page and "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


def test_a_compile_error_shows_each_error_with_its_code(filled: Filled) -> None:
    page = filled.page(f"/submissions/{filled.ids['broken']}")
    why = page[page.index('id="findings"') :].partition("</section>")[0]
    assert why.count("<article") == 1 and "<h3>compile error</h3>" in why and "note" not in why
    assert why.count('href="#L7">') == 2 and why.count("line marked error") == 2
    assert "this declaration has no storage class or type specifier" in why and "expected a &#34;;&#34;" in why
    assert "was declared but never referenced" not in why  # a warning is not why


def test_the_judge_s_own_words_stand_for_the_compiler_s(empty: Filled) -> None:
    name = site_kit.judged(empty.site.engine, f"#include <torch/x.h>\n{site_kit.text_of('good.cu')}", "torch.cu")
    page = empty.page(f"/submissions/{name}")
    why = page[page.index('id="findings"') :].partition("</section>")[0]
    assert "<h3>compile error</h3>" in why and "there is no header torch/x.h" in why
    assert "cannot open source file" not in why and why.count("line marked error") == 1
    assert re.search(r'class="line marked error" id="L1"', page)


def test_a_file_for_another_track_is_shown_the_way_there(empty: Filled) -> None:
    head, solve, rest = site_kit.text_of("good.cu").partition("solve(const float*")
    assert solve
    half = f"#include <cuda_fp16.h>\n{head}solve(const __half*{rest.replace('float* out', '__half* out', 1)}"
    name = site_kit.judged(empty.site.engine, half, "half.cu", "float32")
    page = empty.page(f"/submissions/{name}")
    address = f"/problems/split_k_merge?dtype=float16&variant=base&source={name}"
    assert "is written for another track, float16." in page and address in html.unescape(page)
    assert "--dtype float16" not in page
    advice = empty.browser.get(f"/submissions/{name}/advice").json()
    assert advice["fits"] == "float16" and advice["url"] == address and "--dtype float16" in advice["instead_of"]


def test_a_file_without_solve_is_told_so_once(empty: Filled) -> None:
    name = site_kit.judged(empty.site.engine, "int main() { return 0; }\n", "main.cu", "float32")
    page = empty.page(f"/submissions/{name}")
    assert page.count("defines no host entry point") == 1 and "judge.py show" not in page
    assert 'href="/problems/split_k_merge?dtype=float32&amp;variant=base#signature"' in page
    assert empty.browser.get(f"/submissions/{name}/advice").json()["fits"] == ""


def test_there_is_no_advice_where_the_track_is_right(filled: Filled) -> None:
    for name in ("good", "broken", "queued"):
        assert filled.browser.get(f"/submissions/{filled.ids[name]}/advice").json() is None


@pytest.mark.parametrize("path", ["/submissions/{hostile}", "/submissions/{hostile}/compare/{broken}", "/submissions", "/"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_that_was_sent_becomes_part_of_a_page(filled: Filled, path: str, language: str) -> None:
    page = filled.page(path.format(**filled.ids), lang=language)
    assert "<script>alert" not in page and "\N{RIGHT-TO-LEFT OVERRIDE}" not in page


def test_measured_and_modelled_are_told_apart(filled: Filled) -> None:
    measured = filled.page(f"/submissions/{filled.ids['measured']}")
    assert "Modelled." not in measured and "median time" in measured and "NOISY" in measured
    assert "as fast" in measured and 'id="roofline"' in measured and 'id="bars"' in measured
    modelled = filled.page(f"/submissions/{filled.ids['modelled']}")
    assert "<strong>Modelled.</strong>" in modelled and "modelled time" in modelled and "modelled score" in modelled
    assert "100 is the speed of light" in measured and "The score is that time over the kernel" in measured
    assert "Sizes of benchmarks were cut" in modelled and "Sizes of benchmarks were cut" not in measured
    assert "100 is no byte moved beyond the fewest" in modelled and "the fewest bytes over those moved" in modelled


def test_what_was_not_drawn_or_chosen_is_not_told(empty: Filled) -> None:
    report = dataclasses.replace(sample_reports.failing(), cases=(), seed=0, variant="base")
    name = site_kit.written(empty.site.engine, "early.cu", sample_reports.SOURCE, report)
    page = empty.page(f"/submissions/{name}")
    assert "<dt>seed</dt>" not in page and "--seed" not in page and ", base" not in page


def test_every_part_of_a_report_is_shown(empty: Filled) -> None:
    report = dataclasses.replace(
        sample_reports.failing(), resources=(sample_reports.resources(),), score_note="a benchmark is not accepted"
    )
    printing = dataclasses.replace(report.cases[0], stdout="hello </pre>\n" * 500, traffic=sample_reports.traffic())
    report = dataclasses.replace(report, cases=(printing, *report.cases[1:]))
    name = site_kit.written(empty.site.engine, "whole.cu", sample_reports.SOURCE, report)
    for language in ("en", "zh"):
        page = empty.page(f"/submissions/{name}", lang=language)
        assert "hello &lt;/pre&gt;" in page and "a benchmark is not accepted" in page
        assert all(use.kernel.readable in page for use in report.resources)
    assert "100 more lines" in empty.page(f"/submissions/{name}")


def test_the_command_repeats_the_judging(filled: Filled) -> None:
    found = submissions.get(filled.site.engine, filled.ids["race"])
    assert found
    command = "python judge.py --cases samples --dtype float32 --device cpu --seed 7 -- split_k_merge race.cu"
    assert submission_page.repeat(found) == command
    dashed = dataclasses.replace(found, name="-rf $HOME.cu", kind=Kind.SUBMIT, variant="lse")
    assert submission_page.repeat(dashed).endswith("-- split_k_merge '-rf $HOME.cu'")
    assert "--cases benchmarks" in submission_page.repeat(dashed) and "--variant lse" in submission_page.repeat(dashed)


def test_a_waiting_submission_tells_how_far_it_is_without_scripts(empty: Filled) -> None:
    engine = empty.site.engine
    sent, _ = submissions.add(engine, Request("split_k_merge", "x\n", Kind.RUN, "mine.cu"), 9)
    page = empty.page(f"/submissions/{sent.id}")
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page and "place 1" in page
    claim = judgings.claim(engine, "test")
    assert claim
    judgings.add_events(
        engine, claim,
        [
            ("compiled", {"ok": True, "seconds": 0.5, "log": "", "diagnostics": []}),
            ("case_started", {"name": "one", "number": 1, "total": 3}),
            ("case_finished", {"name": "one", "number": 1, "total": 3, "verdict": "accepted", "seconds": 0.1}),
        ],
    )  # fmt: skip
    page = empty.page(f"/submissions/{sent.id}", lang="zh")
    assert "3 个用例中已完成 1 个" in page and "通过" in page and "编译完成" in page


def test_a_judging_that_began_anew_forgets_what_it_had() -> None:
    case = {"name": "one", "total": 3}
    before = [StoredEvent(1, "queued", {}), StoredEvent(2, "case_started", case), StoredEvent(3, "case_finished", case)]
    restarted = StoredEvent(4, "restarted", {"why": "a worker died"})
    found = submission_page.Progress.of([*before, restarted])
    assert (found.steps, found.cases, found.total, found.seq) == ((restarted,), (), 0, 4)
    assert submission_page.Progress.of(before).total == 3


def test_cancelling_and_judging_again(empty: Filled) -> None:
    sent = empty.post("/submissions", problem="split_k_merge", source="// mine\r\nx\r\n", kind="run", name="mine.cu")
    where = sent.headers["location"]
    assert sent.status_code == 303
    first = submissions.get(empty.site.engine, where.rpartition("/")[2])
    assert first and submissions.source(empty.site.engine, first.id) == "// mine\nx\n"  # a form sends \r\n
    assert empty.post(f"{where}/cancel").headers["location"] == where
    page = empty.page(where)
    assert "cancelled" in page and "http-equiv" not in page and "/cancel" not in page
    again = empty.post("/submissions", again=first.id).headers["location"].rpartition("/")[2]
    second = submissions.get(empty.site.engine, again)
    assert second and second.id != first.id and second.state is State.QUEUED
    assert (second.name, second.kind, second.problem) == (first.name, first.kind, first.problem)


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"source": ""}, 422, "empty"),
        ({"source": "x", "problem": "none"}, 404, "no such problem"),
        ({"source": "x", "dtype": "int4"}, 422, "no such dtype"),
        ({"source": "x" * 300_000}, 413, "262144 are allowed"),
        ({"again": "none"}, 404, "no such submission"),
    ],
)
def test_what_a_form_may_not_send(empty: Filled, fields: dict[str, str], status: int, words: str) -> None:
    answer = empty.post("/submissions", **({"problem": "split_k_merge"} | fields))
    assert answer.status_code == status and words in answer.text
    site_kit.check(answer.text)
    assert submissions.latest(empty.site.engine) == []


def test_a_full_queue_says_when_to_try_again(tmp_path: Path) -> None:
    site = api_kit.site(tmp_path, api_kit.Bounds(queued=0))
    browser = Filled(site, *site.browser(), {})
    answer = browser.post("/submissions", problem="split_k_merge", source="x", kind="run")
    assert answer.status_code == 503 and answer.headers["retry-after"] and "Not at the moment" in answer.text


def test_a_report_of_another_version_is_no_failure(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submissions, "report_json", lambda engine, name: '{"schema": 99}')
    page = filled.page(f"/submissions/{filled.ids['race']}")
    assert "written by another version" in page and "data race" in page and "http-equiv" not in page


def test_the_history_is_filtered_and_paged(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    page = filled.page("/submissions", kind="submit")
    assert filled.ids["measured"] in page and filled.ids["race"] not in page
    assert "There are no such submissions." in filled.page("/submissions", problem="paged_decode")
    monkeypatch.setattr("web.pages.history.PAGE", 3)
    seen: list[str] = []
    path: str | None = "/submissions?kind=run"
    while path:
        page = filled.page(path)
        seen += re.findall(r'<th scope="row" class="across words"><a href="/submissions/([\w-]+)"', page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        path = older[1].replace("&amp;", "&") if older else None
    runs = submissions.latest(filled.site.engine, kind=Kind.RUN)
    assert seen == [each.id for each in runs] and len(seen) == 5


def test_two_are_chosen_and_compared(filled: Filled) -> None:
    before, after = filled.ids["race"], filled.ids["good"]
    answer = filled.browser.get("/submissions/compare", params={"before": before, "after": after}, follow_redirects=False)
    assert answer.headers["location"] == f"/submissions/{after}/compare/{before}"
    page = filled.page(answer.headers["location"])
    assert "race.cu" in page and "good.cu" in page and 'class="line removed"' in page
    row = page[page.index('<tr class="changed"><th scope="row">two_splits') :].partition("</tr>")[0]
    assert row.index("data race") < row.index("accepted")
    assert "partial_out" in page[page.index('id="traffic"') :]
    lost = filled.browser.get("/submissions/compare?before=x&after=y", follow_redirects=False)
    assert lost.headers["location"] == "/submissions"


def test_scores_of_two_kinds_are_not_compared_in_silence(filled: Filled) -> None:
    page = filled.page(f"/submissions/{filled.ids['measured']}/compare/{filled.ids['modelled']}")
    assert "These scores do not compare" in page
    waiting = filled.page(f"/submissions/{filled.ids['measured']}/compare/{filled.ids['queued']}")
    assert "These scores do not compare" not in waiting and "not run" in waiting


def test_cases_of_both_sides_are_paired() -> None:
    good, bad = (CaseResult("one", verdict) for verdict in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER))
    sides = [dataclasses.replace(sample_reports.failing(), cases=cases) for cases in ((good,), (bad, CaseResult("two", Verdict.ACCEPTED)))]
    found = comparison.cases(*sides)
    assert [(change.name, change.changed) for change in found] == [("one", True), ("two", True)]
    assert not comparison.cases(sides[0], sides[0])[0].changed
    assert comparison.cases(None, sides[0])[0].before is None and comparison.traffic(None, None) == ("", [])


def test_the_editor_goes_on_under_the_name_of_the_submission(filled: Filled) -> None:
    for name, shown in (("good", "good.cu"), ("queued", "queued.cu")):
        page = filled.page("/problems/split_k_merge", source=filled.ids[name])
        assert f'"text_name": "{shown}"' in page and f'value="{shown}"' in page
    answer = filled.post("/submissions", problem="split_k_merge", source="int x;", kind="run", name="second try")
    assert "second try.cu" in filled.page(answer.headers["location"])
