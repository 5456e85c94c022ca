"""The database of an Archive or a resolver: connections for reading, and write transactions."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.storage.database_errors import (
    explain_error,
    get_driver_message,
    is_write_conflict,
)
from flask_ibi_archive.storage.engines import (
    BEGIN,
    LOCK_TIMEOUT,
    SNAPSHOT,
    TABLE_LOCK,
    create_sqlite_file,
    describe_place,
    find_sqlite_file,
    make_engine,
    make_reader,
    refuse_missing_file,
)
from flask_ibi_archive.storage.migrate import ARCHIVE, History, current_revision, head_revision
from flask_ibi_archive.storage.request_budget import DEFAULT_TIMEOUT, FindBudget, find_no_budget

Result = TypeVar("Result")

#: The seconds after which a locked database is reported as not ready.
CHECK_LOCK_TIMEOUT = 4.0

#: The bytes that the test of a folder writes: about the size of a small write.
TEST_SIZE = 65536

#: The key of the advisory lock of PostgreSQL: the bytes of "ibi_arch".
SETUP_LOCK = int.from_bytes(b"ibi_arch", "big")

#: The command that creates or updates the tables of an Archive.
ADVICE_INIT = f"run: {ARCHIVE.init}"


class IdleConnections:
    """Open connections that later requests reuse, each in one thread at a time.

    To get a connection from SQLAlchemy's pool and to return it costs as much as a statement. At
    most :data:`MOST` connections are stored here; additional ones are returned to the pool.
    """

    MOST = 5

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._idle: deque[Connection] = deque()

    def take(self) -> Connection:
        """Return an idle connection, or a new one from the pool."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def give_back(self, connection: Connection) -> None:
        """Store a working connection for reuse, or return it to the pool."""
        if len(self._idle) < self.MOST:
            self._idle.append(connection)
        else:
            connection.close()

    def drop(self, connection: Connection) -> None:
        """Close a connection that failed, and all idle ones, which may be broken too."""
        connection.close()
        self.close()

    def detach(self) -> deque[Connection]:
        """Remove the idle connections without closing them, and return them."""
        detached, self._idle = self._idle, deque()
        return detached

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()


