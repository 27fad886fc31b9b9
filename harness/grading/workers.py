"""Several files at once, each in a process of its own, which takes one file after the other.

    this process                               worker (a fresh interpreter)
    Workers.results    -- Entry -------->      judging.grade
                       <-- str ----------      the step that it is at
                       <-- Graded -------
    close              -- SIGTERM ------>      unwinds: its own children and temporary files are gone
                       -- SIGKILL ------>      should it take longer than _GRACE

Processes, not threads: NumPy code of references would wait for the interpreter's lock, and a judging that is stopped
half-way must unwind. A worker that dies takes no other file with it than its own.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait

from harness import streams
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status
from harness.grading.judging import Settings, grade
from harness.sandbox.limits import bind_to_parent
from harness.verdict import Verdict

_GRACE = 10.0  # seconds to unwind
_CONTEXT = multiprocessing.get_context("spawn")  # a fork would inherit locks that threads here hold


class _Worker:
    """One process, and the entry that it is at, by its place in the list."""

    def __init__(self, settings: Settings):
        self.channel, theirs = _CONTEXT.Pipe()
        self.at = -1
        self._folder = tempfile.mkdtemp(prefix="judge-")  # for its temporary files, should it die among them
        arguments = (theirs, os.getpid(), self._folder, settings)
        self.process = _CONTEXT.Process(target=_serve, args=arguments, daemon=True)
        try:
            self._start()
        except BaseException:  # an interrupt that came meanwhile
            self.end()
            raise
        theirs.close()

    def _start(self) -> None:
        """Ctrl-C at a terminal reaches the worker, too, and is left to this process: it is deaf to it from birth."""
        resource_tracker.ensure_running()  # whose own start would lift the mask
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)

    def give(self, at: int, entry: Entry) -> None:
        """The next file; a worker that has died in the meantime is noticed when its answer is read."""
        self.at = at
        with contextlib.suppress(OSError):
            self.channel.send(entry)

    def receive(self) -> str | Graded:
        """A step or the result; a worker that died instead gives a result, too, and is of no use afterwards."""
        try:
            message: str | Graded = self.channel.recv()
        except (EOFError, OSError):
            self.process.join(_GRACE)
            why = f"the process that judged it ended unasked (exit code {self.process.exitcode})"
            return Graded(Status.JUDGE_ERROR, (why,), Verdict.JUDGE_ERROR)
        return message

    def stop(self) -> None:
        """Tell the process to end, whatever it is at."""
        if self.process.pid:
            self.process.terminate()

    def end(self) -> None:
        """Have the process end, and remove what it left."""
        self.stop()
        if self.process.pid:
            self.process.join(_GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()
        self.channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Workers:
    """At most `jobs` processes; close them, or use this in a with statement. Start and use it in one thread."""

    def __init__(self, jobs: int, settings: Settings):
        self._jobs = jobs
        self._settings = settings
        self._workers: list[_Worker] = []

    def results(self, entries: Sequence[Entry]) -> Iterator[tuple[int, str | Graded]]:
        """(place in `entries`, a step or the result) as they come; each entry has steps, then one result."""
        waiting = deque(range(len(entries)))
        while waiting or any(worker.at >= 0 for worker in self._workers):
            while waiting and (worker := self._idle()):
                at = waiting.popleft()
                yield at, "starting"
                worker.give(at, entries[at])
            yield from self._received()

    def _idle(self) -> _Worker | None:
        for worker in self._workers:
            if worker.at < 0:
                return worker
        if len(self._workers) == self._jobs:
            return None
        self._workers.append(_Worker(self._settings))
        return self._workers[-1]

    def _received(self) -> Iterator[tuple[int, str | Graded]]:
        busy = {worker.channel: worker for worker in self._workers if worker.at >= 0}
        for channel in wait(list(busy)):
            worker = busy[channel]  # type: ignore[index]
            at, message = worker.at, worker.receive()
            if isinstance(message, Graded):
                worker.at = -1
                if not worker.process.is_alive():
                    self._workers.remove(worker)
                    worker.end()
            yield at, message

    def close(self) -> None:
        """End all processes, whatever they are at."""
        for worker in self._workers:
            worker.stop()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(channel: Connection, parent: int, folder: str, settings: Settings) -> None:
    """The worker's side."""
    bind_to_parent(parent)
    tempfile.tempdir = folder
    streams.unwind_on_sigterm()
    with contextlib.suppress(streams.Stopped, EOFError, BrokenPipeError), channel:
        while True:
            channel.send(grade(channel.recv(), settings, channel.send))
