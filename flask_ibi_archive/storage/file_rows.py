"""What the rows say of the contents that are kept in the folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select, text

from flask_ibi_archive.storage.items import Content
from flask_ibi_archive.storage.models import File, Item

BATCH = 1000


class KeptFile(NamedTuple):
    """A file whose content is kept here."""

    sha256: str
    size: int
    item_id: int
    path: str
    archive_id: int
    ibi: str


def read_kept_files(connection: Connection, item_ids: Collection[int] = ()) -> Iterator[KeptFile]:
    """Return the files kept here, of all Archives or of some items, in the order of their
    checksums.
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
        .order_by(_in_bytes(connection, File.sha256), File.item_id, File.position)
    )
    if item_ids:
        statement = statement.where(File.item_id.in_(item_ids))
    rows = connection.execute(statement.execution_options(yield_per=BATCH))
    return (KeptFile(*row) for row in rows)  # type: ignore[arg-type]


def read_needed_contents(connection: Connection) -> Iterator[Content]:
    """Return the contents that rows of any Archive need, each once, in the order of their
    checksums.
    """
    statement = (
        select(File.sha256, func.max(File.size))
        .where(File.size.is_not(None))
        .group_by(File.sha256)
        .order_by(_in_bytes(connection, File.sha256))
    )
    rows = connection.execute(statement.execution_options(yield_per=BATCH))
    return (Content(str(sha256), int(size or 0)) for sha256, size in rows)


def _in_bytes(connection: Connection, column: Any) -> ColumnElement[Any]:
    """Return a text in the order of its bytes, whatever the language of the database."""
    ordered: ColumnElement[Any] = (
        column.collate("C") if connection.dialect.name == "postgresql" else column
    )
    return ordered


def needed_of(connection: Connection, contents: Sequence[str]) -> set[str]:
    """Return those of some contents (at most some thousands) that a row of any Archive needs."""
    statement = select(File.sha256).where(File.sha256.in_(contents), File.size.is_not(None))
    return {str(sha256) for sha256 in connection.scalars(statement.distinct())}


def is_kept(connection: Connection, file: KeptFile) -> bool:
    """Tell whether the row of a file still says what it said."""
    statement = select(File.item_id).where(
        File.item_id == file.item_id,
        File.path == file.path,
        File.sha256 == file.sha256,
        File.size == file.size,
    )
    return connection.execute(statement).first() is not None


def lock_files(connection: Connection) -> None:
    """Wait for those who write rows of files, and keep others from it till the end of the
    transaction.

    SQLite's write transactions are alone anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"LOCK TABLE {File.__tablename__} IN SHARE MODE"))
