"""Hide the differences of SQLite and PostgreSQL: types, functions, upserts, statement sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import operators
from sqlalchemy.sql.functions import FunctionElement

Value = TypeVar("Value")

#: The column type for the ids of rows: an integer of 64 bits. On SQLite the type is called Integer,
#: because SQLite assigns new ids only to columns of this type.
Key: sa.BigInteger = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

#: The largest number of values that one statement of this package contains. SQLite accepts at most
#: 32766 parameters, and PostgreSQL accepts at most 65535.
MAX_VALUES = 5000
#: The number of rows that :func:`read_pages` reads with one statement.
PAGE = 500


class UTCDateTime(sa.TypeDecorator[datetime]):
    """A column type for times in UTC: ``timestamptz`` on PostgreSQL, text on SQLite."""

    impl: Any = sa.DateTime(timezone=True)
    cache_ok: bool | None = True

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


def _is_postgresql(user: Any) -> bool:
    """Return whether a connection or a compiler of statements uses PostgreSQL."""
    return bool(user.dialect.name == "postgresql")


def run_on_postgresql(connection: sa.Connection, *statements: str) -> None:
    """Run statements that only PostgreSQL needs, such as locks of tables.

    On SQLite this function does nothing. SQLite needs no locks, because it has only one write
    transaction at a time, and needs no advice to the planner, because it plans each statement anew.
    """
    if _is_postgresql(connection):
        for statement in statements:
            connection.exec_driver_sql(statement)


def insert_or_update(connection: sa.Connection, table: Any) -> Any:
    """Return an INSERT statement of the dialect, to which callers add an ON CONFLICT clause."""
    return (postgresql if _is_postgresql(connection) else sqlite).insert(table)


class JsonList(sa.TypeDecorator[Any]):
    """The type of a parameter that is a list of texts or numbers.

    The list is sent as one JSON text, and the database expands the JSON into rows. This is faster
    than one parameter per value (slow in SQLAlchemy) and than an array (slow in psycopg).
    """

    impl: Any = sa.Text
    cache_ok: bool | None = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str:
        """Return the list as JSON."""
        return msgspec.json.encode(list(value)).decode()


class IsListed(sa.BinaryExpression[bool]):
    """The SQL condition that the value of a column is in a :class:`JsonList`."""

    inherit_cache: bool | None = True


@compiles(IsListed)
def _search_list(element: IsListed, compiler: Any, **options: Any) -> str:
    column = compiler.process(element.left, **options)
    listed = compiler.process(element.right, **options)
    if not _is_postgresql(compiler):
        return f"{column} IN (SELECT value FROM json_each({listed}))"
    # no cast to a text with a length, which would cut longer values
    value = "value" if isinstance(element.left.type, sa.String) else "CAST(value AS bigint)"
    values = f"json_array_elements_text(CAST({listed} AS json))"
    return f"{column} = ANY(ARRAY(SELECT {value} FROM {values}))"


def is_listed(column: Any, name: str) -> sa.ColumnElement[bool]:
    """Return the SQL condition that the value of a column is in a list, which is a parameter.

    :param name: the name of the parameter. The value of the parameter is passed at execution.
    """
    return IsListed(
        column.expression, sa.bindparam(name, type_=JsonList), operators.in_op, sa.Boolean()
    )


def is_one_of(column: Any, values: Iterable[str] | Iterable[int]) -> sa.ColumnElement[bool]:
    """Return the SQL condition that the value of a column is one of ``values``."""
    return IsListed(
        column.expression, sa.literal([*values], JsonList), operators.in_op, sa.Boolean()
    )


class JsonValues(FunctionElement[str]):
    """The SQL function that expands a :class:`JsonList` into rows: one row for each value."""

    inherit_cache: bool | None = True
    on_postgresql = "json_array_elements_text"


class JsonRows(JsonValues):
    """The same as :class:`JsonValues`, but the value in each row is JSON, such as a list."""

    inherit_cache: bool | None = True
    on_postgresql = "json_array_elements"


@compiles(JsonValues)
def _list_values(element: JsonValues, compiler: Any, **options: Any) -> str:
    listed = compiler.process(element.clauses, **options)
    if _is_postgresql(compiler):
        return f"{element.on_postgresql}(CAST({listed} AS json))"
    return f"json_each({listed})"


def list_values(name: str) -> sa.TableValuedAlias:
    """Return a table with the column ``value`` and a row for each value of a list.

    :param name: the name of the parameter that is the list.
    """
    listed: sa.BindParameter[Any] = sa.bindparam(name, type_=JsonList)
    return JsonValues(listed).table_valued(sa.column("value", sa.Text))


def select_rows(name: str, *types: Any) -> sa.Select[Any]:
    """Return a SELECT whose rows are the inner lists of a parameter, which is a list of lists.

    One parameter for all rows takes a fraction of the time of one parameter for each value.

    :param name: the name of the parameter.

    :param types: the types of the columns.
    """
    listed: sa.BindParameter[Any] = sa.bindparam(name, type_=JsonList)
    value = JsonRows(listed).table_valued(sa.column("value", sa.Text)).c.value
    columns = (
        sa.cast(value.op("->>")(sa.literal_column(str(number))), kind)
        for number, kind in enumerate(types)
    )
    # SQLite would read ON CONFLICT behind a SELECT without WHERE as the condition of a join
    return sa.select(*columns).where(sa.true())


class FewTexts(FunctionElement[str]):
    """An SQL function that returns the rows of a SELECT, and makes PostgreSQL expect few rows.

    PostgreSQL expects hundreds of rows from a recursive query or from JSON. It would then read a
    whole table instead of searching by keys. From an array, it expects ten rows.
    """

    inherit_cache: bool | None = True


@compiles(FewTexts)
def _select_few(element: FewTexts, compiler: Any, **options: Any) -> str:
    texts = str(compiler.process(element.clauses, **options))
    if _is_postgresql(compiler):
        return f"(SELECT value FROM unnest(ARRAY{texts}) AS few(value))"
    return texts


def list_few(rows: sa.Select[Any] | sa.CompoundSelect[Any]) -> sa.TableValuedAlias:
    """Return a SELECT as a table that, for the planner of PostgreSQL, has few rows.

    :param rows: a SELECT of one column, which becomes the column ``value`` of the table.
    """
    return FewTexts(rows.scalar_subquery()).table_valued(sa.column("value", sa.Text))


def batched(values: Iterable[Value], size: int = MAX_VALUES) -> Iterator[list[Value]]:
    """Divide values into lists of ``size`` values, and yield the lists; the last may be shorter."""
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
