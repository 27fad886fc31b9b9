#!/usr/bin/env python3
"""The command line: parse, call, print, exit code. `python judge.py --help` says the rest."""

from __future__ import annotations

import os
import sys

# Older interpreters must get this far to read the message, so nothing above or in this file's syntax is newer than 3.7.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"judge.py needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable})")

import contextlib
import dataclasses
import difflib
import shlex
import signal
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from harness import commandline, streams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from harness.events import Event
    from harness.pipeline import Options
    from harness.problem import Problem
    from harness.results import Report
    from harness.submission import Submission

# References are computed while the emulator keeps every core busy: BLAS threads that spin for work would slow both down
# several times over. Read when NumPy is loaded, hence here.
for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

_ROOT = Path(__file__).resolve().parent
_RESOURCE_SECONDS = 120.0  # that --resources waits for the optimised compilation
_PACKAGES = {"numpy", "yaml", "jinja2", "rich", "llvmlite", "ml_dtypes", "junitparser"}
_SITE_PACKAGES = {  # of the extra [web]
    "fastapi", "starlette", "pydantic", "uvicorn", "h11", "sqlalchemy", "alembic", "dask", "distributed", "markdown_it",
    "mdit_py_plugins", "latex2mathml", "pygments", "babel", "httpx2",
    "cryptography", "python_multipart",
}  # fmt: skip
_COMMANDS = ("list", "show", "start", "grade", "lint", "doctor", "serve", "submit", "editor")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code as of DESIGN."""
    words = sys.argv[1:] if arguments is None else arguments
    streams.prepare(debug=commandline.DEBUG in words)
    try:
        return _guarded(words)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package in _SITE_PACKAGES:
            return _fail(f"the package '{package}' of the site is missing; install all of them: {_pip('[web]')}")
        if package not in _PACKAGES:
            return _failed(error, words)
        return _fail(f"the package '{package}' is missing; install all of them: {_pip()}")
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, streams.Stopped) else signal.SIGINT
        return _fail("interrupted; nothing is left running", 128 + number)
    except Exception as error:  # whatever else there is, it is not the submission's fault
        return _failed(error, words)


def _guarded(words: list[str]) -> int:
    """The command, and what its output meets: a reader that has seen enough (`| head`), a full disk."""
    try:
        try:
            return _dispatch(words)
        finally:
            with streams.printing():
                pass  # but flush what `--help` printed, too
    except BrokenPipeError:
        streams.discard(sys.stdout)
        return 128 + signal.SIGPIPE
    except streams.CannotPrint as error:
        streams.discard(sys.stdout)
        return _fail(str(error), commandline.EXIT_JUDGE_ERROR)


def _failed(error: Exception, words: list[str]) -> int:
    """Our own fault. Where in the code is told to who asks for it."""
    debug = commandline.DEBUG in words
    if debug:
        traceback.print_exception(error)
    hint = "as above" if debug else f"{commandline.DEBUG} shows where"
    return _fail(f"judge error: the judge itself failed ({type(error).__name__}); {hint}", commandline.EXIT_JUDGE_ERROR)


def _pip(extra: str = "") -> str:
    return f"{shlex.quote(sys.executable)} -m pip install -e {shlex.quote(str(_ROOT) + extra)}"


def _fail(message: str, code: int = commandline.EXIT_USAGE) -> int:
    streams.complain(message)
    return code


def _dispatch(arguments: list[str]) -> int:
    from harness.errors import JudgeError, UsageError

    commands = {
        "list": _list, "show": _show, "start": _start, "grade": _grade, "lint": _lint, "doctor": _doctor,
        "serve": _serve, "submit": _submit, "editor": _editor,
    }  # fmt: skip
    try:
        if arguments and arguments[0] in commands:
            return commands[arguments[0]](arguments[1:])
        return _judge(arguments)
    except UsageError as error:
        return _fail(str(error))
    except JudgeError as error:
        return _fail(f"judge error, not the submission's fault: {error}", commandline.EXIT_JUDGE_ERROR)


def _judge(arguments: list[str]) -> int:
    parsed = commandline.judge_parser().parse(arguments)
    if parsed.problem is None:
        return _fail("name a problem and a file: judge.py flash_attention my.cu; `judge.py list` shows the problems")
    problem = _load_problem(parsed.problem).track(parsed.dtype, parsed.variant)
    if parsed.solution is None:
        hint = f"`judge.py start {problem.id}` writes a starter to {problem.id}.cu"
        return _fail(f"name the .cu file to judge: judge.py {parsed.problem} my.cu; {hint}")
    _check_destinations(parsed, problem)
    with streams.prints_to_stderr():
        report, source = _run(problem, parsed)
    _write(report, source, parsed)
    return commandline.exit_code(report.verdict)


def _check_destinations(parsed: argparse.Namespace, problem: Problem) -> None:
    from harness.errors import UsageError
    from harness.report import destination

    submission = Path(parsed.solution)
    if parsed.json not in (None, "-"):
        destination.check(Path(parsed.json), submission, problem.directory, destination.JSON)
    if parsed.html:
        destination.check(Path(parsed.html), submission, problem.directory, destination.HTML)
    if parsed.html and parsed.json and Path(parsed.html).resolve() == Path(parsed.json).resolve():
        raise UsageError(f"cannot write the report to {parsed.html}: --json writes to the same file")


def _load_problem(name: str) -> Problem:
    from harness import problem
    from harness.errors import UsageError

    if name.endswith((".cu", ".cuh")):
        raise UsageError(f"the problem comes first: judge.py PROBLEM {name}; `judge.py list` shows the problems")
    try:
        return problem.load(name)
    except UsageError as error:
        close = difflib.get_close_matches(name, _COMMANDS, 1, 0.7)
        raise type(error)(f"{error}; or the command `{close[0]}`?" if close else str(error)) from None


def _run(problem: Problem, parsed: argparse.Namespace) -> tuple[Report, str]:
    """The report, and the source that its lines refer to."""
    from harness import cards, pipeline, submission
    from harness.errors import SubmissionError

    cards.get(parsed.card)
    try:
        loaded = submission.load(Path(parsed.solution))
    except SubmissionError as error:
        return pipeline.refused(problem.id, Path(parsed.solution).name, error), ""
    names = ("device", "dtype", "variant", "cases", "baseline", "seed", "card", "cache", "threads", "schedule")
    options = pipeline.Options(
        seconds=parsed.time_limit, trace=bool(parsed.html), **{name: getattr(parsed, name) for name in names}
    )
    if parsed.resources:
        options = dataclasses.replace(options, resource_seconds=_RESOURCE_SECONDS)
    return _watch(problem, loaded, options), loaded.text


def _watch(problem: Problem, submission: Submission, options: Options) -> Report:
    """Judge, with the current step on a terminal's standard error."""
    from harness.events import Finished
    from harness.pipeline import judge

    with contextlib.closing(judge(problem, submission, options)) as events, _progress() as show:
        for event in events:
            show(event)
            if isinstance(event, Finished):
                return event.report
    raise AssertionError("the judging ended without a report")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Event], None]]:
    if not sys.stderr.isatty():
        yield lambda event: None
        return
    from harness.report.console import Console
    from harness.report.terminal import progress_line

    with Console(stderr=True).status("starting") as status:
        yield lambda event: status.update(progress_line(event) or status.status)


