"""Run the migrations of a resolver's tables; the Archive's ``env.py`` runs those of an Archive."""

from __future__ import annotations

from typing import Any

from alembic import context

from flask_ibi_archive.resolver.tables import resolver_metadata
from flask_ibi_archive.storage.migrate import RESOLVER


def include_name(name: str | None, type_: str, parent_names: Any) -> bool:
    """Return whether a table is a resolver's: tables of hosts and Archives are not compared."""
    return type_ != "table" or (name in resolver_metadata.tables)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=resolver_metadata,
    version_table=RESOLVER.version_table,
    include_name=include_name,
    render_as_batch=True,
)
context.run_migrations()
