"""The database of an Archive or a resolver: connections to read, and short write transactions."""

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
from flask_ibi_archive.storage.database_errors import explain_error, is_write_conflict, one_line
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
from flask_ibi_archive.storage.request_budget import DEFAULT_TIMEOUT, FindBudget, unlimited

Result = TypeVar("Result")

#: Seconds for which a database may be locked before it counts as not ready.
CHECK_LOCK_TIMEOUT = 4.0

#: Bytes that a test of a folder writes: as many as a small write needs.
TEST_SIZE = 65536

#: The key of the advisory lock: the bytes of "ibi_arch".
SETUP_LOCK = int.from_bytes(b"ibi_arch", "big")

#: The command that creates or updates the tables of an Archive.
ADVICE_INIT = f"run: {ARCHIVE.init}"


class IdleConnections:
    """Open connections that are reused by later requests, each by one thread at a time.

    Taking a connection from SQLAlchemy's pool and returning it costs as much as one statement. At
    most :data:`MOST` are stored here; further ones come from the pool and return to it.
    """

    MOST = 5

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._idle: deque[Connection] = deque()

    def take(self) -> Connection:
        """Return a connection that is not in use."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def give_back(self, connection: Connection) -> None:
        """Store a connection that works, or return it to the pool."""
        if len(self._idle) < self.MOST:
            self._idle.append(connection)
        else:
            connection.close()

    def drop(self, connection: Connection) -> None:
        """Close a connection that failed and all idle ones, which may have been cut off as well."""
        connection.close()
        self.close()

    def detach(self) -> deque[Connection]:
        """Return the idle connections without closing them, and keep none."""
        detached, self._idle = self._idle, deque()
        return detached

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()


class Database:
    """The database of an Archive or of a resolver.

    :param engine: the engine (:func:`make_engine`).
    :param history: the tables that are needed.
    :param find_budget: returns how long the current request may wait, None outside of requests.
    """

    def __init__(
        self,
        engine: Engine,
        history: History = ARCHIVE,
        find_budget: FindBudget = unlimited,
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
        find_budget: FindBudget = unlimited,
    ) -> Database:
        """Return the database at a URL; :meth:`create` creates an SQLite file if it is missing.

        The parameters are those of :func:`make_engine`.
        """
        engine = make_engine(uri, timeout, find_budget)
        if file := find_sqlite_file(engine.url):
            refuse_missing_file(engine, file, f"run: {history.init}")
        return cls(engine, history, find_budget)

    # --- reading ---------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in autocommit mode: each statement sees what is committed by then.

        :raises NotReady: if the database does not answer, or does not have our tables.
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
        """Return the result of a function that reads on a connection as :meth:`reading` yields it.

        The function is called again if the connection was cut off: the server was restarted.

        :raises NotReady: if the database does not answer, or does not have our tables.
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
        """Yield a connection whose statements all see the database as the first of them does."""
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
        """Yield a connection in a transaction: committed at the end, rolled back by an exception.

        :param lock_timeout: the seconds to wait for locks at most; None: without a limit, in a
            request as long as the request may wait.
        :param table_lock: the statements that lock tables at the beginning, on PostgreSQL; SQLite
            has one writer at a time.
        :raises NotReady: if the database does not answer, cannot be written, or does not have our
            tables.
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
            raise StorageError(f"the database refuses a value: {one_line(error)}") from error
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error, committing) from error

    # --- the database itself ---------------------------------------------------------------------

    def explain(self, error: Exception, committing: bool = False) -> NotReady:
        """Return why the database cannot do its work, and what to do; see :func:`explain_error`."""
        return explain_error(error, self.engine.url, self.history, committing)

    def exists(self) -> bool:
        """Return whether there is a database to connect to: False if an SQLite file is missing."""
        file = find_sqlite_file(self.engine.url)
        return file is None or file.exists()

    def create(self) -> None:
        """Create the file of an SQLite database if it is missing, for the tables.

        :raises StorageError: if it cannot be created.
        """
        if file := find_sqlite_file(self.engine.url):
            create_sqlite_file(file, self.history.setting)

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._idle.close()
        self.reader.dispose()
        self.engine.dispose()

    def check(self) -> None:
        """Check that the database can be read and written, and has the tables of this version.

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
        self._check_writable()
        if file := find_sqlite_file(self.engine.url):
            check_writable_folder("the database", file.parent, self.history.setting)

    def _check_writable(self) -> None:
        try:
            with self.writing(CHECK_LOCK_TIMEOUT) as connection:
                # changes nothing, and fails if the database is read-only
                connection.exec_driver_sql(
                    f"UPDATE {self.history.version_table} SET version_num = '' WHERE 1 = 0"
                )
        except NotReady as error:
            if isinstance(error.__cause__, DBAPIError) and is_write_conflict(error.__cause__):
                advice = "see which process has been writing for so long"
                detail = describe_place(self.engine.url)
                raise NotReady("the database is locked", advice, detail) from error
            raise

    def _connect(self, engine: Engine) -> Connection:
        budget = self.find_budget()
        if budget is None:
            return engine.connect()
        with budget.spending():  # a connection may not be free yet
            return engine.connect()


def _reconnect_after_fork(reference: weakref.ref[Database]) -> None:
    """Let a forked process open its own connections: it may neither use nor close its parent's."""
    database = reference()
    if database is not None:
        # stored, because the garbage collector would close them
        database._of_parents += [
            database._idle.detach(),
            database.engine.pool,
            database.reader.pool,
        ]
        database.engine.dispose(close=False)
        database.reader.dispose(close=False)


def lock_out_others(connection: Connection) -> None:
    """Let one process at a time set up the tables, until the end of the transaction."""
    if connection.dialect.name == "postgresql":  # write transactions of SQLite exclude each other
        connection.execute(select(func.pg_advisory_xact_lock(SETUP_LOCK)))


def check_writable_folder(name: str, folder: Path, setting: str) -> None:
    """Check that a small file can be written in a folder, and remove it.

    :param folder: if it does not exist yet, its nearest existing parent is checked.
    :param name: what is stored in it.
    :param setting: the key that names it.
    :raises NotReady: if it cannot be written, or the disk is full.
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
            raise NotReady(f"the disk of {name} is full", "make room", detail) from error
        advice = f"see that {setting} names a folder that this process may write"
        raise NotReady(f"{name} can't be written", advice, detail) from error
