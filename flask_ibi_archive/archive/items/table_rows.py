"""Dumps the rows of all tables as JSON, and loads dumped rows into empty tables.

Rows from SQLite can be loaded into PostgreSQL, and rows from PostgreSQL into SQLite. This module
reads the columns from the database, not from the models. Therefore, it can also dump and load the
tables of an older revision.
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
    type_coerce,
)
from sqlalchemy.schema import sort_tables
from sqlalchemy.types import NullType

from flask_ibi_archive.archive.items.tables import (
    ArchiveRow,
    ChangedItem,
    ClaimNote,
    EditionSeries,
    File,
    Item,
    ItemIdentifier,
    RequestCount,
    TranslationGroup,
    VisitorSalt,
    metadata,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.dialects import batched, run_on_postgresql

#: The names of the tables that are dumped. The table of salts is not dumped. Salts must be deleted
#: after a day, because visitors could be identified with the salts. The tables of changed items are
#: not dumped, because a restored item is a changed item. Requests are counted for a minute only.
NAMES = {*metadata.tables} - {
    model.__tablename__ for model in (VisitorSalt, ChangedItem, ClaimNote, RequestCount)
}
#: The number of rows that are read or written at a time.
BATCH = 1000

Row = dict[str, Any]


def reflect_tables(connection: Connection) -> dict[str, Table]:
    """Return the tables to dump, by name; the columns are those of the database."""
    names = sorted(NAMES.intersection(inspect(connection).get_table_names()))
    reflected = MetaData()
    event.listen(reflected, "column_reflect", _store_none_as_null)
    reflected.reflect(connection, only=names)
    return {name: reflected.tables[name] for name in names}


def _store_none_as_null(inspector: Any, table: Table, column: dict[str, Any]) -> None:
    """Store None in a JSON column as NULL instead of as the JSON value null."""
    if isinstance(column["type"], JSON):
        column["type"] = JSON(none_as_null=True)


def count_rows(connection: Connection, table: Table) -> int:
    """Return the number of rows of a table."""
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def dump_rows(
    connection: Connection,
    table: Table,
    on_malformed: Callable[[Row, str, Exception], None] | None = None,
) -> Iterator[Row]:
    """Yield the rows of a table with values for JSON, in the order of the primary key.

    :param on_malformed: called with the row, the column and the error if a value cannot be read.
        The yielded row then contains None, or the smallest value if the column allows no None.
        Without this function, the error is raised.
    """
    dialect = connection.dialect
    formats = {}
    for column in table.columns:
        format_value = _CODECS[find_column_type(column)][0]
        decode = column.type.dialect_impl(dialect).result_processor(dialect, None)
        formats[column.name] = (decode or _unchanged, format_value)
    # Read the values as the database contains them, without types of SQLAlchemy: a malformed value
    # must not end the dump.
    values = [type_coerce(column, NullType()).label(column.name) for column in table.columns]
    statement = select(*values).order_by(*table.primary_key.columns)
    for raw in connection.execute(statement.execution_options(yield_per=BATCH)).mappings():
        row = {}
        for name, (decode, format_value) in formats.items():
            try:
                row[name] = None if raw[name] is None else format_value(decode(raw[name]))
            except (ValueError, TypeError, AttributeError) as error:
                if on_malformed is None:
                    raise
                on_malformed(dict(raw), name, error)
                column = table.columns[name]
                row[name] = None if column.nullable else _SMALLEST[find_column_type(column)]
        yield row


def make_row_parser(table: Table) -> Callable[[Any], Row]:
    """Return a function that parses a dumped row of a table.

    The returned function raises ValueError if a column is missing or unknown, or if a value does
    not have the type of its column.
    """
    parsers = {column.name: _CODECS[find_column_type(column)][1] for column in table.columns}

    def parse(row: Any) -> Row:
        if not isinstance(row, dict) or row.keys() != parsers.keys():
            raise ValueError(
                f"a row of {table.name} must have the columns {', '.join(parsers)}, and no others"
            )
        return {
            name: None if row[name] is None else parse_value(row[name])
            for name, parse_value in parsers.items()
        }

    return parse


def find_column_type(column: Column[Any]) -> type:
    """Return the type of a column, which is a key of ``_CODECS``.

    :raises StorageError: if ``_CODECS`` does not contain the type of the column.
    """
    for kind in _CODECS:
        if isinstance(column.type, kind):
            return kind
    raise StorageError(
        f"the column {column.table.name}.{column.name} has the type {column.type!r}, which cannot "
        "be dumped"
    )


def _format_time(value: datetime.datetime) -> str:
    aware = value.replace(tzinfo=datetime.timezone.utc) if value.tzinfo is None else value
    return aware.astimezone(datetime.timezone.utc).isoformat()


def _parse_time(value: Any) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(_check_type(str)(value))
    if time.tzinfo is None:
        raise ValueError(f"the time {value!r} must have a time zone")
    return time.astimezone(datetime.timezone.utc)


def _parse_day(value: Any) -> datetime.date:
    return datetime.date.fromisoformat(_check_type(str)(value))


def _unchanged(value: Any) -> Any:
    return value


def _check_type(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        # isinstance would accept True as an int
        if type(value) is not kind:
            raise ValueError(f"a value has the type {type(value).__name__}, not {kind.__name__}")
        return value

    return check


#: Two functions for each type of a column. The first function formats a value for JSON. The second
#: function parses the formatted value.
_CODECS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    JSON: (_unchanged, _unchanged),
    DateTime: (_format_time, _parse_time),
    Date: (datetime.date.isoformat, _parse_day),
    Boolean: (bool, _check_type(bool)),
    Integer: (int, _check_type(int)),
    String: (str, _check_type(str)),
}

#: The value that a dump contains instead of a malformed value, if the column must have a value.
_SMALLEST: dict[type, Any] = {
    JSON: {},
    DateTime: "1970-01-01T00:00:00+00:00",
    Date: "1970-01-01",
    Integer: 0,
}


# --- loading -------------------------------------------------------------------------------------

COPY = State.COPY.value
#: The tables that are loaded first, in this order.
FIRST = tuple(
    model.__tablename__
    for model in (ArchiveRow, EditionSeries, TranslationGroup, Item, ItemIdentifier, File)
)


class TableLoader:
    """Loads dumped rows into empty tables in an order that satisfies constraints and triggers.

    The rows are inserted in the transaction of the caller.

    :param read_rows: a function that yields the dumped rows of a table. The loader calls this
        function several times for some tables.
    :param progress: a function that is called after each batch with the number of rows in the
        batch.
    """

    def __init__(
        self,
        connection: Connection,
        read_rows: Callable[[str], Iterator[Any]],
        progress: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._connection = connection
        self._read_rows = read_rows
        self._progress = progress
        self.tables: Mapping[str, Table] = reflect_tables(connection)

    def run(self) -> None:
        """Load all tables, and run the checks that the database would otherwise run at the commit.

        :raises ValueError: if a row does not fit its table.
        :raises IntegrityError: if a constraint refuses a row.
        """
        archive, series, group, item, identifier, file = FIRST
        services: list[Row] = []

        def without_service(row: Row) -> Row:
            services.append(row)
            return {**row, "service_item_id": 0}

        self._load(archive, without_service)
        self._load(series)
        self._load(group)
        copies, described = self._load_items(item, identifier, copies=False)
        # a trigger for Copies uses the service item of the Archive of the Original
        self._update(archive, "service_item_id", iter(services))
        if copies:
            self._load_items(item, identifier, copies=True)
        self._load(file)
        if described:
            self._update(item, "metadata_item_id", self._read_parsed(item))
        for table in sort_tables(
            [table for name, table in self.tables.items() if name not in FIRST]
        ):
            self._load(table.name)
        # a migration cannot change the tables while checks are deferred
        run_on_postgresql(self._connection, "SET CONSTRAINTS ALL IMMEDIATE")

    def _load_items(self, item: str, identifier: str, *, copies: bool) -> tuple[int, int]:
        """Load items, with their identifiers, but without their references to metadata items.

        :param copies: True to load only the Copies; False to load all items except the Copies.
        :returns: the number of Copies in the dump, and the number of items in the dump that have a
            metadata item. Both numbers do not depend on ``copies``.
        """
        all_copies = described = 0

        def is_loaded(row: Row) -> bool:
            is_copy = row["state"] == COPY
            return is_copy if copies else not is_copy

        def select_item(row: Row) -> Row | None:
            nonlocal all_copies, described
            all_copies += row["state"] == COPY
            described += row["metadata_item_id"] is not None
            return {**row, "metadata_item_id": None} if is_loaded(row) else None

        self._load(item, select_item)
        self._load(identifier, lambda row: row if is_loaded(row) else None)
        return all_copies, described

    def _read_parsed(self, name: str) -> Iterator[Row]:
        parse = make_row_parser(self.tables[name])
        return (parse(row) for row in self._read_rows(name))

    def _load(self, name: str, change: Callable[[Row], Row | None] = _unchanged) -> None:
        """Insert the dumped rows of a table.

        :param change: a function that returns the row to insert; None to skip the row.
        """
        statement = self.tables[name].insert()
        rows = (row for row in map(change, self._read_parsed(name)) if row is not None)
        for batch in batched(rows, BATCH):
            self._connection.execute(statement, batch)
            self._progress(len(batch))

    def _update(self, name: str, column: str, rows: Iterator[Row]) -> None:
        """Set one column of a table to the values in the dumped rows; skip rows without a value."""
        table = self.tables[name]
        statement = (
            table.update()
            .where(table.c.id == bindparam("row"))
            .values({column: bindparam("value")})
        )
        values = (
            {"row": row["id"], "value": row[column]} for row in rows if row[column] is not None
        )
        for batch in batched(values, BATCH):
            self._connection.execute(statement, batch)


# --- the last ids --------------------------------------------------------------------------------


def read_last_ids(connection: Connection, tables: Mapping[str, Table]) -> dict[str, int]:
    """Return the last used id of each table that never uses an id twice."""
    if connection.dialect.name == "sqlite":
        if not connection.scalar(
            text("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_sequence'")
        ):
            return {}
        rows = connection.execute(text("SELECT name, seq FROM sqlite_sequence"))
        return {name: int(last_id) for name, last_id in rows if name in tables}
    last_ids = {}
    for name, sequence in _sequences(connection, tables):
        last, called = connection.execute(
            text(f"SELECT last_value, is_called FROM {sequence}")
        ).one()
        last_ids[name] = int(last) if called else 0
    return last_ids


def raise_last_ids(
    connection: Connection, tables: Mapping[str, Table], last_ids: Mapping[str, int]
) -> None:
    """Make sure that the next id of each table is higher than all used ids.

    :param tables: the tables by name.
    :param last_ids: the last used ids by table name, from :func:`read_last_ids`.
    """
    if connection.dialect.name == "sqlite":
        known = read_last_ids(connection, tables)
        for name in last_ids.keys() & tables.keys():
            statement = (
                "UPDATE sqlite_sequence SET seq = max(seq, :last_id) WHERE name = :name"
                if name in known
                else "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last_id)"
            )
            connection.execute(text(statement), {"name": name, "last_id": last_ids[name]})
        return
    for name, sequence in _sequences(connection, tables):
        highest = connection.scalar(select(func.max(tables[name].c.id))) or 0
        last_id = max(highest, last_ids.get(name, 0))
        if last_id:
            connection.execute(select(func.setval(bindparam("sequence", sequence), last_id)))


def _sequences(connection: Connection, tables: Mapping[str, Table]) -> Iterator[tuple[str, str]]:
    """Yield the name of each PostgreSQL table with ids, and the name of the sequence of its ids."""
    for name, table in tables.items():
        if "id" in table.columns:
            sequence = connection.scalar(select(func.pg_get_serial_sequence(name, "id")))
            if sequence is not None:
                yield name, sequence
