"""The database session of a host. Each operation is a savepoint in the transaction of the host."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection, Engine, Table, event, inspect, text, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import (
    Mapper,
    Session,
    SessionTransaction,
    class_mapper,
    scoped_session,
    sessionmaker,
)

from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.errors import ConfigError, StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.engines import is_in_memory
from flask_ibi_archive.signals import Notice, Notifier

#: A session, a scoped_session, or a callable that returns the current session.
SessionSource: TypeAlias = "Session | scoped_session[Any] | Callable[[], Session]"

#: Messages about a wrong value, such as ``db`` of Flask-SQLAlchemy, name these right values.
SHOULD_BE = (
    "the SQLAlchemy session of the host, a scoped_session (db.session of Flask-SQLAlchemy), or a "
    "callable that returns a session"
)

#: The key of the parts of the present transaction in the info of a session.
PARTS = "flask_ibi_archive"


def where_written(mapper: Mapper[Any]) -> dict[str, Any]:
    """Return arguments for get_bind(), with which a session chooses its database for writing.

    A session may read from replicas. Reading that precedes a change must see all rows.
    """
    table = mapper.local_table
    return {"mapper": mapper, "clause": update(table) if isinstance(table, Table) else None}


class WritingSession(Session):
    """A session that reads from the database to which the session of the host writes.

    The session of the host itself stays as it is.
    """

    def __init__(self, host: Session) -> None:
        super().__init__()
        self._host = host

    def get_bind(self, mapper: Any = None, *, bind: Any = None, **options: Any) -> Any:
        """Return the database that the host's session chooses for writing the rows of a model."""
        if bind is not None:
            return bind
        if mapper is not None:
            return self._host.get_bind(**where_written(inspect(mapper)))
        return self._host.get_bind(clause=options.get("clause"))


