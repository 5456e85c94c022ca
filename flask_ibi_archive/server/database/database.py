"""The database of an Archive or a resolver, with connections for reading and for writing."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import Pool

from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.server.config import DATABASE_TIMEOUT
from flask_ibi_archive.server.database import engines
from flask_ibi_archive.server.database.breaker import Breaker, FindLimit, ServerSilent, find_breaker
from flask_ibi_archive.server.database.dialects import run_on_postgresql
from flask_ibi_archive.server.database.migrate import (
    ARCHIVE,
    History,
    check_revision,
    current_revision,
)

Result = TypeVar("Result")

ADVICE_WRITABLE = "make sure that this process may write the database (for SQLite, also the folder)"
ADVICE_FREE_SPACE = "free some space and try again"
ADVICE_TRY_AGAIN = (
    "nothing was changed; if the host has an open transaction, end this transaction; then try again"
)

#: If the database is locked for this number of seconds, :meth:`Database.check` reports an error.
CHECK_LOCK_TIMEOUT = 4.0

#: The number of bytes that the test of a folder writes.
TEST_SIZE = 65536

#: The key of the advisory lock on PostgreSQL. The key consists of the bytes of "ibi_arch".
SETUP_LOCK = int.from_bytes(b"ibi_arch", "big")


class Database:
    """The database of an Archive or of a resolver.

    Only :meth:`create` creates a missing SQLite file.

    :param uri: the URL; the parameters ``timeout`` and ``creator`` are those of
        :func:`make_engine`.
    :param history: the migrations that create the required tables.
    :param find_limit: returns the time that a statement of the current request may take.
    :param belongs_to_host: whether the database belongs to the host. Then the journal mode of an
        SQLite file is never changed.
    """

    def __init__(
        self,
        uri: str,
        history: History = ARCHIVE,
        timeout: float = DATABASE_TIMEOUT,
        find_limit: FindLimit = lambda: None,
        belongs_to_host: bool = False,
        creator: engines.Creator | None = None,
    ) -> None:
        self.engine: Engine = engines.make_engine(uri, timeout, find_limit, creator)
        if file := engines.find_sqlite_file(self.engine.url):
            engines.refuse_missing_file(self.engine, file, f"run: {history.init}")
        self.history = history
        self.belongs_to_host = belongs_to_host
        self.reader: Engine = engines.make_reader(self.engine)
        self.find_limit = find_limit
        self.breaker: Breaker = find_breaker(engines.identify_database(self.engine.url))
        # closes the connections when nobody uses this object any more, or when the process ends
        weakref.finalize(self, _close, self.reader, self.engine)
        self._parent_pools: list[Pool] = []
        _databases.add(self)

    # --- reading ---------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for reading. Each statement reads the latest committed data.

        The connection is in autocommit mode.

        :raises NotReady: if the database does not answer, or does not contain the tables.
        """
        with self._explaining(), self._connect(self.reader) as connection:
            yield connection

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Call a function with a connection for reading, and return the result of the function.

        If the connection is broken, for example after a restart of the server, the function is
        called again with a new connection. If the server did not answer in time, the function is
        not called again.

        :raises NotReady: if the database does not answer, or does not contain the tables.
        """
        with self._explaining():
            try:
                with self._connect(self.reader) as connection:
                    return work(connection)
            except DBAPIError as error:
                if not error.connection_invalidated or isinstance(error.orig, TimeoutError):
                    raise
            with self._connect(self.reader) as connection:
                return work(connection)

    def read_rows(self, statement: Executable) -> Sequence[Any]:
        """Return all rows of a statement. :meth:`read` says what happens if a connection fails."""
        return self.read(lambda connection: connection.execute(statement).all())

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise :class:`.NotReady` for the errors of the database."""
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    def _connect(self, engine: Engine) -> Connection:
        if self.breaker.patience < inf and self.find_limit() is not None:
            self.breaker.check()
        return engine.connect()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection for reading. All statements read the data of the same moment."""
        begin = engines.SNAPSHOT[self.engine.dialect.name]
        with self._explaining(), self._connect(self.engine) as connection:
            connection.execution_options(**{engines.BEGIN: begin})
            with connection.begin():
                yield connection

    # --- writing ---------------------------------------------------------------------------------

    @contextmanager
    def writing(
        self, lock_timeout: float | None = None, table_lock: str | None = None
    ) -> Iterator[Connection]:
        """Yield a connection for writing, in a transaction.

        An exception in the ``with`` block rolls back all changes.

        :param lock_timeout: the maximum time to wait for locks, in seconds. None sets no limit for
            this transaction. In a request, the time limit of a statement also applies.
        :param table_lock: the statements that lock tables at the beginning of the transaction.
            These statements are only used on PostgreSQL, because SQLite has only one writer at a
            time.
        :raises NotReady: if the database does not answer, is read-only, or does not contain the
            tables.
        :raises StorageError: if the database refuses a value.
        """
        committing = False
        try:
            with self._connect(self.engine) as connection:
                if lock_timeout is not None:
                    connection.execution_options(**{engines.LOCK_TIMEOUT: lock_timeout})
                if table_lock is not None:
                    connection.execution_options(**{engines.TABLE_LOCK: table_lock})
                with connection.begin():
                    yield connection
                    committing = True
        except IntegrityError:
            raise
        except DataError as error:
            raise StorageError(
                f"the database refuses a value: {get_driver_message(error)}"
            ) from error
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error, committing) from error

    # --- the database itself ---------------------------------------------------------------------

    def explain(self, error: Exception, committing: bool = False) -> NotReady:
        """Convert an error to a NotReady that says why the database failed, and what to do.

        The message does not contain the password of the database.

        :param error: the error that was raised. Either no connection was free, or the server is
            silent, or the driver reported an error.
        :param committing: True if the error was raised by a COMMIT.
        """
        if not isinstance(error, DBAPIError):
            silent = isinstance(error, ServerSilent)
            return self._no_answer(str(error) if silent else "no connection is free")
        url = self.engine.url
        message, sqlstate, reason = get_driver_message(error), get_sqlstate(error), str(error.orig)
        detail = f"{engines.describe_place(url)}: {message}"
        if sqlstate in ("42P01", "42703") or reason.startswith(("no such table", "no such column")):
            advice = f"run: {self.history.init}"
            return NotReady("the database does not have the tables of this version", advice)
        if is_write_conflict(error):
            return NotReady(
                "another transaction blocks this transaction", ADVICE_TRY_AGAIN, message
            )
        is_read_only = sqlstate == "25006" or reason.startswith("attempt to write a readonly")
        if is_read_only or (reason == "unable to open database file" and _is_in_closed_folder(url)):
            return NotReady("the database is not writable", ADVICE_WRITABLE, detail)
        if sqlstate == "53100" or reason == "database or disk is full":
            return NotReady("the disk of the database is full", ADVICE_FREE_SPACE, detail)
        if committing and isinstance(error.orig, TimeoutError):
            message += "; it is unknown whether the change was stored"
        return self._no_answer(message)

    def _no_answer(self, detail: str) -> NotReady:
        setting = self.history.setting
        advice = f"check that the database is running and that {setting} is its URL"
        return NotReady("the database does not answer", advice, detail)

    def exists(self) -> bool:
        """Return False if the file of an SQLite database is missing, and True otherwise."""
        file = engines.find_sqlite_file(self.engine.url)
        return file is None or file.exists()

    def create(self) -> None:
        """Create the file of an SQLite database if it is missing.

        :raises StorageError: if the file cannot be created.
        """
        if file := engines.find_sqlite_file(self.engine.url):
            engines.create_sqlite_file(file, self.history.setting, self.belongs_to_host)

    def close(self) -> None:
        """Close all connections that are not in use."""
        _close(self.reader, self.engine)

    def check(self) -> None:
        """Check that the database is readable and writable, and has the tables of this version.

        :raises NotReady: if the check fails. The error names the cause and says what to do.
        """
        self.check_revision()
        self._check_writable()
        if file := engines.find_sqlite_file(self.engine.url):
            check_writable_folder("the database", file.parent, self.history.setting)

    def check_revision(self) -> None:
        """Check that the tables exist and have the newest revision.

        :raises NotReady: if the check fails. The error says what to do.
        """
        self.read(check_encoding)
        self.read(lambda connection: check_revision(connection, self.history))

    def find_revision(self, connection: Connection) -> str | None:
        """Return the revision of the tables; None if the tables do not exist."""
        return current_revision(connection, self.history)

    def _check_writable(self) -> None:
        """Check that the database can be written.

        :raises NotReady: if the database is read-only, or locked for too long.
        """
        try:
            with self.writing(CHECK_LOCK_TIMEOUT) as connection:
                # the statement changes no data, but fails if the database is read-only
                connection.exec_driver_sql(f"UPDATE {self.history.table} SET id = id WHERE 1 = 0")
        except NotReady as error:
            if isinstance(error.__cause__, DBAPIError) and is_write_conflict(error.__cause__):
                advice = "find and stop the process that locks the database"
                detail = engines.describe_place(self.engine.url)
                raise NotReady("the database is locked", advice, detail) from error
            raise


def get_driver_message(error: DBAPIError) -> str:
    """Return the first 200 characters of the driver's message, without line breaks."""
    return " ".join(str(error.orig).split())[:200]


