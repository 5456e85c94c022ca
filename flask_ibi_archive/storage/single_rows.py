"""Inserts a few rows with statements that are built only once.

SQLAlchemy needs several times as long for a single row as the driver and the database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table

from flask_ibi_archive.storage.bulk import DRIVERS, MANY_ROWS, insert_rows, insert_with_ids
from flask_ibi_archive.storage.driver_statements import run_driver


def insert_row(connection: Connection, model: Any, row: Mapping[str, Any]) -> int:
    """Insert a row into a table with ids, and return the id of the row.

    :raises IntegrityError: if a constraint does not allow the row.
    """
    if connection.dialect.driver not in DRIVERS:
        [row_id] = insert_with_ids(connection, model, [row])
        return row_id
    statement, values = _build(connection, model, [row])
    found: int = run_driver(connection, f"{statement} RETURNING id", values).fetchone()[0]
    return found


def insert_few_rows(connection: Connection, model: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, at least one, into a table. A few rows are inserted with one statement.

    :param rows: rows with the same columns in the same order.
    :raises IntegrityError: if a constraint does not allow a row.
    """
    # the number of parameters of a statement is limited
    if len(rows) >= MANY_ROWS or connection.dialect.driver not in DRIVERS:
        insert_rows(connection, model, rows)
    else:
        run_driver(connection, *_build(connection, model, rows))


def _build(
    connection: Connection, model: Any, rows: Sequence[Mapping[str, Any]]
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that inserts rows, and its values for the driver."""
    statement, converters = _build_statement(
        model.__table__, connection.dialect, tuple(rows[0]), len(rows)
    )
    return statement, tuple(
        value if convert is None else convert(value)
        for row in rows
        for convert, value in zip(converters, row.values(), strict=True)
    )


@lru_cache
def _build_statement(
    table: Table, dialect: Dialect, names: tuple[str, ...], count: int
) -> tuple[str, tuple[Callable[[Any], Any] | None, ...]]:
    """Return the statement, and for each column the function that converts a value."""
    mark = "?" if dialect.name == "sqlite" else "%s"
    row = f"({', '.join([mark] * len(names))})"
    statement = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * count)}"
    return statement, tuple(
        table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in names
    )
