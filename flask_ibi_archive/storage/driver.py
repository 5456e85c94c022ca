"""Statements that go straight to the driver: for identifiers, whose statements are few and short.

SQLAlchemy's own work for them takes several times as long as theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.engines import begin


@contextmanager
def driver_writing(database: Database) -> Iterator[Connection]:
    """Return a connection in a transaction of the driver's, where only :func:`run_driver` may be
    used.

    It is committed at the end, and rolled back by an exception.

    :raises NotReady: if the database does not respond, or does not have our tables.
    """
    with database.reading() as connection:
        begin(connection, database.find_budget(), partial(run_driver, connection))
        try:
            yield connection
            run_driver(connection, "COMMIT")
        except BaseException:
            if not connection.invalidated:
                with suppress(DBAPIError):
                    run_driver(connection, "ROLLBACK")
            raise


def run_driver(connection: Connection, statement: str, values: tuple[str, ...] = ()) -> Any:
    """Run a statement and return the driver's cursor.

    :raises DBAPIError: as SQLAlchemy does.
    """
    driver: Any = connection.connection.dbapi_connection
    dialect = connection.dialect
    error_class: Any = dialect.loaded_dbapi.Error
    try:
        return driver.execute(statement, values)
    except error_class as error:
        is_lost = dialect.is_disconnect(error, driver, None)
        if is_lost:
            connection.invalidate(error)
        raise DBAPIError.instance(
            statement,
            values,
            error,
            error_class,
            connection_invalidated=is_lost,
            dialect=dialect,
        ) from error
