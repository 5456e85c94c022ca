"""Runs the migrations of the repository for ``flask db``.

This is what ``flask db init`` writes, without the configuration of logs. The arguments contain the
filter that hides the tables of the Archive.
"""

from __future__ import annotations

from alembic import context
from flask import current_app

migrate = current_app.extensions["migrate"]

with migrate.db.engine.connect() as connection:
    context.configure(
        connection=connection, target_metadata=migrate.db.metadata, **migrate.configure_args
    )
    with context.begin_transaction():
        context.run_migrations()
