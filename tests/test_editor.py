"""The problem page's workbench in a real browser, in front of a judge that answers as each test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.browser import Watched
from tests.workbench_kit import MAX_BYTES, TOKEN, FakeJudge, finding, serving
from web.editor import build

PAGE = "/problems/flash_attention"
RACE = finding("data_race", 9, message="key_tile raced.", other={"line": 15, "file": "", "write": False, "missing": False})
DIAGNOSTIC: dict[str, Any] = {"line": 4, "column": 1, "severity": "error", "message": 'identifier "foo" is undefined'}


@pytest.fixture(scope="module")
def bundle() -> Path:
    """Built once into this user's cache; where the registry cannot be reached the tests fail and say so."""
    built = build.bundle(build=True)
    assert built
    return built


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
    watched = Watched(context)

    def open_page(path: str = PAGE) -> Page:
        page = context.new_page()
        page.goto(judge.url + path)
        return ready(page)

    yield open_page
    # The browser itself reports each answer that is an error.
    assert [words for words in watched.complaints if "Failed to load resource:" not in words] == []
    assert watched.left_home == []


@pytest.fixture(params=["editor", "text area"])
def place(request: pytest.FixtureRequest, judge: FakeJudge) -> str:
    """Runs a test with the editor and with what stands in for it."""
    if request.param == "text area":
        judge.bundle = None
    return str(request.param)


def ready(page: Page, again: bool = False) -> Page:
    """The page when its scripts are through."""
    if again:
        page.reload()
    expect(page.locator("#workbench[data-ready]")).to_be_visible()
    return page


