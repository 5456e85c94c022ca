"""Databases for tests: an SQLite file, and a PostgreSQL database of its own, both real."""

from __future__ import annotations

import atexit
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

#: A server where the tests may make databases; they never touch one that is there.
POSTGRESQL = os.environ.get(
    "IBI_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
BACKENDS = ("sqlite", "postgresql")


@lru_cache
def why_no_postgresql() -> str | None:
    """Give the reason why no PostgreSQL can be used, None where one can."""
    try:
        engine = create_engine(POSTGRESQL, connect_args={"connect_timeout": 3})
        with engine.connect():
            pass
    except (OperationalError, ImportError) as error:
        return f"no PostgreSQL at {POSTGRESQL}: {str(error).splitlines()[0]} (IBI_TEST_POSTGRESQL names one)"
    finally:
        if "engine" in locals():
            engine.dispose()
    return None


@contextmanager
def new_database(backend: str, folder: Path) -> Iterator[str]:
    """Give the URL of a new, empty database; it is gone afterwards."""
    if backend == "sqlite":
        yield f"sqlite:///{folder / (uuid.uuid4().hex + '.sqlite')}"
        return
    reason = why_no_postgresql()
    if reason is not None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    # a schema of its own is as good as a database, and made and dropped in no time
    database = session_database()
    schema = f"test_{uuid.uuid4().hex}"
    engine = create_engine(database, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        yield (
            make_url(database)
            .update_query_dict(
                {
                    "application_name": schema,
                    "options": f"-csearch_path={schema} -csynchronous_commit=off",
                }
            )
            .render_as_string(hide_password=False)
        )
    finally:
        with engine.connect() as connection:
            # who is still there, as a process that was killed, would hold the drop up
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="
                    " current_database() AND application_name = :name"
                ),
                {"name": schema},
            )
            connection.execute(text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
        engine.dispose()


@lru_cache
def session_database() -> str:
    """Make a database for this run of the tests; it is dropped at the end."""
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
