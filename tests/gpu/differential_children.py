"""Processes that do one request after another and may die of it: a crash or an endless loop costs one request."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

RAN, REFUSED, FINDING, FAULT, DIED, ENDLESS = "ran", "refused", "finding", "fault", "died", "endless"


@dataclass(frozen=True)
class Build:
    """Random programs of consecutive seeds to one module, `stem`.ptx and `stem`.cubin."""

    family: str
    seeds: range
    level: str
    stem: Path


@dataclass(frozen=True)
class Assemble:
    """`stem`.ptx to `stem`.cubin."""

    stem: Path


@dataclass(frozen=True)
class Run:
    """One launch of a kernel of `stem`. Arrays among the arguments are read and written. optimise: with LLVM's passes,
    which matters to the emulator alone; repeat: run it twice, from the same arguments, to see whether it is stable."""

    stem: Path
    kernel: str
    arguments: tuple[np.ndarray | int, ...]
    grid: int
    block: int
    optimise: bool = True
    repeat: bool = False
    seconds: float = 20.0


@dataclass(frozen=True)
class Reply:
    """`arrays` as they are after the launch, in the order of the arguments; `again` after the second."""

    status: str
    note: str = ""
    arrays: list[np.ndarray] = field(default_factory=list)
    again: list[np.ndarray] = field(default_factory=list)


Handler = Callable[[Any], Reply]


def serve(connection: Connection, make_handler: Callable[[], Handler]) -> None:
    """The life of a child: it ends after a request that leaves it unusable."""
    handle = make_handler()
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        reply = handle(request)
        connection.send(reply)
        if reply.status in (FAULT, ENDLESS):
            connection.close()
            return


class Child:
    """A process of `make_handler`, started when it is needed and again after it has died."""

    def __init__(self, make_handler: Callable[[], Handler]):
        self._make_handler = make_handler
        self._process: Any = None
        self._connection: Any = None

    def call(self, request: object, seconds: float) -> Reply:
        """The reply, or DIED with the exit code, or ENDLESS where there is none in time."""
        if self._process is None:
            self._start()
        try:
            self._connection.send(request)
            if not self._connection.poll(seconds):
                self.close()
                return Reply(ENDLESS, f"no answer in {seconds:.0f} s")
            reply: Reply = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(10)
            code = self._process.exitcode
            self.close()
            return Reply(DIED, f"exit code {code}")
        if reply.status in (FAULT, ENDLESS):
            self.close()
        return reply

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._make_handler), daemon=True)
        self._process.start()
        theirs.close()
