"""What learners read: statements in both languages agree with the problem, with each other and with arithmetic."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from rich.console import Console

from harness import cases, problem
from harness.check import FLOORS, LOG_SUM_EXP_FLOORS
from harness.problem import Problem
from harness.reference import load_reference
from harness.report import folding
from harness.report.markdown import Statement

PROBLEMS = ("paged_decode", "flash_attention", "split_k_merge")
LANGUAGES = ("en", "zh")
SECTIONS = {
    "en": ("The task", "The layout", "What you write", "Constraints and edge cases", "How the answer is checked",
           "What is measured", "Hints, rung by rung", "Test yourself"),
    "zh": ("任务", "内存布局", "你要写什么", "约束与边界情况", "怎样判对错", "测什么", "分级提示", "自测"),
}  # fmt: skip
RUNGS = {"paged_decode": 8, "flash_attention": 6, "split_k_merge": 3}
NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?")

both = pytest.mark.parametrize("language", LANGUAGES)
each = pytest.mark.parametrize("name", PROBLEMS)


def statement(name: str, language: str = "en") -> str:
    return problem.load(name).statement_in(language)


def fences(text: str) -> list[str]:
    """Code and drawings, with their first line."""
    return re.findall(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """Everything else."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, title: str) -> str:
    """Under a heading that begins so."""
    found = re.search(rf"^## {re.escape(title)}[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of all table rows."""
    return [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def parts(text: str) -> list[str]:
    """What each folded part is about."""
    return re.findall(r"^<details><summary>(.+?)</summary>$", text, re.MULTILINE)


def numbers(text: str) -> list[str]:
    return NUMBER.findall(text)


@each
@both
def test_the_sections_are_there_in_order(name: str, language: str) -> None:
    titles = re.findall(r"^## (.+)$", statement(name, language), re.MULTILINE)
    assert [t for t in titles if t in SECTIONS[language]] == list(SECTIONS[language])


@each
@both
def test_there_is_a_hint_for_each_rung_and_questions_with_answers(name: str, language: str) -> None:
    text = statement(name, language)
    hints = parts(section(text, SECTIONS[language][6]))
    questions = parts(section(text, SECTIONS[language][7]))
    rung = {"en": "Rung {}: ", "zh": "第 {} 级"}[language]
    assert [hint.startswith(rung.format(i + 1)) for i, hint in enumerate(hints)] == [True] * RUNGS[name]
    assert len(questions) >= 5
    assert all(question.startswith(f"{i + 1}. ") for i, question in enumerate(questions))


@each
@both
def test_markup_is_balanced(name: str, language: str) -> None:
    text = statement(name, language)
    assert text.count("```") % 2 == 0 and prose(text).count("$$") % 2 == 0
    assert not re.search(r"</?(?:details|summary)", folding.folded(text)), "a part that folding does not know"
    for paragraph in re.split(r"\n\s*\n", prose(text).replace("$$", "")):
        plain = re.sub(r"`[^`\n]*`", "", paragraph)
        assert plain.count("$") % 2 == 0 and "`" not in plain, paragraph
    for part in re.findall(r"<details>.*?</details>", text, re.DOTALL):
        lines = part.splitlines()
        assert lines[1] == lines[-2] == "", f"without empty lines around it Markdown is not read: {lines[0]}"
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(cells) for cells in rows(table)}) == 1, table
    for target in re.findall(r"\]\(([^)#]+)", prose(text)):
        assert target.startswith("https://") or (problem.ROOT / name / target).exists(), target


@each
def test_every_signature_is_that_of_a_track(name: str) -> None:
    loaded = problem.load(name)
    tracks = {t.declaration().split("\n")[-1]: (t.dtype, t.variant) for t in loaded.tracks()}
    shown = [" ".join(f.split()[1:-1]) for f in fences(loaded.statement) if "void solve(" in f]
    assert set(shown) <= set(tracks)
    seen = {tracks[one] for one in shown}
    assert {(loaded.dtypes[0], v.name) for v in loaded.variants} <= seen
    assert len({dtype for dtype, _ in seen}) >= 2