class HostSession:
    """The session that a host passed to IBIArchive. Only the host commits or rolls back.

    :param engine: the engine for the tables of this package, if the session uses several databases.
        None means the database that the session uses for models without a bind.
    :raises ConfigError: if the value is not a session.
    """

    def __init__(self, source: SessionSource, engine: Engine | None = None) -> None:
        # the arguments of get_bind(); copied for each call, because the session removes keys
        self._bind: dict[str, Any] = (
            where_written(class_mapper(Item)) if engine is None else {"bind": engine}
        )
        if isinstance(source, sessionmaker):
            raise ConfigError(
                "session",
                source,
                "a scoped_session, because a sessionmaker returns a new session each time",
            )
        if isinstance(getattr(source, "session", None), scoped_session):
            raise ConfigError("session", type(source), "its attribute session, such as db.session")
        if not (isinstance(source, Session) or callable(source)):
            raise ConfigError("session", source, SHOULD_BE)
        self._is_flushing = False
        self._get_session: Callable[[], Session] = (
            (lambda: source) if isinstance(source, Session) else source
        )

    def find_uri(self) -> str:
        """Return the URL of the database. Call this in the application context of the host.

        :raises ConfigError: if the session has no database, or if other connections cannot open it.
        """
        try:
            session = self._get_session()
            if not isinstance(session, (Session, scoped_session)):
                raise ConfigError("session", session, SHOULD_BE)
            bind = session.get_bind(**self._bind)
        except (SQLAlchemyError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                "session",
                "bound to no database yet",
                "a session that is bound to a database; with Flask-SQLAlchemy, call "
                f"db.init_app(app) before ibi.init_app(app) ({reason})",
            ) from error
        if bind.get_execution_options().get("schema_translate_map"):
            raise ConfigError(
                "session",
                "using schema_translate_map",
                "a session without schema_translate_map, which other connections do not use; name "
                "the schema in the database URL: ?options=-csearch_path%3Dtenant",
            )
        engine = bind if isinstance(bind, Engine) else bind.engine
        if engine.dialect.name == "sqlite":
            if is_in_memory(engine.url):
                raise ConfigError(
                    "session",
                    str(engine.url),
                    "bound to an SQLite file, in tests to a temporary file, because the "
                    "connections that answer requests cannot use a database in memory",
                )
        elif engine.dialect.name != "postgresql":
            raise ConfigError("session", engine.dialect.name, "bound to SQLite or PostgreSQL")
        url = engine.url
        if url.get_backend_name() == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        return url.render_as_string(hide_password=False)

    def current(self) -> Session:
        """Return the current session of the host."""
        session = self._get_session()
        return session() if isinstance(session, scoped_session) else session

    def bind_flush(self, session: Session) -> HostSession:
        """Return a HostSession for operations inside a flush of a session of the host.

        Its operations do not write the pending changes of the session first. A session that flushes
        can begin no savepoint. Therefore the connection begins savepoints.

        :raises StorageError: if the session uses another database than the session of the host.
        """
        found = session.get_bind(**self._bind).engine
        if found is not self.current().get_bind(**self._bind).engine:
            raise StorageError(
                f"the session that flushes uses the database {found.url!r}, but the items of the "
                "Archive are in the database of the session that IBIArchive(session=...) got"
            )
        flushing = copy(self)
        flushing._get_session, flushing._is_flushing = lambda: session, True
        return flushing

    def check_model(self, session: Session, model: type[Any]) -> None:
        """Check that the rows of a model are in the same database as the items.

        They may not be if the host has chosen the database of the items (a bind).

        :raises StorageError: if the databases differ.
        """
        if "bind" in self._bind:
            return
        bind = session.get_bind(**where_written(class_mapper(model)))
        if bind.engine is not self.connection().engine:
            raise StorageError(
                f"the rows of {model.__name__} and the items of the Archive are in different "
                "databases; rows of models with IdentifiedItem must be in the database of the "
                "session that IBIArchive(session=...) got"
            )

    def send_after_commit(self, notices: list[Notice], notifier: Notifier) -> None:
        """Send signals after the commit of the host. A rollback discards them.

        :param notices: the signals of an operation in the current transaction or savepoint.
        """
        session = self.current()
        transaction = _find_transaction(session)
        if transaction is not None:
            pending = get_part(session, PendingSignals, PendingSignals).pending
            pending += [(transaction, notice, notifier) for notice in notices]

    def connection(self) -> Connection:
        """Write the pending changes of the host to the database; return the connection used."""
        session = self.current()
        if not self._is_flushing:
            session.flush()
        return session.connection(bind_arguments={**self._bind})

    def check_schema(self, database: Database) -> None:
        """Check that the session uses the same database schema as the connections of this package.

        :raises ConfigError: if they use different schemas of a PostgreSQL database.
        """
        if database.engine.dialect.name != "postgresql":
            return
        schema = text("SELECT current_schema()")
        ours = database.read(lambda connection: connection.scalar(schema))
        theirs = self.connection().scalar(schema)
        if ours != theirs:
            raise ConfigError(
                "session",
                f"using the schema {theirs}",
                "a session whose database URL names its schema, because the Archive's own "
                f"connections use the schema {ours}; add ?options=-csearch_path%3D{theirs}",
            )

    @contextmanager
    def savepoint(self) -> Iterator[Connection]:
        """Yield the connection of the host in a savepoint.

        An exception in the ``with`` block rolls back to the savepoint.

        :raises StorageError: if the connection is in autocommit mode.
        """
        connection, session = self.connection(), self.current()
        begin_transaction(connection)
        with (connection if self._is_flushing else session).begin_nested():
            yield session.connection(bind_arguments={**self._bind})


class TransactionPart(Protocol):
    """Something that belongs to a transaction of a session, and acts when the transaction ends.

    Examples are the new files and the signals of the transaction.
    """

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """Act after the end of the transaction, of a savepoint, or of a failed flush.

        :param is_committed: whether the transaction or the savepoint was committed.
        """


