"""Run the migrations on the connection that :mod:`flask_ibi_archive.storage.migrate` passes."""

from __future__ import annotations

from typing import Any

from alembic import context

from flask_ibi_archive.storage.migrate import VERSION_TABLE
from flask_ibi_archive.storage.models import metadata


def include_name(name: str | None, type_: str, parent_names: Any) -> bool:
    """Return whether a table belongs to an Archive: tables of the host are not compared."""
    return type_ != "table" or (name in metadata.tables)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    include_name=include_name,
    render_as_batch=True,
)
context.run_migrations()
