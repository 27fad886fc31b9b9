"""The words of the command line: options, their values, and help. Needs nothing that is not in the standard library."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import math
import shlex
import sys
from typing import NoReturn

from harness.verdict import Verdict

EXIT_USAGE, EXIT_JUDGE_ERROR, EXIT_UNSUPPORTED = 2, 3, 4
DEBUG = "--debug"
QUICK_SEEDS = 2  # of lint --quick
_LEAST_SECONDS = 0.01
_EPILOG = """other commands:
  judge.py list                  the problems
  judge.py show PROBLEM          its statement, signature and cases
  judge.py start PROBLEM [FILE]  write its starter to FILE (never over an existing one)
  judge.py grade PATH...         many files, each of which must get what it declares; for a class, and in CI
  judge.py lint PROBLEM          whether a problem rejects wrong kernels and accepts right ones, for its author
  judge.py serve                 the site in a browser: read a problem, write the kernel, run it, see why
  judge.py submit PROBLEM FILE   have a file judged by a site, from here
  judge.py editor                build the code editor of the site (once; serve does it, too)
  judge.py doctor                what this machine can do, and what to install for the rest

exit codes: 0 accepted, 1 judged and not accepted, 2 usage or problem error, 3 judge error, 4 unsupported here
"""


def exit_code(verdict: Verdict) -> int:
    """Of a judging."""
    codes = {Verdict.ACCEPTED: 0, Verdict.JUDGE_ERROR: EXIT_JUDGE_ERROR, Verdict.UNSUPPORTED: EXIT_UNSUPPORTED}
    return codes.get(verdict, 1)


class Parser(argparse.ArgumentParser):
    """Errors in one line with the closest known option, and exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"judge.py: {message}; `judge.py --help` shows what there is\n")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """Like parse_args, but an unknown option comes with a suggestion."""
        parsed, unknown = self.parse_known_args(arguments)
        for word in (word for word in unknown if word != "--"):
            close = difflib.get_close_matches(word.split("=")[0], self._option_string_actions, 1)
            self.error(f"unknown argument {word!r}" + (f"; did you mean {close[0]}?" if close else ""))
        return parsed


def command_parser(name: str, description: str) -> Parser:
    """For one of the commands beside judging."""
    return _debuggable(Parser(prog=f"judge.py {name}", description=description, allow_abbrev=False))


def _debuggable(parser: Parser) -> Parser:
    words = "when the judge itself fails, say on standard error where"
    parser.add_argument(DEBUG, action="store_true", help=words)
    return parser


def judge_parser() -> Parser:
    """For `judge.py PROBLEM SOLUTION.cu`."""
    parser = Parser(
        prog="judge.py",
        description="Judge a CUDA attention kernel: compile it, run it on randomised cases, explain the verdict.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("problem", nargs="?", type=name, help="a problem's id, or the path of a problem directory")
    parser.add_argument("solution", nargs="?", type=name, metavar="SOLUTION.cu", help="the file to judge")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="cpu is the emulator (auto)")
    add_track(parser, "what solve() is written for")
    parser.add_argument("--cases", metavar="NAMES", help="names or patterns with commas; samples; benchmarks (all)")
    parser.add_argument("--seed", type=_seed, help="repeat the inputs of an earlier run (fresh)")
    parser.add_argument("--json", type=name, metavar="PATH", help="also write the report as JSON; '-': standard output")
    parser.add_argument("--html", type=_page, metavar="FILE", help="also write the report as one HTML page")
    parser.add_argument("--baseline", action="store_true", help="time installed libraries on the same benchmarks")
    parser.add_argument("--traffic", action="store_true", help="the memory traffic of every launch, line by line")
    parser.add_argument("--card", default="H100", help="the GPU that the emulator plays (H100)")
    parser.add_argument("--no-cache", dest="cache", action="store_false", help="compile afresh")
    parser.add_argument("--resources", action="store_true", help="wait up to 2 minutes for registers and spills (5 s)")
    parser.add_argument("--threads", type=_threads, default=0, metavar="N", help="of the emulator (all cores)")
    parser.add_argument("--schedule", type=_seed, metavar="SEED", help="shuffle the emulator's blocks and warps (no)")
    parser.add_argument("--time-limit", type=_seconds, default=0.0, metavar="S", help="seconds a case (the problem's)")
    return _debuggable(parser)


