"""The database: an engine that reads without transactions and writes in short, immediate ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import StaticPool

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage.migrate import current_revision, head_revision

#: Seconds that a writer waits for the other writers of an SQLite file.
BUSY_TIMEOUT = 60

#: The execution option that says how a transaction of our SQLite engine begins: at once as a writer's
#: (unless told), as a reader's, or not at all, so that each statement stands for itself.
BEGIN = "ibi_begin"
IMMEDIATE, DEFERRED, NEVER = "BEGIN IMMEDIATE", "BEGIN", ""


def make_engine(uri: str) -> Engine:
    """Give an engine for a database.

    SQLite runs in WAL mode, with immediate write transactions and foreign keys on; every commit is on the
    disk before it is answered, so that no identifier is given twice even after a power cut.

    :raises ArgumentError: if it is no SQLAlchemy URL, or its driver is not installed (ImportError).
    """
    url = make_url(uri)
    if url.get_backend_name() != "sqlite":
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        return create_engine(url, pool_pre_ping=False, skip_autocommit_rollback=True)
    options: dict[str, Any] = {"connect_args": {"timeout": BUSY_TIMEOUT}}
    if in_memory(url):
        options["poolclass"] = StaticPool
        options["connect_args"]["check_same_thread"] = False
    engine = create_engine(url, skip_autocommit_rollback=True, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def in_memory(url: URL) -> bool:
    """Tell whether a URL names an SQLite database that lives in memory."""
    return url.database in (None, "", ":memory:") or "mode=memory" in str(url)


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # BEGIN is ours
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    statement = connection.get_execution_options().get(BEGIN, IMMEDIATE)
    if statement:
        connection.exec_driver_sql(statement)


class Database:
    """Where an Archive keeps what it knows.

    :param engine: the engine, ours (:func:`make_engine`) or a host's.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # our SQLite connections are in autocommit mode by themselves
        ours = event.contains(engine, "begin", _begin_sqlite)
        alone = {BEGIN: NEVER} if ours else {"isolation_level": "AUTOCOMMIT"}
        self._reader = engine.execution_options(**alone)

    @classmethod
    def at(cls, uri: str) -> Database:
        """Give the database at a URL; the folder of an SQLite file is made where it is missing."""
        engine = make_engine(uri)
        name = engine.url.database
        if engine.dialect.name == "sqlite" and name and not in_memory(engine.url):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
        return cls(engine)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection on which each statement stands for itself, without BEGIN and ROLLBACK.

        :raises NotReady: if the database is away or has not our tables.
        """
        try:
            with self._reader.connect() as connection:
                yield connection
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a connection whose statements all see the database as it is at the first of them."""
        sqlite = self.engine.dialect.name == "sqlite"
        options = {BEGIN: DEFERRED} if sqlite else {"isolation_level": "REPEATABLE READ"}
        try:
            with self.engine.connect() as connection:
                connection.execution_options(**options)
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
        except (OperationalError, InterfaceError, PoolTimeoutError) as error:
            raise self.explain(error) from error
        except DBAPIError as error:
            if is_missing_table(error):
                raise self.explain(error) from error
            raise

    def explain(self, error: Exception) -> NotReady:
        """Give what keeps the database from answering, and what to do about it."""
        if isinstance(error, DBAPIError) and is_missing_table(error):
            return NotReady("the database has not the tables of this version", ADVICE_UPGRADE)
        if isinstance(error, DBAPIError):
            reason = " ".join(str(error.orig).split())[:200]
        else:
            reason = "no connection is free"
        return NotReady(f"the database does not answer ({reason})", ADVICE_AWAY)

    def check(self) -> None:
        """Check that the database answers and that its tables are those of this version.

        :raises NotReady: if not; it says why and what to do.
        """
        with self.reading() as connection:
            revision = current_revision(connection)
        head = head_revision()
        if revision is None:
            raise NotReady("the database has none of our tables", "run: flask ibi init")
        if revision != head:
            raise NotReady(
                f"the database is at revision {revision}, this version needs {head}", ADVICE_UPGRADE
            )


def lock_out_others(connection: Connection) -> None:
    """Let one process at a time set up the tables, till the end of the transaction."""
    if connection.dialect.name == "postgresql":  # SQLite's write transactions do it by themselves
        connection.execute(select(func.pg_advisory_xact_lock(SETUP_LOCK)))


#: The number of our advisory lock: the bytes of "ibi_arch".
SETUP_LOCK = int.from_bytes(b"ibi_arch", "big")

ADVICE_UPGRADE = "run: flask ibi upgrade"
ADVICE_AWAY = "see that it runs and that IBI_DATABASE_URI names it"


def is_missing_table(error: DBAPIError) -> bool:
    """Tell whether a statement failed for want of a table or a column."""
    sqlstate = getattr(error.orig, "sqlstate", None)
    message = str(error.orig)
    return sqlstate in ("42P01", "42703") or message.startswith(("no such table", "no such column"))


__all__ = ["ArgumentError", "Database", "in_memory", "is_missing_table", "make_engine"]
