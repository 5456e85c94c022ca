"""Engines for databases: how connections are opened and transactions begin."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import Pool, StaticPool

from flask_ibi_archive.storage.waiting import (
    DEFAULT_TIMEOUT,
    Budget,
    FindBudget,
    Server,
    unlimited,
)

#: Seconds that a writer waits for the other writers of an SQLite file.
BUSY_TIMEOUT = 60

#: Names for the machine itself; without a host it is a local socket.
LOOPBACK = ("", "localhost", "127.0.0.1", "::1")
#: The share of what a request may still wait that it waits for a lock: then there is time to say
#: so.
LOCK_SHARE = 0.8

#: The execution options of a connection of our engines, which are in autocommit mode, so that what
#: is read on them alone needs no transaction: the statement that begins a transaction, the seconds
#: that the transaction waits for locks (without it: as long as it takes), and the statements that
#: lock tables on PostgreSQL.
BEGIN = "ibi_begin"
PATIENCE = "ibi_patience"
LOCK = "ibi_lock"
WRITE = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN"}
SNAPSHOT = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}


def make_engine(
    uri: str, timeout: float = DEFAULT_TIMEOUT, find_budget: FindBudget = unlimited
) -> Engine:
    """Return an engine for a database.

    SQLite runs in WAL mode, with immediate write transactions and foreign keys on; every commit is
    on the disk before it is answered, so that no identifier is given twice even after a power cut.

    :param timeout: seconds after which a connection that can't be opened, or whose peer is dead, is
        given up.
    :param find_budget: returns how long the current request may wait, None outside of requests.
    :raises ArgumentError: if it is no SQLAlchemy URL.
    :raises NoSuchModuleError: if it is one of another database.
    :raises ImportError: if its driver is not installed.
    """
    url = make_url(uri)
    if url.get_backend_name() == "postgresql":
        engine = _make_postgresql_engine(url, timeout, find_budget)
    elif url.get_backend_name() == "sqlite":
        engine = _make_sqlite_engine(url, timeout, find_budget)
    else:
        raise NoSuchModuleError(f"{url.get_backend_name()} is neither SQLite nor PostgreSQL")

    def begin_with_sqlalchemy(connection: Connection) -> None:
        begin(connection, find_budget(), connection.exec_driver_sql)

    event.listen(engine, "begin", begin_with_sqlalchemy)
    return engine


def begin(connection: Connection, budget: Budget | None, run: Callable[[str], object]) -> None:
    """Begin a transaction as the options of its connection say.

    :param budget: how long the current request may wait, None outside of requests.
    :param run: runs a statement.
    """
    patience = connection.get_execution_options().get(PATIENCE)
    if budget is None:
        run(_begin_statement(connection, patience))
        return
    with budget.spending():
        most = max(budget.left, 0) * LOCK_SHARE
        run(_begin_statement(connection, most if patience is None else min(patience, most)))


def _begin_statement(connection: Connection, patience: float | None) -> str:
    """Return the statement that begins a transaction; SQLite is told beforehand how long it waits.

    :param patience: the seconds that the transaction waits for locks, None: as long as it takes.
    """
    name = connection.dialect.name
    options = connection.get_execution_options()
    statement: str = options.get(BEGIN, WRITE[name])
    if name == "sqlite":
        driver: Any = connection.connection.driver_connection
        driver.execute(
            f"PRAGMA busy_timeout = {_milliseconds(BUSY_TIMEOUT if patience is None else patience)}"
        )
        return statement
    if patience is not None:
        statement += f"; SET LOCAL lock_timeout = {_milliseconds(patience)}"
    return f"{statement}; {options[LOCK]}" if LOCK in options else statement


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))  # 0 would be without limit


def _make_postgresql_engine(url: URL, timeout: float, find_budget: FindBudget) -> Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_driver_name() != "psycopg":
        engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_timeout=timeout)
        event.listen(engine, "connect", _prepare_postgresql)
        return engine
    # so that a dead peer is noticed where nobody keeps a deadline, as in commands
    options = {
        "connect_timeout": str(max(2, ceil(timeout))),  # 2 is the least that there is
        "tcp_user_timeout": str(_milliseconds(timeout)),
        "keepalives_idle": str(ceil(timeout)),
        "keepalives_interval": str(ceil(timeout / 3)),
        "keepalives_count": "3",
    }
    url = url.update_query_dict({**options, **url.query})
    engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_timeout=timeout)
    server = Server(find_budget, timeout)

    def connect(dialect: Any, record: Any, arguments: Any, options: Any) -> Any:
        return server.connect(*arguments, **options)

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _make_sqlite_engine(url: URL, timeout: float, find_budget: FindBudget) -> Engine:
    options: dict[str, Any] = {"connect_args": {"timeout": timeout}}
    if in_memory(url):
        options["poolclass"] = StaticPool
        options["connect_args"]["check_same_thread"] = False
    else:
        options["pool_timeout"] = timeout
    engine = create_engine(url, **options)

    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # BEGIN is ours
        budget = find_budget()
        _turn_on_wal(connection, BUSY_TIMEOUT if budget is None else budget.left)
        for pragma in ("synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", prepare)
    return engine


def in_memory(url: URL) -> bool:
    """Return whether a URL names an SQLite database that lives in memory."""
    return url.database in (None, "", ":memory:") or "mode=memory" in str(url)


def file_of(url: URL) -> Path | None:
    """Return the file of an SQLite database, None where it is another one."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name.startswith("file:") or in_memory(url):
        return None
    return Path(name)