@each
@both
def test_the_table_of_tracks_has_the_types_of_solve(name: str, language: str) -> None:
    table = rows(section(statement(name, language), SECTIONS[language][2]))
    heads = [re.findall(r"`(\w+)`", cell) for cell in table[0]]
    loaded = problem.load(name)
    for row, dtype in zip(table[2:], loaded.dtypes, strict=False):
        types = {p.name: p.type for p in loaded.track(dtype).signature}
        assert row[0] == f"`{dtype}`"
        for names, cell in zip(heads[1:-1], row[1:-1], strict=True):
            assert names and {types[n] for n in names} == {cell.strip("`")}
        headers = re.findall(r"#include <(.+)>", loaded.track(dtype).declaration())
        assert re.findall(r"`(.+?)`", row[-1]) == headers


@each
def test_every_parameter_is_explained(name: str) -> None:
    loaded = problem.load(name)
    explained = set(re.findall(r"`(\w+)`", section(loaded.statement, "What you write")))
    if name == "flash_attention":
        explained |= set(re.findall(r"\w+", section(loaded.statement, "What you write")))  # sizes of gqa stand in shapes
    declared = {p.name for track in loaded.tracks() for p in track.tensors}
    assert declared <= explained


@each
@both
def test_the_limits_are_those_of_the_checker(name: str, language: str) -> None:
    table = {row[0].strip("`"): row[1:] for row in rows(section(statement(name, language), SECTIONS[language][4]))[2:]}
    assert {dtype: tuple(map(float, cells)) for dtype, cells in table.items()} == {
        dtype: FLOORS[dtype] for dtype in problem.load(name).dtypes
    }


@each
@both
def test_the_factor_on_a_log_sum_exp_is_that_of_the_checker(name: str, language: str) -> None:
    text = section(statement(name, language), SECTIONS[language][4])
    loaded = problem.load(name)
    for dtype in loaded.dtypes[1:]:
        wide = any(tensor.check == "log_sum_exp" for v in loaded.variants for tensor in loaded.track(dtype, v.name).outputs)
        assert (f"${LOG_SUM_EXP_FLOORS[dtype]:g}$" in text) == wide


MEASURED = {  # the benchmark that the table under "What is measured" is about
    "paged_decode": "seqs_64_len_4096",
    "flash_attention": "heads_64_seq_4096_d128",
    "split_k_merge": "rows_65536_splits_32",
}
UNITS = {"GB": 1e9, "MB": 1e6, "us": 1e-6, "ms": 1e-3}


def quantity(cell: str) -> float:
    value, unit = cell.split()
    return float(value) * UNITS[unit]


@each
@both
def test_bytes_and_times_are_those_of_the_benchmark(name: str, language: str) -> None:
    rate = {"float32": 165e12, "float16": 989e12, "bfloat16": 989e12, "float8_e4m3": 989e12}
    table = rows(section(statement(name, language), SECTIONS[language][5]))
    loaded = problem.load(name)
    seen = set()
    for row in table[2:]:
        for dtype in re.findall(r"`(\w+)`", row[0]):
            cost = cost_of(loaded.track(dtype), MEASURED[name])
            assert quantity(row[2]) == pytest.approx(cost.bytes, rel=0.01)
            assert float(row[-2 if name != "flash_attention" else 4]) == pytest.approx(
                cost.flops / cost.bytes, rel=0.01
            )
            least = max(cost.bytes / 4.8e12, cost.flops / rate[dtype])
            assert quantity(row[-1]) == pytest.approx(least, rel=0.01)
            seen.add(dtype)
    assert seen == set(loaded.dtypes)


def cost_of(track: Problem, benchmark: str) -> cases.Cost:
    spec = next(case for case in track.benchmarks if case.name == benchmark)
    return cases.cost(track, load_reference(track), spec)


def decimals(text: str) -> set[str]:
    """Numbers with four decimals."""
    return set(re.findall(r"\d+\.\d{4}\b", text))


def four(*values: float) -> set[str]:
    return {f"{value:.4f}" for value in values}