def typing_place(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Your kernel, CUDA C++")


def text_of(page: Page) -> str:
    """What the editor shows; all of it where it is short."""
    area = page.locator("#source")
    if area.is_visible():
        return area.input_value()
    return "\n".join(line.rstrip("\n") for line in page.locator(".cm-line").all_inner_texts())


def write(page: Page, text: str) -> None:
    """In place of all that is there."""
    typing_place(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
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


def case(judge: FakeJudge, name: str, verdict: str, **values: Any) -> None:
    usual: dict[str, Any] = {"number": 1, "total": 1, "seconds": 0.01, "ratio": None, "stdout": "", "findings": []}
    judge.emit("case_finished", **usual | values, name=name, verdict=verdict)


def accepted(judge: FakeJudge) -> None:
    judge.emit("finished", verdict="accepted", passed=1, total=1, seconds=1.5, score=None, modelled=True, tier="",
               findings=[])  # fmt: skip


def test_a_run_is_shown_case_by_case(opened: Callable[..., Page], judge: FakeJudge, place: str) -> None:
    page = opened()
    write(page, "// mine\n")
    run(page)
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    judge.emit("compiling", seed=1)
    expect(status(page)).to_have_text("Compiling…")
    judge.emit("compiled", ok=True, seconds=0.5, log="", diagnostics=[])
    judge.emit("case_started", name="one_token", number=1, total=2)
    row = page.get_by_role("row", name="one_token")
    expect(row.get_by_role("cell").first).to_have_text("… running")
    case(judge, "one_token", "accepted", ratio=0.25, stdout="m = 1 <b>\n")
    expect(row.get_by_role("cell")).to_have_text(["✓ accepted", "0.250", "10 ms"])
    expect(page.get_by_label("What case one_token printed")).to_have_text("m = 1 <b>")
    case(judge, "two", "wrong_answer", ratio="NaN")
    judge.emit("finished", verdict="wrong_answer", passed=1, total=2, seconds=1.5, score=None, modelled=True, tier="",
               findings=[])  # fmt: skip
    expect(status(page)).to_have_text("Finished: wrong answer. 1 of 2 cases passed in 1.5 s")
    expect(page.get_by_role("row", name="two").get_by_role("cell")).to_have_text(["✗ wrong answer", "NaN", "10 ms"])
    expect(page.get_by_role("link", name="The whole report")).to_have_attribute("href", "/submissions/s1")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    assert judge.bodies == [
        {"problem": "flash_attention", "name": "flash_attention.cu", "dtype": "float32", "variant": "base",
         "kind": "run", "source": "// mine\n", "device": "auto"},
    ]  # fmt: skip
    assert judge.headers[0]["x-csrf-token"] == TOKEN
    assert len(judge.headers[0]["idempotency-key"]) == 32


def test_submit_shows_benchmarks_and_a_score(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    page.locator("#device").select_option("GPU")
    page.get_by_role("button", name="Submit").click()
    expect(status(page)).to_have_text("Sending…")
    judge.emit("benchmark_started", name="long", number=1, total=1)
    expect(status(page)).to_have_text("Running 1 benchmarks…")
    judge.emit("benchmark_finished", name="long", number=1, total=1, verdict="accepted", score=43.21, seconds=2.55e-5,
               modelled=True)  # fmt: skip
    judge.emit("finished", verdict="accepted", passed=9, total=9, seconds=3.0, score=43.21, modelled=True, tier="silver",
               findings=[])  # fmt: skip
    cells = page.get_by_role("row", name="long").get_by_role("cell")
    expect(cells).to_have_text(["✓ accepted", "43.2 (modelled)", "25.5 µs"])
    expect(status(page)).to_have_text(
        "Finished: accepted. 9 of 9 cases passed in 3.0 s; score 43.2 (modelled) silver"
    )
    assert (judge.bodies[0]["kind"], judge.bodies[0]["device"]) == ("submit", "gpu")


def test_a_draft_survives_a_reload_and_can_be_given_up(opened: Callable[..., Page], judge: FakeJudge, place: str) -> None:
    page = opened()
    write(page, "int draft;")
    ready(page, again=True)
    expect(page.locator("#draft-notice")).to_contain_text("Your draft of")
    assert text_of(page) == "int draft;"
    page.locator("#draft-notice").get_by_role("button", name="Reset to the starter").click()
    assert text_of(page).startswith("// float32, base")
    page.get_by_role("button", name="Bring my text back").click()
    assert text_of(page) == "int draft;"
    page.get_by_role("button", name="Reset", exact=True).click()
    ready(page, again=True)
    expect(page.locator("#draft-notice")).to_be_hidden()
    assert text_of(page).startswith("// float32, base")


def test_what_is_typed_before_the_scripts_are_there_stays(context: BrowserContext, judge: FakeJudge, place: str) -> None:
    held: list[Route] = []
    context.route("**/static/workbench.js", lambda route: held.append(route))
    page = context.new_page()
    page.goto(judge.url + PAGE, wait_until="commit")
    page.locator("#source").fill("int typed_early;")
    assert len(held) == 1
    held[0].continue_()
    ready(page)
    assert text_of(page) == "int typed_early;"


def test_one_goes_on_with_an_earlier_submission(opened: Callable[..., Page], place: str) -> None:
    page = opened()
    write(page, "int draft;")
    page.goto(page.url + "?source=int earlier;")
    ready(page)
    assert text_of(page) == "int earlier;"
    page.get_by_role("button", name="Bring my text back").click()
    assert text_of(page) == "int draft;"
    ready(page, again=True)
    assert text_of(page) == "int draft;"


def test_each_track_has_a_draft_of_its_own(opened: Callable[..., Page], place: str) -> None:
    page = opened()
    write(page, "int of_float32;")
    page.goto(page.url + "?dtype=bfloat16")
    ready(page)
    assert text_of(page).startswith("// bfloat16, base")
    page.go_back()
    ready(page)
    assert text_of(page) == "int of_float32;"


def test_the_newest_text_of_two_tabs_wins(opened: Callable[..., Page], place: str) -> None:
    first, second = opened(), opened()
    write(first, "int first;")
    expect(second.locator("#draft-notice")).to_contain_text("Another tab")
    assert text_of(second) == "int first;"
    write(second, "int second;")
    expect(first.locator("#draft-notice")).to_contain_text("Another tab")
    assert text_of(first) == "int second;"
    ready(first, again=True)
    assert text_of(first) == "int second;"


def test_compile_errors_are_marked_until_their_line_is_edited(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    write(page, "int a;\n\n\nfoo();\nbar();\n")
    run(page)
    second = DIAGNOSTIC | {"line": 5, "message": "bar, too"}
    log = "my.cu(4): error: foo"
    judge.emit("compiled", ok=False, seconds=0.5, log=log, diagnostics=[DIAGNOSTIC, second])
    expect(squiggles(page)).to_have_text(["foo", "bar"])
    expect(page.locator(".cm-lint-marker-error")).to_have_count(2)
    again = finding("note", 0, message=f"my.cu(4): error: {DIAGNOSTIC['message']}")
    advice = finding("note", 1, message="solve() takes other parameters.", kernel="", block=None, thread=None)
    judge.emit("finished", verdict="compile_error", passed=0, total=0, seconds=0.5, score=None, modelled=True, tier="",
               findings=[again, advice])  # fmt: skip
    expect(status(page)).to_have_text("Finished: compile error.")
    items = page.locator("#results li")
    expect(items).to_have_text([
        f"compile error line 4{DIAGNOSTIC['message']}foo();", "compile error line 5bar, toobar();",
        "compile error line 1solve() takes other parameters.",
    ])  # fmt: skip
    expect(squiggles(page)).to_have_text(["int a;", "foo", "bar"])
    page.get_by_role("button", name="line 4").click()  # the cursor is there now
    page.keyboard.type("a")
    expect(squiggles(page)).to_have_text(["int a;", "bar"])
    add_at_top(page, "// one line more\n")
    expect(squiggles(page)).to_have_text(["bar"])
    page.get_by_role("button", name="line 5").click()
    assert page.locator(".cm-activeLine").inner_text() == "bar();"


def test_a_finding_links_both_of_its_lines(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    lines = [f"int line{number};" for number in range(1, 31)]
    write(page, "\n".join(lines))
    run(page)
    case(judge, "one", "data_race", findings=[RACE])
    expect(squiggles(page)).to_have_text(["int line9;"])
    item = page.get_by_role("listitem").filter(has_text="key_tile raced.")
    expect(item).to_contain_text("data race line 9 and line 15")
    expect(item).to_contain_text("kernel attend<64>, block (0, 0, 0), thread (3, 0, 0)")
    item.get_by_role("button", name="and line 15").click()
    assert page.locator(".cm-activeLine").inner_text() == "int line15;"
    tooltip = page.locator(".cm-tooltip-lint")
    typing_place(page).press("Control+Home")
    page.locator(".cm-lint-marker-error").hover()
    expect(tooltip).to_contain_text("key_tile raced.")
    tooltip.get_by_role("button", name="and line 15").click()
    expect(page.locator(".cm-activeLine")).to_have_text("int line15;")


def test_marks_follow_edits_made_while_it_was_judged(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    write(page, "int a;\nint b;\nint c;\n")
    run(page)
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    add_at_top(page, "// new\n// lines\n")
    judge.emit("compiled", ok=False, seconds=0, log="", diagnostics=[DIAGNOSTIC | {"line": 2}])
    expect(squiggles(page)).to_have_text(["int"])
    page.get_by_role("button", name="line 2").click()
    assert page.locator(".cm-activeLine").inner_text() == "int b;"


def test_the_text_area_selects_the_line_of_a_finding(opened: Callable[..., Page], judge: FakeJudge) -> None:
    judge.bundle = None
    page = opened()
    lines = [f"int line{number};" for number in range(1, 200)]
    write(page, "\n".join(lines))
    run(page)
    case(judge, "one", "runtime_error", findings=[finding(line=150)])
    page.get_by_role("button", name="line 150").click()
    chosen = "([start, end]) => document.activeElement.value.slice(start, end)"
    ends = page.evaluate("[document.activeElement.selectionStart, document.activeElement.selectionEnd]")
    assert page.evaluate(chosen, ends) == "int line150;"
    assert page.evaluate("document.activeElement.scrollTop") > 1000


def test_text_area_indents_and_lets_the_keyboard_leave(opened: Callable[..., Page], judge: FakeJudge) -> None:
    judge.bundle = None
    page = opened()
    write(page, "")
    page.keyboard.press("Tab")
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    page.keyboard.type("b")
    assert text_of(page) == "  a\n  b"
    page.keyboard.press("Control+z")
    assert text_of(page) != "  a\n  b"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Run samples")).to_be_focused()


@pytest.mark.parametrize("vim", [False, True])
def test_everything_works_with_the_keyboard_alone(opened: Callable[..., Page], judge: FakeJudge, vim: bool) -> None:
    page = opened()
    if vim:
        page.get_by_label("Vim keys").check()
    page.get_by_role("link", name="Before").focus()
    page.keyboard.press("Tab")
    expect(typing_place(page)).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    accepted(judge)
    expect(status(page)).to_contain_text("Finished: accepted")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Run samples")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Cancel
    expect(status(page)).to_have_text("Cancelled.")
    assert [body["kind"] for body in judge.bodies] == ["run", "submit"]
    assert judge.cancelled == ["s2"]


def test_vim_keys_are_a_choice_that_is_kept(opened: Callable[..., Page]) -> None:
    page = opened()
    write(page, "first\nsecond")
    page.get_by_label("Vim keys").check()
    ready(page, again=True)
    expect(page.get_by_label("Vim keys")).to_be_checked()
    typing_place(page).focus()
    page.keyboard.type("ggdd")
    assert text_of(page) == "second"
    page.get_by_label("Vim keys").uncheck()
    typing_place(page).focus()
    page.keyboard.press("Control+Home")
    page.keyboard.type("dd")
    assert text_of(page) == "ddsecond"


def test_a_busy_workbench_starts_nothing_else(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    run(page)
    expect(page.get_by_role("button", name="Run samples")).to_have_attribute("aria-disabled", "true")
    page.get_by_role("button", name="Submit").focus()
    page.keyboard.press("Enter")
    judge.emit("compiling", seed=1)
    expect(status(page)).to_have_text("Compiling…")
    assert len(judge.bodies) == 1


@pytest.mark.parametrize(
    ("status_code", "headers", "words"),
    [
        (413, {}, "The source is too large: 256 KiB are allowed. Your draft is kept."),
        (429, {"Retry-After": "2"}, "That were many submissions in a short time. Your draft is kept; try again in 2 s."),
        (503, {"Retry-After": "2"}, "The queue is full. Your draft is kept; try again in 2 s."),
        (403, {}, "This page is too old for the server. Your draft is kept: reload the page and try again."),
        (422, {}, "The server refused it: because no_reason."),
    ],
)
def test_refusals_are_plain_sentences(
    opened: Callable[..., Page], judge: FakeJudge, status_code: int, headers: dict[str, str], words: str
) -> None:
    page = opened()
    page.clock.install()
    write(page, "int kept;")
    judge.refusal = (status_code, headers, "queue_full" if status_code == 503 else "no_reason")
    run(page)
    expect(status(page)).to_have_text(words)
    if headers:
        expect(page.locator("#judging-detail")).to_have_text("2 s")
        page.clock.run_for(1000)
        expect(page.locator("#judging-detail")).to_have_text("1 s")
        page.clock.run_for(1000)
        expect(status(page)).to_have_text("You can try again now.")
    assert text_of(page) == "int kept;"
    judge.refusal = None
    with page.expect_response("**/api/submissions"):
        run(page)
    assert judge.bodies[-1]["source"] == "int kept;"


def test_a_source_over_the_limit_is_not_sent(opened: Callable[..., Page], judge: FakeJudge) -> None:
    judge.bundle = None
    page = opened()
    page.locator("#source").fill("é" * (MAX_BYTES // 2 + 1))
    run(page)
    expect(status(page)).to_have_text("The source is too large: 256 KiB are allowed. Your draft is kept.")
    assert judge.bodies == []


def test_a_file_for_another_track_is_shown_the_way_there(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page, note = opened(), "judge it with --dtype float16."
    judge.advice = {"fits": "float16", "url": "/problems/split_k_merge?dtype=float16", "instead_of": note}
    run(page)
    judge.emit("compiled", ok=False, seconds=0.1, log="wrong parameters", diagnostics=[])
    findings = [{"kind": "note", "message": text, "line": 0, "file": "", "kernel": "", "block": None, "thread": None,
                 "other": None} for text in ("wrong parameters", note)]  # fmt: skip
    judge.emit("finished", verdict="compile_error", passed=0, total=0, seconds=0.1, score=None, modelled=False, tier="",
               findings=findings)  # fmt: skip
    results = page.locator("#results")
    expect(results).to_contain_text("solve() in this file is written for another track, float16. Open it in that track")
    expect(results.get_by_role("link", name="Open it in that track")).to_have_attribute("href", judge.advice["url"])
    expect(results).not_to_contain_text("--dtype")
    assert results.inner_text().count("wrong parameters") == 1


def test_a_submission_has_a_name_of_its_own(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    name = page.get_by_role("textbox", name="Name")
    for typed, sent in (("", "flash_attention.cu"), ("two rows", "two rows.cu"), ("mine.cu", "mine.cu")):
        name.fill(typed)
        with page.expect_response("**/api/submissions"):
            run(page)
        judge.emit("cancelled")
        expect(status(page)).to_have_text("Cancelled.")
        assert judge.bodies[-1]["name"] == sent
    ready(page, again=True)
    expect(name).to_have_value("mine.cu")
    page.goto(page.url + "?source=int earlier;")
    ready(page)
    expect(name).to_have_value("earlier.cu")


def test_nothing_is_not_sent(opened: Callable[..., Page], judge: FakeJudge, place: str) -> None:
    page = opened()
    write(page, " \n")
    run(page)
    expect(status(page)).to_contain_text("There is nothing to judge yet")
    assert judge.bodies == []


def test_a_server_that_is_gone_is_asked_again(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    page.clock.install()
    page.route("**/api/submissions", lambda route: route.abort("connectionrefused"))
    run(page)
    expect(status(page)).to_have_text("The server does not answer. Your draft is kept; trying again.")
    page.unroute("**/api/submissions")
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    with page.expect_response("**/api/submissions"):
        page.clock.run_for(2000)
    accepted(judge)
    expect(status(page)).to_contain_text("Finished: accepted")
    assert len(judge.bodies) == 1


def test_events_come_once_and_in_order_through_a_lost_connection(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    run(page)
    case(judge, "one", "accepted", ratio=0.1, stdout="printed once")
    expect(page.get_by_role("row", name="one")).to_be_visible()
    judge.broken = True
    expect(status(page)).to_have_text("The connection is lost; trying again. The judging goes on meanwhile.")
    while not judge.refused:  # now it is for the page to come back, which it does from the first event on
        page.wait_for_timeout(20)
    case(judge, "two", "accepted", ratio=0.1)
    judge.broken = False
    expect(page.get_by_role("row", name="two")).to_be_visible()
    expect(status(page)).to_have_text("Connected again.")
    accepted(judge)
    expect(status(page)).to_contain_text("Finished: accepted")
    expect(page.locator("#results tbody tr")).to_have_count(3)
    expect(page.get_by_text("printed once")).to_have_count(1)


def test_a_submission_that_the_server_forgot_is_given_up(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    run(page)
    case(judge, "one", "accepted", ratio=0.1)
    expect(page.get_by_role("row", name="one")).to_be_visible()
    judge.broken = True
    expect(status(page)).to_contain_text("The connection is lost")
    del judge.events["s1"]
    held: list[Route] = []
    judge.broken = False
    expect(status(page)).to_have_text("The server does not know this submission any more. Run it again.")
    page.route("**/api/submissions", lambda route: held.append(route))
    run(page)
    expect(status(page)).to_have_text("Sending…")
    page.get_by_role("button", name="Cancel").click()
    assert judge.cancelled == []
    while not held:
        page.wait_for_timeout(20)
    held[0].continue_()
    expect(status(page)).to_have_text("Cancelled.")
    assert judge.cancelled == ["s2"]


def test_a_judging_that_starts_again_empties_the_list(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    write(page, "int a;\n" * 20)
    run(page)
    case(judge, "old", "data_race", findings=[RACE])
    expect(squiggles(page)).to_have_count(1)
    judge.emit("restarted", why="a worker died")
    expect(status(page)).to_have_text("The judging starts again: a worker died")
    expect(page.get_by_role("row", name="old")).to_have_count(0)
    expect(squiggles(page)).to_have_count(0)


def test_a_reload_finds_the_judging_again(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    run(page)
    case(judge, "one", "accepted", ratio=0.1)
    expect(page.get_by_role("row", name="one")).to_be_visible()
    ready(page, again=True)
    expect(page.get_by_role("row", name="one")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(status(page)).to_have_text("Cancelled.")
    assert judge.cancelled == ["s1"]


def test_cuda_words_are_coloured_in_code_and_not_in_comments(opened: Callable[..., Page]) -> None:
    page = opened()
    write(page, "__global__ void f(int* p) { __shared__ int s[4]; } // __global__ threadIdx\n"
                "void g() { f<<<1, 2>>>(threadIdx.x); }")  # fmt: skip
    expect(page.locator(".cm-cuda-qualifier")).to_have_text(["__global__", "__shared__"])
    expect(page.locator(".cm-cuda-launch")).to_have_text(["<<<", ">>>"])
    expect(page.locator(".cm-cuda-variable")).to_have_text(["threadIdx"])


def test_a_launch_does_not_break_the_grammar(opened: Callable[..., Page]) -> None:
    page = opened()
    write(page, "void g() {")
    page.keyboard.press("Enter")
    page.keyboard.type("f<8><<<dim3(1), 2>>>(p);")
    page.keyboard.press("Enter")
    page.keyboard.type("h();")
    assert text_of(page).splitlines()[1:3] == ["  f<8><<<dim3(1), 2>>>(p);", "  h();"]


def test_a_bundle_that_does_not_load_leaves_the_text_area(opened: Callable[..., Page], context: BrowserContext) -> None:
    context.route("**/editor/editor.js", lambda route: route.abort())
    page = opened()
    expect(page.locator("#source")).to_be_visible()
    expect(page.get_by_label("Vim keys")).to_be_hidden()


def test_what_a_submission_prints_is_text(opened: Callable[..., Page], judge: FakeJudge) -> None:
    page = opened()
    run(page)
    evil = "<img src=x onerror=alert(1)></pre><script>alert(2)</script>"
    bad: dict[str, Any] = finding(message=evil, kernel=evil)
    judge.emit("compiled", ok=False, seconds=0, log=evil, diagnostics=[DIAGNOSTIC | {"message": evil}])
    case(judge, evil, evil, ratio=evil, stdout=evil, findings=[bad])
    judge.emit("finished", verdict=evil, passed=0, total=1, seconds=1, score=None, modelled=True, tier=evil, findings=[])
    expect(status(page)).to_contain_text("Finished: <img")
    expect(page.locator("#results img, #results script")).to_have_count(0)