def grade_parser() -> Parser:
    """For `judge.py grade PATH...`."""
    parser = command_parser("grade", "Judge many files, each of which must get what it declares.")
    parser.epilog = "exit codes: 0 all as declared, 1 a surprise, 2 usage or problem error, 3 judge error"
    add = parser.add_argument
    add("paths", nargs="+", type=name, metavar="PATH", help="a .cu file, its .expect.yaml, or a folder of them")
    add("--problem", type=name, help="of every file, an id or a path; implies --ignore-declarations")
    add("--ignore-declarations", action="store_true", help="every file must be accepted, whatever it declares")
    add("--report-only", action="store_true", help="nothing is a surprise: the list of verdicts")
    add("--device", choices=("auto", "cpu", "gpu"), default="auto", help="cpu is the emulator (auto)")
    add_track(parser, "what the file declares, or its solve() is written for")
    add("--jobs", type=_jobs, default=0, metavar="N", help="files judged at once (half of the cores; on a GPU 1)")
    add("--benchmarks", action="store_true", help="also benchmarks, for a score, where no cases are declared")
    add("--seed", type=_seed, help="repeat the inputs of an earlier run (fresh, the same for all files)")
    add("--card", default="H100", help="the GPU that the emulator plays (H100)")
    add("--time-limit", type=_seconds, default=0.0, metavar="S", help="seconds a case (the problem's)")
    add("--no-cache", dest="cache", action="store_false", help="compile afresh")
    add("--json", type=_file, metavar="FILE", help="also write all results as JSON")
    add("--junit", type=_file, metavar="FILE", help="also write them as JUnit XML, for CI systems")
    add("--markdown", type=_file, metavar="FILE", help="also write them as Markdown, as for $GITHUB_STEP_SUMMARY")
    return parser


def lint_parser() -> Parser:
    """For `judge.py lint PROBLEM`."""
    parser = command_parser("lint", "Whether a problem rejects the kernels in its bad/ and accepts those in honest/.")
    parser.add_argument("problem", type=name, help="a problem's id, or the path of a problem directory")
    parser.add_argument("--seeds", type=_seeds, default=20, metavar="N", help="seeds that each kernel runs on (20)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds")
    parser.add_argument("--seed", type=_seed, default=1, help="the first of the seeds (1)")
    parser.add_argument("--jobs", type=_threads, metavar="N", help="kernels at a time (all cores)")
    add_track(parser, "all")
    parser.add_argument("--kernels", type=name, metavar="NAMES", help="nothing but these kernels; patterns with commas")
    parser.add_argument("--json", type=name, metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--no-cache", dest="cache", action="store_false", help="compile afresh")
    return parser


def add_track(parser: Parser, default: str) -> None:
    """The options that name a track of the problem."""
    parser.add_argument("--dtype", type=name, help=f"the track: float32, float16, bfloat16, float8_e4m3 ({default})")
    parser.add_argument("--variant", type=name, help=f"the form of the task, where it has several ({default})")


def name(text: str) -> str:
    """A name or path that is not empty, such as an unset variable of a shell gives."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty")
    return text


def _page(text: str) -> str:
    if text == "-":
        raise argparse.ArgumentTypeError("a page goes to a file, not to standard output")
    return name(text)


def _file(text: str) -> str:
    if text == "-":
        raise argparse.ArgumentTypeError("it goes to a file, not to standard output")
    return name(text)


def _jobs(text: str) -> int:
    return whole(text, 1, 256)


def _seed(text: str) -> int:
    return whole(text, 0, 2**63 - 1)


def _seeds(text: str) -> int:
    return whole(text, 1, 1000)


def _threads(text: str) -> int:
    return whole(text, 1, 1024)


def whole(text: str, low: int, high: int) -> int:
    """The whole number that an option's value is."""
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {low} to {high}")
    return int(text)


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(value := float(text)) and _LEAST_SECONDS <= value <= 3600:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from {_LEAST_SECONDS} to 3600")


def repeat(parsed: argparse.Namespace, seed: int | None) -> str:
    """The command that judges the same file on the same inputs, as it was called, for a shell."""
    script = sys.argv[0] if sys.argv[0].endswith(".py") else "judge.py"
    usual = judge_parser()
    values: dict[str, object] = {"seed": seed, "device": parsed.device, "cases": parsed.cases, "card": parsed.card}
    values |= {"dtype": parsed.dtype, "variant": parsed.variant}
    values |= {"schedule": parsed.schedule, "time-limit": parsed.time_limit}
    options = []
    for option, value in values.items():
        if value is not None and value != usual.get_default(option.replace("-", "_")):
            options += [f"--{option}={value}"] if str(value).startswith("-") else [f"--{option}", str(value)]
    options += ["--baseline"] * parsed.baseline
    files = [parsed.problem, parsed.solution]
    dashed = any(file.startswith("-") for file in files)
    return shlex.join(
        [sys.orig_argv[0] or "python", script, *([*options, "--", *files] if dashed else files + options)]
    )