def get_sqlstate(error: DBAPIError) -> str | None:
    """Return the error code of PostgreSQL, which psycopg2 calls pgcode; None on SQLite."""
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)


def can_be_repeated(error: DBAPIError) -> bool:
    """Return whether the transaction can be repeated after a serialization failure or deadlock."""
    return get_sqlstate(error) in ("40001", "40P01")


def is_write_conflict(error: DBAPIError) -> bool:
    """Return whether a statement failed because of a conflict with another transaction."""
    is_locked = get_sqlstate(error) == "55P03" or str(error.orig) == "database is locked"
    return is_locked or can_be_repeated(error)


def _is_in_closed_folder(url: URL) -> bool:
    """Return whether this process may not write the folder of an SQLite file."""
    file = engines.find_sqlite_file(url)
    return file is not None and file.parent.is_dir() and not os.access(file.parent, os.W_OK)


def _close(*opened: Engine) -> None:
    for engine in opened:
        engine.dispose()


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _reconnect_after_fork() -> None:
    """Make a forked process open its own connections.

    The forked process must neither use nor close the connections of the parent process.
    """
    for database in list(_databases):
        # the list prevents the garbage collector from closing the connections of the parent
        database._parent_pools += [database.engine.pool, database.reader.pool]
        database.engine.dispose(close=False)
        database.reader.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reconnect_after_fork)


