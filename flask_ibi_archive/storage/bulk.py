"""Inserts and updates many rows in little time.

The ids of new rows are known before the rows are inserted. Therefore no statement needs to return
the ids in the order of the rows, which would make SQLite insert the rows one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, Connection, bindparam, func, insert, text, update

from flask_ibi_archive.storage.dialects import array_element
from flask_ibi_archive.storage.driver_statements import raise_driver_error

#: From this number of rows on, PostgreSQL inserts rows faster with COPY.
MANY_ROWS = 20
#: The size of SQLite's cache during an import, in KiB. The default is too small for random keys.
CACHE_SIZE = 1 << 15

#: A row; the keys are the names of the columns.
Values = Mapping[str, Any]


def insert_with_ids(connection: Connection, model: Any, rows: Sequence[Values]) -> list[int]:
    """Insert rows into a table, and return the ids of the rows in the same order.

    On SQLite, the transaction of the caller must have the write lock.

    :param rows: rows without ids, as in :func:`insert_rows`.
    :raises IntegrityError: if a constraint does not allow a row.
    """
    if len(rows) == 1:
        inserted = connection.execute(insert(model.__table__), rows[0]).inserted_primary_key
        return list(inserted or ())
    ids = _reserve_ids(connection, model, len(rows))
    insert_rows(connection, model, [{"id": one, **row} for one, row in zip(ids, rows, strict=True)])
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
    table, dialect = model.__table__, connection.dialect
    names = ", ".join(rows[0])
    if len(rows) < MANY_ROWS or dialect.driver not in ("psycopg", "pysqlite"):
        connection.execute(insert(table), list(rows))
    elif dialect.driver == "psycopg":
        _copy(connection, f"COPY {table.name} ({names}) FROM STDIN", _convert(rows, table, dialect))
    else:  # the driver needs less time if SQLAlchemy does not convert each row
        marks = ", ".join("?" * len(rows[0]))
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({names}) VALUES ({marks})",
            list(_convert(rows, table, dialect)),
        )


def _convert(rows: Sequence[Values], table: Any, dialect: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the rows as tuples with the values that the driver needs."""
    columns: list[Any] = list(zip(*(row.values() for row in rows), strict=True))
    for number, name in enumerate(rows[0]):
        process = table.c[name].type.dialect_impl(dialect).bind_processor(dialect)
        if process is not None:
            columns[number] = map(process, columns[number])
    return zip(*columns, strict=True)


def _copy(connection: Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run COPY with psycopg.

    :raises DBAPIError: if the driver raises an error. SQLAlchemy raises the same error.
    """
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except connection.dialect.loaded_dbapi.Error as error:
        raise_driver_error(connection, error, statement)


def update_rows(connection: Connection, model: Any, rows: Sequence[Values]) -> None:
    """Update rows of a table.

    :param rows: for each row, its id and the new values of the same columns in the same order.
    """
    if not rows:
        return
    table = model.__table__
    names = [name for name in rows[0] if name != "id"]
    if connection.dialect.name != "postgresql":
        changes: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
        connection.execute(
            update(table).where(table.c.id == bindparam("new_id")).values(changes),
            [{f"new_{name}": value for name, value in row.items()} for row in rows],
        )
        return
    arrays = [
        bindparam(f"new_{name}", type_=ARRAY(array_element(table.c[name].type))) for name in rows[0]
    ]
    new = func.unnest(*arrays).table_valued(*rows[0], name="new").render_derived()
    columns = zip(*(row.values() for row in rows), strict=True)
    connection.execute(
        update(table).where(table.c.id == new.c.id).values({name: new.c[name] for name in names}),
        {f"new_{name}": list(column) for name, column in zip(rows[0], columns, strict=True)},
    )


def prepare_for_many_rows(connection: Connection) -> None:
    """Prepare a connection for a transaction that inserts many rows.

    PostgreSQL plans its statements again, also those that check foreign keys: a plan for an empty
    table reads the whole table, and becomes slow while the table grows.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("DISCARD PLANS"))
    else:
        connection.execute(text(f"PRAGMA cache_size = -{CACHE_SIZE}"))
