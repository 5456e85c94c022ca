"""Inserts and updates rows in little time.

Most statements are built as text, because SQLAlchemy needs several times as long to compile them as
the driver and the database need to run them. The ids of several new rows are known before the rows
are inserted. Therefore no statement needs to return the ids in the order of the rows, which would
make SQLite insert the rows one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    Dialect,
    Table,
    bindparam,
    insert,
    text,
    update,
)
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.server.database.dialects import run_on_postgresql

#: The drivers for which this module builds texts. The session of a host may have another driver.
DRIVERS = ("psycopg", "pysqlite")
#: From this number of rows on, COPY is faster on PostgreSQL. Fewer rows are inserted with one
#: statement, whose number of parameters is limited.
MANY_ROWS = 20
#: The settings of SQLite during an import: the size of the cache in KiB, and the number of pages
#: after which a commit copies the write-ahead log to the database. With random keys, a batch of
#: items changes more pages than the defaults allow for.
SQLITE_SETTINGS = ("cache_size = -65536", "wal_autocheckpoint = 10000")

#: A row; the keys are the names of the columns.
Values = Mapping[str, Any]


def insert_with_ids(connection: Connection, model: Any, rows: Sequence[Values]) -> list[int]:
    """Insert rows into a table, and return the ids of the rows in the same order.

    On SQLite, the transaction of the caller must have the write lock.

    :param rows: rows without ids, as in :func:`insert_rows`.
    :raises IntegrityError: if a constraint does not allow a row.
    """
    if len(rows) == 1 and connection.dialect.driver in DRIVERS:
        statement, values = _build_insert(connection, model, rows)
        return [connection.exec_driver_sql(f"{statement} RETURNING id", values).scalar_one()]
    ids = _reserve_ids(connection, model, len(rows))
    if len(rows) >= MANY_ROWS and connection.dialect.driver in DRIVERS:
        _insert_columns(connection, model, {"id": ids, **_transpose(rows)})
    else:
        numbered = [{"id": row_id, **row} for row_id, row in zip(ids, rows, strict=True)]
        insert_rows(connection, model, numbered)
    return ids


def _reserve_ids(connection: Connection, model: Any, count: int) -> list[int]:
    """Return new ids for rows of a table, in ascending order. No other row gets these ids."""
    if not count:
        return []
    table = model.__table__.name
    if connection.dialect.name == "postgresql":
        # nextval must be called for each row, because other transactions also take numbers
        numbers = text(
            "SELECT nextval(sequence) FROM"
            " (SELECT pg_get_serial_sequence(:name, 'id')::regclass AS sequence OFFSET 0) AS one,"
            " generate_series(1, :count)"
        )
        return list(connection.scalars(numbers, {"name": table, "count": count}))
    last = connection.scalar(
        text(
            "SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = :name),"
            f" (SELECT coalesce(max(id), 0) FROM {table}))"
        ),
        {"name": table},
    )
    return list(range(last + 1, last + 1 + count))


def insert_rows(connection: Connection, model: Any, rows: Sequence[Values]) -> None:
    """Insert rows into a table.

    :param rows: rows with the same columns in the same order.
    :raises IntegrityError: if a constraint does not allow a row.
    """
    if not rows:
        return
    if connection.dialect.driver not in DRIVERS:
        connection.execute(insert(model.__table__), rows)
    elif len(rows) >= MANY_ROWS:
        _insert_columns(connection, model, _transpose(rows))
    else:
        connection.exec_driver_sql(*_build_insert(connection, model, rows))


def _build_insert(
    connection: Connection, model: Any, rows: Sequence[Values]
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that inserts a few rows, and its values for the driver."""
    statement, converters = _build_insert_text(
        model.__table__, connection.dialect, tuple(rows[0]), len(rows)
    )
    return statement, tuple(
        value if convert is None else convert(value)
        for row in rows
        for convert, value in zip(converters, row.values(), strict=True)
    )


