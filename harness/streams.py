"""The judge's own process: its standard streams, and the signals that end it. Only the standard library is needed."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TextIO


class Stopped(KeyboardInterrupt):
    """A signal asked for the end. Unwinds like Ctrl-C, so that children and temporary directories are cleared."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


class CannotPrint(Exception):
    """Standard output or standard error takes no more: a full disk, a terminal that is gone."""


def prepare(debug: bool) -> None:
    """Let signals raise Stopped, unless whoever started us has them ignored; have all streams, and let them take every
    text. `debug`: what the harness logs goes to standard error."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    for name in ("stdin", "stdout", "stderr"):  # in this order: a closed one is opened under its own number
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if debug:
        logging.basicConfig(format="judge.py: %(message)s", stream=sys.stderr)
        logging.getLogger("harness").setLevel(logging.DEBUG)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closing terminal sends it twice
    raise Stopped(number)


def unwind_on_sigterm() -> None:
    """For a process that another one holds and ends: SIGTERM raises Stopped, once, and a closing terminal is the other
    one's affair."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop_once)


def _stop_once(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped(number)


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Around whatever prints. Raises BrokenPipeError where nobody reads any more, CannotPrint where it fails."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrint(f"cannot write the output: {error.strerror or error}") from None


@contextlib.contextmanager
def prints_to_stderr() -> Iterator[None]:
    """While a problem's own code runs: what it prints must not get into the report on standard output."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def discard(stream: TextIO) -> None:
    """Let what the stream still holds go nowhere, so that the interpreter's last flush does not complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def complain(message: str) -> None:
    """One line on standard error, if it takes it."""
    try:
        print(f"judge.py: {message}", file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)
