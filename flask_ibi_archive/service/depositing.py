"""Takes a new item into an Archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.records.fields import FieldError, a_path
from flask_ibi_archive.records.record import FileRecord, ItemRecord
from flask_ibi_archive.service.minting import Minted, Minter
from flask_ibi_archive.storage.contents import ContentFolder
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.rules import explain


def deposit(
    database: Database,
    archive_id: int,
    folder: ContentFolder,
    minter: Minter,
    record: ItemRecord,
    files: Sequence[Path] = (),
) -> Minted:
    """Deposit an item: take its files in, give it an IBI in both forms, write it down.

    :param record: what is known of it, without identifiers.
    :param files: its files, each under its own name; the first is the target file.
    :returns: its identifiers. They are used up even if writing the item fails.
    :raises StorageError: if a file can't be taken in (nothing was written then), or a rule refuses it.
    :raises MintingError: if there is no identifier now.
    """
    paths = [_name(file) for file in files]
    for path in paths:
        if paths.count(path) > 1:
            raise StorageError(f"two files are called {path}; an item has each name once")
    with folder.staging() as staging:
        contents = {}
        for path, file in zip(paths, files, strict=True):
            try:
                contents[path] = staging.take(file)
            except OSError as error:
                raise StorageError(f"{file} can't be taken in: {error.strerror}") from error
        [minted] = minter.mint()
        record = replace(
            record,
            rep=minted.rep,
            ibip=minted.ibip,
            files=tuple(FileRecord(path, sha256=contents[path].sha256) for path in paths),
        )
        now = datetime.now(timezone.utc).replace(microsecond=0)
        try:
            with database.writing() as connection:
                store = ItemStore(connection, archive_id)
                store.lock_ties()
                [item_id] = store.insert_items([record], [contents], now)
                store.tie(item_id, record)
                for content in contents.values():
                    staging.keep(content)
        except IntegrityError as error:
            raise explain(error, minted.rep) or StorageError(str(error.orig)) from error
    return minted


def _name(file: Path) -> str:
    try:
        return a_path("file", file.name)
    except FieldError as error:
        raise StorageError(f"{str(file)!r}: {error.reason}") from error
