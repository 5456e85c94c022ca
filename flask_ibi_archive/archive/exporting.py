"""Writes an Archive's items as records."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import ColumnElement

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.file_store import FileStore, copy_and_measure, measure
from flask_ibi_archive.storage.items import ItemStore

BATCH = 500


def export_records(
    database: Database,
    archive_id: int,
    folder: FileStore,
    where: Sequence[ColumnElement[bool]] = (),
    limit: int | None = None,
) -> Generator[ItemRecord, None, None]:
    """Return the records of an Archive's items, the service left out, in the order they came.

    All of them as they are at one moment, whatever is written meanwhile. The content of a file kept
    here is named by its place in the folder.

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


def copy_files(records: Iterable[ItemRecord], folder: Path, base: Path) -> Iterator[ItemRecord]:
    """Yield records whose files are copied into a folder; equal contents are copied once.

    :param base: the folder that the new ``source`` of each file is relative to.
    :raises StorageError: if a file can't be copied, or its stored content is damaged.
    """
    for record in records:
        copies = []
        for file in record.files:
            if file.source is None:
                copies.append(file)
                continue
            try:
                copy = _copy(Path(file.source), str(file.sha256), folder)
            except OSError as error:
                raise StorageError(
                    f"file {file.path} of {record.identifiers[0]} can't be copied to {folder}: "
                    f"{error.strerror}: {error.filename}"
                ) from error
            except ValueError as error:
                raise StorageError(
                    f"file {file.path} of {record.identifiers[0]} is damaged; verify says what to do"
                ) from error
            copies.append(replace(file, source=Path(os.path.relpath(copy, base)).as_posix()))
        yield replace(record, files=tuple(copies))


def _copy(source: Path, sha256: str, folder: Path) -> Path:
    """Copy a content into a folder, unless it is there, under its checksum.

    :raises ValueError: if it has another checksum.
    """
    place = folder / sha256
    if place.exists() and measure(place).sha256 == sha256:
        return place
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".new-{secrets.token_hex(8)}"
    try:
        with source.open("rb") as stream, new.open("xb") as target:
            if copy_and_measure(stream, target).sha256 != sha256:
                raise ValueError(f"{source} has not the checksum {sha256}")
            target.flush()
            os.fsync(target.fileno())
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)
    return place
