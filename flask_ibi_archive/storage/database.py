"""The database: an engine that reads without transactions and writes in short, immediate ones."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import Pool, StaticPool

from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.storage.migrate import (
    ARCHIVE,
    History,
    current_revision,
    head_revision,
)

Result = TypeVar("Result")

#: Seconds that a writer waits for the other writers of an SQLite file.
BUSY_TIMEOUT = 60

#: The execution option that says how a transaction of our engine begins. Its connections are in autocommit
#: mode, so that what is read on them alone needs no transaction.
BEGIN = "ibi_begin"
WRITE = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN"}
SNAPSHOT = {"sqlite": "BEGIN", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}


def make_engine(uri: str) -> Engine:
    """Give an engine for a database.

    SQLite runs in WAL mode, with immediate write transactions and foreign keys on; every commit is on the
    disk before it is answered, so that no identifier is given twice even after a power cut.

    :raises ArgumentError: if it is no SQLAlchemy URL.
    :raises NoSuchModuleError: if it is one of another database.
    :raises ImportError: if its driver is not installed.
    """
    url = make_url(uri)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "postgresql":
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        event.listen(engine, "connect", _prepare_postgresql)
    elif url.get_backend_name() == "sqlite":
        options: dict[str, Any] = {"connect_args": {"timeout": BUSY_TIMEOUT}}
        if in_memory(url):
            options["poolclass"] = StaticPool
            options["connect_args"]["check_same_thread"] = False
        engine = create_engine(url, **options)
        event.listen(engine, "connect", _prepare_sqlite)
    else:
        raise NoSuchModuleError(f"{url.get_backend_name()} is neither SQLite nor PostgreSQL")
    event.listen(engine, "begin", _begin)
    return engine


def in_memory(url: URL) -> bool:
    """Tell whether a URL names an SQLite database that lives in memory."""
    return url.database in (None, "", ":memory:") or "mode=memory" in str(url)


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # BEGIN is ours
    _turn_on_wal(connection)
    for pragma in ("synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _turn_on_wal(connection: Any) -> None:
    """Switch a file to WAL; two that switch a new one at once are refused without SQLite's usual wait."""
    deadline = time.monotonic() + BUSY_TIMEOUT
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


def _begin(connection: Connection) -> None:
    statement = connection.get_execution_options().get(BEGIN, WRITE[connection.dialect.name])
    connection.exec_driver_sql(statement)


def make_reader(engine: Engine) -> Engine:
    """Give an engine for the same database whose statements stand each for itself."""
    # with a pool of its own, and no event to listen to, which would slow each statement down
    if isinstance(engine.pool, StaticPool):
        pool: Pool = engine.pool
    else:
        pool = engine.pool.recreate()
    return create_engine(engine.url, pool=pool, skip_autocommit_rollback=True)


class ReadyConnections:
    """Connections that stay open from one request to the next, each used by one at a time.

    Taking one from SQLAlchemy's pool and giving it back costs as much as the statement that it is for. At
    most :data:`KEPT` wait here; the pool stands behind them.
    """

    KEPT = 5

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: deque[Connection] = deque()

    def take(self) -> Connection:
        """Give a connection that nobody else uses."""
        try:
            return self._waiting.pop()
        except IndexError:
            return self._engine.connect()

    def give_back(self, connection: Connection) -> None:
        """Take back a connection that works."""
        if len(self._waiting) < self.KEPT:
            self._waiting.append(connection)
        else:
            connection.close()

    def drop(self, connection: Connection) -> None:
        """Close a connection that failed, and those that wait: they may have been cut off likewise."""
        connection.close()
        self.close()

    def forget(self) -> deque[Connection]:
        """Give up the connections that wait, as they are."""
        given_up, self._waiting = self._waiting, deque()
        return given_up

    def close(self) -> None:
        """Close the connections that wait."""
        while self._waiting:
            with suppress(IndexError):
                self._waiting.pop().close()


