"""Compares stored files with their checksums, and deletes stored files that no item needs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import func, select

from flask_ibi_archive.archive.items.file_io import Content, measure
from flask_ibi_archive.archive.items.file_store import GRACE, FileStore
from flask_ibi_archive.archive.items.item_parts import remove_unneeded
from flask_ibi_archive.archive.items.tables import File, FileCheck, Item
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched, insert_or_update, read_pages

#: The number of contents whose checksums are remembered, because several items may share them.
REMEMBERED = 1000
#: The number of faults that are stored for the page of the librarian.
MAX_STORED = 1000


class Fault(NamedTuple):
    """A file of an item whose stored content is ``missing`` or ``damaged``.

    :param path: the path of the file in the item.
    :param file: the path of the stored file.
    """

    kind: str
    ibi: str
    path: str
    file: str


def find_faults(
    database: Database,
    archive_id: int,
    files: FileStore,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Fault]:
    """Yield the faults of the stored files of an Archive. No transaction stays open meanwhile.

    :param progress: called with the number of files that were checked, and of all files.
    """
    of_archive = select(File.item_id, File.path, File.sha256, File.size).where(
        Item.archive_id == archive_id, File.size.is_not(None)
    )
    stored = of_archive.join(Item, Item.id == File.item_id)
    total = database.read_rows(select(func.count()).select_from(stored.subquery()))[0][0]
    with_ibi = stored.add_columns(func.coalesce(Item.rep, Item.ibip).label("ibi"))
    measure_once = lru_cache(REMEMBERED)(measure)
    rows = read_pages(database.read_rows, with_ibi, File.item_id, File.path, start=Item.id)
    for done, row in enumerate(rows, 1):
        path = files.path(row.sha256)
        try:
            is_damaged = measure_once(path) != Content(row.sha256, row.size)
        except OSError:
            is_damaged = True
        if is_damaged and database.read_rows(_select_same(row)):
            kind = "damaged" if path.exists() else "missing"
            yield Fault(kind, row.ibi, row.path, str(path))
        progress(done, total)


def _select_same(row: Any) -> Any:
    """Return the statement that selects a row, unless it was deleted or changed meanwhile."""
    return select(File.item_id).where(
        File.item_id == row.item_id,
        File.path == row.path,
        File.sha256 == row.sha256,
        File.size == row.size,
    )


def store_faults(
    database: Database, archive_id: int, faults: Sequence[Fault], now: datetime
) -> None:
    """Store the result of a check for the page of the librarian, instead of the one before."""
    stored = [{"kind": one.kind, "ibi": one.ibi, "path": one.path} for one in faults[:MAX_STORED]]
    values = {"checked_at": now, "faults": stored}
    with database.writing() as connection:
        statement = insert_or_update(connection, FileCheck)
        connection.execute(
            statement.values(archive_id=archive_id, **values).on_conflict_do_update(
                index_elements=[FileCheck.archive_id], set_=values
            )
        )


def find_unneeded(
    database: Database, files: FileStore, now: datetime, remove: bool = False
) -> list[str]:
    """Return the checksums of the stored files that no item of any Archive has needed for a day.

    :param remove: whether these files are deleted, with the staging folders of killed processes.
    :raises StorageError: if the folder of the files cannot be read or changed.
    """
    # a younger file may belong to a row that is added later
    before = now.timestamp() - GRACE
    old = [file.sha256 for file in files.walk() if file.modified < before]
    with database.reading() as connection:
        needed = set(connection.scalars(select(File.sha256).where(File.size.is_not(None))))
    unneeded = [sha256 for sha256 in old if sha256 not in needed]
    if remove:
        for batch in batched(unneeded):
            with database.writing() as connection:
                remove_unneeded(connection, files, batch, before)
        for path in files.find_stale_stagings(before):
            shutil.rmtree(path, ignore_errors=True)
    return unneeded
