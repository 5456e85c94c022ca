"""Databases for tests: SQLite files, and schemas of a PostgreSQL database."""

from __future__ import annotations

import atexit
import os
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import OperationalError

from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import ARCHIVE, RESOLVER, History

#: A server where the tests may create databases; they do not change existing ones.
POSTGRESQL = os.environ.get(
    "IBI_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
BACKENDS = ("sqlite", "postgresql")


@lru_cache
def why_no_postgresql() -> str | None:
    """Return the reason why PostgreSQL cannot be used; None if it can be used."""
    try:
        engine = create_engine(POSTGRESQL, connect_args={"connect_timeout": 60})
        with engine.connect():
            pass
    except (OperationalError, ImportError) as error:
        reason = str(error).splitlines()[0]
        return f"no PostgreSQL at {POSTGRESQL}: {reason}; set IBI_TEST_POSTGRESQL"
    finally:
        if "engine" in locals():
            engine.dispose()
    return None


def copy_database(source: Any, target: Any) -> None:
    """Copy an SQLite database, as ``sqlite3 SOURCE ".backup TARGET"`` does."""
    with closing(sqlite3.connect(source)) as reader, closing(sqlite3.connect(target)) as writer:
        reader.backup(writer)


@contextmanager
def new_database(
    backend: str, folder: Path, *, ready: bool = False, history: History = ARCHIVE
) -> Iterator[str]:
    """Yield the URL of a new database without data, and remove it afterwards.

    :param ready: whether the database already contains the tables: to create them takes longer
        than most tests.
    :param history: whose tables these are: those of an Archive or of a resolver.
    """
    if backend == "sqlite":
        path = folder / f"{uuid.uuid4().hex}.sqlite"
        path.write_bytes(migrated_file(history) if ready else b"")
        yield f"sqlite:///{path}"
        return
    reason = why_no_postgresql()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    schemas = Schemas.of_this_run()
    schema = schemas.take(ready, history)
    try:
        yield schemas.url(schema)
    finally:
        schemas.give_back(schema, ready, history)


def make_host_engine(uri: str) -> Engine:
    """Return an engine of a host that uses savepoints, as the documentation of SQLAlchemy advises.

    The driver of SQLite begins no transaction for a savepoint, so SQLAlchemy begins it. The file is
    in the journal mode that SQLite uses by default.
    """
    engine = create_engine(uri)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def leave_transactions_to_sqlalchemy(connection: Any, record: object) -> None:
            connection.isolation_level = None
            connection.execute("PRAGMA journal_mode = DELETE")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN")

    return engine


def read_only(uri: str) -> str:
    """Return a URL with which a database can only be read."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///file:{url.database}?mode=ro&uri=true"
    options = f"{url.query.get('options', '')} -cdefault_transaction_read_only=on"
    return url.update_query_dict({"options": options}).render_as_string(hide_password=False)


@lru_cache
def migrated_file(history: History = ARCHIVE) -> bytes:
    """Return the content of an SQLite file with the tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "migrated.sqlite"
        migrate_to_head(f"sqlite:///{path}", history)
        return path.read_bytes()


def migrate_to_head(uri: str, history: History = ARCHIVE) -> None:
    """Create the tables in a database."""
    database = Database(uri, history)
    try:
        database.create()
        with database.writing() as connection:
            migrate.upgrade(connection, history=history)
    finally:
        database.close()


#: The columns, indexes, triggers, functions and constraints of a schema.
SHAPE = """
    SELECT c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) AS name
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = CAST(:schema AS regnamespace) AND c.relkind IN ('r', 'i')
    UNION ALL SELECT tgname || CAST(tgenabled AS text)
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = CAST(:schema AS regnamespace) AND NOT tgisinternal
    UNION ALL SELECT proname || md5(prosrc) FROM pg_proc
     WHERE pronamespace = CAST(:schema AS regnamespace)
    UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = CAST(:schema AS regnamespace)
    ORDER BY name
"""

#: Deletes all rows without checking references, and restarts the sequences.
EMPTYING = """
    DO $$
    BEGIN
        SET LOCAL session_replication_role = replica;
        SET LOCAL synchronous_commit = off;
        {deletes};
        PERFORM setval(
            CAST(quote_ident(schemaname) || '.' || quote_ident(sequencename) AS regclass), 1, false)
           FROM pg_sequences WHERE schemaname = '{schema}' AND last_value IS NOT NULL;
    END $$
"""


#: Copies all rows of a schema, without triggers and checks of references, and the sequences.
COPYING = """
    DO $$
    BEGIN
        SET LOCAL session_replication_role = replica;
        {inserts};
        PERFORM setval(
            CAST('{schema}.' || quote_ident(sequencename) AS regclass), last_value, true)
           FROM pg_sequences WHERE schemaname = '{source}' AND last_value IS NOT NULL;
    END $$
"""


class Schemas:
    """Schemas of one PostgreSQL database: faster to create than databases."""

    def __init__(self) -> None:
        self.database = session_database()
        self.engine = create_engine(self.database, isolation_level="AUTOCOMMIT")
        with self.engine.connect() as connection:
            self.may_delete = connection.scalar(text("SHOW is_superuser")) == "on"
        self.waiting: dict[History, list[str]] = {ARCHIVE: [], RESOLVER: []}
        self.shapes: dict[History, list[str] | None] = {}
        self.tables: dict[History, list[str]] = {}
        #: the rows that migrations insert, by the statement that inserts them again
        self.rows: dict[History, dict[str, list[dict[str, Any]]]] = {}

    @classmethod
    @lru_cache
    def of_this_run(cls) -> Schemas:
        """Return the schemas of this process."""
        return cls()

    def url(self, schema: str) -> str:
        """Return the URL that uses a schema as a separate database."""
        options = f"-csearch_path={schema} -csynchronous_commit=off"
        url = make_url(self.database).update_query_dict(
            {"application_name": schema, "options": options}
        )
        return url.render_as_string(hide_password=False)

    def take(self, ready: bool, history: History = ARCHIVE) -> str:
        """Return a schema without data.

        :param ready: whether the schema contains the tables.
        """
        if ready and self.waiting[history]:
            return self.waiting[history].pop()
        schema = f"test_{uuid.uuid4().hex}"
        with self.engine.connect() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        if ready:
            migrate_to_head(self.url(schema), history)
            if history not in self.shapes:
                self._examine(schema, history)
        return schema

    def _examine(self, schema: str, history: History) -> None:
        """Note what schemas contain when they are new."""
        self.shapes[history] = self._shape_of(schema, history)
        names = inspect(self.engine).get_table_names(schema)
        self.tables[history] = [one for one in names if one != history.version_table]
        self.rows[history] = {}
        with self.engine.connect() as connection:
            for name in self.tables[history]:
                found = connection.execute(text(f"SELECT * FROM {schema}.{name}")).mappings().all()
                if found:
                    values = ", ".join(f":{column}" for column in found[0])
                    statement = f"INSERT INTO {{schema}}.{name} VALUES ({values})"
                    self.rows[history][statement] = [dict(row) for row in found]

    def give_back(self, schema: str, ready: bool, history: History = ARCHIVE) -> None:
        """Empty a schema for the next test, or drop it if the test changed the tables."""
        with self.engine.connect() as connection:
            # a connection that a killed process left would block the next statements
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                    " current_database() AND application_name = :name"
                ),
                {"name": schema},
            )
            if ready and self._shape_of(schema, history) == self.shapes[history]:
                connection.execute(text(self._emptying(schema, self.tables[history])))
                for statement, rows in self.rows[history].items():
                    connection.execute(text(statement.format(schema=schema)), rows)
                self.waiting[history].append(schema)
            else:
                connection.execute(text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))

    def copy_rows(self, source: str, schema: str) -> None:
        """Copy all rows of an Archive's schema to another one, which is ready and empty."""
        inserts = "; ".join(
            f"INSERT INTO {schema}.{name} SELECT * FROM {source}.{name}"
            for name in self.tables[ARCHIVE]
        )
        with self.engine.connect() as connection:
            connection.execute(text(COPYING.format(schema=schema, source=source, inserts=inserts)))

    def _emptying(self, schema: str, names: list[str]) -> str:
        """Return the statement that empties the tables; TRUNCATE takes longer than most tests."""
        tables = [f"{schema}.{name}" for name in names]
        if not self.may_delete:
            return f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE"
        return EMPTYING.format(
            schema=schema, deletes="; ".join(f"DELETE FROM {table}" for table in tables)
        )

    def _shape_of(self, schema: str, history: History) -> list[str] | None:
        with self.engine.connect() as connection:
            found = connection.execute(text("SELECT to_regnamespace(:schema)"), {"schema": schema})
            if found.scalar() is None:
                return None
            shape = list(connection.scalars(text(SHAPE), {"schema": schema}))
            version = text(f"SELECT version_num FROM {schema}.{history.version_table}")
            at_head = history.version_table in {name.split(" ")[0] for name in shape}
            return shape + list(connection.scalars(version)) if at_head else None


def schema_of(uri: str) -> str:
    """Return the name of the schema of a URL of :func:`new_database`."""
    return str(make_url(uri).query["application_name"])


@lru_cache
def session_database() -> str:
    """Create a database for this run of the tests, and drop it at the end."""
    name = f"ibi_test_{uuid.uuid4().hex}"
    engine = create_engine(POSTGRESQL, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))

    def drop() -> None:
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        engine.dispose()

    atexit.register(drop)
    return make_url(POSTGRESQL).set(database=name).render_as_string(hide_password=False)


def count_known_rows(database: Database, table: str) -> float:
    """Return how many rows PostgreSQL believes that a table has; -1 if it was not examined."""
    known = text("SELECT reltuples FROM pg_class WHERE oid = CAST(:table AS regclass)")
    with database.reading() as connection:
        return float(connection.scalar(known, {"table": table}))
