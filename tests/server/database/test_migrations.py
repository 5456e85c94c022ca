"""Migrations: upgrades and downgrades with and without data, next to the tables of a host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from flask import Flask
from sqlalchemy import CheckConstraint, Connection, inspect, select, text
from support.archives import archive_of, import_records
from support.databases import fill_tables, new_database
from support.web import REPORT, shelf

from flask_ibi_archive.archive.identification.server import IssuedIdentifier
from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.errors import IBIError, NotReady, StorageError
from flask_ibi_archive.resolver.registry_2008.tables import ResolverBase
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import ARCHIVE, RESOLVER, History

pytestmark = [pytest.mark.no_tables, pytest.mark.postgresql]

#: All tables, also that of a module which only some apps import.
TABLES = {*metadata.tables, IssuedIdentifier.__tablename__}


@pytest.fixture
def database(uri: str) -> Iterator[Database]:
    database = Database(uri)
    yield database
    database.close()


def names(database: Database) -> set[str]:
    """Return the names of all tables, triggers and functions."""
    with database.reading() as connection:
        found = set(inspect(connection).get_table_names())
        if connection.dialect.name == "sqlite":
            extra = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        else:
            extra = (
                "SELECT tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
                " WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
                " UNION SELECT proname || '()' FROM pg_proc"
                " WHERE pronamespace = current_schema()::regnamespace"
            )
        return found | set(connection.scalars(text(extra)))


def move(database: Database, *revisions: str) -> None:
    for revision in revisions:
        with database.writing() as connection:
            (migrate.downgrade if revision == "base" else migrate.upgrade)(connection, revision)


def test_an_upgrade_creates_what_a_downgrade_to_base_removes(database: Database) -> None:
    move(database, "head")
    there = names(database)
    assert there >= TABLES | {migrate.ARCHIVE.version_table}
    move(database, "head", "base")
    assert names(database) == {migrate.ARCHIVE.version_table}
    move(database, "base", "head")
    assert names(database) == there
    database.check()


def test_a_downgrade_removes_the_tables_and_an_upgrade_creates_them_empty(
    new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_MINT_HOST="sid.inpe.br"))
    archive.init()
    import_records(archive, shelf(tmp_path))
    archive.delete(REPORT, "withdrawn")
    with archive.database.writing() as connection:
        fill_tables(connection, metadata)
    archive.downgrade("base")
    assert TABLES.isdisjoint(names(archive.database))
    archive.upgrade("+1")
    for table in metadata.sorted_tables:
        assert archive.database.read_rows(select(table)) == [], table
    archive.database.check()


def test_the_migrations_create_the_tables_of_the_models(database: Database) -> None:
    move(database, "head")
    with database.reading() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "version_table": migrate.ARCHIVE.version_table,
            },
        )
        assert compare_metadata(context, metadata) == []
        inspector = inspect(connection)
        for table in metadata.sorted_tables:  # alembic does not compare checks
            wanted = {c.name for c in table.constraints if isinstance(c, CheckConstraint)}
            assert wanted <= {c["name"] for c in inspector.get_check_constraints(table.name)}


@pytest.mark.parametrize("revision", ["head", "base"])
def test_tables_of_a_host_are_not_changed(database: Database, revision: str) -> None:
    def of_the_host(connection: Connection) -> list[object]:
        return [
            *connection.execute(text("SELECT * FROM alembic_version")),
            *connection.execute(text("SELECT * FROM item")),
        ]

    with database.writing() as connection:
        for statement in (
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
            "INSERT INTO alembic_version VALUES ('f00d')",
            "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)",
            "INSERT INTO item VALUES (1, 'theirs')",
        ):
            connection.execute(text(statement))
        before = of_the_host(connection)
    move(database, "head", "base", revision)
    with database.reading() as connection:
        assert of_the_host(connection) == before
        assert "alembic_version" in inspect(connection).get_table_names()


def test_the_error_for_a_wrong_revision_is_one_line(app: Flask) -> None:
    archive = archive_of(app)
    before = names(archive.database)
    for revision in ("9999", "no such", "-99", "+99", "%s"):
        for move in (archive.upgrade, archive.downgrade):
            with pytest.raises(StorageError) as refusal:
                move(revision)
            assert repr(revision) in str(refusal.value)
            assert "\n" not in str(refusal.value)
            assert names(archive.database) == before


def test_the_error_for_a_database_of_a_newer_version_is_one_line(app: Flask) -> None:
    archive = archive_of(app)
    with archive.database.writing() as connection:
        connection.execute(text(f"UPDATE {migrate.ARCHIVE.version_table} SET version_num = '9999'"))
    with pytest.raises(NotReady, match="at revision 9999, but this version needs"):
        archive.database.check()
    for step in (archive.upgrade, archive.init, lambda: archive.downgrade("base")):
        with pytest.raises(IBIError, match="9999") as refusal:
            step()
        assert "\n" not in str(refusal.value)


def test_a_failed_upgrade_creates_nothing(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(text("CREATE TABLE ibi_prefix (theirs INTEGER)"))
    before = names(database)
    with pytest.raises(Exception, match="ibi_prefix"):
        move(database, "head")
    assert names(database) == before


# --- ids of deleted rows are not used again: URL keys and counts refer to them --------------------

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
