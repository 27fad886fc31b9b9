"""`judge.py submit`: sends a file, shows how its judging goes, and prints the report that judging here would."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import enum
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from harness import commandline, pipeline, streams, submission
from harness.errors import SubmissionError, UsageError
from harness.report import destination, reading, terminal
from harness.report import json as report_json
from harness.report.console import Console
from harness.report.excerpt import printable
from harness.results import Report
from web import options
from web.client.site import Site

_CANCELLED = 1  # exit code: it was not accepted
_STEPS = {
    "queued": "waiting in the queue, place {position}",
    "position": "waiting in the queue, place {position}",
    "compiling": "compiling",
    "device_ready": "running on {name}",
    "case_started": "case {number}/{total}  {name}",
    "calibrating": "measuring the card's ceilings",
    "benchmark_started": "benchmark {number}/{total}  {name}",
    "counting_resources": "counting registers",
    "restarted": "starting again: {why}",
}


def run(arguments: Sequence[str]) -> int:
    """Submit, and wait for the verdict; the exit code as of judging. Raises UsageError."""
    parsed = options.submit_parser().parse(list(arguments))
    file = Path(parsed.file)
    if parsed.json not in (None, "-"):
        destination.check(Path(parsed.json), file, Path(), destination.JSON)
    try:
        loaded = submission.load(file)
    except SubmissionError as error:
        return _show(pipeline.refused(parsed.problem, file.name, error), "", parsed)
    with contextlib.closing(Site(parsed.server, streams.complain)) as site:
        site.check()
        fields = {"problem": parsed.problem, "source": loaded.text, "kind": "run" if parsed.run else "submit"}
        optional = {"name": parsed.name or file.name, "dtype": parsed.dtype, "variant": parsed.variant}
        id = site.submit(fields | optional | {"device": parsed.device})
        if not parsed.wait:
            with streams.printing():
                print(site.page(id))
            return 0
        report = _follow(site, id)
    if report is None:
        streams.complain(f"the judging was cancelled: {site.page(id)}")
        return _CANCELLED
    return _show(report, loaded.text, parsed)


def _follow(site: Site, id: str) -> Report | None:
    """The report at the end of the judging; None where it was cancelled. Ctrl-C cancels it."""
    try:
        with _progress() as show:
            for event in site.events(id):
                show(event)
    except KeyboardInterrupt:
        site.cancel(id)
        raise
    if site.state(id) == "cancelled":
        return None
    try:
        return reading.read(site.report(id))
    except reading.ReportFormatError as error:
        raise UsageError(f"{site.url} is of another version of the judge: {error}") from None


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[dict[str, Any]], None]]:
    """The current step on a terminal's standard error."""
    if not sys.stderr.isatty():
        yield lambda event: None
        return
    with Console(stderr=True).status("sending") as status:
        yield lambda event: status.update(Text(words) if (words := step(event)) else status.status)


def step(event: dict[str, Any]) -> str:
    """What a status line says while this event is the latest; "" for one that changes nothing."""
    words = {name: printable(str(value)) for name, value in event.items()}
    with contextlib.suppress(KeyError):
        return _STEPS.get(event["type"], "").format_map(words)
    return ""


def _show(report: Report, source: str, parsed: argparse.Namespace) -> int:
    """The report for people, and as JSON; the exit code."""
    to_stdout = parsed.json == "-"
    if parsed.json and not to_stdout:
        destination.save(parsed.json, report_json.render(report))
    with streams.printing():
        terminal.print_report(Console(stderr=to_stdout), _harmless(report), source, _repeat(report, parsed))
        if to_stdout:
            sys.stdout.write(report_json.render(report))
    return commandline.exit_code(report.verdict)


def _harmless(value: Any) -> Any:
    """The same without anything that steers a terminal: also in texts that are the judge's own in a report made here,
    such as a track's name."""
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return printable(value)
    if isinstance(value, tuple):
        return tuple(map(_harmless, value))
    if isinstance(value, dict):
        return {_harmless(name): _harmless(item) for name, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return dataclasses.replace(value, **{name: _harmless(getattr(value, name)) for name in names})
    return value


def _repeat(report: Report, parsed: argparse.Namespace) -> str:
    """The command that judges the file on the same inputs here."""
    words = ["--cases", "samples" if parsed.run else "benchmarks"]
    for option in ("dtype", "variant"):
        if value := getattr(parsed, option):
            words += [f"--{option}", value]
    here = commandline.judge_parser().parse([*words, "--", parsed.problem, parsed.file])
    return commandline.repeat(here, report.seed)
