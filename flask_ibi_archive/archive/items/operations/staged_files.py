"""Stages the files that a host gives to an operation, and deletes them if the host rolls back.

An operation moves its files to the store before the host commits. If the host rolls back, also to a
savepoint, no item needs these files. They are deleted at the end of the transaction of the host.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from sqlalchemy.orm import Session, SessionTransaction

from flask_ibi_archive.archive.items.file_io import Content, copy_and_measure, read_source
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.item_parts import find_needed_checksums, remove_unneeded
from flask_ibi_archive.archive.items.operations.description import Files
from flask_ibi_archive.archive.items.operations.sessions import get_part
from flask_ibi_archive.archive.items.staging import Staging
from flask_ibi_archive.core.records.fields import FieldError, parse_path, quoted
from flask_ibi_archive.core.records.record import FileRecord
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched

#: The description of a FileSource in messages.
FILE_FORMS = (
    "a path (text or Path), a file open in binary mode, an upload, or a name with one of these"
)
#: The maximum number of seconds to wait for locks. If a lock is not free, the files are deleted
#: after the next rollback, or with ``flask ibi verify --prune``.
LOCK_TIMEOUT = 0.1


def stage_files(
    staging: Staging, files: Files, stored: Mapping[str, Content] = MappingProxyType({})
) -> tuple[tuple[FileRecord, ...], dict[str, Content]]:
    """Copy files to the staging folder.

    :param stored: the stored contents of the item, by file name. A file on disk that certainly has
        the same content (:meth:`.Content.is_current`) is not read, and a file that has it is not
        copied.
    :returns: the records of the files, and the new contents by file name, also those that differ
        from the stored contents in their sources only. A file on another server has no content.
    :raises StorageError: if two files have the same name, or if a file cannot be read.
    """
    named = [name_file(number, file) for number, file in enumerate(list_files(files))]
    records: dict[str, FileRecord] = {}
    contents: dict[str, Content] = {}
    for path, file in named:
        if path in records:
            raise StorageError(
                f"two files are named {path}; the files of an item need different names"
            )
        if isinstance(file, FileRecord):
            records[path] = file
            continue
        old = stored.get(path)
        try:
            content = _stage(staging, file, old)
        except OSError as error:
            where = file if isinstance(file, Path) else path
            raise StorageError(f"{where} can't be read: {error.strerror or error}") from error
        if content is not old:
            contents[path] = content
        records[path] = FileRecord(path, sha256=content.sha256)
    return tuple(records.values()), contents


def _stage(staging: Staging, file: Path | IO[bytes], old: Content | None) -> Content:
    """Return the content of a file, which is copied unless its content is the stored one.

    :raises OSError: if the file cannot be read.
    """
    if not isinstance(file, Path):
        return staging.add_stream(file)
    if old is not None:
        if old.is_current(file):
            return old
        # a file of another size is not read twice
        if file.stat().st_size == old.size:
            content = read_source(file, lambda stream: copy_and_measure(stream, None))
            if content == old:
                return content
    return staging.add(file)


def list_files(files: Any) -> list[Any]:
    """Return the files of an item as a list. For a single file, the list has one file.

    :raises StorageError: if the value is neither a file nor a sequence of files.
    """
    if isinstance(files, (str, os.PathLike, FileRecord)) or hasattr(files, "read"):
        return [files]
    if isinstance(files, (Sequence, Iterator)) and not isinstance(files, (bytes, bytearray)):
        return list(files)
    raise StorageError(
        f"files: {quoted(files)} is not a list of files; each file must be {FILE_FORMS}"
    )


def name_file(number: int, file: Any) -> tuple[str, Path | IO[bytes] | FileRecord]:
    """Return the name that a file gets in the item, and the path or the stream of its content.

    A FileRecord without ``source`` is returned as it is, because its file is on another server.

    :param number: the position of the file in the list, from 0.
    :param file: one file of :data:`~.description.Files`.
    :raises StorageError: if the file is none of :data:`FILE_FORMS`, or if its name is wrong.
    """
    field = f"files[{number}]"
    name: object = None
    if isinstance(file, FileRecord):
        if file.source is None:
            return _check_path(field, file.path), file
        name, file = file.path, file.source
    elif isinstance(file, tuple) and len(file) == 2:
        name, file = file
    elif not isinstance(file, (str, os.PathLike)) and hasattr(file, "filename"):
        if file.filename == "":  # a form whose file was left out
            raise StorageError(f"{field}: the upload is empty, because the user chose no file")
        name, file = Path(file.filename or "").name or None, file.stream
    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
    if isinstance(path, str):
        if "\0" in path:
            raise StorageError(
                f"{field}: {quoted(path)} contains a NUL character, which paths cannot contain"
            )
        return _check_path(field, name) if name else _check_name(path), Path(path)
    if not hasattr(file, "read"):
        raise StorageError(f"{field}: {quoted(file)} is not {FILE_FORMS}")
    try:
        is_binary = isinstance(file.read(0), bytes)
    # the file is closed, or open only for writing
    except (OSError, TypeError, ValueError) as error:
        raise StorageError(f"{field}: {quoted(file)} can't be read: {error}") from error
    if not is_binary:
        raise StorageError(
            f"{field}: {quoted(file)} is open in text mode; open it in binary mode ('rb')"
        )
    if name:
        return _check_path(field, name), file
    # the attribute name of an anonymous temporary file is a number
    path = getattr(file, "name", None)
    return _check_name(path) if isinstance(path, str) else f"file-{number + 1}", file


def _check_path(field: str, path: object) -> str:
    try:
        return parse_path(field, path)
    except FieldError as error:
        raise StorageError(str(error)) from error


def _check_name(path: str) -> str:
    try:
        return parse_path("file", Path(path).name)
    except FieldError as error:
        raise StorageError(f"{path!r}: {error.reason}") from error


@dataclass
class NewFiles:
    """The files that were added to a store in the present transaction of a session.

    :ivar checksums: the checksums of the files.
    :ivar operations: the number of operations that added files. A later operation may replace a
        file of an earlier operation, which is then unneeded.
    :ivar rolled_back: whether the host has rolled back, also to a savepoint.
    """

    database: Database
    store: FileStore
    checksums: set[str] = field(default_factory=set)
    operations: int = 0
    rolled_back: bool = False

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """Delete unneeded files at the end of the transaction of the host."""
        self.rolled_back = self.rolled_back or not is_committed
        if transaction.parent is not None or not (self.checksums or self.store.unneeded):
            return
        if self.rolled_back or self.operations > 1:
            self._remove_unneeded()

    def _remove_unneeded(self) -> None:
        """Delete the files that no item needs, or keep them in the list if a lock is not free."""
        self.checksums |= self.store.unneeded
        self.store.unneeded = self.checksums
        if self._are_needed():
            self.store.unneeded = set()
            return
        with suppress(StorageError):
            with self.database.writing(LOCK_TIMEOUT) as connection:
                remove_unneeded(connection, self.store, sorted(self.checksums), math.inf)
            self.store.unneeded = set()

    def _are_needed(self) -> bool:
        """Return whether committed items need all files of ``checksums``.

        Then no file must be deleted, and no lock is necessary.
        """
        with suppress(StorageError):
            return all(
                len(self.database.read(partial(find_needed_checksums, checksums=part))) == len(part)
                for part in batched(self.checksums)
            )
        return False


@contextmanager
def stage_for_session(session: Session, database: Database, store: FileStore) -> Iterator[Staging]:
    """Yield a staging folder. If the host rolls back, the files of the operation are deleted."""
    files = get_part(session, store, lambda: NewFiles(database, store))
    files.operations += 1
    with store.staging(files.checksums.add) as staging:
        yield staging
