"""Reads from the table ``ibi_file`` which stored files the items need.

A row describes a stored file if the row has a size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, or_, select, text

from flask_ibi_archive.archive.items.file_io import Content
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.tables import File, Item

#: The number of rows that the database returns at a time.
BATCH = 1000


class FileRow(NamedTuple):
    """The row of a stored file, with the id of the Archive and the identifier of the item."""

    sha256: str
    size: int
    item_id: int
    path: str
    archive_id: int
    ibi: str


def read_file_rows(connection: Connection, item_ids: Collection[int] = ()) -> Iterator[FileRow]:
    """Yield the rows of stored files in the order of their checksums.

    :param item_ids: only files of these items are read. If empty, all files of all Archives are
        read.
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
        .order_by(_order_by_bytes(connection, File.sha256), File.item_id, File.position)
    )
    if item_ids:
        statement = statement.where(File.item_id.in_(item_ids))
    rows = connection.execute(statement.execution_options(yield_per=BATCH))
    return (FileRow(*row) for row in rows)  # type: ignore[arg-type]


def read_needed_contents(connection: Connection) -> Iterator[Content]:
    """Yield the contents that items of any Archive need, sorted by checksum.

    Each content is yielded once, even if several items need this content.
    """
    statement = (
        select(File.sha256, func.max(File.size))
        .where(File.size.is_not(None))
        .group_by(File.sha256)
        .order_by(_order_by_bytes(connection, File.sha256))
    )
    rows = connection.execute(statement.execution_options(yield_per=BATCH))
    return (Content(str(sha256), int(size or 0)) for sha256, size in rows)


def _order_by_bytes(connection: Connection, column: Any) -> ColumnElement[Any]:
    """Return a column for ORDER BY that does not depend on the locale of the database."""
    ordered: ColumnElement[Any] = (
        column.collate("C") if connection.dialect.name == "postgresql" else column
    )
    return ordered


def find_needed_checksums(connection: Connection, checksums: Sequence[str]) -> set[str]:
    """Return those of the checksums that an item of any Archive needs.

    :param checksums: at most some thousand checksums.
    """
    statement = select(File.sha256).where(File.sha256.in_(checksums), File.size.is_not(None))
    return {str(sha256) for sha256 in connection.scalars(statement.distinct())}


def remove_unneeded(
    connection: Connection, files: FileStore, checksums: Sequence[str], before: float
) -> Iterator[int]:
    """Delete those of some files that no item of any Archive needs, and yield their sizes.

    A lock prevents new rows for the files until the end of the transaction. The caller must hold
    the exclusive lock of the store.

    :param before: only files that were last modified before this time are deleted. The time is in
        POSIX seconds.
    """
    lock_file_rows(connection)
    needed = find_needed_checksums(connection, checksums)
    for sha256 in checksums:
        if sha256 not in needed:
            size = files.remove(sha256, before)
            if size is not None:
                yield size


def is_row_unchanged(connection: Connection, row: FileRow) -> bool:
    """Return whether the database still contains this row with the same values."""
    statement = select(File.item_id).where(
        File.item_id == row.item_id,
        File.path == row.path,
        File.sha256 == row.sha256,
        File.size == row.size,
    )
    return connection.execute(statement).first() is not None


def lock_file_rows(connection: Connection) -> None:
    """Prevent other transactions from changing the rows of files until this transaction ends.

    On SQLite the function does nothing, because SQLite has only one write transaction at a time.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"LOCK TABLE {File.__tablename__} IN SHARE MODE"))


def find_files(
    connection: Connection, item_ids: list[int], paths: list[str]
) -> list[tuple[int, str, str | None]]:
    """Return the item id, path and URL of files that have one of the paths or have a URL.

    Files with a URL are on another server.
    """
    rows = connection.execute(
        select(File.item_id, File.path, File.url).where(
            File.item_id.in_(item_ids), or_(File.path.in_(paths), File.url.is_not(None))
        )
    )
    return [(row[0], row[1], row[2]) for row in rows]
