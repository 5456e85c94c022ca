"""Handles differences between SQLite and PostgreSQL: types, functions, upserts, statement sizes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import TypeEngine

Value = TypeVar("Value")

#: The column type for the ids of rows: an integer of 64 bits. On SQLite the type is called Integer,
#: because SQLite assigns new ids only to columns of this type.
Key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

#: The largest number of values that one statement of this package contains. SQLite accepts at most
#: 32766 parameters, and PostgreSQL accepts at most 65535.
MAX_VALUES = 5000
#: The number of rows that :func:`read_pages` reads with one statement.
PAGE = 500


class UTCDateTime(sa.TypeDecorator[datetime]):
    """A column type for times in UTC: ``timestamptz`` on PostgreSQL, text on SQLite."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        """Convert a time to UTC for the database; for SQLite, also remove the time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; stored times need a time zone")
        if value.tzinfo is not timezone.utc:
            value = value.astimezone(timezone.utc)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Convert a stored time to a time with the time zone UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            return value.replace(tzinfo=timezone.utc)
        return value.astimezone(timezone.utc)


def run_on_postgresql(connection: sa.Connection, *statements: str) -> None:
    """Run statements that only PostgreSQL needs, such as locks of tables.

    On SQLite this function does nothing: SQLite has only one write transaction at a time, and makes
    a new plan for each statement.
    """
    if connection.dialect.name == "postgresql":
        for statement in statements:
            connection.exec_driver_sql(statement)


def insert_or_update(connection: sa.Connection, table: Any) -> Any:
    """Return an INSERT statement to which the caller adds an ON CONFLICT clause."""
    return make_insert(connection.dialect.name, table)


def make_insert(dialect: str, table: Any) -> Any:
    """Return an INSERT statement of a dialect, which accepts an ON CONFLICT clause."""
    return (postgresql if dialect == "postgresql" else sqlite).insert(table)


def is_one_of(
    connection: sa.Connection, column: Any, values: Iterable[str] | Iterable[int]
) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a column has one of the values.

    All values are one parameter: a JSON list, which the database expands into rows. SQLAlchemy
    would need much time for one parameter per value, and psycopg for an array.
    """
    listed = sa.literal(json.dumps(list(values)), sa.Text)
    return is_listed(connection.dialect.name, column, listed)


def is_listed(dialect: str, column: Any, listed: sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a column has one of the values of a JSON list."""
    if dialect == "postgresql":
        # column = ANY(ARRAY(SELECT CAST(value AS type) FROM json_array_elements_text(listed)))
        texts = sa.func.json_array_elements_text(sa.cast(listed, sa.JSON)).table_valued("value")
        array = sa.func.array(
            sa.select(sa.cast(texts.c.value, array_element(column.type))).scalar_subquery()
        )
        is_equal: sa.ColumnElement[bool] = column == sa.any_(array)
        return is_equal
    rows = sa.func.json_each(listed).table_valued("value")
    is_in: sa.ColumnElement[bool] = column.in_(sa.select(rows.c.value))
    return is_in


def list_values(connection: sa.Connection, values: Iterable[str]) -> sa.TableValuedAlias:
    """Return the values as a table with the column ``value``. All values are one parameter."""
    listed = sa.literal(json.dumps(list(values)), sa.Text)
    return expand_list(connection.dialect.name, listed)


def expand_list(dialect: str, listed: sa.BindParameter[str]) -> sa.TableValuedAlias:
    """Return the values of a JSON list as a table with the column ``value``."""
    if dialect == "postgresql":
        rows = sa.func.json_array_elements_text(sa.cast(listed, sa.JSON))
        return rows.table_valued(sa.column("value", sa.Text))
    return sa.func.json_each(listed).table_valued(sa.column("value", sa.Text))


def list_few(dialect: str, rows: sa.Select[Any] | sa.CompoundSelect[Any]) -> sa.FromClause:
    """Return the texts in the column ``value`` of a SELECT as a table with the same column.

    PostgreSQL expects hundreds of rows from a recursive query, and would then rather read a whole
    table than search by keys. From an array, it expects ten rows.
    """
    if dialect != "postgresql":
        return rows.subquery()
    texts = sa.func.unnest(sa.func.array(rows.scalar_subquery()), type_=sa.Text)
    return texts.table_valued(sa.column("value", sa.Text)).render_derived()


def array_element(column_type: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the type to which values that are compared with a column must be cast.

    This is the type of the column, but for texts a type without a length, because PostgreSQL would
    silently cut longer values.
    """
    return sa.Text() if isinstance(column_type, sa.String) else column_type


def batched(values: Iterable[Value], size: int = MAX_VALUES) -> Iterator[list[Value]]:
    """Yield the values in lists with ``size`` values each; the last list may be shorter."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch


def read_pages(
    read: Callable[[Any], Sequence[Any]], statement: Any, *key: Any, start: Any = None
) -> Iterator[Any]:
    """Yield the rows of a statement, sorted by a key.

    The rows are read in pages: each page is one statement.

    :param read: a function that executes a statement and returns its rows.
    :param statement: the SELECT, without an order and a limit.
    :param key: the columns that identify a row. The statement must select these columns.
    :param start: a column that is equal to the first column of the key. The statement gets an extra
        condition with this column, which can make the statement faster.
    """
    page = statement.order_by(*key).limit(PAGE)
    while rows := read(page):
        yield from rows
        last = tuple(getattr(rows[-1], column.key) for column in key)
        page = statement.where(sa.tuple_(*key) > last).order_by(*key).limit(PAGE)
        if start is not None:
            page = page.where(start >= last[0])
