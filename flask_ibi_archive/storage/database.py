"""The database: an engine that reads without transactions and writes in short, immediate ones."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.storage.engines import (
    BEGIN,
    LOCK,
    PATIENCE,
    SNAPSHOT,
    file_of,
    make_engine,
    make_reader,
    place_of,
)
from flask_ibi_archive.storage.failures import (
    is_disk_full,
    is_in_the_way,
    is_missing_table,
    is_read_only,
    one_line,
)
from flask_ibi_archive.storage.migrate import (
    ARCHIVE,
    History,
    current_revision,
    head_revision,
)
from flask_ibi_archive.storage.room import check_room
from flask_ibi_archive.storage.sqlite_files import create_file, guard_file
from flask_ibi_archive.storage.waiting import DEFAULT_TIMEOUT, FindBudget, unlimited

Result = TypeVar("Result")

#: Seconds for which a database may be locked before it counts as not ready.
LOCK_PATIENCE = 4.0


class ReadyConnections:
    """Connections that stay open from one request to the next, each used by one at a time.

    Taking one from SQLAlchemy's pool and giving it back costs as much as the statement that it is
    for. At most :data:`KEPT` wait here; the pool stands behind them.
    """

    KEPT = 5

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._waiting: deque[Connection] = deque()

    def take(self) -> Connection:
        """Return a connection that nobody else uses."""
        try:
            return self._waiting.pop()
        except IndexError:
            return self._connect()

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
        """Return up the connections that wait, as they are."""
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
        self._ready = ReadyConnections(lambda: self._connect(self.reader))
        self._parents: list[Any] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_leave_to_parent, weakref.ref(self)))

    @classmethod
    def at(
        cls,
        uri: str,
        history: History = ARCHIVE,
        timeout: float = DEFAULT_TIMEOUT,
        find_budget: FindBudget = unlimited,
    ) -> Database:
        """Return the database at a URL; :meth:`create` creates an SQLite file where it is missing.

        The parameters are those of :func:`make_engine`.
        """
        engine = make_engine(uri, timeout, find_budget)
        if file := file_of(engine.url):
            guard_file(engine, file, f"run: {history.init}")
        return cls(engine, history, find_budget)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Return a connection on which each statement stands for itself, without BEGIN and
        ROLLBACK.

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
        """Return what some work finds, done on a connection as :meth:`reading` gives it.

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

    def _connect(self, engine: Engine) -> Connection:
        budget = self.find_budget()
        # one may have to wait for a connection to be free
        with nullcontext() if budget is None else budget.spending():
            return engine.connect()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Return a connection whose statements all see the database as it is at the first of them."""
        try:
            with self._connect(self.engine) as connection:
                connection.execution_options(**{BEGIN: SNAPSHOT[self.engine.dialect.name]})
                with connection.begin():
                    yield connection
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error) from error

    @contextmanager
    def writing(
        self, patience: float | None = None, lock: str | None = None
    ) -> Iterator[Connection]:
        """Return a connection in a transaction: committed at the end, rolled back by an exception.

        :param patience: the seconds that it waits for locks at most; None: as long as it takes, in
            a request as long as that may wait.
        :param lock: what locks tables at its beginning, on PostgreSQL; SQLite has one writer at a
            time.
        :raises NotReady: if the database is away, can't be written or has not our tables.
        """
        options = {PATIENCE: patience, LOCK: lock}
        committing = False
        try:
            with self._connect(self.engine) as connection:
                connection.execution_options(
                    **{name: value for name, value in options.items() if value is not None}
                )
                with connection.begin():
                    yield connection
                    committing = True
        except IntegrityError:
            raise
        except DataError as error:
            raise StorageError(f"the database refuses a value: {one_line(error)}") from error
        except (DBAPIError, PoolTimeoutError) as error:
            raise self.explain(error, committing) from error

    def explain(self, error: Exception, committing: bool = False) -> NotReady:
        """Return what keeps the database from doing what was asked, and what to do about it.

        :param committing: whether the transaction was being committed.
        """
        if not isinstance(error, DBAPIError):
            return self._no_answer("no connection is free")
        detail = f"{place_of(self.engine)}: {one_line(error)}"
        if is_missing_table(error):
            advice = f"run: {self.history.init}"
            return NotReady("the database has not the tables of this version", advice)
        if is_in_the_way(error):
            return NotReady("another transaction is in the way", ADVICE_AGAIN, one_line(error))
        if is_read_only(error, file_of(self.engine.url)):
            return NotReady("the database is not writable", ADVICE_WRITABLE, detail)
        if is_disk_full(error):
            return NotReady("the disk of the database is full", ADVICE_ROOM, detail)
        if committing and isinstance(error.orig, TimeoutError):
            return self._no_answer(f"{one_line(error)}; the change may have been made or not")
        return self._no_answer(one_line(error))

    def _no_answer(self, detail: str) -> NotReady:
        advice = f"see that it runs and that {self.history.setting} names it"
        return NotReady("the database does not answer", advice, detail)

    def exists(self) -> bool:
        """Return whether there is a database to connect to: False where an SQLite file is missing."""
        file = file_of(self.engine.url)
        return file is None or file.exists()

    def create(self) -> None:
        """Create the file of an SQLite database where it is missing, for the tables to come.

        :raises StorageError: if it can't be created.
        """
        if file := file_of(self.engine.url):
            create_file(file, self.history.setting)

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
        self._check_writing()
        if file := file_of(self.engine.url):
            check_room("the database", file.parent, self.history.setting)

    def _check_writing(self) -> None:
        try:
            with self.writing(LOCK_PATIENCE) as connection:
                # writes nothing, and is refused where nothing can be written
                connection.exec_driver_sql(
                    f"UPDATE {self.history.version_table} SET version_num = '' WHERE 1 = 0"
                )
        except NotReady as error:
            if isinstance(error.__cause__, DBAPIError) and is_in_the_way(error.__cause__):
                advice = "see which process has been writing for so long"
                detail = place_of(self.engine)
                raise NotReady("the database is locked", advice, detail) from error
            raise


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
ADVICE_WRITABLE = "see that this process may write the database, and for SQLite the folder it is in"
ADVICE_ROOM = "make room and try again"
ADVICE_AGAIN = "nothing was done: end this one, if it is the host's, and try again"
