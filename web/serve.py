"""`judge.py serve`: opens the store, starts the queue, answers until a signal comes, and leaves nothing running.

Whatever can be wrong with how it was called is found before anything is started, and told in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import socket
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path

from fastapi import FastAPI
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from harness import cards, streams
from web import log, options, server, site_folder, warm
from web.app import create_app
from web.queue.dispatcher import Dispatcher
from web.security import hosts
from web.settings import Settings
from web.store import engine as database
from web.store import judgings, migrate
from web.store.lock import SiteLock

_log = logging.getLogger(__name__)


def run(arguments: Sequence[str]) -> int:
    """Serve until Ctrl-C; the exit code. Raises UsageError."""
    parsed = options.serve_parser().parse(list(arguments))
    settings = options.settings_of(parsed)
    cards.get(settings.card)
    with contextlib.closing(server.listen(settings.host, settings.port)) as listener:
        settings = dataclasses.replace(settings, port=listener.getsockname()[1])
        site_folder.prepare(settings.folder)
        log.to_terminal_and_file(settings.folder / site_folder.LOG, parsed.debug)
        threading.Thread(target=warm.problems, daemon=True).start()
        with _store(settings) as engine, _queue(settings, engine) as queue:
            app = create_app(settings, engine, queue, site_folder.secret(settings.folder))
            with contextlib.closing(app.state.editor) as editor:
                if settings.editor:
                    editor.build()
                _answer(app, settings, listener, parsed)
    return 0


@contextlib.contextmanager
def _store(settings: Settings) -> Iterator[Engine]:
    """Of the newest schema, and this site's alone. At its end, what is left to do is told."""
    engine = database.connect(settings.url)
    try:
        with contextlib.closing(SiteLock(engine)):
            migrate.upgrade(engine)
            yield engine
        with contextlib.suppress(DBAPIError):
            if left := judgings.waiting(engine):
                _say(f"stopped; {left} {'judging goes' if left == 1 else 'judgings go'} on at the next start")
    finally:
        engine.dispose()


@contextlib.contextmanager
def _queue(settings: Settings, engine: Engine) -> Iterator[Dispatcher]:
    queue = Dispatcher(settings, engine)
    try:
        queue.start()
        yield queue
    finally:
        queue.close()


def _answer(app: FastAPI, settings: Settings, listener: socket.socket, parsed: argparse.Namespace) -> None:
    """Until a signal."""
    threading.Thread(target=warm.up, args=(app,), daemon=True).start()  # so that the first page is quick, too
    url = f"http://{hosts.in_url(settings.host)}:{settings.port}/"

    def ready() -> None:
        _say(f"serving on {url}  submissions are kept in {_short(settings.folder)}; Ctrl-C stops it")
        if parsed.open:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()  # one in a terminal stays

    server.Server(app, ready, app.state.streams.close).run(sockets=[listener])


def _say(line: str) -> None:
    with contextlib.suppress(OSError, streams.CannotPrint), streams.printing():
        print(line)


def _short(folder: Path) -> str:
    with contextlib.suppress(ValueError):
        return f"~/{folder.relative_to(Path.home())}"
    return str(folder)