def check_encoding(connection: Connection) -> None:
    """Check that the database can store all characters.

    :raises NotReady: if the encoding of a PostgreSQL database is not UTF-8.
    """
    if connection.dialect.name == "postgresql":
        encoding = connection.scalar(text("SHOW server_encoding"))
        if encoding != "UTF8":
            raise NotReady(
                f"the database has the encoding {encoding}, which lacks characters",
                "create a database with the encoding UTF8: createdb -E UTF8 -T template0 NAME",
            )


def lock_table_setup(connection: Connection) -> None:
    """Prevent other processes from creating or upgrading tables until the transaction ends.

    :raises NotReady: if the encoding of the database is wrong.
    """
    check_encoding(connection)
    run_on_postgresql(connection, f"SELECT pg_advisory_xact_lock({SETUP_LOCK})")


def check_writable_folder(name: str, folder: Path, setting: str) -> None:
    """Check that this process can write a small file in a folder.

    :param name: the name of the data in the folder. The error message contains this name.
    :param folder: the folder. If the folder does not exist, the nearest existing parent folder is
        checked.
    :param setting: the key of the setting that contains the folder.
    :raises NotReady: if the file cannot be written, or if the disk is full.
    """
    existing = folder.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(TEST_SIZE))
            file.flush()
    except OSError as error:
        detail = f"{existing}: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NotReady(f"the disk of {name} is full", "free some space", detail) from error
        advice = f"set {setting} to a folder that this process may write"
        raise NotReady(f"{name} can't be written", advice, detail) from error
