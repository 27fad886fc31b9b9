"""The queue of a site: takes waiting judgings from the store while there are workers for them.

    store -- claim --> Dispatcher -- Claim --> Dask worker --> judging process -- events, verdict --> store
      ^                                                                                                |
      +-- died, release: what ended without a verdict waits again --- Dispatcher <-- end of the task ---+

One thread does all of it and holds nothing that the store does not know. A claim is settled at the end of its task: if
the row is still at that attempt, then its worker died. The site holds the store's lock, so whatever the store has in
hand and this thread has not is somebody's who is gone: at a start, after the loss of the workers, and when the store
failed half-way through a step.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from web.queue import card
from web.queue.cluster import Cluster, KilledWorker, check
from web.queue.failure import lost
from web.queue.manner import Manner, of_site
from web.settings import Settings
from web.store import judgings, submissions
from web.store.records import Claim, Kind, State

_POLL = 1.0  # seconds between two looks at the store, should nobody wake us
_BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # seconds until the next try, the last for good
_STORE_SECONDS = 2.0  # until the next try, where the store took nothing: asking costs little
_CLOSE_SECONDS = 20.0
_NICE = 5
_FAIR = 4  # of so many claims one goes by age alone: runs of samples come first, but submits come, too
_log = logging.getLogger(__name__)


class _ClusterLost(Exception):
    """The scheduler is gone, and all its work with it."""


class Dispatcher:
    """The queue (base.Queue) that judges. `start` it once, `close` it at the end."""

    def __init__(self, settings: Settings, engine: Engine, manner: Manner | None = None):
        self._settings = settings
        self._engine = engine
        self._manner = manner or of_site(settings, engine)
        self._owner = f"{socket.gethostname()[:30]}-{os.getpid()}-{secrets.token_hex(4)}"
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._in_hand: dict[Any, Claim] = {}  # by the future of its task
        self._claims = 0
        self._rest_until = 0.0  # of the monotonic clock
        self._starting = True
        self._trouble = ""
        self._cards = 0  # that judgings may use

    def start(self) -> None:
        """Take up what an earlier start left, and begin. The caller holds the store's lock (web/store/lock.py). Raises
        UsageError where the store is out of the workers' reach."""
        check(self._settings, self._engine)
        if found := judgings.recover(self._engine, (), "the site was started again"):
            _log.info("judgings that an earlier start left unfinished and that begin anew: %d", found)
        self._thread.start()

    def wake(self) -> None:
        """Something was added."""
        self._awake.set()

    def cancel(self, submission_id: str) -> None:
        """Workers ask the store themselves, several times a second."""
        self._awake.set()

    def starting(self) -> bool:
        """Whether the workers have yet to come, for the first time."""
        return self._starting and not self._trouble

    def trouble(self) -> str:
        """Why nothing is judged at the moment; empty while all is well, or only starting."""
        return self._trouble

    def has_card(self) -> bool:
        """Whether some worker has a GPU that it can use."""
        return self._cards > 0

    def close(self) -> None:
        """What is unfinished goes back into the queue; then the workers end."""
        self._stopping.set()
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        """The thread: workers as long as the site lives, and again when they are lost."""
        # Pages come first: on Linux this is the niceness of this thread, and of the threads and processes it starts.
        os.nice(_NICE)
        pauses = _pauses()
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                has_card = card.is_here(self._manner.toolchain)
                with contextlib.closing(Cluster(self._settings, self._manner, has_card)) as cluster:
                    try:
                        self._feed(cluster)
                    finally:
                        self._release_all()
            except Exception as error:
                if self._stopping.is_set():  # whatever did not end in time is ended with this process
                    _log.debug("the workers ended late", exc_info=True)
                    return
                if isinstance(error, _ClusterLost):
                    self._trouble = f"the scheduler {self._settings.scheduler} is lost; trying to reach it again"
                else:
                    self._trouble = f"the workers cannot be started: {type(error).__name__}: {error}"
                _log.warning("%s", self._trouble, exc_info=not isinstance(error, (_ClusterLost, OSError)))
                if time.monotonic() - began > _BACK_OFF[-1]:  # they have worked
                    pauses = _pauses()
                self._stopping.wait(next(pauses))

    def _feed(self, cluster: Cluster) -> None:
        """Until the site ends. Raises _ClusterLost."""
        told = ""
        in_doubt = True  # what the store has in hand; a claim may be there of which we never heard
        while not self._stopping.is_set():
            self._awake.clear()
            try:
                if in_doubt:
                    judgings.recover(self._engine, self._in_hand.values(), "the judge could not go on")
                    in_doubt = False
                self._settle_ended()
                self._hand_out(cluster)
            except DBAPIError as error:
                self._trouble = f"the store cannot be used: {error.orig}"
                if self._trouble != told:
                    _log.warning("%s", self._trouble)
                in_doubt, told = True, self._trouble
                self._stopping.wait(_STORE_SECONDS)
                continue
            told = ""
            self._awake.wait(_POLL)
            if cluster.lost:
                raise _ClusterLost

    def _hand_out(self, cluster: Cluster) -> None:
        slots, self._cards = cluster.slots()
        trouble = "" if slots else "there is no worker; it goes on when one joins the scheduler"
        self._starting = False
        if time.monotonic() < self._rest_until:
            slots = 0
        while len(self._in_hand) < slots and (claim := self._claim(slots, self._cards)):
            try:
                future = cluster.judge(claim, self._may_use_card(claim, self._cards), self._on_end)
            except Exception as error:  # whoever is to blame, the claim is not handed out for ever
                if cluster.lost:
                    raise _ClusterLost from error
                self._settle_failed(claim, error)
                self._tell(claim)
                break
            self._in_hand[future] = claim
        self._trouble = trouble

    def _claim(self, slots: int, cards: int) -> Claim | None:
        """Submits take long: one worker, where there are several, is kept for runs. A card is one judging's alone."""
        submits = sum(claim.kind is Kind.SUBMIT for claim in self._in_hand.values())
        kinds = [Kind.RUN] if submits >= max(1, slots - 1) else list(Kind)
        on_card = sum(self._may_use_card(claim, cards) for claim in self._in_hand.values())
        devices = [name for name in ("auto", "cpu") if not self._uses_card(name)] if 0 < cards <= on_card else None
        claim = judgings.claim(self._engine, self._owner, kinds, devices, by_age=self._claims % _FAIR == _FAIR - 1)
        self._claims += claim is not None
        return claim

    def _may_use_card(self, claim: Claim, cards: int) -> bool:
        return cards > 0 and self._uses_card(claim.device)

    def _uses_card(self, device: str) -> bool:
        return (self._manner.device if device == "auto" else device) in ("auto", "gpu")

    def _on_end(self, future: Any) -> None:
        self._ended.put(future)
        self._awake.set()

    def _settle_ended(self) -> None:
        """A claim that the store refuses to hear of stays in hand until it does."""
        while not self._ended.empty():
            future = self._ended.get()
            try:
                self._settle(future)
            except DBAPIError:
                self._ended.put(future)
                raise

    def _settle(self, future: Any) -> None:
        claim = self._in_hand.get(future)
        if claim is None:
            return
        error = future.exception() if future.status == "error" else None
        if future.status == "finished" or isinstance(error, KilledWorker):
            lost(self._engine, claim, self._manner.attempts)
        elif error:
            self._settle_failed(claim, error)
        else:  # Dask gave the task up with all others
            judgings.release(self._engine, claim, "the judge could not go on")
        self._tell(claim)
        del self._in_hand[future]

    def _tell(self, claim: Claim) -> None:
        """The log: what has come of a claim."""
        sent = submissions.get(self._engine, claim.submission_id)
        if sent is None or sent.state is State.RUNNING:
            return
        said = sent.verdict or str(sent.state)
        if sent.state is State.QUEUED:
            last = judgings.last_event(self._engine, sent.run_id)
            said = f"waits again ({last.data['why']})" if last and last.type == "restarted" else "waits again"
        _log.info("%s: %s %s %s: /submissions/%s", said, sent.kind, sent.problem, sent.name, sent.id)

    def _settle_failed(self, claim: Claim, error: BaseException) -> None:
        """What is wrong may be wrong for the next one, too: nothing is handed out for a while."""
        why = f"{type(error).__name__}: {error}"
        if times := lost(self._engine, claim, self._manner.attempts, why):
            _log.warning("submission %s: its worker failed", claim.submission_id, exc_info=error)
            self._rest_until = time.monotonic() + _BACK_OFF[min(times, len(_BACK_OFF)) - 1]

    def _release_all(self) -> None:
        why = "the site was shut down" if self._stopping.is_set() else "the scheduler was lost"
        for claim in self._in_hand.values():
            try:
                judgings.release(self._engine, claim, why)
            except DBAPIError:  # the next workers, or the next start, take it up
                _log.exception("submission %s stays in hand", claim.submission_id)
        self._in_hand.clear()


def _pauses() -> Iterator[float]:
    yield from _BACK_OFF
    while True:
        yield _BACK_OFF[-1]
