"""One site a store: a second one would take from the first what that has in hand, and one of a newer judge would change
the schema under it.

The lock ends with the process that holds it, however that ends. Of SQLite it is a lock of a file beside the database
(flock, which no child inherits: descriptors are closed there); of PostgreSQL an advisory lock of a connection that
stays open.
"""

from __future__ import annotations

import fcntl
import os
from typing import IO

from sqlalchemy import Connection, Engine, text

from harness.errors import UsageError

_ADVISORY = 0x6A75646765  # "judge": a number that all sites agree on


class SiteLock:
    """Held from its making until `close`. Raises UsageError where another process holds it, or it cannot be had."""

    def __init__(self, engine: Engine):
        self._file: IO[str] | None = None
        self._connection: Connection | None = None
        if engine.dialect.name == "sqlite" and engine.url.database not in (None, "", ":memory:"):
            self._file = _lock_file(f"{engine.url.database}.lock")
        elif engine.dialect.name == "postgresql":
            self._connection = _lock_session(engine)

    def close(self) -> None:
        """Let others have the store."""
        if self._file:
            self._file.close()
        if self._connection:
            self._connection.invalidate()  # and not back into the pool, with the lock
            self._connection.close()
        self._file = self._connection = None


def _lock_file(path: str) -> IO[str]:
    """The file stays where it is: were it removed, two could lock two files of one name."""
    try:
        file = open(path, "a+", encoding="ascii")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"cannot lock the database: {path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(20).strip()
        file.close()
        if not isinstance(error, BlockingIOError):
            raise UsageError(f"cannot lock the database: {path}: {error.strerror}") from None
        raise UsageError(_taken(path.removesuffix(".lock"), f"pid {holder}" if holder else "")) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def _lock_session(engine: Engine) -> Connection:
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    if connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _ADVISORY}):
        return connection
    holder = connection.scalar(
        text("SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory'"
             " AND (l.classid::bigint << 32 | l.objid::bigint) = :key AND l.granted"), {"key": _ADVISORY}
    )  # fmt: skip
    connection.close()
    raise UsageError(_taken(str(engine.url), f"backend {holder}" if holder else ""))


def _taken(store: str, who: str) -> str:
    return f"another site is using this store{f' ({who})' if who else ''}: {store}; end it first, or name another store"
