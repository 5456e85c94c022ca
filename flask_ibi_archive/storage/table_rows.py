"""The rows of all tables as JSON, the same for every database: dump them, and load them again.

The columns are those of the database, not those of the models, so that tables of an older revision
can be dumped and loaded too.
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
from sqlalchemy.schema import sort_tables

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage.dialects import batched
from flask_ibi_archive.storage.models import (
    Archive,
    EditionSeries,
    File,
    Item,
    ItemIdentifier,
    TranslationGroup,
    VisitorSalt,
    metadata,
)
from flask_ibi_archive.storage.states import State

#: The names of the tables that are dumped. Salts are not: each is deleted after its day, since with
#: a salt one could identify visitors.
NAMES = frozenset(metadata.tables) - {VisitorSalt.__tablename__}
#: Rows that are read or written at a time.
BATCH = 1000

Row = dict[str, Any]


def reflect_tables(connection: Connection) -> dict[str, Table]:
    """Return the tables to dump, with the columns that they have in the database."""
    names = sorted(NAMES.intersection(inspect(connection).get_table_names()))
    reflected = MetaData()
    event.listen(reflected, "column_reflect", _store_none_as_null)
    reflected.reflect(connection, only=names)
    return {name: reflected.tables[name] for name in names}


def _store_none_as_null(inspector: Any, table: Table, column: dict[str, Any]) -> None:
    """Make None in a JSON column SQL's NULL instead of JSON's null."""
    if isinstance(column["type"], JSON):
        column["type"] = JSON(none_as_null=True)


def count_rows(connection: Connection, table: Table) -> int:
    """Return the number of rows of a table."""
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def dump_rows(connection: Connection, table: Table) -> Iterator[Row]:
    """Yield the rows of a table in the order of its primary key, with JSON values."""
    formats = {column.name: _CODECS[kind_of(column)][0] for column in table.columns}
    statement = select(table).order_by(*table.primary_key.columns)
    for row in connection.execute(statement.execution_options(yield_per=BATCH)).mappings():
        yield {
            name: None if row[name] is None else format_value(row[name])
            for name, format_value in formats.items()
        }


def make_row_parser(table: Table) -> Callable[[Any], Row]:
    """Return a function that parses a dumped row of a table.

    It raises ValueError if a column is missing or unknown, or a value has another type.
    """
    parsers = {column.name: _CODECS[kind_of(column)][1] for column in table.columns}

    def parse(row: Any) -> Row:
        if not isinstance(row, dict) or row.keys() != parsers.keys():
            raise ValueError(f"{table.name} has other columns")
        return {
            name: None if row[name] is None else parse_value(row[name])
            for name, parse_value in parsers.items()
        }

    return parse


def kind_of(column: Column[Any]) -> type:
    """Return which of the types in use a column has.

    :raises StorageError: if it has another type.
    """
    for kind in _CODECS:
        if isinstance(column.type, kind):
            return kind
    raise StorageError(f"{column.table.name}.{column.name} is of the type {column.type!r}")


def _format_time(value: datetime.datetime) -> str:
    aware = value.replace(tzinfo=datetime.timezone.utc) if value.tzinfo is None else value
    return aware.astimezone(datetime.timezone.utc).isoformat()


def _parse_time(value: Any) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(_check_type(str)(value))
    if time.tzinfo is None:
        raise ValueError("a time has no time zone")
    return time.astimezone(datetime.timezone.utc)


def _parse_day(value: Any) -> datetime.date:
    return datetime.date.fromisoformat(_check_type(str)(value))


def _unchanged(value: Any) -> Any:
    return value


def _check_type(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        # not isinstance: in Python a bool is an int too
        if type(value) is not kind:
            raise ValueError(f"a value is not of the type {kind.__name__}")
        return value

    return check


#: For each type of a column: how its values are formatted for JSON, and how they are parsed.
_CODECS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    JSON: (_unchanged, _unchanged),
    DateTime: (_format_time, _parse_time),
    Date: (datetime.date.isoformat, _parse_day),
    Boolean: (bool, _check_type(bool)),
    Integer: (int, _check_type(int)),
    String: (str, _check_type(str)),
}


# --- loading -------------------------------------------------------------------------------------

COPY = State.COPY.value
#: The tables that are loaded first, in this order.
FIRST = tuple(
    model.__tablename__
    for model in (Archive, EditionSeries, TranslationGroup, Item, ItemIdentifier, File)
)


class TableLoader:
    """Loads dumped rows into empty tables, in an order that satisfies constraints and triggers.

    It works in the caller's transaction.

    :param read_rows: called with the name of a table, several times for some; yields dumped rows.
    :param progress: called with the number of rows that were written since the last call.
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
        """Load all tables, and check what the database would only check at the commit.

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
        # a trigger finds the Original of a Copy by the service item of its Archive
        self._update(archive, "service_item_id", iter(services))
        if copies:
            self._load_items(item, identifier, copies=True)
        self._load(file)
        if described:
            self._update(item, "metadata_item_id", self._read(item))
        for table in sort_tables(
            [table for name, table in self.tables.items() if name not in FIRST]
        ):
            self._load(table.name)
        if self._connection.dialect.name == "postgresql":
            # deferred checks would keep a migration from changing the tables
            self._connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))

    def _load_items(self, item: str, identifier: str, *, copies: bool) -> tuple[int, int]:
        """Load the Copies, or all other items, without the references to their metadata.

        :returns: the number of items that are Copies, and of those with a metadata item.
        """
        found = described = 0

        def select_item(row: Row) -> Row | None:
            nonlocal found, described
            found += row["state"] == COPY
            described += row["metadata_item_id"] is not None
            return {**row, "metadata_item_id": None} if (row["state"] == COPY) is copies else None

        self._load(item, select_item)
        self._load(identifier, lambda row: row if (row["state"] == COPY) is copies else None)
        return found, described

    def _read(self, name: str) -> Iterator[Row]:
        parse = make_row_parser(self.tables[name])
        return (parse(row) for row in self._read_rows(name))

    def _load(self, name: str, change: Callable[[Row], Row | None] = _unchanged) -> None:
        """Insert the rows of a table that a function returns, changed or not."""
        statement = self.tables[name].insert()
        rows = (row for read in self._read(name) if (row := change(read)) is not None)
        for batch in batched(rows, BATCH):
            self._connection.execute(statement, batch)
            self._progress(len(batch))

    def _update(self, name: str, column: str, rows: Iterator[Row]) -> None:
        """Set a column of the rows of a table that have a value there."""
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


# --- the last row IDs ----------------------------------------------------------------------------


def read_last_ids(connection: Connection, tables: Mapping[str, Table]) -> dict[str, int]:
    """Return the ID of the row that was inserted last, for the tables that never reuse an ID."""
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
    """Make the next row of each table get an ID above the given one and above all existing ones."""
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
    """Yield the names of PostgreSQL's tables with IDs, and of the sequences of the IDs."""
    for name, table in tables.items():
        if "id" in table.columns:
            sequence = connection.scalar(select(func.pg_get_serial_sequence(name, "id")))
            if sequence is not None:
                yield name, sequence
