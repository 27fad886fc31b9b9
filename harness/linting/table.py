"""A LintReport for a person at a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path

from rich.table import Table
from rich.text import Text

from harness.linting.records import NEAR, Check, KernelResult, LintReport, Outcome
from harness.problem import BASE
from harness.report.console import Console
from harness.report.excerpt import printable
from harness.report.json import plain

SCHEMA = 1  # of the JSON; raised when a field changes its meaning
_STYLES = {Outcome.SOUND: "green", Outcome.WARNING: "yellow", Outcome.REFUSED: "bold red"}
_HEADINGS = {"bad": "rejected", "honest": "accepted", "starter": "rejected"}
_SHOWN_CASES = 3
_WIDTH = 200  # where there is no terminal whose width lines would have to fit


def print_report(console: Console, report: LintReport) -> None:
    """Checks, then the kernels of each track, then what is refused."""
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(_checks(report.checks))
    for dtype, variant in dict.fromkeys((k.dtype, k.variant) for k in report.kernels):
        kernels = [k for k in report.kernels if (k.dtype, k.variant) == (dtype, variant)]
        console.print(Text(f"\n{_track(dtype, variant)}", style="bold"))
        console.print(_kernels(kernels))
    _print_refused(console, report)


def _checks(checks: Iterable[Check]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(4):
        table.add_column(overflow="fold")
    for check in checks:
        table.add_row(_styled(check.outcome), check.name, _track(check.dtype, check.variant), _text(check.message))
    return table


def _kernels(kernels: Iterable[KernelResult]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "kernel", "seeds", "error / limit", "rejected by", "what"):
        right = heading in ("seeds", "error / limit")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "what", overflow="fold")
    for kernel in kernels:
        seeds = f"{_HEADINGS[kernel.kind]} {kernel.passed}/{kernel.seeds}"
        name = f"{kernel.kind}/{kernel.name}" if kernel.kind != "starter" else kernel.name
        table.add_row(
            _styled(kernel.outcome), _text(name), seeds, _margin(kernel), _rejected_by(kernel), _text(kernel.about)
        )
    return table


def _track(dtype: str, variant: str) -> str:
    return f"{dtype}, {variant}" if variant not in ("", BASE) else dtype


def _text(text: str) -> Text:
    """What stands in a problem's files, without control characters, and with paths from here on."""
    return Text(printable(text.replace(f"{Path.cwd()}/", "")))


def _styled(outcome: Outcome) -> Text:
    return Text("ok" if outcome is Outcome.SOUND else outcome, style=_STYLES[outcome])


def _margin(kernel: KernelResult) -> str:
    """Error over limit: the weakest rejection, or the worst of what was accepted."""
    if kernel.margin is None:
        return "-"
    near = " (near)" if kernel.kind == "bad" and kernel.margin < NEAR else ""
    return f"{kernel.margin:.3g}{near}"


def _rejected_by(kernel: KernelResult) -> str:
    names = [f"{name} {count}" for name, count in kernel.rejected_by.items()]
    more = f" and {len(names) - _SHOWN_CASES} more" if len(names) > _SHOWN_CASES else ""
    others = [verdict for verdict in kernel.verdicts if verdict not in ("wrong_answer", "accepted")]
    return ", ".join(names[:_SHOWN_CASES]) + more + (f" ({', '.join(others)})" if others else "")


def _print_refused(console: Console, report: LintReport) -> None:
    lines = [check.message for check in report.checks if check.outcome is Outcome.REFUSED]
    refused = [kernel for kernel in report.kernels if kernel.outcome is Outcome.REFUSED]
    lines += [f"{kernel.file} ({_track(kernel.dtype, kernel.variant)}): {kernel.reason}" for kernel in refused]
    seeds = f"{report.seeds} seeds from {report.first_seed}, {report.seconds:.0f} s"
    warned = sum(check.outcome is Outcome.WARNING for check in report.checks)
    warnings = f", {warned} warning{'s' * (warned != 1)}" if warned else ""
    if not lines:
        console.print(Text(f"\nsound  {report.problem}: {len(report.kernels)} trials of kernels{warnings}; {seeds}"))
        return
    console.print(Text(f"\nrefused  {report.problem}: {len(lines)} findings{warnings}; {seeds}", style="bold red"))
    for line in lines:
        console.print(_text(f"  {line}"), soft_wrap=True)


def render(report: LintReport) -> str:
    """The report as one indented JSON object: `schema`, `sound`, and the fields of harness/linting/records.py. Numbers
    that JSON lacks are "Infinity" and "NaN"."""
    fields = {"schema": SCHEMA, "sound": report.sound, **dataclasses.asdict(report)}
    return json.dumps(plain(fields), indent=2, allow_nan=False) + "\n"