@lru_cache
def _build_insert_text(
    table: Table, dialect: Dialect, names: tuple[str, ...], count: int
) -> tuple[str, list[Callable[[Any], Any] | None]]:
    """Return the text of the statement, and for each column the function that converts a value."""
    mark = "?" if dialect.name == "sqlite" else "%s"
    row = f"({', '.join([mark] * len(names))})"
    statement = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * count)}"
    return statement, [_find_converter(table, name, dialect) for name in names]


def _find_converter(table: Table, name: str, dialect: Dialect) -> Callable[[Any], Any] | None:
    """Return the function that converts the values of a column for the driver, or None."""
    return table.c[name].type.dialect_impl(dialect).bind_processor(dialect)


def _transpose(rows: Sequence[Values]) -> dict[str, Sequence[Any]]:
    """Return the values of each column, by the name of the column."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def _insert_columns(
    connection: Connection, model: Any, columns: Mapping[str, Sequence[Any]]
) -> None:
    """Insert many rows, of which the values of each column are given."""
    table, dialect = model.__table__, connection.dialect
    names = ", ".join(columns)
    if dialect.driver == "psycopg":
        statement = f"COPY {table.name} ({names}) FROM STDIN"
        _copy(connection, statement, _convert(columns, table, dialect))
    else:  # the driver needs less time if SQLAlchemy does not convert each row
        marks = ", ".join("?" * len(columns))
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({names}) VALUES ({marks})",
            list(_convert(columns, table, dialect)),
        )


def _convert(
    columns: Mapping[str, Iterable[Any]], table: Any, dialect: Any
) -> Iterator[tuple[Any, ...]]:
    """Return the rows as tuples with the values that the driver needs."""
    converted = []
    for name, values in columns.items():
        process = _find_converter(table, name, dialect)
        converted.append(values if process is None else map(process, values))
    return zip(*converted, strict=True)


def _copy(connection: Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run COPY with psycopg, because SQLAlchemy has no function for it.

    :raises DBAPIError: if the driver raises an error. SQLAlchemy raises errors of the same classes.
    """
    driver: Any = connection.connection.driver_connection
    dbapi = connection.dialect.loaded_dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except dbapi.Error as error:
        if driver.closed:
            connection.invalidate(error)
        classes = {dbapi.IntegrityError: IntegrityError, dbapi.DataError: DataError}
        ours = [ours for theirs, ours in classes.items() if isinstance(error, theirs)]
        kind = ours[0] if ours else DBAPIError
        raise kind(statement, None, error, connection_invalidated=driver.closed) from error


def update_rows(connection: Connection, model: Any, rows: Sequence[Values]) -> None:
    """Update rows of a table.

    :param rows: for each row, its id and the new values of the same columns in the same order.
    :raises StatementError: if a time has no time zone.
    """
    if not rows:
        return
    table = model.__table__
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in rows[0] if name != "id"}
    connection.execute(
        update(table).where(table.c.id == bindparam("new_id")).values(values),
        [{f"new_{name}": value for name, value in row.items()} for row in rows],
    )


def prepare_for_many_rows(connection: Connection) -> None:
    """Prepare a connection for a transaction of an import that inserts many rows."""
    renew_plans(connection)
    if connection.dialect.name == "sqlite":
        for setting in SQLITE_SETTINGS:
            connection.execute(text(f"PRAGMA {setting}"))


def renew_plans(connection: Connection) -> None:
    """Make PostgreSQL plan its statements again, also those that check foreign keys.

    A plan for an empty table reads the whole table, and becomes slow while the table grows.
    """
    run_on_postgresql(connection, "DISCARD PLANS")


def examine_tables(connection: Connection) -> None:
    """Let PostgreSQL examine its tables after many rows were inserted.

    Until autovacuum has examined the tables, statements about many items would read all rows.
    """
    run_on_postgresql(connection, f"ANALYZE {', '.join(metadata.tables)}")