class Database:
    """The database of an Archive or of a resolver.

    :param engine: an engine that :func:`make_engine` returned.
    :param history: the tables that are needed, and their migrations.
    :param find_budget: returns the time that the current request may wait; None outside of
        requests.
    """

    def __init__(
        self,
        engine: Engine,
        history: History = ARCHIVE,
        find_budget: FindBudget = find_no_budget,
    ) -> None:
        self.engine = engine
        self.history = history
        self.reader = make_reader(engine)
        self.find_budget = find_budget
        self._idle = IdleConnections(lambda: self._connect(self.reader))
        self._of_parents: list[Any] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_reconnect_after_fork, weakref.ref(self)))

    @classmethod
    def at(
        cls,
        uri: str,
        history: History = ARCHIVE,
        timeout: float = DEFAULT_TIMEOUT,
        find_budget: FindBudget = find_no_budget,
    ) -> Database:
        """Return the database at a URL; only :meth:`create` creates a missing SQLite file.

        The parameters are those of :func:`make_engine`.
        """
        engine = make_engine(uri, timeout, find_budget)
        if file := find_sqlite_file(engine.url):
            refuse_missing_file(engine, file, f"run: {history.init}")
        return cls(engine, history, find_budget)

    # --- reading ---------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in autocommit mode: each statement reads the latest committed data.

        :raises NotReady: if the database does not answer, or lacks the tables.
        """
        try:
            connection = self._idle.take()
            try:
                yield connection
            except BaseException:
                self._idle.drop(connection)
                raise
            self._idle.give_back(connection)
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Call a function with a connection for reading, and return its result.

        If the connection is broken, because the server was restarted, the function is called again
        with a new connection.

        :raises NotReady: if the database does not answer, or lacks the tables.
        """
        try:
            try:
                return self._read_once(work)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return self._read_once(work)
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    def _read_once(self, work: Callable[[Connection], Result]) -> Result:
        connection = self._idle.take()
        try:
            result = work(connection)
        except BaseException:
            self._idle.drop(connection)
            raise
        self._idle.give_back(connection)
        return result

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection whose statements all see the data of the same moment."""
        try:
            with self._connect(self.engine) as connection:
                connection.execution_options(**{BEGIN: SNAPSHOT[self.engine.dialect.name]})
                with connection.begin():
                    yield connection
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    # --- writing ---------------------------------------------------------------------------------

    @contextmanager
    def writing(
        self, lock_timeout: float | None = None, table_lock: str | None = None
    ) -> Iterator[Connection]:
        """Yield a connection in a transaction, which an exception rolls back.

        :param lock_timeout: the seconds to wait for locks; None: without a limit of its own. A
            request never waits longer than its budget.
        :param table_lock: the statements that lock tables at the beginning, only needed on
            PostgreSQL: SQLite has one writer at a time.
        :raises NotReady: if the database does not answer, cannot be written, or lacks the tables.
        """
        committing = False
        try:
            with self._connect(self.engine) as connection:
                if lock_timeout is not None:
                    connection.execution_options(**{LOCK_TIMEOUT: lock_timeout})
                if table_lock is not None:
                    connection.execution_options(**{TABLE_LOCK: table_lock})
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
        """Return an error for users; see :func:`explain_error`."""
        return explain_error(error, self.engine.url, self.history, committing)

    def exists(self) -> bool:
        """Return False if the file of an SQLite database is missing, otherwise True."""
        file = find_sqlite_file(self.engine.url)
        return file is None or file.exists()

    def create(self) -> None:
        """Create the file of an SQLite database if it is missing.

        :raises StorageError: if the file cannot be created.
        """
        if file := find_sqlite_file(self.engine.url):
            create_sqlite_file(file, self.history.setting)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._idle.close()
        self.reader.dispose()
        self.engine.dispose()

    def check(self) -> None:
        """Check that the database has the tables of this version and can be read and written.

        :raises NotReady: if the check fails; the message contains the cause and what to do.
        """
        revision = self.read(lambda connection: current_revision(connection, self.history))
        head = head_revision(self.history)
        if revision is None:
            raise NotReady("the database does not contain the tables", f"run: {self.history.init}")
        if revision != head:
            raise NotReady(
                f"the database is at revision {revision}, this version needs {head}",
                f"run: {self.history.upgrade}",
            )
        self._check_writable()
        if file := find_sqlite_file(self.engine.url):
            check_writable_folder("the database", file.parent, self.history.setting)

    def _check_writable(self) -> None:
        try:
            with self.writing(CHECK_LOCK_TIMEOUT) as connection:
                # this statement changes nothing, but fails if the database is read-only
                connection.exec_driver_sql(
                    f"UPDATE {self.history.version_table} SET version_num = '' WHERE 1 = 0"
                )
        except NotReady as error:
            if isinstance(error.__cause__, DBAPIError) and is_write_conflict(error.__cause__):
                advice = "find the process that writes for so long"
                detail = describe_place(self.engine.url)
                raise NotReady("the database is locked", advice, detail) from error
            raise

    def _connect(self, engine: Engine) -> Connection:
        budget = self.find_budget()
        if budget is None:
            return engine.connect()
        with budget.spending():  # the thread may have to wait for a free connection
            return engine.connect()


def _reconnect_after_fork(reference: weakref.ref[Database]) -> None:
    """Make a forked process open new connections: it must not use or close those of its parent."""
    database = reference()
    if database is not None:
        # stored, because otherwise the garbage collector would close them
        database._of_parents += [
            database._idle.detach(),
            database.engine.pool,
            database.reader.pool,
        ]
        database.engine.dispose(close=False)
        database.reader.dispose(close=False)


def lock_out_others(connection: Connection) -> None:
    """Prevent other processes from setting up the tables until the end of the transaction."""
    if connection.dialect.name == "postgresql":  # write transactions of SQLite exclude each other
        connection.execute(select(func.pg_advisory_xact_lock(SETUP_LOCK)))


def check_writable_folder(name: str, folder: Path, setting: str) -> None:
    """Check that a small file can be written in a folder, and remove the file.

    :param name: the name of the data in the folder, for the message.
    :param folder: the folder; if it does not exist, the nearest existing parent is checked.
    :param setting: the key of the setting that contains the folder.
    :raises NotReady: if the file cannot be written, or the disk is full.
    """
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(TEST_SIZE))
            file.flush()
    except OSError as error:
        detail = f"{place}: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NotReady(f"the disk of {name} is full", "free some space", detail) from error
        advice = f"set {setting} to a folder that this process may write"
        raise NotReady(f"{name} can't be written", advice, detail) from error
