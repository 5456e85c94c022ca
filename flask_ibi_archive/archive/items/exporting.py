"""Exports the items of an Archive as records, and copies their stored files."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import ColumnElement

from flask_ibi_archive.archive.items.daily_counts import read_counts
from flask_ibi_archive.archive.items.file_io import copy_and_measure, measure
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.identifiers import find_owners
from flask_ibi_archive.archive.items.reading import ItemReader
from flask_ibi_archive.core.records.fields import format_record
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.switches import format_counts
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched

#: The number of items that are read with one statement.
BATCH = 500


def export_records(
    database: Database,
    archive_id: int,
    files: FileStore,
    where: Sequence[ColumnElement[bool]] = (),
    limit: int | None = None,
) -> Generator[Record, None, None]:
    """Yield the records of all items except the service, in the order of their creation.

    All items are read in one transaction. In the records, the ``source`` of a stored file is the
    absolute path of the file.

    :param where: conditions that the items must satisfy, as for :func:`.select_items`.
    :param limit: the maximum number of items; None returns all items.
    """
    with database.snapshot() as connection:
        reader = ItemReader(
            connection, archive_id, lambda sha256: str(files.path(sha256).absolute())
        )
        last_id, left = 0, sys.maxsize if limit is None else limit
        while items := reader.read_listed(last_id, min(BATCH, left), where):
            for item in items.values():
                yield item.record
            last_id, left = max(items), left - len(items)


def format_with_counts(
    records: Iterable[Record], database: Database, archive_id: int
) -> Iterator[str]:
    """Yield records as lines of JSON, with the daily counts of accesses to their items."""
    for batch in batched(records, BATCH):
        names = [record.identifiers[0] for record in batch]
        with database.reading() as connection:
            owners = find_owners(connection, archive_id, names)
            counts = read_counts(connection, [item_id for item_id, _ in owners.values()])
        for record, name in zip(batch, names, strict=True):
            line = format_record(record)
            if of_item := counts.get(owners.get(name, (0, ""))[0]):
                line["counts"] = format_counts(of_item)
            yield json.dumps(line, ensure_ascii=False)


def copy_files(records: Iterable[Record], folder: Path, base: Path) -> Iterator[Record]:
    """Copy the stored files of records to a folder, and yield the records with the new paths.

    :param folder: the folder for the copies. Files with equal contents are copied only once.
    :param base: a folder. The new ``source`` of each file is the path relative to this folder.
    :raises StorageError: if a file cannot be copied, or a stored file is damaged.
    """
    for record in records:
        copies = []
        for file in record.files:
            if file.source is None:
                copies.append(file)
                continue
            try:
                source = Path(file.source)
                copy = copy_content(source, file.sha256 or measure(source).sha256, folder)
            except OSError as error:
                raise StorageError(
                    f"file {file.path} of {record.identifiers[0]} can't be copied to {folder}: "
                    f"{error.strerror}: {error.filename}"
                ) from error
            except ValueError as error:
                raise StorageError(
                    f"file {file.path} of {record.identifiers[0]} is damaged; run flask ibi verify"
                ) from error
            copies.append(replace(file, source=Path(os.path.relpath(copy, base)).as_posix()))
        yield replace(record, files=tuple(copies))


def copy_content(source: Path, sha256: str, folder: Path) -> Path:
    """Copy a file to a folder and return the path of the copy.

    The name of the copy is the checksum of the file. If the folder already contains the copy,
    nothing is copied.

    :raises ValueError: if the file does not have the stated checksum.
    """
    target = folder / sha256
    if target.exists() and measure(target).sha256 == sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".new-{secrets.token_hex(8)}"
    try:
        with source.open("rb") as stream, new.open("xb") as copy:
            if copy_and_measure(stream, copy).sha256 != sha256:
                raise ValueError(f"{source} does not have the checksum {sha256}")
            copy.flush()
            os.fsync(copy.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return target
