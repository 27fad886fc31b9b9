"""Problems for a person at a terminal: the list, and one problem with its statement and its benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from harness.cards import Card
from harness.problem import Problem
from harness.report import folding
from harness.report.benchmark_table import basis, benchmark_lines
from harness.report.console import Console
from harness.report.excerpt import printable


def print_problems(problems: Sequence[Problem]) -> None:
    """One line a problem."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("problem", "difficulty", "cases", "tracks", "title"):
        table.add_column(heading, overflow="fold")
    for problem in problems:
        counts = len(problem.tests), len(problem.dtypes) * len(problem.variants)
        table.add_row(problem.id, problem.difficulty, *map(str, counts), Text(printable(problem.title)))
    Console().print(table)


def print_problem(problem: Problem, card: Card, language: str = "en", unfold: str = "") -> None:
    """Statement (rendered on a terminal, as written elsewhere; of hints and answers those that `unfold` numbers),
    signature, cases, and what benchmarks take at least on a card. Raises UsageError where there is no statement in the
    language, or no such part; ProblemError where the reference does not tell the benchmarks' cost."""
    text = problem.statement_in(language)
    opened = folding.chosen(text, unfold)
    statement = folding.folded(text, opened)
    lines = benchmark_lines(problem, card)
    console = Console()
    if console.is_terminal:
        from harness.report.markdown import Statement

        console.print(Statement(printable(statement)))
    else:
        _plain(console, statement)
    if folding.chosen(text, folding.ALL) - opened:
        how = f"`judge.py show {problem.id} --unfold N` opens it, --unfold all opens everything"
        _plain(console, f"\n[+N] is folded away: {how}")
    _plain(console, f"\n{problem.declaration()}\n")
    if len(problem.dtypes) > 1:
        _plain(console, f"dtypes: {', '.join(problem.dtypes)}; shown here: {problem.dtype}")
    for variant in problem.variants if len(problem.variants) > 1 else ():
        _plain(console, f"variant {variant.name}{' (shown here)' * (variant.name == problem.variant)}: {variant.about}")
    _plain(console, f"tests: {', '.join(case.name for case in problem.tests)}")
    _plain(console, f"samples, for a first run with --cases samples: {', '.join(problem.samples)}")
    if problem.benchmarks:
        what = "the fewest bytes and operations, and their time on this card"
        _plain(console, f"\nbenchmarks: {what} ({basis(problem, card)})\n")
        _plain(console, "\n".join(lines))
    if problem.tiers:
        tiers = ", ".join(f"{name} from {least:g}" for name, least in problem.tiers.items())
        _plain(console, f"\nscore: 100 x speed of light / time, geometric mean over the benchmarks; {tiers}")


def _plain(console: Console, text: str) -> None:
    console.print(Text(printable(text)), soft_wrap=True)