def _write(report: Report, source: str, parsed: argparse.Namespace) -> None:
    """The report for people on standard output (standard error when JSON goes there), the JSON and the page."""
    from harness.report import destination, json, terminal
    from harness.report.console import Console

    to_stdout = parsed.json == "-"
    seed = report.seed if report.cases or report.seed else parsed.seed
    repeat = commandline.repeat(parsed, seed)
    if parsed.json and not to_stdout:
        destination.save(parsed.json, json.render(report))
    if parsed.html:
        from harness.report import html

        destination.save(parsed.html, html.render(report, source, repeat))
    with streams.printing():
        terminal.print_report(Console(stderr=to_stdout), report, source, repeat, parsed.traffic)
        if to_stdout:
            sys.stdout.write(json.render(report))


def _list(arguments: list[str]) -> int:
    commandline.command_parser("list", "The problems.").parse(arguments)
    from harness.problem import list_problems
    from harness.report import catalogue

    problems = list_problems()
    with streams.printing():
        catalogue.print_problems(problems)
    return 0


def _show(arguments: list[str]) -> int:
    parser = commandline.command_parser("show", "A problem's statement, signature, cases and benchmarks.")
    parser.add_argument("problem", type=commandline.name)
    parser.add_argument("--card", default="H200", help="the GPU whose speed of light is shown (H200)")
    commandline.add_track(parser, "the problem's first")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="of the statement: English or Chinese (en)")
    about = "also hint or answer N; several with commas, or all"
    parser.add_argument("--unfold", type=commandline.name, metavar="N", help=about)
    parsed = parser.parse(arguments)
    from harness import cards
    from harness.report import catalogue

    problem = _load_problem(parsed.problem).track(parsed.dtype, parsed.variant)
    card = cards.get(parsed.card)
    with streams.printing():
        catalogue.print_problem(problem, card, parsed.lang, parsed.unfold or "")
    return 0


