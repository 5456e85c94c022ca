"""The database session of a host, in whose transaction each operation is a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, class_mapper, scoped_session, sessionmaker

from flask_ibi_archive.errors import ConfigError, StorageError
from flask_ibi_archive.storage.engines import is_in_memory
from flask_ibi_archive.storage.models import Item

#: A session, a scoped_session, or a callable that returns the current session.
SessionSource: TypeAlias = "Session | scoped_session[Any] | Callable[[], Session]"

#: What to pass instead of a wrong value, such as ``db`` of Flask-SQLAlchemy.
SHOULD_BE = (
    "the SQLAlchemy session of the host, a scoped_session (db.session of Flask-SQLAlchemy), or a "
    "callable that returns one"
)

#: The key in the info of a connection that marks its foreign keys as enabled.
FOREIGN_KEYS = "ibi_foreign_keys"


class HostSession:
    """The session that a host passed to IBIArchive; the host commits or rolls back.

    :raises ConfigError: if the value is not a session.
    """

    def __init__(self, source: SessionSource) -> None:
        if isinstance(source, sessionmaker):
            raise ConfigError(
                "session",
                source,
                "a scoped_session; a sessionmaker returns another session each time",
            )
        if not (isinstance(source, Session) or callable(source)):
            raise ConfigError("session", source, SHOULD_BE)
        self._get_session: Callable[[], Session] = (
            (lambda: source) if isinstance(source, Session) else source
        )

    def prepare(self) -> str:
        """Enable foreign keys on the host's connections and return the URL of the database.

        Call this in the application context of the host.

        :raises ConfigError: if there is no database, or other connections cannot open it.
        """
        try:
            session = self._get_session()
            if not isinstance(session, (Session, scoped_session)):
                raise ConfigError("session", session, SHOULD_BE)
            bind = session.get_bind(mapper=class_mapper(Item))
        except (SQLAlchemyError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                "session", None, f"a session that is bound to a database ({reason})"
            ) from error
        engine = bind if isinstance(bind, Engine) else bind.engine
        if engine.dialect.name == "sqlite":
            if is_in_memory(engine.url):
                raise ConfigError(
                    "session",
                    str(engine.url),
                    "bound to an SQLite file: the connections that answer requests cannot use a "
                    "database in memory",
                )
            event.listen(engine, "checkout", _enable_foreign_keys)
        elif engine.dialect.name != "postgresql":
            raise ConfigError("session", engine.dialect.name, "bound to SQLite or PostgreSQL")
        url = engine.url
        if url.get_backend_name() == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        return url.render_as_string(hide_password=False)

    def connection(self) -> Connection:
        """Write the host's pending changes, and return the connection of its transaction."""
        session = self._get_session()
        session.flush()
        return session.connection(bind_arguments={"mapper": class_mapper(Item)})

    @contextmanager
    def savepoint(self) -> Iterator[Connection]:
        """Yield the host's connection in a savepoint; an exception rolls back to the savepoint.

        :raises StorageError: if foreign keys are not enabled, because the connection is older than
            the IBIArchive; or if the connection is in autocommit mode.
        """
        session = self._get_session()
        connection = self.connection()
        if connection.dialect.name == "sqlite":
            if not connection.exec_driver_sql("PRAGMA foreign_keys").scalar():
                raise StorageError(
                    "foreign keys are off on the session's connection: create IBIArchive before "
                    "the session is first used, or end its transaction"
                )
            if not in_transaction(connection):
                # without a transaction, the driver would commit when the savepoint is released
                connection.exec_driver_sql("BEGIN IMMEDIATE")
        elif getattr(connection.connection.dbapi_connection, "autocommit", False):
            raise StorageError(
                "the session's connection is in autocommit mode, which has no rollback: configure "
                "another isolation level for its engine"
            )
        with session.begin_nested():
            yield session.connection(bind_arguments={"mapper": class_mapper(Item)})


def in_transaction(connection: Connection) -> bool:
    """Return whether the driver of an SQLite connection has begun a transaction."""
    return bool(connection.connection.dbapi_connection.in_transaction)  # type: ignore[union-attr]


def _enable_foreign_keys(connection: Any, record: Any, proxy: Any) -> None:
    # called at each checkout, since the pool may have connections older than this listener
    if FOREIGN_KEYS not in record.info:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()
        record.info[FOREIGN_KEYS] = True
