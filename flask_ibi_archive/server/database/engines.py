"""Create engines for SQLite and PostgreSQL; these open connections and begin transactions."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import Pool, StaticPool

from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.server.database.breaker import FindLimit, find_breaker, limit_connections

#: Opens a connection of the driver.
Creator: TypeAlias = "Callable[[], Any]"

#: A transaction that writes to an SQLite file waits at most this number of seconds for other
#: transactions that write.
BUSY_TIMEOUT = 60

#: The host names that mean this computer. A URL without a host ("") means a local socket.
LOOPBACK = ("", "localhost", "127.0.0.1", "::1")

#: A statement of a request may use this part of its time to wait for a lock, so that the server can
#: still answer that the lock was not free.
LOCK_SHARE = 0.8

#: The settings of a PostgreSQL connection for times. In other time zones, Python could not
#: represent the first and the last allowed date. psycopg reads only the style ISO.
TIMES = "SET TIME ZONE 'UTC'; SET DateStyle = 'ISO'"

#: The names of execution options of a connection. The option BEGIN contains the statement that
#: begins a transaction. The option LOCK_TIMEOUT contains the number of seconds that the transaction
#: waits for locks. Without LOCK_TIMEOUT there is no limit on PostgreSQL. The option TABLE_LOCK
#: contains the statements that lock tables on PostgreSQL.
BEGIN = "ibi_begin"
LOCK_TIMEOUT = "ibi_lock_timeout"
TABLE_LOCK = "ibi_table_lock"
WRITE = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN"}
SNAPSHOT = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}


def make_engine(uri: str, timeout: float, find_limit: FindLimit, creator: Creator | None) -> Engine:
    """Return an engine for a database.

    The engine is in autocommit mode, so statements that read need no transaction. SQLite checks
    foreign keys, and locks the database when a write transaction begins. A commit returns only when
    the data is on the disk. Therefore no identifier is issued twice, even after a power failure.

    :param timeout: the number of seconds to wait for a new connection. The engine also waits this
        time for a server that does not respond.
    :param find_limit: returns the time that a statement of the current request may take.
    :param creator: the function with which the host opens connections, or None. With such
        connections, a request may wait without limit for a server that hangs.
    :raises ArgumentError: if ``uri`` is not a URL that SQLAlchemy accepts.
    :raises NoSuchModuleError: if the database is neither SQLite nor PostgreSQL.
    :raises ImportError: if the driver is not installed.
    """
    url = make_url(uri)
    if url.get_backend_name() == "postgresql":
        engine = _make_postgresql_engine(url, timeout, find_limit)
    elif url.get_backend_name() == "sqlite":
        engine = _make_sqlite_engine(url, timeout)
    else:
        raise NoSuchModuleError(f"{url.get_backend_name()} is neither SQLite nor PostgreSQL")
    event.listen(engine, "begin", lambda connection: begin(connection, find_limit()))
    if creator is not None:
        event.listen(engine, "do_connect", lambda *connecting: creator(), insert=True)
    return engine


def begin(connection: Connection, limit: float | None) -> None:
    """Begin a transaction with the execution options of the connection.

    :param limit: the seconds that a statement of the current request may take; None outside of
        requests.
    """
    options = connection.get_execution_options()
    name = connection.dialect.name
    statement: str = options.get(BEGIN, WRITE[name])
    limits = [options.get(LOCK_TIMEOUT), None if limit is None else limit * LOCK_SHARE]
    seconds = min((one for one in limits if one is not None), default=None)
    milliseconds = 0 if seconds is None else max(1, int(seconds * 1000))  # 0: no limit
    if name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        # a database in memory has one connection, which another thread may be using
        if driver.in_transaction:
            raise NotReady("another transaction uses the database in memory", "try again later")
        wait = milliseconds or BUSY_TIMEOUT * 1000
        driver.execute(f"PRAGMA busy_timeout = {wait}")
    elif milliseconds:
        statement += f"; SET LOCAL lock_timeout = {milliseconds}"
    if name == "postgresql" and TABLE_LOCK in options:
        statement += f"; {options[TABLE_LOCK]}"
    connection.exec_driver_sql(statement)


def _make_postgresql_engine(url: URL, timeout: float, find_limit: FindLimit) -> Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_driver_name() != "psycopg":
        engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_timeout=timeout)
        event.listen(engine, "connect", _prepare_postgresql)
        return engine
    # Statements of commands have no limit. These options end waits if the server does not respond.
    options = {
        "connect_timeout": str(max(2, ceil(timeout))),  # 2 is the smallest value that is allowed
        "tcp_user_timeout": str(max(1, int(timeout * 1000))),
        "keepalives_idle": str(ceil(timeout)),
        "keepalives_interval": str(ceil(timeout / 3)),
        "keepalives_count": "3",
    }
    # the environment variable PGCLIENTENCODING may name an encoding that lacks characters
    url = url.update_query_dict({**options, **url.query, "client_encoding": "utf8"})
    engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_timeout=timeout)
    limited = limit_connections(find_limit, find_breaker(identify_database(url)))

    def open_connection(dialect: Any, record: Any, arguments: Any, options: Any) -> Any:
        return limited.connect(*arguments, **options)

    event.listen(engine, "do_connect", open_connection)
    event.listen(engine, "connect", _prepare_psycopg)
    return engine


def _make_sqlite_engine(url: URL, timeout: float) -> Engine:
    options: dict[str, Any] = {"connect_args": {"timeout": timeout}}
    if is_in_memory(url):
        # All threads share one connection. It is not reset when a thread returns it to the pool,
        # because another thread may be in a transaction.
        options |= {"poolclass": StaticPool, "pool_reset_on_return": None}
        options["connect_args"]["check_same_thread"] = False
    else:
        options["pool_timeout"] = timeout
    engine = create_engine(url, **options)

    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the function begin() sends BEGIN
        for pragma in ("synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", prepare)
    return engine


def is_in_memory(url: URL) -> bool:
    """Return whether a URL names an SQLite database in memory."""
    return url.database in (None, "", ":memory:") or "mode=memory" in str(url)


def find_sqlite_file(url: URL) -> Path | None:
    """Return the path of an SQLite database file; None if the database is not a file."""
    if url.get_backend_name() != "sqlite" or is_in_memory(url):
        return None
    name = str(url.database)
    return None if name.startswith("file:") else Path(name)


def is_same_database(first: str, second: str) -> bool:
    """Return whether two URLs name the same database.

    The URLs may have different users, drivers and options.

    :raises ArgumentError: if SQLAlchemy does not accept one of the URLs.
    """
    return identify_database(make_url(first)) == identify_database(make_url(second))


def identify_database(url: URL) -> str:
    """Return a text, without user and password, that is equal for all URLs of one database."""
    name = url.database or ""
    if url.get_backend_name() == "sqlite":
        return f"sqlite {Path(name.removeprefix('file:')).resolve()}"
    host = str(url.host or url.query.get("host") or "").lower()
    if host in LOOPBACK or host.startswith("/"):
        host = "localhost"
    # two schemas of a database may contain tables with the same names
    schema = re.search(r"search_path=(\S+)", str(url.query.get("options", "")))
    text = f"{url.get_backend_name()} {host}:{url.port or 5432}/{name or url.username}"
    return f"{text} ({schema[1]})" if schema else text


def describe_place(url: URL) -> str:
    """Describe where a database is, without the password.

    :returns: for SQLite the path, for PostgreSQL the host, the port and the name.
    """
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    host = url.host or url.query.get("host") or "localhost"
    return f"{host}:{url.port or 5432}/{url.database or url.username}"


def _prepare_psycopg(connection: Any, record: Any) -> None:
    """Set the options of a new connection to PostgreSQL or to a pooler such as PgBouncer.

    In the transaction mode of a pooler, each transaction may run in another session of the server,
    and other clients use these sessions too. On a pooler, the connection therefore uses no prepared
    statements, and sets only what PgBouncer keeps for each client: the time zone and the style of
    dates. A direct connection also turns off JIT.
    """
    [session] = connection.execute("SELECT pg_backend_pid()").fetchone()
    if session == connection.info.backend_pid:
        _prepare_postgresql(connection, record)
    else:  # a pooler has sent another process ID than that of the session
        connection.prepare_threshold = None
        connection.execute(TIMES)


def _prepare_postgresql(connection: Any, record: Any) -> None:
    # The planner expects more rows than a urlRequest reads. Therefore the planner would compile the
    # statements, which takes too long.
    cursor = connection.cursor()
    cursor.execute(f"SET jit = off; {TIMES}")
    cursor.close()


def make_reader(engine: Engine) -> Engine:
    """Return an engine for the same database that does not begin transactions.

    The new engine has no event listeners, because they would make each statement slower.
    """
    if isinstance(engine.pool, StaticPool):
        pool: Pool = engine.pool
    else:
        pool = engine.pool.recreate()
    return create_engine(engine.url, pool=pool, skip_autocommit_rollback=True)


def refuse_missing_file(engine: Engine, file: Path, advice: str) -> None:
    """Make an engine refuse connections while the database file is missing.

    Otherwise SQLite would create an empty file.

    :param advice: the part of the message that tells users how to create the file.
    :raises NotADirectoryError: if a name above the database file belongs to a file instead of a
        folder.
    """
    if not next(folder for folder in file.absolute().parents if folder.exists()).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(file.parent))

    def refuse(*connecting: object) -> None:
        if not file.exists():
            raise NotReady("the database file is missing", advice, str(file))

    event.listen(engine, "do_connect", refuse)


def create_sqlite_file(file: Path, setting: str, belongs_to_host: bool) -> None:
    """Create a database file and the folder of the file, unless they exist.

    A new file of our own gets WAL mode, in which writers and readers do not wait for each other.
    The mode remains in the file. A file of the host keeps the mode that the host has chosen.

    :param setting: the key of the setting that contains the URL of the database.
    :param belongs_to_host: whether the file belongs to the host.
    :raises StorageError: if the file or the folder cannot be created.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o644)
    except OSError as error:
        raise StorageError(
            f"the database file {file} can't be created: {error.strerror}; set {setting} to "
            "the URL of a file in a folder that this process may write"
        ) from error
    if not belongs_to_host and file.stat().st_size == 0:
        _turn_on_wal(file)


def _turn_on_wal(file: Path) -> None:
    """Turn on WAL mode, and wait while another process does the same."""
    deadline = time.monotonic() + BUSY_TIMEOUT
    with closing(sqlite3.connect(file)) as connection:
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return
