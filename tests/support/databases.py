"""Databases for tests: SQLite files, and PostgreSQL databases, both copied from a template."""

from __future__ import annotations

import atexit
import os
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import date, datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    create_engine,
    insert,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import OperationalError

from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import ARCHIVE, History

#: A server where the tests may create databases; they do not change existing ones.
POSTGRESQL = os.environ.get(
    "IBI_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
BACKENDS = ("sqlite", "postgresql")
dropping = ThreadPoolExecutor(1)


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
    if reason := why_no_postgresql():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    name = create_database(migrated_database(history) if ready else "template0")
    try:
        yield url_of(name)
    finally:
        # in a thread, because the server waits until the disk has all other data
        dropping.submit(drop_database, name)


@lru_cache
def server() -> Engine:
    """Return an engine for statements that create databases."""
    return create_engine(POSTGRESQL, isolation_level="AUTOCOMMIT")


def create_database(template: str, name: str | None = None) -> str:
    """Create a PostgreSQL database as a copy of another one, and return its name."""
    name = name or f"ibi_test_{uuid.uuid4().hex}"
    with server().connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    return name


def drop_database(name: str) -> None:
    """Drop a PostgreSQL database, also if a killed process has left a connection."""
    with server().connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))


def url_of(name: str) -> str:
    """Return the URL of a PostgreSQL database of the server."""
    url = make_url(POSTGRESQL).set(database=name)
    url = url.update_query_dict({"options": "-csynchronous_commit=off"})
    return url.render_as_string(hide_password=False)


def read_only(uri: str) -> str:
    """Return a URL with which a database can only be read."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///file:{url.database}?mode=ro&uri=true"
    options = f"{url.query.get('options', '')} -cdefault_transaction_read_only=on"
    return url.update_query_dict({"options": options}).render_as_string(hide_password=False)


#: A value for each type of columns; texts have another one.
VALUES: dict[str, Any] = {
    **dict.fromkeys(("BIGINT", "INTEGER", "SMALLINT"), 1),
    **{"BOOLEAN": False, "JSON": [], "DATE": date(2024, 2, 29)},
    "DATETIME": datetime(2024, 2, 29, 23, 59, 59, 123456, timezone.utc),
}


def fill_tables(connection: Connection, metadata: MetaData, **values: Any) -> None:
    """Insert a row into each empty table; all ids are 1.

    :param values: other values of columns.
    """
    for table in metadata.sorted_tables:
        if connection.execute(select(table).limit(1)).first() is None:
            needed = [one for one in table.c if not (one.nullable or one.server_default)]
            row = {one.name: VALUES.get(str(one.type), "Data") for one in needed}
            row |= {name: value for name, value in values.items() if name in table.c}
            connection.execute(insert(table).values(row))


@lru_cache
def migrated_file(history: History = ARCHIVE) -> bytes:
    """Return the content of an SQLite file with the tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "migrated.sqlite"
        migrate_to_head(f"sqlite:///{path}", history)
        return path.read_bytes()


@lru_cache
def migrated_database(history: History = ARCHIVE) -> str:
    """Return the name of a PostgreSQL database with the tables, which no test uses itself."""
    name = create_database("template0")
    atexit.register(drop_database, name)
    migrate_to_head(url_of(name), history)
    return name


def migrate_to_head(uri: str, history: History = ARCHIVE) -> None:
    """Create the tables in a database."""
    database = Database(uri, history)
    try:
        database.create()
        with database.writing() as connection:
            migrate.upgrade(connection, history=history)
    finally:
        database.close()
