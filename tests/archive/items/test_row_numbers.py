"""The ids of deleted rows are not used again, because URL keys and counts refer to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, Table, create_engine, inspect, select, text
from support.archives import archive_of
from support.registries import a_registry, a_request, fill_claims, fill_document_registry, included
from support.tables import SECOND, fill

from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.resolver.archives import RegistrationRefused
from flask_ibi_archive.resolver.registry_2008.tables import ResolverBase
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER

pytestmark = [pytest.mark.no_tables, pytest.mark.postgresql]

NUMBERED = [table for table in metadata.sorted_tables if "id" in table.columns]


@contextmanager
def without_rules(uri: str) -> Iterator[Connection]:
    """Yield a connection on which constraints between tables are not checked."""
    engine = create_engine(uri)
    with engine.begin() as connection:
        if uri.startswith("sqlite"):  # foreign keys are off by default
            triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            for name in connection.scalars(text(triggers)).all():
                connection.execute(text(f"DROP TRIGGER {name}"))
        else:
            connection.execute(text("SET LOCAL session_replication_role = replica"))
        yield connection
    engine.dispose()


def delete_newest(connection: Connection, table: Table) -> dict[str, Any]:
    """Delete the newest row of a table and return it."""
    # the model may have columns that a later revision adds
    existing = {column["name"] for column in inspect(connection).get_columns(table.name)}
    columns = [column for column in table.c if column.name in existing]
    newest = select(*columns).order_by(table.c.id.desc()).limit(1)
    row = dict(connection.execute(newest).mappings().one())
    connection.execute(table.delete().where(table.c.id == row["id"]))
    return row


def number_of_next(connection: Connection, table: Table, row: dict[str, Any]) -> int:
    """Insert a row without a number and return the number that it gets."""
    values = {
        name: value
        for name, value in row.items()
        if name != "id" and table.c[name].computed is None
    }
    statement = table.insert().values(values).returning(table.c.id)
    return int(connection.execute(statement).scalar_one())


def test_the_number_of_a_deleted_newest_row_is_not_reused(
    uri: str, new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_MINT_HOST="sid.inpe.br"))
    fill(archive, archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND)), tmp_path)
    with without_rules(uri) as connection:
        reused = []
        for table in NUMBERED:
            row = delete_newest(connection, table)
            number = number_of_next(connection, table, row)
            connection.execute(table.delete().where(table.c.id == number))
            if number_of_next(connection, table, row) <= number:
                reused.append(table.name)
    assert {table.name for table in NUMBERED} > {"ibi_archive", "ibi_item", "ibi_access"}
    assert reused == []


def test_the_number_of_an_archive_that_a_resolver_deleted_is_not_reused(uri: str) -> None:
    database = Database(uri, RESOLVER)
    with database.writing() as connection:
        migrate.upgrade(connection, history=RESOLVER)
    registry = a_registry(database)
    included(registry, 2)
    with pytest.raises(RegistrationRefused):
        registry.authenticate(a_request(key="9876543210"), "8.8.4.4")
    with database.writing() as connection:
        fill_document_registry(connection)
        fill_claims(connection)
    tables = ResolverBase.metadata.sorted_tables
    # nothing refers to the ids of deleted documents and registrations
    numbered = [table for table in tables if table.dialect_options["sqlite"]["autoincrement"]]
    with without_rules(uri) as connection:
        for table in numbered:
            row = delete_newest(connection, table)
            assert number_of_next(connection, table, row) > row["id"]
    assert numbered
    database.close()
