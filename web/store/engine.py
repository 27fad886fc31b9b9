"""The connection to the database. SQLite: write-ahead log, and a commit is on the disk before it returns.

`synchronous=FULL`, since with NORMAL a loss of power may take the last commits of a write-ahead log with it
(https://www.sqlite.org/pragma.html#pragma_synchronous). A transaction that writes begins as IMMEDIATE: one that began
by reading could not wait for its turn to write, and would fail instead.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.orm import Session

from harness.errors import UsageError

BUSY_SECONDS = 5.0  # that a transaction waits for another's lock
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={int(BUSY_SECONDS * 1000)}")
_WRITES = "judge_writes"
_PATIENCE = 30.0  # seconds
_PAUSE = 0.2

T = TypeVar("T")


def connect(url: str) -> Engine:
    """The engine for a database URL; nothing is opened yet. Raises UsageError for what is no such URL."""
    try:
        made = _from_anywhere(make_url(url))
        engine = create_engine(made, pool_pre_ping=made.get_backend_name() != "sqlite")
    except (ArgumentError, ImportError) as error:
        raise UsageError(f"cannot use the database {url!r}: {error}") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    return engine


def _from_anywhere(url: URL) -> URL:
    """A file of SQLite by the one path that means it in every process: judging processes have directories of their
    own, and whoever holds the lock beside the file holds it under all names of the file."""
    path = url.database
    if url.get_backend_name() != "sqlite" or path in (None, "", ":memory:"):
        return url
    if path.startswith("file:"):
        raise ArgumentError("name the file by its path, without file:")
    return url.set(database=os.path.realpath(path))


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # the driver begins no transaction by itself
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A session that sees one state of the store and changes nothing."""
    with Session(engine) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """A session whose changes are committed together at its end, or not at all."""
    with Session(engine.execution_options(**{_WRITES: True})) as session, session.begin():
        yield session


def patiently(call: Callable[[], T], seconds: float = _PATIENCE) -> T:
    """What the call gives; again and again for some seconds while the database is locked, full or not reached. `call`
    must be a transaction of its own. Raises OperationalError at last."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except OperationalError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)
