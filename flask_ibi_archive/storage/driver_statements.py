"""Sends the texts of statements to the driver directly.

For the most frequent statements, SQLAlchemy would need several times as long as the driver and the
database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

from sqlalchemy import Connection, Dialect, PoolProxiedConnection, Select

from flask_ibi_archive.storage.dialects import JSONRow

_decode_json = json.JSONDecoder().raw_decode


class DriverStatement:
    """A statement that SQLAlchemy compiles only once.

    The database joins the columns to one JSON list, because the drivers need more time for 20
    columns than for one.

    :param statement: a SELECT. The result contains what JSON can express: dates and times are
        texts, and on SQLite booleans are 0 and 1.
    """

    def __init__(self, statement: Select[Any], dialect: Dialect) -> None:
        self._read: Callable[[PoolProxiedConnection, Any, Any], list[str]] = _read_column
        if is_psycopg := dialect.driver == "psycopg":
            # psycopg is only installed for PostgreSQL
            from flask_ibi_archive.storage.libpq import read_column

            self._read = read_column
            dialect_class: Any = type(dialect)
            dialect = dialect_class(paramstyle="numeric_dollar")
        row = JSONRow(*statement.selected_columns)
        compiled = statement.with_only_columns(row).compile(dialect=dialect)
        self.text = str(compiled)
        self._query = self.text.encode() if is_psycopg else self.text
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._order = compiled.positiontup

    def run(self, connection: Connection, parameters: dict[str, Any]) -> list[list[Any]]:
        """Run the statement with some parameters and return the rows.

        The driver runs the statement, because SQLAlchemy would take longer than the database. But
        SQLAlchemy handles errors and interruptions, so that a broken or interrupted connection is
        replaced.

        :raises DBAPIError: if the database refuses the statement or does not answer.
        """
        values = {**self._fixed, **parameters}
        ordered = values if self._order is None else [values[name] for name in self._order]
        pooled = connection.connection
        try:
            found = self._read(pooled, self._query, ordered)
        except BaseException as error:
            driver_error = connection.dialect.loaded_dbapi.Error
            if isinstance(error, Exception) and not isinstance(error, driver_error):
                raise
            # after an interruption, the connection still waits for the answer
            raise_driver_error(connection, error, self.text, ordered)
        return [_decode_json(row)[0] for row in found]


def _read_column(connection: PoolProxiedConnection, query: str, values: Any) -> list[str]:
    """Run a statement with a cursor of the driver and return the first column of its rows."""
    cursor = connection.cursor()
    try:
        cursor.execute(query, values)
        return [row[0] for row in cursor.fetchall()]
    finally:
        cursor.close()


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
    error: BaseException,
    statement: str,
    values: Any = (),
) -> NoReturn:
    """Raise the error that SQLAlchemy raises if the driver could not run a statement.

    SQLAlchemy also replaces this connection if the statement was interrupted, and this and all
    other connections of its pool if the server has closed the connection.

    :raises DBAPIError: for an error of the driver. An interruption is raised as it is.
    """
    # SQLAlchemy has no public function for it
    connection._handle_dbapi_exception(error, statement, values, None, None)


@lru_cache
def _write_for_sqlite(statement: str) -> str:
    return re.sub(r"%\((\w+)\)s", r":\1", statement)
