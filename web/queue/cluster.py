"""The Dask workers of a site: a LocalCluster of its own, or those of a scheduler that it is told of.

A LocalCluster listens on 127.0.0.1 alone and talks TLS with a certificate of its own that is never written to a disk:
whoever may talk to a scheduler may have it execute anything, and a loopback address is open to all users of a machine.
A worker that dies ends its task (allowed-failures 0): the store hands the work out again, not Dask, so that an attempt
has one worker. Other schedulers may do it themselves; judges.py sees to that.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable
from urllib.parse import urlsplit

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.security import Security
from sqlalchemy import Engine

from harness.errors import UsageError
from web.queue.judges import Judges, run_judging
from web.queue.manner import Manner
from web.settings import Settings
from web.store.records import Claim

__all__ = ["Cluster", "KilledWorker", "check"]

_LOOPBACK = "127.0.0.1"
_CONNECT_SECONDS = 10
_CLOSE_SECONDS = 5
_GPU = "GPU"  # what a worker with a card calls it: dask worker --resources "GPU=1"
_CONFIG = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.admin.log-length": 100,
    # Nothing but the scheduler itself is served, and a worker's memory is the judge's own matter.
    **{f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker", "nanny")},
    **{f"distributed.worker.memory.{step}": False for step in ("target", "spill", "pause", "terminate")},
}


def check(settings: Settings, engine: Engine) -> None:
    """Raises UsageError where workers could not reach the store."""
    if engine.dialect.name != "sqlite":
        return
    if engine.url.database in (None, "", ":memory:"):
        raise UsageError("workers cannot reach a store in the memory of this process: name a file")
    if settings.scheduler and not _is_here(settings.scheduler):
        raise UsageError(
            f"the workers of {settings.scheduler} cannot reach a store in SQLite, which is a file of this machine: "
            "name a database that they can, such as postgresql+psycopg://HOST/NAME"
        )


def _is_here(address: str) -> bool:
    host = urlsplit(address if "://" in address else f"tcp://{address}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Cluster:
    """Workers that judge in one manner, from the making of this until `close`. Raises OSError, also as TimeoutError,
    where a scheduler is not reached."""

    def __init__(self, settings: Settings, manner: Manner, has_card: bool):
        self._own: LocalCluster | None = None
        self._jobs = settings.jobs
        self._has_card = has_card
        self._client = self._connect(settings)
        try:
            judges = Judges(manner, ours=not settings.scheduler)
            self._plugin = judges.name
            self._client.register_plugin(judges)
        except BaseException:
            self.close()
            raise

    def _connect(self, settings: Settings) -> Client:
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # the dispatcher says what is the matter
        if settings.scheduler:
            return Client(settings.scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
        dask.config.set(_CONFIG)
        self._own = own = LocalCluster(
            n_workers=self._jobs, threads_per_worker=1, processes=True, host=_LOOPBACK, protocol="tls://",
            security=Security.temporary(), memory_limit=0, dashboard_address=f"{_LOOPBACK}:0",
            worker_dashboard_address=None, local_directory=str(settings.folder / "tmp"), silence_logs=logging.CRITICAL,
        )  # fmt: skip
        try:
            return Client(own, set_as_default=False)
        except BaseException:
            own.close(timeout=_CLOSE_SECONDS)
            raise

    @property
    def lost(self) -> bool:
        """Whether the scheduler is gone."""
        return bool(self._client.status != "running")

    def slots(self) -> tuple[int, int]:
        """How many judgings there may be at once, and how many of them may use a card."""
        if self._own:
            return self._jobs, int(self._has_card)
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        cards = sum(int(worker["resources"].get(_GPU, 0)) for worker in workers)
        return sum(worker["nthreads"] for worker in workers), cards

    def judge(self, claim: Claim, on_card: bool, done: Callable[[Future], None]) -> Future:
        """Have a claim judged; `done` is called in another thread."""
        future = self._client.submit(
            run_judging, self._plugin, claim, key=f"judging-{claim.run_id}-{claim.attempt}", pure=False, retries=0,
            resources={_GPU: 1} if on_card and not self._own else None,
        )  # fmt: skip
        future.add_done_callback(done)
        return future

    def close(self) -> None:
        """End the workers, or leave those of another's scheduler as they were."""
        client, own = self._client, self._own
        if not own and not self.lost:
            client.unregister_worker_plugin(self._plugin)
        client.close(timeout=_CLOSE_SECONDS)
        if own:
            own.close(timeout=_CLOSE_SECONDS)
