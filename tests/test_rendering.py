"""Statements, code and differences as HTML: complete, safe whatever comes in, and readable in both themes."""
# ruff: noqa: RUF001  (signs of formulas)

import itertools
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from harness import problem
from harness.problem import Problem
from harness.report import folding
from web.rendering.alignment import align
from web.rendering.code import code, excerpt
from web.rendering.differences import diff
from web.rendering.formulas import displayed, in_text
from web.rendering.highlighting import COLUMNS, LINES, highlighted, source_lines
from web.rendering.lexer import LinearCudaLexer
from web.rendering.statements import Statement, rendered, statement

STYLES = Path(__file__).parent.parent / "web" / "static" / "statement.css"
PROBLEMS = ("flash_attention", "paged_decode", "split_k_merge")
VOID = {"br", "hr", "wbr"}
LONG = 32 * 1024  # an eighth of the largest submission: what is quadratic already takes a minute or more


class Page(HTMLParser):
    """What a browser would find: the elements, whose tags must match, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(str(html))
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, attribute: str) -> list[str]:
        return [found[attribute] or "" for _, found in self.elements if attribute in found]


def safe(html: str) -> Page:
    """The page, which holds nothing that a script or a style could come in by."""
    page = Page(html)
    assert not {"script", "style", "img", "iframe", "object", "svg", "form"} & {tag for tag, _ in page.elements}
    attributes = {name for _, found in page.elements for name in found}
    assert not [name for name in attributes if name == "style" or name.startswith("on")]
    return page


def copied(html: str) -> str:
    """The text without what cannot be selected: line numbers, signs, and the note at a line that was cut."""
    return Page(re.sub(r'<(a|span) class="(?:number|sign|cut)"[^>]*>.*?</\1>', "", html)).text


# Statements


@cache
def loaded(name: str) -> Problem:
    return problem.load(name)


@pytest.fixture(params=itertools.product(PROBLEMS, ("en", "zh")), ids=lambda which: "-".join(which))
def shown(request: pytest.FixtureRequest) -> tuple[str, Statement]:
    name, language = request.param
    return loaded(name).statement_in(language), statement(loaded(name), language)


def test_a_statement_is_safe_and_its_links_lead_somewhere(shown: tuple[str, Statement]) -> None:
    _, found = shown
    page = safe(found.html)
    ids = page.values("id")
    assert len(ids) == len(set(ids)) and set(dict(found.contents)) <= set(ids)
    assert all(name.startswith("statement-") for name in ids)
    assert {link["href"] for link in page.all("a") if str(link["href"]).startswith("#")} <= {f"#{name}" for name in ids}


def test_the_first_heading_is_the_title_and_no_other_is_of_its_level(shown: tuple[str, Statement]) -> None:
    text, found = shown
    assert text.startswith(f"# {found.title}\n") and not Page(found.html).all("h1")
    assert [words for _, words in found.contents] == re.findall(r"^## (.+)$", text, re.MULTILINE)


def test_every_part_to_unfold_has_the_number_that_the_terminal_gives_it(shown: tuple[str, Statement]) -> None:
    text, found = shown
    numbers = sorted(folding.chosen(text, folding.ALL))
    parts = [part["id"] for part in Page(found.html).all("details")]
    assert numbers and parts == [f"statement-part-{number}" for number in numbers]


def test_every_formula_is_read(shown: tuple[str, Statement]) -> None:
    text, found = shown
    assert "unread" not in found.html
    formulas = re.findall(r"<math.*?</math>", found.html)
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    assert len(formulas) >= len(re.findall(r"\$\$.+?\$\$|\$[^$]+\$", prose, re.DOTALL)) > 30
    for formula in formulas:
        letters = "".join(ElementTree.fromstring(formula).itertext())
        assert letters.strip() and not set(letters) & set("\\{}$&"), formula
    assert "$" not in re.sub(r"<(code|pre|math)\b.*?</\1>", "", found.html, flags=re.DOTALL)


def test_a_statement_in_an_unknown_language_is_the_english_one() -> None:
    found = problem.load("split_k_merge")
    assert statement(found, "fr") == statement(found, "en")
    assert statement(found, "zh").language == "zh" and statement(found, "zh") is statement(found, "zh")


def test_markdown_brings_no_html_no_image_and_only_links_to_pages() -> None:
    hostile = (
        "<script>alert(1)</script> <b onclick=x>b</b> ![i](https://a.b/c.png) [j](javascript:alert(1)) "
        "[r](../secret) [d](data:text/html,x) [p](https://a.b/c) [h](#the-task) <https://d.e>\n\n"
        "<details><summary>A <i>b</i> `c`</summary>\n\n<script>\n\n</details>\n\n## A & <B>\n"
    )
    found = rendered(hostile)
    page = safe(found.html)
    web = {"rel": "noopener noreferrer"}
    assert page.all("a") == [
        {"href": "https://a.b/c.png", **web},
        {"href": "https://a.b/c", **web},
        {"href": "#statement-the-task"},
        {"href": "https://d.e", **web},
    ]
    assert "<script>alert(1)</script>" in page.text and "A <i>b</i> c" in page.text
    assert found.contents == (("statement-a-b", "A & <B>"),)


def test_control_characters_of_a_statement_are_shown() -> None:
    found = rendered("# a\u202eb\n\nc\x00d `\x1b[31m` \udc80\n")
    assert found.title == "a\\x202eb" and Page(found.html).text == "c\\x00d \\x1b[31m \\udc80\n"


def test_headings_of_the_same_words_have_ids_of_their_own() -> None:
    found = rendered("## Same\n## Same\n# Same\n### same!\n## ?\n")
    ids = [attributes["id"] for tag, attributes in Page(found.html).elements if tag in ("h2", "h3")]
    assert ids == ["statement-same", "statement-same-2", "statement-same-3", "statement-same-4", "statement-section"]


def test_parts_to_unfold_hold_any_markdown_and_an_open_one_is_text() -> None:
    found = rendered("<details><summary>S $x$</summary>\n\n- a\n\n```cpp\nint x;\n```\n\n</details>\nafter\n")
    assert re.sub(r"<math.*?</math>", "M", found.html).startswith(
        '<details id="statement-part-1">\n<summary>S M</summary>\n<ul>\n<li>a</li>\n</ul>\n<pre class="code"'
    )
    assert found.html.endswith("</pre>\n</details>\n<p>after</p>\n")
    assert not Page(rendered("<details><summary>S</summary>\n\nnever closed\n").html).all("details")


def test_tables_scroll_align_by_class_and_have_no_empty_head() -> None:
    page = safe(rendered("| | $m$ | b |\n| --- | ---: | :---: |\n| 1 | 2 | 3 |\n").html)
    assert page.all("th") == [{"class": "right", "scope": "col"}, {"class": "center", "scope": "col"}]
    assert page.all("td")[0] == {} and page.all("math")[0]["aria-label"] == "m"
    assert page.all("div")[0] == {"class": "table", "tabindex": "0", "role": "group", "aria-label": "table"}


def test_drawings_keep_their_columns_where_a_character_takes_two() -> None:
    html = rendered("```text\n| 头 | <b>\n\ta─\n```\n", "zh").html
    assert html == (
        '<pre class="drawing" tabindex="0" role="group" aria-label="文字图">'
        '| <span class="wide">头</span> | &lt;b&gt;\n    a─</pre>\n'
    )


def test_a_formula_keeps_the_brackets_and_commas_beside_it() -> None:
    html = re.sub(r"<math.*?</math>", "M", rendered("a ($x$), $y$；b $z$ c\n").html)
    assert html == '<p>a <span class="joined">(M),</span> <span class="joined">M；</span>b M c</p>\n'


# Formulas


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\text{seq\_len} < n", "<mi>seq_len</mi><mo>&lt;</mo><mi>n</mi>"),
        (r"-\infty", '<mo form="prefix">−</mo><mi>∞</mi>'),
        ("a - b", "<mi>a</mi><mo>−</mo><mi>b</mi>"),
        ("(-1)", '<mo stretchy="false">(</mo><mo form="prefix">−</mo><mn>1</mn><mo stretchy="false">)</mo>'),
        (r"\lfloor x \rfloor", '<mo stretchy="false">⌊</mo><mi>x</mi><mo stretchy="false">⌋</mo>'),
        ("m'", '<mrow><mi>m</mi><mo lspace="0" rspace="0">′</mo></mrow>'),
        (r"\ln \ell", '<mo lspace="0" rspace="0.1667em">ln</mo><mi>ℓ</mi>'),
        (r"x \ln(y", '<mi>x</mi><mo lspace="0.1667em" rspace="0">ln</mo><mo stretchy="false">(</mo><mi>y</mi>'),
        (r"\sum_t x", "<munder><mo>∑</mo><mi>t</mi></munder><mi>x</mi>"),
        (r"\tilde p_j", '<msub><mover accent="true"><mi>p</mi><mo stretchy="false">˜</mo></mover><mi>j</mi></msub>'),
        (r"\text{a}/b", '<mi mathvariant="normal">a</mi><mo lspace="0" rspace="0">/</mo><mi>b</mi>'),
        ("= 1", '<mo lspace="0">=</mo><mn>1</mn>'),
        (r"\text{a < \& b}", "<mi>a\N{NO-BREAK SPACE}&lt;\N{NO-BREAK SPACE}&amp;\N{NO-BREAK SPACE}b</mi>"),
    ],
)  # fmt: skip
def test_formulas_are_set_as_tex_sets_them(latex: str, expected: str) -> None:
    assert in_text(latex) == f'<math display="inline"><mrow>{expected}</mrow></math>'


def test_bars_open_and_close() -> None:
    forms = [mo["form"] for mo in Page(in_text(r"\lvert e \rvert \lVert r \rVert \lvert s \rvert")).all("mo")]
    assert forms == ["prefix", "postfix"] * 3


def test_limits_are_below_and_parts_side_by_side_on_a_line_of_its_own() -> None:
    found = displayed(r"a = \max_{j \le i} {\frac{b \qquad c}{d}} \qquad \sum_k^n e")
    assert [math["display"] for math in Page(found).all("math")] == ["block", "block"]
    assert '<munder><mo movablelimits="true"' in found and "<munderover><mo>∑</mo>" in found


def test_long_formulas_may_end_a_line_after_relations_and_sums_alone() -> None:
    parts = in_text("O = 2.8899 + 0.0498 - 40 = -44.38").split("<wbr>")
    assert [Page(part).text for part in parts] == ["O=", "2.8899+", "0.0498−", "40=", "−44.38"]
    assert "<wbr>" not in in_text("a = b + c")


@pytest.mark.parametrize("latex", [r"\frac{", r"\left(", "a_b_c", "", r"<script>\frac{"])
def test_a_formula_that_cannot_be_read_is_shown_as_written(latex: str) -> None:
    page = safe(in_text(latex))
    assert page.elements == [("code", {"class": "unread"})] and page.text == latex


def test_formulas_bring_no_style_link_or_tag() -> None:
    latex = r"\href{javascript:alert(1)}{x} \style{color:red}{y} \class{z}{w} \color{red} q \text{</math><script>}"
    page = safe(in_text(latex))
    assert not set(page.values("href")) and not set(page.values("class")) and not set(page.values("mathcolor"))


# Code

HOSTILE = '</code></pre><script>alert("1")</script>\x00\u202e\u2066\x1b[31m\x7f&amp;\udcff'


def test_lines_are_numbered_linked_and_coloured() -> None:
    assert code("int x;\n\n// c\n") == Markup(
        '<pre class="code" tabindex="0" role="group" aria-label="code"><code>'
        '<span class="line" id="L1"><a class="number" href="#L1" tabindex="-1" aria-label="line 1">1</a>'
        '<span class="sign">   </span><span class="kt">int</span> x;</span>\n'
        '<span class="line" id="L2"><a class="number" href="#L2" tabindex="-1" aria-label="line 2">2</a>'
        '<span class="sign">   </span></span>\n'
        '<span class="line" id="L3"><a class="number" href="#L3" tabindex="-1" aria-label="line 3">3</a>'
        '<span class="sign">   </span><span class="c1">// c</span></span></code></pre>'
    )


@pytest.mark.parametrize("language", ["cuda", "text", "</pre>"])
def test_what_is_in_a_file_is_shown_and_does_nothing(language: str) -> None:
    page = safe(code(HOSTILE, language, lines=False))
    assert page.text == '</code></pre><script>alert("1")</script>\\x00\\x202e\\x2066\\x1b[31m\\x7f&amp;\\udcff'


def test_the_code_is_copied_as_it_is_without_numbers_and_signs() -> None:
    text = (problem.ROOT.parent / "solutions" / "split_k_merge" / "02_vectorised.cu").read_text()
    assert copied(code(text, marks={3: "error"})) == text.rstrip("\n")


def test_marked_lines_say_so_by_more_than_colour() -> None:
    html = code("a\nb\nc\nd\ne\n", marks={1: "error", 2: "warning", 3: "other", 4: '"><script>', 9: "error"}, words="zh")
    signs = [found["aria-label"] for found in safe(html).all("span") if found.get("role") == "img"]
    assert signs == ["错误", "警告", "另一处", "提示"]
    assert [c for c in Page(html).values("class") if "marked" in c] == [
        "line marked error", "line marked warning", "line marked other", "line marked info"]  # fmt: skip


def test_an_excerpt_keeps_the_colours_of_its_file_and_takes_no_ids() -> None:
    text = "/* one\ntwo\nthree */\nint x;\n"
    html = excerpt(text, 2, around=1, kind="other")
    assert copied(html) == "/* one\ntwo\nthree */" and html.count('<span class="cm">') == 3
    assert not Page(html).values("id") and 'href="#L3"' in html
    assert copied(excerpt(text, 4, around=9)) == text.rstrip("\n")
    assert excerpt(text, 0) == excerpt(text, 5) == excerpt(text, -1) == ""


def test_long_lines_and_long_files_are_cut_and_say_so() -> None:
    html = code("a+" * LONG)
    assert f"… {2 * LONG - COLUMNS} more characters" in html and len(html) < 20_000
    html = code("\n" * LONG, words="zh")
    assert f"还有 {LONG - LINES} 行没有显示。" in html and html.count('id="L') == LINES


SOURCES = {
    "names": "a ", "raw strings": 'R"( ', "comments in a macro": "#/* ", "calls": "a b(", "stars": "/**", "quotes": '"\\',
    "numbers": "1'1e+", "includes": "#include <", "slashes": "//\\\n", "brackets": "a<{(", "spaces": "a        ",
    "controls": "\u202e", "ends": "\n", "kernel": "__global__ void k(float4* x) { x[threadIdx.x] = {1.f}; }\n",
}  # fmt: skip


@pytest.mark.parametrize("piece", SOURCES.values(), ids=SOURCES.keys())
def test_no_file_takes_the_lexer_long_or_loses_a_character(piece: str) -> None:
    """A rule that is quadratic takes a minute or more for one of them."""
    text = (piece * LONG)[:LONG]
    assert "".join(value for _, _, value in LinearCudaLexer().get_tokens_unprocessed(text)) == text
    assert len(highlighted(text, "cuda")) == len(source_lines(text))


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ('__global__ void k(int n) { return; }', "kr kt nf kt k"),
        ('#include <a.h>\n#define N 1\n', "cp cp m"),
        ('auto s = R"x(a"\n)" // )x";', "kt s s"),
        ("x = 1'000.5e-3f + 0x1.8p+2 + .5", "m m m"),
        ("'a' \"b\\\"c\" 'it", "sc s sc"),
        ("threadIdx.x == nullptr; size_t(1)", "nb nb kt m"),
        ("/* a\n*/ int /", "cm cm kt"),
    ],
)  # fmt: skip
def test_tokens_are_told_apart(text: str, classes: str) -> None:
    assert Page("\n".join(highlighted(text, "cuda"))).values("class") == classes.split()


# Differences


def sides(html: str) -> tuple[list[str], list[str]]:
    """The lines before and after that a reader sees."""
    rows = re.findall(r'<(span|del|ins) class="line[^"]*">(.*?)</\1>(?=\n|</code>)', html, re.DOTALL)
    text = [(tag, copied(row)) for tag, row in rows]
    return [line for tag, line in text if tag != "ins"], [line for tag, line in text if tag != "del"]


def test_a_difference_shows_both_files_with_what_is_the_same_folded() -> None:
    before = "".join(f"line {n}\n" for n in range(40))
    after = before.replace("line 20\n", "<b>\nnew\n")
    html = diff(before, after, ("a<i>.cu", "b\x00.cu"))
    page = safe(html)
    assert sides(html) == (before.splitlines(), after.splitlines())
    assert page.text.startswith("−1 a<i>.cu +2 b\\x00.cu")
    assert re.findall(r"<summary>(.*?)</summary>", html) == ["17 unchanged lines", "16 unchanged lines"]
    assert len(page.all("del")) == 1 and len(page.all("ins")) == 2


def test_equal_files_say_so() -> None:
    assert "没有不同的行。" in diff("a\n", "a", ("x", "y"), words="zh") and "<pre>" not in diff("a", "a", ("x", "y"))


def test_a_brace_alone_does_not_keep_two_changes_apart() -> None:
    found = align(["a", "{", "b", "", "c", "z"], ["d", "{", "e", "", "f", "z"])
    assert [(part.same, len(part.before), len(part.after)) for part in found.stretches] == [(False, 5, 5), (True, 1, 1)]


lines = st.lists(st.sampled_from(["a", "b", "{", "", "c d", *"efghijkl"]), max_size=30)


@settings(deadline=None)
@given(lines, lines, st.sampled_from([0, 40, 100, 10_000_000]))
@example(["a", "b"], ["b", "c"], 0)
@example(["a", "b", "c"], ["d", "a", "b", "e"], 0)
def test_stretches_cover_both_files_in_order(before: list[str], after: list[str], work: int) -> None:
    """Whether there is work enough for difflib or not."""
    with mock.patch("web.rendering.alignment._WORK", work):
        found = align(before, after)
    assert [i for part in found.stretches for i in part.before] == list(range(len(before)))
    assert [j for part in found.stretches for j in part.after] == list(range(len(after)))
    for part in found.stretches:
        if part.same:
            assert [before[i] for i in part.before] == [after[j] for j in part.after]
    assert all(one.same != other.same for one, other in itertools.pairwise(found.stretches))
    assert align(before, before).stretches == [part for part in align(before, before).stretches if part.same]


def test_large_files_are_divided_at_lines_that_occur_once() -> None:
    """Too many equal lines for difflib, and a change that is found all the same."""
    before = [word for n in range(8000) for word in (f"line {n}", "", "}", "")]
    after = [word for word in before if word != "line 4000"]
    found = align(["x", *before, "x"], ["y", *after, "y"])
    removed = [before[i - 1] for part in found.stretches[1:-1] if not part.same for i in part.before]
    assert removed == ["line 4000"] and not found.coarse


HARD = {
    "two kinds of lines": ("ab" * LONG, "ba" * LONG),
    "one line less": ("a" * LONG, "a" * (LONG - 9)),
    "backwards": ("".join(map(chr, range(0x4E00, 0x9000))), "".join(map(chr, range(0x9000, 0x4E00, -1)))),
    "cubic for difflib": ("".join("a" + chr(0x4E00 + n) for n in range(9000)), "".join("a" + chr(0x8000 + n) for n in range(9000))),
}  # fmt: skip


@pytest.mark.parametrize("pair", HARD.values(), ids=HARD.keys())
def test_no_two_files_take_long(pair: tuple[str, str]) -> None:
    """Minutes, were they left to difflib. (Each letter is a line.)"""
    before, after = ("\n".join(side[:LONG]) for side in pair)
    html = diff(before, after, ("a", "b"))
    assert html.count('class="line') <= LINES and "more lines are not shown" in html


def test_what_was_not_compared_line_by_line_is_said() -> None:
    assert "were not compared line by line" in diff("ab\n" * 9 + "a\nb\n" * 9000, "b\na\n" * 9000 + "x\n", ("a", "b"))


# Colours


def themes() -> dict[str, dict[str, str]]:
    """The variables of the light theme, of the dark one that was chosen, and of the system's dark one."""
    blocks = re.findall(r"(:root[^{]*)\{([^{}]*--code-paper[^{}]*)\}", STYLES.read_text())
    names = {":root": "light", ':root[data-theme="dark"]': "dark", ':root:not([data-theme="light"])': "system"}
    return {names[selector.strip()]: dict(re.findall(r"(--[\w-]+):\s*(#\w+)", body)) for selector, body in blocks}


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


PAPERS = ("paper", "error", "warning", "info", "other", "added", "removed")
INKS = ("ink", "quiet", "comment", "preprocessor", "keyword", "type", "function", "builtin", "string", "number")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_is_readable_on_every_ground(theme: str) -> None:
    colours = themes()[theme]
    assert set(colours) == {f"--code-{name}" for name in (*PAPERS, *INKS, "rule", "focus")}
    low = {
        (ink, paper): round(found, 2)
        for ink, paper in itertools.product(INKS, PAPERS)
        if (found := contrast(colours[f"--code-{ink}"], colours[f"--code-{paper}"])) < 4.5
    }
    assert not low


def test_the_dark_theme_is_the_same_whoever_chose_it() -> None:
    assert themes()["dark"] == themes()["system"] and len(themes()) == 3


def test_every_kind_of_token_has_a_colour() -> None:
    files = sorted((problem.ROOT.parent / "solutions").rglob("*.cu"))
    found = {name for file in files for name in Page(code(file.read_text(), lines=False)).values("class")} - {"code"}
    assert len(found) > 6 and not {name for name in found if f".code .{name}" not in STYLES.read_text()}
