"""Bringing a database to the newest schema, at every start of a site. What is there already is kept."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError

from harness.errors import UsageError

_MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(engine: Engine) -> None:
    """Raises UsageError where the database is of a newer version of the judge, damaged or not to be opened."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["engine"] = engine
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        why = f"cannot bring this database up to date ({error}); is it of a newer judge?"
        raise UsageError(f"{engine.url}: {why}") from None
    except DatabaseError as error:
        raise UsageError(f"{engine.url}: cannot use this database: {error.orig}") from None
