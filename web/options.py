"""The words of `judge.py serve` and `judge.py submit`. Needs nothing but the standard library, so that --help is always
there."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness import commandline
from web.settings import Settings, data_folder

_USUAL = Settings(folder=Path())


def serve_parser() -> commandline.Parser:
    """For `judge.py serve`."""
    parser = commandline.command_parser("serve", "The site: read a problem, write the kernel, run it, see why.")
    add = parser.add_argument
    add("--host", type=commandline.name, default=_USUAL.host, help=f"a loopback address ({_USUAL.host})")
    add("--port", type=_port, default=_USUAL.port, help=f"0: any that is free ({_USUAL.port})")
    add("--folder", type=commandline.name, help=f"where submissions are kept ({data_folder()})")
    add("--database", type=commandline.name, metavar="URL", help="of SQLAlchemy (SQLite in the folder)")
    add("--jobs", type=_jobs, default=_USUAL.jobs, metavar="N", help=f"submissions judged at once ({_USUAL.jobs})")
    add("--device", choices=("auto", "cpu", "gpu"), default=_USUAL.device, help="cpu is the emulator (auto)")
    add("--card", default=_USUAL.card, help=f"the GPU that the emulator plays ({_USUAL.card})")
    add("--scheduler", type=commandline.name, metavar="ADDRESS", help="of Dask (workers of its own)")
    add("--no-editor", dest="editor", action="store_false", help="do not build the code editor where it is missing")
    add("--open", action="store_true", help="show it in the browser")
    return parser


def submit_parser() -> commandline.Parser:
    """For `judge.py submit PROBLEM FILE`."""
    parser = commandline.command_parser("submit", "Have a file judged by a site, and print the report.")
    parser.epilog = "exit codes are those of judging here; 0 with --no-wait once the site has it"
    add = parser.add_argument
    add("problem", type=commandline.name, help="a problem's id")
    add("file", type=commandline.name, help="the .cu file")
    server = f"http://{_USUAL.host}:{_USUAL.port}"
    add("--server", type=commandline.name, default=server, metavar="URL", help=f"of the site ({server})")
    add("--run", action="store_true", help="the samples alone, without a score")
    commandline.add_track(parser, "what solve() is written for")
    add("--device", choices=("auto", "cpu", "gpu"), default="auto", help="cpu is the emulator (auto)")
    add("--name", type=commandline.name, help="that the submission goes by (the file's)")
    add("--json", type=commandline.name, metavar="PATH", help="also write the report as JSON; '-': standard output")
    add("--no-wait", dest="wait", action="store_false", help="print the submission's address and leave")
    return parser


def _port(text: str) -> int:
    return commandline.whole(text, 0, 65535)


def _jobs(text: str) -> int:
    return commandline.whole(text, 1, 64)


def settings_of(parsed: argparse.Namespace) -> Settings:
    """What `serve` was called with."""
    folder = Path(parsed.folder).expanduser().resolve() if parsed.folder else data_folder()
    names = ("host", "port", "jobs", "device", "card", "editor")
    given = {name: getattr(parsed, name) for name in names}
    return Settings(folder=folder, database=parsed.database or "", scheduler=parsed.scheduler or "", **given)