@both
def test_the_online_softmax_by_hand_is_right(language: str) -> None:
    title = {"en": "Online softmax by hand", "zh": "手推 online softmax"}[language]
    text = statement("flash_attention", language)
    expected: set[str] = set()
    m, total, out = -np.inf, 0.0, 0.0
    for scores, values in (([1, 3], [10, 20]), ([2, 5], [30, 40])):
        new = max(m, *scores)
        kept, weights = np.exp(m - new), np.exp(np.array(scores) - new)
        expected |= four(kept, kept * total, kept * out, *weights, weights[0] * values[0] if kept else 1)
        total, out, m = kept * total + weights.sum(), kept * out + weights @ values, new
        expected |= four(total, out)
    plain = np.exp([1, 3, 2, 5])
    weighted = plain * [10, 20, 30, 40]
    assert out / total == pytest.approx(weighted.sum() / plain.sum())
    expected |= four(out / total, np.log(total), m + np.log(total), *plain, plain.sum(), *weighted, weighted.sum())
    shown = decimals(section(text, title))
    assert shown == expected - four(0, 1), "numbers of the derivation"
    wrong = np.exp(-2) * 10 + 20 + weights @ values  # the earlier output not rescaled
    assert four(wrong, wrong / total) <= decimals(section(text, SECTIONS[language][7]))


@both
def test_the_merge_by_hand_is_right(language: str) -> None:
    title = {"en": "Where the rule comes from", "zh": "合并规则从哪里来"}[language]
    first, second = np.exp([1.0 - 3, 0]), np.exp([2.0 - 5, 0])
    sums = np.array([first.sum(), second.sum()])
    outs = np.array([first @ [10, 20], second @ [30, 40]])
    kept = np.exp(np.array([3.0, 5]) - 5)
    total = kept @ sums
    without = (kept @ (outs / sums)) / kept.sum()
    expected = four(*sums, *outs, *(outs / sums), *(kept * sums), *(kept * outs), total, kept @ outs / total)
    expected |= four(5 + np.log(total), without, first[0], second[0])
    assert decimals(section(statement("split_k_merge", language), title)) == expected


@both
def test_the_sizes_of_a_kv_cache_are_right(language: str) -> None:
    title = {"en": "Background", "zh": "背景"}[language]
    table = rows(section(statement("paged_decode", language), title))
    assert len(table) == 6
    for _, size, heads, token, context in table[2:]:
        count = 2 * 32 * int(heads) * 128 * int(size)
        assert token == f"{count // 2**10} KiB"
        assert context == f"{count * 32768 / 2**30:g} GiB"


@each
def test_both_languages_say_the_same(name: str) -> None:
    """Code, drawings, formulas in display, headings, folded parts, and the numbers in tables and in answers."""
    english, chinese = statement(name, "en"), statement(name, "zh")
    assert fences(english) == fences(chinese)
    displayed = [re.findall(r"\$\$.*?\$\$", prose(text), re.DOTALL) for text in (english, chinese)]
    assert displayed[0] == displayed[1]
    assert [len(m) for m in re.findall(r"^(#+) ", english, re.M)] == [len(m) for m in re.findall(r"^(#+) ", chinese, re.M)]
    assert len(parts(english)) == len(parts(chinese))
    ours, theirs = rows(english), rows(chinese)
    assert [[sorted(numbers(c)) for c in row] for row in ours] == [[sorted(numbers(c)) for c in row] for row in theirs]
    code = [sorted(set(re.findall(r"`([^`\n]+)`", prose(text)))) for text in (english, chinese)]
    assert code[0] == code[1]


@each
def test_long_numbers_are_the_same_in_both_languages(name: str) -> None:
    """Those of three digits or more, and of four decimals: short ones are words in one language or the other."""
    long = [sorted(set(re.findall(r"\d{3,}|\d+\.\d+", prose(statement(name, language))))) for language in LANGUAGES]
    assert long[0] == long[1]


def test_what_folds_is_hidden_until_it_is_asked_for() -> None:
    text = "a\n\n<details><summary>Why?</summary>\n\nBecause.\n\n</details>\n\nb\n"
    assert folding.folded(text) == "a\n\n[+1] Why?\n\nb\n"
    assert folding.folded(text, folding.chosen(text, "all")) == "a\n\n[-1] **Why?**\n\nBecause.\n\nb\n"


@each
@both
def test_a_terminal_loses_nothing_of_a_table(name: str, language: str) -> None:
    console = Console(width=90, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(Statement(statement(name, language)))
    assert isinstance(console.file, io.StringIO) and "…" not in console.file.getvalue()
