"""Fills empty tables with rows, in an order in which every constraint and trigger can look on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Table, bindparam, text
from sqlalchemy.schema import sort_tables

from flask_ibi_archive.storage.models import (
    Archive,
    EditionSeries,
    File,
    Item,
    ItemIdentifier,
    TranslationGroup,
)
from flask_ibi_archive.storage.states import State
from flask_ibi_archive.storage.table_rows import BATCH, Row, make_reader, reflect_tables

COPY = State.COPY.value
#: Loaded first, each in a way of its own.
FIRST = tuple(
    model.__tablename__
    for model in (Archive, EditionSeries, TranslationGroup, Item, ItemIdentifier, File)
)


class Loader:
    """Loads the rows of tables that are empty, inside the caller's transaction.

    :param rows: gives the rows of a table, as they were dumped, as often as it is asked.
    :param progress: told the number of rows that were written since it was told last.
    """

    def __init__(
        self,
        connection: Connection,
        rows: Callable[[str], Iterator[Any]],
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        self._connection = connection
        self._rows = rows
        self._progress = progress
        self.tables: Mapping[str, Table] = reflect_tables(connection)

    def run(self) -> None:
        """Load all tables.

        :raises ValueError: if a row is not one of its table.
        :raises IntegrityError: if a constraint refuses one.
        """
        archive, series, group, item, identifier, file = FIRST
        services: list[Row] = []
        self._load(archive, lambda row: [_without_service(row, services)])
        self._load(series)
        self._load(group)
        met = {"copies": 0, "metadata": 0}

        def no_copy(row: Row) -> list[Row]:
            if row["metadata_item_id"] is not None:
                met["metadata"] += 1
            if row["state"] == COPY:
                met["copies"] += 1
                return []
            return [{**row, "metadata_item_id": None}]

        self._load(item, no_copy)
        self._load(identifier, lambda row: [row] if row["state"] != COPY else [])
        # an Archive begins without its service item; and a Copy finds its Original by way of it
        self._update(archive, "service_item_id", iter(services))
        if met["copies"]:
            self._load(
                item,
                lambda row: [{**row, "metadata_item_id": None}] if row["state"] == COPY else [],
            )
            self._load(identifier, lambda row: [row] if row["state"] == COPY else [])
        self._load(file)
        if met["metadata"]:
            self._update(item, "metadata_item_id", self._read(item))
        for table in sort_tables(
            [table for name, table in self.tables.items() if name not in FIRST]
        ):
            self._load(table.name)

    def check(self) -> None:
        """Check now what else is checked when the transaction ends, so that tables can be changed
        in it.
        """
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))

    def _read(self, name: str) -> Iterator[Row]:
        read = make_reader(self.tables[name])
        return (read(row) for row in self._rows(name))

    def _load(self, name: str, change: Callable[[Row], list[Row]] = lambda row: [row]) -> None:
        statement = self.tables[name].insert()
        rows = (changed for row in self._read(name) for changed in change(row))
        while batch := list(islice(rows, BATCH)):
            self._connection.execute(statement, batch)
            self._progress(len(batch))

    def _update(self, name: str, column: str, rows: Iterator[Row]) -> None:
        table = self.tables[name]
        statement = (
            table.update()
            .where(table.c.id == bindparam("row"))
            .values({column: bindparam("value")})
        )
        values = (
            {"row": row["id"], "value": row[column]} for row in rows if row[column] is not None
        )
        while batch := list(islice(values, BATCH)):
            self._connection.execute(statement, batch)


def _without_service(row: Row, services: list[Row]) -> Row:
    services.append(row)
    return {**row, "service_item_id": 0}