def _start(arguments: list[str]) -> int:
    parser = commandline.command_parser("start", "Write a problem's starter.")
    parser.add_argument("problem", type=commandline.name)
    parser.add_argument("file", nargs="?", type=commandline.name, help="where to (PROBLEM.cu)")
    commandline.add_track(parser, "the problem's first")
    parsed = parser.parse(arguments)
    problem = _load_problem(parsed.problem)
    starter = problem.starter_for(parsed.dtype, parsed.variant)
    target = Path(parsed.file or f"{problem.id}.cu")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(starter)
    except FileExistsError:
        other = [parsed.problem, "other.cu", *(["--dtype", parsed.dtype] if parsed.dtype else [])]
        return _fail(f"{target} exists and is left as it is; give another name: judge.py start {shlex.join(other)}")
    except OSError as error:
        return _fail(f"cannot write {target}: {error.strerror}")
    with streams.printing():
        print(f"wrote {target}; judge it with: python judge.py {shlex.join([parsed.problem, str(target)])}")
    return 0


def _lint(arguments: list[str]) -> int:
    parsed = commandline.lint_parser().parse(arguments)
    from harness.linting import table
    from harness.linting.lint import LintOptions, lint
    from harness.report import destination
    from harness.report.console import Console

    problem = _load_problem(parsed.problem)
    if parsed.json:
        destination.check(Path(parsed.json), problem.directory, problem.directory, destination.JSON)
    seeds = commandline.QUICK_SEEDS if parsed.quick else parsed.seeds
    jobs = parsed.jobs or len(os.sched_getaffinity(0))
    options = LintOptions(seeds, parsed.seed, jobs, parsed.dtype, parsed.variant, parsed.kernels, parsed.cache)
    with streams.prints_to_stderr():
        report = lint(problem, options, _tell)
    if parsed.json:
        destination.save(parsed.json, table.render(report))
    with streams.printing():
        table.print_report(Console(), report)
    return 0 if report.sound else 1


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _doctor(arguments: list[str]) -> int:
    commandline.command_parser("doctor", "What this machine can do, and what to install for the rest.").parse(arguments)
    from harness import doctor
    from web import examination

    site = examination.look(_SITE_PACKAGES, _pip("[web]"))
    with streams.printing():
        return 0 if doctor.print_examination(_pip(), site) else commandline.EXIT_UNSUPPORTED


def _grade(arguments: list[str]) -> int:
    parsed = commandline.grade_parser().parse(arguments)
    from harness.grading import command

    return command.run(parsed)


def _serve(arguments: list[str]) -> int:
    from web import serve

    return serve.run(arguments)


def _submit(arguments: list[str]) -> int:
    from web.client import command

    return command.run(arguments)


def _editor(arguments: list[str]) -> int:
    from web.editor import command

    return command.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