class Database:
    """Where an Archive, or a resolver, keeps what it knows.

    :param engine: the engine (:func:`make_engine`).
    :param history: that of the tables that are needed.
    """

    def __init__(self, engine: Engine, history: History = ARCHIVE) -> None:
        self.engine = engine
        self.history = history
        self.reader = make_reader(engine)
        self._ready = ReadyConnections(self.reader)
        self._parents: list[Any] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(self)))

    @classmethod
    def at(cls, uri: str, history: History = ARCHIVE) -> Database:
        """Give the database at a URL; the folder of an SQLite file is made where it is missing."""
        engine = make_engine(uri)
        name = engine.url.database
        is_file = name and not name.startswith("file:") and not in_memory(engine.url)
        if engine.dialect.name == "sqlite" and name and is_file:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
        return cls(engine, history)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection on which each statement stands for itself, without BEGIN and ROLLBACK.

        :raises NotReady: if the database is away or has not our tables.
        """
        try:
            connection = self._ready.take()
            try:
                yield connection
            except BaseException:
                self._ready.drop(connection)
                raise
            self._ready.give_back(connection)
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Give what some work finds, done on a connection as :meth:`reading` gives it.

        It is done once more where the connection turns out to be cut off: the server was restarted.

        :raises NotReady: if the database is away or has not our tables.
        """
        try:
            try:
                return self._work(work)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return self._work(work)
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    def _work(self, work: Callable[[Connection], Result]) -> Result:
        connection = self._ready.take()
        try:
            result = work(connection)
        except BaseException:
            self._ready.drop(connection)
            raise
        self._ready.give_back(connection)
        return result

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._ready.close()
        self.reader.dispose()
        self.engine.dispose()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a connection whose statements all see the database as it is at the first of them."""
        try:
            with self.engine.connect() as connection:
                connection.execution_options(**{BEGIN: SNAPSHOT[self.engine.dialect.name]})
                with connection.begin():
                    yield connection
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection in a transaction: committed at the end, rolled back by an exception.

        :raises NotReady: if the database is away or has not our tables.
        """
        try:
            with self.engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DataError as error:
            raise StorageError(f"the database refuses a value: {_one_line(error)}") from error
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    def explain(self, error: Exception) -> NotReady:
        """Give what keeps the database from answering, and what to do about it."""
        if isinstance(error, DBAPIError) and is_missing_table(error):
            advice = f"run: {self.history.init}"
            return NotReady("the database has not the tables of this version", advice)
        detail = _one_line(error) if isinstance(error, DBAPIError) else "no connection is free"
        if isinstance(error, DBAPIError) and is_in_the_way(error):
            return NotReady("another transaction is in the way", ADVICE_AGAIN, detail)
        advice = f"see that it runs and that {self.history.setting} names it"
        return NotReady("the database does not answer", advice, detail)

    def check(self) -> None:
        """Check that the database answers and that its tables are those of this version.

        :raises NotReady: if not; it says why and what to do.
        """
        revision = self.read(lambda connection: current_revision(connection, self.history))
        head = head_revision(self.history)
        if revision is None:
            raise NotReady("the database has none of our tables", f"run: {self.history.init}")
        if revision != head:
            raise NotReady(
                f"the database is at revision {revision}, this version needs {head}",
                f"run: {self.history.upgrade}",
            )


def _one_line(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:200]


def _leave_to_parent(database: weakref.ref[Database]) -> None:
    """Let a forked process open connections of its own: it must not use, nor close, its parent's."""
    found = database()
    if found is not None:
        # kept, since even to collect them would close them
        found._parents += [found._ready.forget(), found.engine.pool, found.reader.pool]
        found.engine.dispose(close=False)
        found.reader.dispose(close=False)


def lock_out_others(connection: Connection) -> None:
    """Let one process at a time set up the tables, till the end of the transaction."""
    if connection.dialect.name == "postgresql":  # SQLite's write transactions do it by themselves
        connection.execute(select(func.pg_advisory_xact_lock(SETUP_LOCK)))


#: The number of our advisory lock: the bytes of "ibi_arch".
SETUP_LOCK = int.from_bytes(b"ibi_arch", "big")

#: Brings an Archive's tables up to date as well.
ADVICE_INIT = f"run: {ARCHIVE.init}"
ADVICE_AGAIN = "nothing was done: end this one, if it is the host's, and try again"


def is_missing_table(error: DBAPIError) -> bool:
    """Tell whether a statement failed for want of a table or a column."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    message = str(error.orig)
    return sqlstate in ("42P01", "42703") or message.startswith(("no such table", "no such column"))


def is_in_the_way(error: DBAPIError) -> bool:
    """Tell whether a statement failed only because others write at the same time."""
    # serialization failure, deadlock, lock not available
    sqlstate = getattr(error.orig, "sqlstate", None)
    return sqlstate in ("40001", "40P01", "55P03") or str(error.orig) == "database is locked"


__all__ = [
    "ArgumentError",
    "Database",
    "NoSuchModuleError",
    "in_memory",
    "is_missing_table",
    "make_engine",
]
