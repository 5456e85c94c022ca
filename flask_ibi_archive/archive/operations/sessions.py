"""The database session of a host: operations take part in its transaction, as far as a savepoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, class_mapper, scoped_session, sessionmaker

from flask_ibi_archive.errors import ConfigError, StorageError
from flask_ibi_archive.storage.engines import in_memory
from flask_ibi_archive.storage.models import Item

#: What a host may hand over: a session, a scoped_session, or what gives the session of the moment.
SessionSource: TypeAlias = "Session | scoped_session[Any] | Callable[[], Session]"

#: What a host is told that handed over something else, as Flask-SQLAlchemy's ``db``.
SHOULD_BE = (
    "the session of SQLAlchemy that the host works with, a scoped_session (db.session of "
    "Flask-SQLAlchemy), or what gives one"
)

#: Stands in the info of a connection whose foreign keys were turned on.
FOREIGN_KEYS = "ibi_foreign_keys"


class HostSession:
    """The session that a host brought; the host commits, or rolls back.

    :raises ConfigError: if it can't be one.
    """

    def __init__(self, source: SessionSource) -> None:
        if isinstance(source, sessionmaker):
            raise ConfigError(
                "session",
                source,
                "a scoped_session: a sessionmaker gives another session each time",
            )
        if not (isinstance(source, Session) or callable(source)):
            raise ConfigError("session", source, SHOULD_BE)
        self._give: Callable[[], Session] = (
            (lambda: source) if isinstance(source, Session) else source
        )

    def prepare(self) -> str:
        """See that the host's connections keep the constraints of our tables.

        To be called within the context of the host's app.

        :returns: the URL of the database.
        :raises ConfigError: if it is one that another engine can't open too, or there is none.
        """
        try:
            session = self._give()
            if not isinstance(session, (Session, scoped_session)):
                raise ConfigError("session", session, SHOULD_BE)
            bind = session.get_bind(mapper=class_mapper(Item))
        except (SQLAlchemyError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(
                "session", None, f"a session that is bound to a database by now ({reason})"
            ) from error
        engine = bind if isinstance(bind, Engine) else bind.engine
        if engine.dialect.name == "sqlite":
            if in_memory(engine.url):
                raise ConfigError(
                    "session",
                    str(engine.url),
                    "bound to an SQLite file: a database in memory can't be shared with the "
                    "connections that answer requests",
                )
            event.listen(engine, "checkout", _turn_foreign_keys_on)
        elif engine.dialect.name != "postgresql":
            raise ConfigError("session", engine.dialect.name, "bound to SQLite or PostgreSQL")
        url = engine.url
        if url.get_backend_name() == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        return url.render_as_string(hide_password=False)

    def connection(self) -> Connection:
        """Return the connection of the host's transaction, with all that the host has changed so
        far.
        """
        session = self._give()
        session.flush()
        return session.connection(bind_arguments={"mapper": class_mapper(Item)})

    @contextmanager
    def savepoint(self) -> Iterator[Connection]:
        """Return the host's connection within a savepoint: an exception undoes what was done since.

        :raises StorageError: if the connection is older than the Archive and keeps no foreign keys,
            or commits each statement by itself.
        """
        session = self._give()
        connection = self.connection()
        if connection.dialect.name == "sqlite":
            if not connection.exec_driver_sql("PRAGMA foreign_keys").scalar():
                raise StorageError(
                    "the session's connection keeps no foreign keys: create IBIArchive before the "
                    "session is first used, or end its transaction"
                )
            if not in_transaction(connection):
                # or the driver would take the release of the savepoint for the end of everything
                connection.exec_driver_sql("BEGIN IMMEDIATE")
        elif getattr(connection.connection.dbapi_connection, "autocommit", False):
            raise StorageError(
                "the session's connection is in autocommit mode, where nothing can be undone: give its "
                "engine another isolation level"
            )
        with session.begin_nested():
            yield session.connection(bind_arguments={"mapper": class_mapper(Item)})


def in_transaction(connection: Connection) -> bool:
    """Tell whether the driver of an SQLite connection has begun a transaction."""
    return bool(connection.connection.dbapi_connection.in_transaction)  # type: ignore[union-attr]


def _turn_foreign_keys_on(connection: Any, record: Any, proxy: Any) -> None:
    # at each checkout, since the pool may hold connections from before
    if FOREIGN_KEYS not in record.info:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()
        record.info[FOREIGN_KEYS] = True
