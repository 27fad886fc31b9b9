"""A site without its pages, for tests that kill it: `python -m tests.queue_site FOLDER PROBLEMS JOBS [real]`. Prints
"ready" once it judges; its toolchain is the fake one with gates, unless `real`. SIGUSR1 says that something was added;
after SIGTERM it ends in good order.

A source with the lines `@gate_compile PATH` or `@gate_run PATH` is not compiled, or run, while there is a file PATH.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.errors import UsageError
from harness.sandbox.limits import bind_to_parent
from harness.sandbox.supervisor import Toolchain
from tests import fake_toolchain
from web.queue.dispatcher import Dispatcher
from web.queue.manner import of_site
from web.settings import Settings
from web.store import engine as database
from web.store import migrate
from web.store.lock import SiteLock

TOOLCHAIN = replace(
    fake_toolchain.TOOLCHAIN,
    compiler="tests.queue_site:compile_submission",
    cpu="tests.queue_site:GatedDevice",
)


def compile_submission(text: str, name: str, declaration: str, card: object) -> fake_toolchain.Compiled:
    """The fake one, behind a gate."""
    _pass_gate(text, "gate_compile")
    return fake_toolchain.compile_submission(text, name, declaration, card)


class GatedDevice(fake_toolchain.FakeDevice):
    """The fake one, behind a gate."""

    def run(self, program: Program, arguments: list[Argument], limits: RunLimits, seed: int) -> RunResult:
        """As told, once the gate is open."""
        _pass_gate(program.ptx, "gate_run")
        return super().run(program, arguments, limits, seed)


def _pass_gate(text: str, stage: str) -> None:
    for path in fake_toolchain.orders(text, stage):
        while Path(path).exists():
            time.sleep(0.02)


def main(folder: Path, problems: Path, jobs: int, toolchain: Toolchain) -> None:
    """Until SIGTERM."""
    bind_to_parent(os.getppid())  # should the tests themselves be killed
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    settings = Settings(folder, device="cpu", jobs=jobs)
    engine = database.connect(settings.url)
    try:
        lock = SiteLock(engine)
    except UsageError as error:
        sys.exit(str(error))
    migrate.upgrade(engine)
    manner = replace(of_site(settings, engine), cache=False, problems=problems, toolchain=toolchain)
    queue = Dispatcher(settings, engine, manner)
    signal.signal(signal.SIGUSR1, lambda *_: queue.wake())
    queue.start()
    while (queue.starting() or queue.trouble()) and not ended.is_set():
        time.sleep(0.02)
    print("ready", flush=True)
    ended.wait()
    queue.close()
    lock.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    folder, problems, jobs, *real = sys.argv[1:]
    main(Path(folder), Path(problems), int(jobs), Toolchain() if real else TOOLCHAIN)
