"""A site without its pages, for tests that kill it: `python -m tests.queue_site FOLDER PROBLEMS [JOBS] [real]`. Prints
"ready" once it judges; its toolchain is the fake one unless `real`. Ends in good order after SIGTERM."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from harness.sandbox.supervisor import Toolchain
from tests.fake_toolchain import TOOLCHAIN
from web.queue.dispatcher import Dispatcher
from web.queue.manner import of_site
from web.settings import Settings
from web.store import engine as database
from web.store import migrate


def main(folder: Path, problems: Path, jobs: int, toolchain: Toolchain) -> None:
    """Until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    settings = Settings(folder, device="cpu", jobs=jobs)
    engine = database.connect(settings.url)
    migrate.upgrade(engine)
    manner = replace(of_site(settings, engine), cache=False, problems=problems, toolchain=toolchain)
    queue = Dispatcher(settings, engine, manner)
    queue.start()
    while queue.trouble() and not ended.is_set():
        time.sleep(0.02)
    print("ready", flush=True)
    ended.wait()
    queue.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    folder, problems, jobs, *real = sys.argv[1:]
    main(Path(folder), Path(problems), int(jobs), Toolchain() if real else TOOLCHAIN)
