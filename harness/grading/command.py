"""`judge.py grade`, from its parsed words to its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import cards, pipeline, streams
from harness.errors import UsageError
from harness.grading import discovery, markdown, record, table
from harness.grading.discovery import Entry
from harness.grading.judging import Settings
from harness.grading.session import Session, session
from harness.report import destination
from harness.report.console import Console

_JSON, _JUNIT, _MARKDOWN = "json", "junit", "markdown"


def run(parsed: argparse.Namespace) -> int:
    """Judge what is named, print and write what came. Raises UsageError, and after Ctrl-C, when what is known is
    printed, KeyboardInterrupt."""
    cards.get(parsed.card)
    trusted = not (parsed.problem or parsed.ignore_declarations)
    entries = discovery.find([Path(path) for path in parsed.paths], parsed.problem or "", trusted)
    for entry in entries:
        entry.problem.track(parsed.dtype, parsed.variant)  # it must have the one that is asked for
    _check_destinations(parsed, entries)
    graded = session(entries, _settings(parsed), parsed.jobs)
    try:
        with streams.prints_to_stderr(), table.watching(_console(stderr=True), graded) as watch:
            graded.run(watch)
    except KeyboardInterrupt:
        if graded.results:
            _tell(graded, parsed)
        raise
    _tell(graded, parsed)
    return graded.exit_code


def _settings(parsed: argparse.Namespace) -> Settings:
    names = ("device", "dtype", "variant", "seed", "card", "cache")
    options = pipeline.Options(seconds=parsed.time_limit, **{name: getattr(parsed, name) for name in names})
    return Settings(options, parsed.benchmarks, parsed.report_only)


def _console(stderr: bool = False) -> Console:
    """Logs of CI runs are no terminals, and a table folded to 80 columns is hard to read there."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else table.WIDTH
    return Console(stderr=stderr, width=width)


def _tell(graded: Session, parsed: argparse.Namespace) -> None:
    for name, (render, _) in _files(parsed).items():
        destination.save(getattr(parsed, name), render(graded))
    with streams.printing():
        table.print_session(_console(), graded)


def _files(parsed: argparse.Namespace) -> dict[str, tuple[Callable[[Session], str], bytes]]:
    """The files that are asked for: how each is rendered, and what it starts with."""
    known: dict[str, tuple[Callable[[Session], str], bytes]] = {
        _JSON: (record.render, destination.JSON), _MARKDOWN: (markdown.render, markdown.START)
    }  # fmt: skip
    if parsed.junit:
        from harness.report import junit

        known[_JUNIT] = (junit.render, junit.START)
    return {name: known[name] for name in (_JSON, _JUNIT, _MARKDOWN) if getattr(parsed, name)}


def _check_destinations(parsed: argparse.Namespace, entries: Sequence[Entry]) -> None:
    seen: dict[Path, str] = {}
    for name, (_, start) in _files(parsed).items():
        target = Path(getattr(parsed, name))
        if other := seen.setdefault(target.resolve(), name) if target.resolve() in seen else "":
            raise UsageError(f"cannot write the report to {target}: --{other} and --{name} write to the same file")
        seen[target.resolve()] = name
        for entry in entries:
            destination.check(target, entry.source, entry.problem.directory, start)
