"""The ids of deleted rows are not used again, because URL keys and counts refer to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text
from support.databases import new_database

from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.resolver.registry_2008.tables import ResolverBase
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import ARCHIVE, RESOLVER, History

ARCHIVE_TABLES = {table.name for table in metadata.sorted_tables if "id" in table.columns}
#: Nothing refers to the ids of deleted documents and registrations.
RESOLVER_TABLES = {
    table.name
    for table in ResolverBase.metadata.sorted_tables
    if table.dialect_options["sqlite"]["autoincrement"]
}


@pytest.mark.parametrize(
    ("history", "numbered"), [(ARCHIVE, ARCHIVE_TABLES), (RESOLVER, RESOLVER_TABLES)]
)
def test_SQLite_never_uses_an_id_again(
    tmp_path: Path, history: History, numbered: set[str]
) -> None:
    """Sequences of PostgreSQL never go back; SQLite needs AUTOINCREMENT."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
    with new_database("sqlite", tmp_path, ready=True, history=history) as uri:
        database = Database(uri, history)
        with database.reading() as connection:
            found = {*connection.scalars(text(sql))}
        database.close()
    assert numbered
    assert numbered <= found
