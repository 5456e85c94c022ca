"""Run the migrations of the resolver on the connection that :mod:`..storage.migrate` passes."""

from __future__ import annotations

from typing import Any

from alembic import context

from flask_ibi_archive.resolver.tables import resolver_metadata
from flask_ibi_archive.storage.migrate import RESOLVER


def include_name(name: str | None, type_: str, parent_names: Any) -> bool:
    """Return whether a table belongs to a resolver: other tables are not compared."""
    return type_ != "table" or (name in resolver_metadata.tables)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=resolver_metadata,
    version_table=RESOLVER.version_table,
    include_name=include_name,
    render_as_batch=True,
)
context.run_migrations()
