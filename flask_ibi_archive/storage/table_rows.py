"""Our tables as rows of JSON, alike on every database and at every revision.

The tables are taken as the database has them, not as the models say, so that an old one can be
written down and read in as well.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Date,
    DateTime,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    event,
    func,
    inspect,
    select,
    text,
)

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage.models import VisitorSalt, metadata

#: Salts are to be thrown away after their day: who has one can tell from a backup who the visitors
#: were.
LEFT_OUT = frozenset({VisitorSalt.__tablename__})
#: The names that a backup may hold rows of.
NAMES = frozenset(metadata.tables) - LEFT_OUT
BATCH = 1000

Row = dict[str, Any]


def reflect_tables(connection: Connection) -> dict[str, Table]:
    """Return our tables, those left out excepted, as they are in the database."""
    there = set(inspect(connection).get_table_names())
    reflected = MetaData()
    event.listen(reflected, "column_reflect", _keep_null)
    reflected.reflect(connection, only=sorted(NAMES & there))
    return {name: reflected.tables[name] for name in sorted(NAMES & there)}


def _keep_null(inspector: Any, table: Table, column: dict[str, Any]) -> None:
    """Let None in a JSON column be no value, not the value null."""
    if isinstance(column["type"], JSON):
        column["type"] = JSON(none_as_null=True)


def count_rows(connection: Connection, table: Table) -> int:
    """Return the number of rows of a table."""
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def dump_rows(connection: Connection, table: Table) -> Iterator[Row]:
    """Return the rows of a table, in the order of its key, with values that JSON has."""
    writers = {column.name: _WRITERS[kind_of(column)] for column in table.columns}
    statement = select(table).order_by(*table.primary_key.columns)
    for row in connection.execute(statement.execution_options(yield_per=BATCH)).mappings():
        yield {
            name: None if row[name] is None else write(row[name]) for name, write in writers.items()
        }


def make_reader(table: Table) -> Callable[[Any], Row]:
    """Return what turns a row of JSON into one of a table.

    It raises ValueError where a column is missing, too much, or of another type.
    """
    readers = {column.name: _READERS[kind_of(column)] for column in table.columns}

    def read(row: Any) -> Row:
        if not isinstance(row, dict) or row.keys() != readers.keys():
            raise ValueError(f"{table.name} has other columns")
        return {
            name: None if row[name] is None else reader(row[name])
            for name, reader in readers.items()
        }

    return read


def kind_of(column: Column[Any]) -> type:
    """Return which of the types that we use a column has.

    :raises StorageError: if it is none of them.
    """
    for kind in (JSON, DateTime, Date, Boolean, Integer, String):
        if isinstance(column.type, kind):
            return kind
    raise StorageError(f"{column.table.name}.{column.name} is of the type {column.type!r}")


def _write_moment(value: datetime.datetime) -> str:
    aware = value.replace(tzinfo=datetime.timezone.utc) if value.tzinfo is None else value
    return aware.astimezone(datetime.timezone.utc).isoformat()


def _as_it_is(value: Any) -> Any:
    return value


_WRITERS: dict[type, Callable[[Any], Any]] = {
    JSON: _as_it_is,
    DateTime: _write_moment,
    Date: datetime.date.isoformat,
    Boolean: bool,
    Integer: int,
    String: str,
}


def _a(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        # exactly: in Python a truth value is a number too
        if type(value) is not kind:
            raise ValueError(f"a value is not of the type {kind.__name__}")
        return value

    return read


def _read_moment(value: Any) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(_a(str)(value))
    if moment.tzinfo is None:
        raise ValueError("a moment has no time zone")
    return moment.astimezone(datetime.timezone.utc)


def _read_day(value: Any) -> datetime.date:
    return datetime.date.fromisoformat(_a(str)(value))


_READERS: dict[type, Callable[[Any], Any]] = {
    JSON: _as_it_is,
    DateTime: _read_moment,
    Date: _read_day,
    Boolean: _a(bool),
    Integer: _a(int),
    String: _a(str),
}


# --- the numbers of rows -------------------------------------------------------------------------


def read_numbers(connection: Connection, tables: Mapping[str, Table]) -> dict[str, int]:
    """Return the number that was given to a row last, for the tables that never give one twice."""
    if connection.dialect.name == "sqlite":
        if not connection.scalar(
            text("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'")
        ):
            return {}
        rows = connection.execute(text("SELECT name, seq FROM sqlite_sequence"))
        return {name: int(number) for name, number in rows if name in tables}
    numbers = {}
    for name, sequence in _sequences(connection, tables):
        last, called = connection.execute(
            text(f"SELECT last_value, is_called FROM {sequence}")
        ).one()
        numbers[name] = int(last) if called else 0
    return numbers


def set_numbers(
    connection: Connection, tables: Mapping[str, Table], numbers: Mapping[str, int]
) -> None:
    """Let the next row of each table have a number above those given, and above those that are
    there.
    """
    if connection.dialect.name == "sqlite":
        held = read_numbers(connection, tables)
        for name in numbers.keys() & tables.keys():
            statement = (
                "UPDATE sqlite_sequence SET seq = max(seq, :number) WHERE name = :name"
                if name in held
                else "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"
            )
            connection.execute(text(statement), {"name": name, "number": numbers[name]})
        return
    for name, sequence in _sequences(connection, tables):
        highest = connection.scalar(select(func.max(tables[name].c.id))) or 0
        number = max(highest, numbers.get(name, 0))
        if number:
            connection.execute(select(func.setval(bindparam("sequence", sequence), number)))


def _sequences(connection: Connection, tables: Mapping[str, Table]) -> Iterator[tuple[str, str]]:
    for name, table in tables.items():
        if "id" in table.columns:
            sequence = connection.scalar(select(func.pg_get_serial_sequence(name, "id")))
            if sequence is not None:
                yield name, sequence
