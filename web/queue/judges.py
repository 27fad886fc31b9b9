"""What a Dask worker has of a site: judging processes, warm before the first claim comes, and the task that uses one.

The task gives nothing back and leaves nothing: what there is to say is in the store. The worker asks the store several
times a second whether the judging is still wanted, so that a cancelled one ends wherever it runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import signal
import threading
from typing import Any

from distributed import WorkerPlugin, get_worker
from sqlalchemy.exc import OperationalError

from web.queue.failure import lost
from web.queue.manner import Manner
from web.queue.process import Answer, JudgingProcess
from web.store import engine as database
from web.store import judgings
from web.store.records import Claim

_POLL = 0.25  # seconds between two questions to the store


class StoreSilent(Exception):
    """The store took nothing for long; the judging is to be done again."""


class Judges(WorkerPlugin):
    """As many judging processes as the worker has threads. `ours`: the worker is this machine's and this site's own."""

    def __init__(self, manner: Manner, ours: bool):
        self.name = "judge-" + hashlib.sha256(manner.database.encode()).hexdigest()[:12]  # one set a store
        self._manner = manner
        self._ours = ours

    def setup(self, worker: Any) -> None:
        """In the worker: start the processes."""
        if self._ours:  # what a terminal or a service manager tells all processes is for the site to act on
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
        self._engine = database.connect(self._manner.database)
        self._folder = worker.local_directory
        self._lock = threading.Lock()
        self._closing = False
        self._idle = [self._start() for _ in range(worker.state.nthreads)]

    def teardown(self, worker: Any) -> None:
        """In the worker: end them."""
        with self._lock:
            self._closing, idle, self._idle = True, self._idle, []
        for process in idle:
            process.end()
        self._engine.dispose()

    def judge(self, claim: Claim) -> None:
        """In a thread of the worker: see a claim to its end. Raises StoreSilent."""
        if not judgings.begin(self._engine, claim):  # begun before: Dask hands on the work of a worker that is gone
            lost(self._engine, claim, self._manner.attempts)
            return
        process = self._take()
        process.give(claim)
        while not process.answered(_POLL):
            if self._unwanted(claim):
                self._replace(process)
                judgings.cancelled(self._engine, claim)
                return
        self._settle(claim, process)

    def _settle(self, claim: Claim, process: JudgingProcess) -> None:
        answer = process.receive()
        if answer in (Answer.DONE, Answer.STORE):
            self._put(process)
        else:
            self._replace(process)
        if answer is Answer.STORE:
            raise StoreSilent("the store took nothing for long")
        if answer is Answer.STOPPED:
            judgings.release(self._engine, claim, "its judging was stopped")
        elif answer is Answer.DIED:
            lost(self._engine, claim, self._manner.attempts)

    def _unwanted(self, claim: Claim) -> bool:
        with contextlib.suppress(OperationalError):
            return judgings.cancel_requested(self._engine, claim)
        return False

    def _start(self) -> JudgingProcess:
        return JudgingProcess(self._manner, self._folder)

    def _take(self) -> JudgingProcess:
        with self._lock:
            process = self._idle.pop() if self._idle else self._start()
        if process.alive:
            return process
        process.end()
        return self._start()

    def _put(self, process: JudgingProcess) -> None:
        with self._lock:
            self._idle.append(process)

    def _replace(self, process: JudgingProcess) -> None:
        process.end()
        if not self._closing:
            self._put(self._start())


def run_judging(plugin: str, claim: Claim) -> None:
    """The task."""
    judges = get_worker().plugins[plugin]
    assert isinstance(judges, Judges)
    judges.judge(claim)
