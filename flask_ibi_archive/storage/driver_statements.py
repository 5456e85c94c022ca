"""Sends the texts of statements to the driver directly.

For the most frequent statements that write, SQLAlchemy would need several times as long as the
driver and the database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from sqlalchemy import Connection


def run_driver(
    connection: Connection, statement: str, values: Mapping[str, Any] | tuple[str, ...] = ()
) -> Any:
    """Run a statement with the driver and return the cursor.

    :param statement: a statement with the placeholders of the driver. If the values have names, the
        placeholders are written like ``%(name)s`` for both databases.
    :raises DBAPIError: if the driver raises an error. SQLAlchemy raises the same error.
    """
    if connection.dialect.name == "sqlite" and isinstance(values, Mapping):
        statement = _write_for_sqlite(statement)
    driver: Any = connection.connection.dbapi_connection
    try:
        return driver.execute(statement, values)
    except connection.dialect.loaded_dbapi.Error as error:
        raise_driver_error(connection, error, statement, values)


def raise_driver_error(
    connection: Connection,
    error: Exception,
    statement: str,
    values: Any = (),
    cursor: Any = None,
) -> NoReturn:
    """Raise the error that SQLAlchemy raises for an error of the driver.

    SQLAlchemy also replaces this connection and all connections of its pool if the server has
    closed the connection.

    :param cursor: the cursor that ran the statement, which is closed.
    :raises DBAPIError: always.
    """
    # SQLAlchemy has no public function for it
    connection._handle_dbapi_exception(error, statement, values, cursor, None)


@lru_cache
def _write_for_sqlite(statement: str) -> str:
    return re.sub(r"%\((\w+)\)s", r":\1", statement)
