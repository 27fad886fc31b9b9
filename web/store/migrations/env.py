"""What Alembic runs to get from one schema to the next (web/store/migrate.py calls it)."""

from alembic import context

from web.store import models
from web.store.engine import writing

with writing(context.config.attributes["engine"]) as session:
    # Batches: SQLite cannot alter most of a table, so Alembic makes a new one and copies. All of it in one transaction.
    context.configure(connection=session.connection(), target_metadata=models.Base.metadata, render_as_batch=True)
    context.run_migrations()
