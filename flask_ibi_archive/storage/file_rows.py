"""Reads which stored files the items need: those in rows of ``ibi_file`` that have a size."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select, text

from flask_ibi_archive.storage.file_io import Content
from flask_ibi_archive.storage.models import File, Item

#: The number of rows that are fetched at a time.
BATCH = 1000


class FileRow(NamedTuple):
    """The row of a stored file, with the Archive and the identifier of its item."""

    sha256: str
    size: int
    item_id: int
    path: str
    archive_id: int
    ibi: str


def read_file_rows(connection: Connection, item_ids: Collection[int] = ()) -> Iterator[FileRow]:
    """Yield the rows of stored files in the order of their checksums.

    :param item_ids: the ids of the items; if empty, the files of all Archives are read.
    """
    statement = (
        select(
            File.sha256,
            File.size,
            File.item_id,
            File.path,
            Item.archive_id,
            func.coalesce(Item.rep, Item.ibip),
        )
        .join(Item, Item.id == File.item_id)
        .where(File.size.is_not(None))
        .order_by(_by_bytes(connection, File.sha256), File.item_id, File.position)
    )
    if item_ids:
        statement = statement.where(File.item_id.in_(item_ids))
    rows = connection.execute(statement.execution_options(yield_per=BATCH))
    return (FileRow(*row) for row in rows)  # type: ignore[arg-type]


def read_needed_contents(connection: Connection) -> Iterator[Content]:
    """Yield each content that an item of any Archive needs once, sorted by checksum."""
    statement = (
        select(File.sha256, func.max(File.size))
        .where(File.size.is_not(None))
        .group_by(File.sha256)
        .order_by(_by_bytes(connection, File.sha256))
    )
    rows = connection.execute(statement.execution_options(yield_per=BATCH))
    return (Content(str(sha256), int(size or 0)) for sha256, size in rows)


def _by_bytes(connection: Connection, column: Any) -> ColumnElement[Any]:
    """Return a text column that is sorted by bytes, independently of the locale of the database."""
    ordered: ColumnElement[Any] = (
        column.collate("C") if connection.dialect.name == "postgresql" else column
    )
    return ordered


def find_needed(connection: Connection, checksums: Sequence[str]) -> set[str]:
    """Return the checksums, of at most some thousands, that an item of any Archive needs."""
    statement = select(File.sha256).where(File.sha256.in_(checksums), File.size.is_not(None))
    return {str(sha256) for sha256 in connection.scalars(statement.distinct())}


def is_unchanged(connection: Connection, row: FileRow) -> bool:
    """Return whether the row of a file still exists with the same values."""
    statement = select(File.item_id).where(
        File.item_id == row.item_id,
        File.path == row.path,
        File.sha256 == row.sha256,
        File.size == row.size,
    )
    return connection.execute(statement).first() is not None


def lock_file_rows(connection: Connection) -> None:
    """Prevent other transactions from writing rows of files until the end of this transaction.

    On SQLite nothing is needed: it has one write transaction at a time.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"LOCK TABLE {File.__tablename__} IN SHARE MODE"))