def is_same_database(one: str, other: str) -> bool:
    """Return whether two URLs name one database, whatever the user, the driver and the options.

    :raises ArgumentError: if one of them is no SQLAlchemy URL.
    """
    return _identity(make_url(one)) == _identity(make_url(other))


def _identity(url: URL) -> tuple[object, ...]:
    name = url.database or ""
    if url.get_backend_name() == "sqlite":
        return "sqlite", Path(name.removeprefix("file:")).resolve()
    host = str(url.host or url.query.get("host") or "").lower()
    if host in LOOPBACK or host.startswith("/"):
        host = "localhost"
    # tables of one name may be in several schemas
    schema = re.search(r"search_path=(\S+)", str(url.query.get("options", "")))
    return (
        url.get_backend_name(),
        host,
        url.port or 5432,
        name or url.username,
        schema and schema[1],
    )


def place_of(engine: Engine) -> str:
    """Return where a database is, without anything secret: a path, or host and name."""
    url = engine.url
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    host = url.host or url.query.get("host") or "localhost"
    return f"{host}:{url.port or 5432}/{url.database or url.username}"


def _turn_on_wal(connection: Any, seconds: float) -> None:
    """Switch a file to WAL; two that switch a new one at once are refused without SQLite's usual
    wait.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _prepare_postgresql(connection: Any, record: Any) -> None:
    # the planner can't know how few rows a urlRequest reads, and would compile it at great cost
    cursor = connection.cursor()
    cursor.execute("SET jit = off")
    # in another zone the first and last moments that there are would lie outside Python's years
    cursor.execute("SET TIME ZONE 'UTC'")
    cursor.close()


def make_reader(engine: Engine) -> Engine:
    """Return an engine for the same database whose statements stand each for itself."""
    # with a pool of its own, and no event to listen to, which would slow each statement down
    if isinstance(engine.pool, StaticPool):
        pool: Pool = engine.pool
    else:
        pool = engine.pool.recreate()
    return create_engine(engine.url, pool=pool, skip_autocommit_rollback=True)


__all__ = [
    "ArgumentError",
    "NoSuchModuleError",
    "begin",
    "file_of",
    "in_memory",
    "is_same_database",
    "make_engine",
    "make_reader",
    "place_of",
]