Part = TypeVar("Part", bound=TransactionPart)


@dataclass
class TransactionParts:
    """The parts (:class:`TransactionPart`) of the present transaction of a session, by key.

    :param committed: the transaction or savepoint that was committed last.
    """

    parts: dict[Hashable, Any] = field(default_factory=dict)
    committed: SessionTransaction | None = None


def get_part(session: Session, key: Hashable, create: Callable[[], Part]) -> Part:
    """Return the part with a key for the present transaction of a session; create it if missing.

    The first call for a session also adds the listeners that act when its transactions end.

    :param create: creates the part.
    """
    if PARTS not in session.info:
        session.info[PARTS] = TransactionParts()
        event.listen(session, "after_commit", _remember_commit)
        event.listen(session, "after_transaction_end", _end)
    part: Part | None = find_part(session, key)
    if part is None:
        part = session.info[PARTS].parts[key] = create()
    return part


def find_part(session: Session, key: Hashable) -> Any:
    """Return the part with a key for the present transaction; None if there is no such part."""
    return session.info[PARTS].parts.get(key) if PARTS in session.info else None


def _remember_commit(session: Session) -> None:
    session.info[PARTS].committed = _find_transaction(session)


def _end(session: Session, transaction: SessionTransaction) -> None:
    """Call ``end`` of each part after a transaction or a savepoint has ended.

    SQLAlchemy calls :func:`_remember_commit` before the end of a transaction that is committed. A
    transaction that ends without a commit was rolled back, or its session was closed. A flush has
    an inner transaction. Its end is ignored, except if the flush has failed: then the outer
    transaction is no longer active, and the parts are called.
    """
    state, parent = session.info[PARTS], transaction.parent
    if parent is not None and not transaction.nested and parent.is_active:
        return
    is_committed = state.committed is transaction
    # signals are sent last, because a receiver may begin the next transaction of the session
    parts = sorted(state.parts.values(), key=lambda part: isinstance(part, PendingSignals))
    if parent is None:
        state.parts, state.committed = {}, None
    for part in parts:
        part.end(session, transaction, is_committed)


@dataclass
class PendingSignals:
    """The signals to send when the present transaction of a session is committed."""

    pending: list[tuple[SessionTransaction, Notice, Notifier]] = field(default_factory=list)

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """Send the signals after a commit; discard them after a rollback.

        After the commit of a savepoint, its signals wait for the end of the outer transaction.
        """
        start = len(self.pending)  # the signals of the innermost savepoint are at the end
        while start and self.pending[start - 1][0] is transaction:
            start -= 1
        own, self.pending[start:] = self.pending[start:], []
        outer = _find_transaction(session)
        if is_committed and transaction.nested and outer is not None:
            self.pending += [(outer, notice, notifier) for _, notice, notifier in own]
        elif is_committed:
            for _, notice, notifier in own:
                notifier.send([notice])


def _find_transaction(session: Session) -> SessionTransaction | None:
    """Return the innermost savepoint of a session, or its transaction; None if there is none."""
    return session.get_nested_transaction() or session.get_transaction()


def begin_transaction(connection: Connection) -> None:
    """Begin a transaction of the driver, if the driver has not begun one yet.

    :raises StorageError: if the connection is in autocommit mode.
    """
    driver: Any = connection.connection.dbapi_connection
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite and driver.in_transaction:
        return
    if driver.isolation_level is None if is_sqlite else driver.autocommit is True:
        raise StorageError(
            "the connection of the session is in autocommit mode, which has no rollback; "
            "configure another isolation level for the engine"
        )
    if is_sqlite:  # other drivers begin transactions themselves
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def in_transaction(connection: Connection) -> bool:
    """Return whether the driver of an SQLite connection has begun a transaction."""
    return bool(connection.connection.dbapi_connection.in_transaction)  # type: ignore[union-attr]
