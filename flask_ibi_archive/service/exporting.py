"""Writes an Archive's items as records."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement

from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.contents import ContentFolder
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.items import ItemStore

BATCH = 500


def export_records(
    database: Database,
    archive_id: int,
    folder: ContentFolder,
    where: Sequence[ColumnElement[bool]] = (),
    limit: int | None = None,
) -> Iterator[ItemRecord]:
    """Give the records of an Archive's items, the service left out, in the order they came.

    All of them as they are at one moment, whatever is written meanwhile. The content of a file kept here is
    named by its place in the folder.

    :param where: conditions that the items must meet, as of :func:`..searching.select_items`.
    :param limit: the largest number of items.
    """
    with database.snapshot() as connection:
        store = ItemStore(
            connection, archive_id, lambda sha256: str(folder.path(sha256).absolute())
        )
        after, left = 0, sys.maxsize if limit is None else limit
        while rows := store.read_records(after, min(BATCH, left), where):
            for _, record in rows:
                yield record
            after, left = rows[-1][0], left - len(rows)
