"""The folder of stored files (IBI_FILES_FOLDER): each is stored once, named by its checksum.

A file is either complete or absent: it is written to a staging folder, forced to the disk, and
moved to its place in the transaction that writes its row.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage.file_io import (
    Readable,
    copy_and_measure,
    lock_folder,
    measure,
    sync_folder,
)
from flask_ibi_archive.storage.items import Content

#: The names of staging folders begin with this.
STAGING = ".new-"
#: Seconds before an unneeded file may be deleted: a younger one may belong to an open transaction.
GRACE = 24 * 3600
_NAME = re.compile("[0-9a-f]{64}")


class StoredFile(NamedTuple):
    """A file in the folder; ``modified`` is in POSIX seconds."""

    sha256: str
    size: int
    modified: float


class FileStore:
    """A folder of stored files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._durable: set[Path] = set()

    def create(self) -> None:
        """Create the folder if it does not exist.

        :raises StorageError: if it cannot be created.
        """
        with self.explain_write_errors():
            self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Return the path of the file with a checksum, whether it exists or not."""
        return self.folder / sha256[:2] / sha256[2:4] / sha256

    @contextmanager
    def staging(self) -> Iterator[Staging]:
        """Return a staging area; files that were not moved to the store are deleted at the end."""
        staging = Staging(self)
        try:
            yield staging
        finally:
            staging.clear()

    @contextmanager
    def locked(self, *, exclusive: bool = False) -> Iterator[None]:
        """Lock the folder, so that no other process deletes unneeded files meanwhile.

        :param exclusive: for the process that deletes files; it must be alone.
        :raises StorageError: if another process holds a lock that excludes this one.
        """
        with lock_folder(self.folder, exclusive=exclusive) as locked:
            if not locked:
                raise StorageError(
                    f"another backup or verify --prune is using the folder of files {self.folder}; "
                    "try again when it has ended"
                )
            yield

    # --- reading ---------------------------------------------------------------------------------

    def walk(self) -> Iterator[StoredFile]:
        """Yield the stored files in the order of their checksums; other files are ignored.

        :raises StorageError: if the folder cannot be read.
        """
        with self._explain_read_errors():
            for first in _names(self.folder):
                for second in _names(self.folder / first):
                    for name in _names(self.folder / first / second):
                        if _NAME.fullmatch(name) and name[:4] == first + second:
                            try:
                                found = self.path(name).lstat()
                            except FileNotFoundError:
                                continue
                            yield StoredFile(name, found.st_size, found.st_mtime)

    def has_intact(self, content: Content) -> bool:
        """Tell whether a file is stored undamaged; if so, set its modification time to now."""
        path = self.path(content.sha256)
        try:
            if path.stat().st_size != content.size or measure(path) != content:
                return False
            os.utime(path)
        except OSError:
            return False
        return True

    def stale_stagings(self, before: float) -> list[Path]:
        """Return the staging folders of killed processes that were last used before a time."""
        with self._explain_read_errors():
            found = sorted(self.folder.glob(f"{STAGING}*"))
        return [path for path in found if _last_modified(path) < before]

    # --- writing ---------------------------------------------------------------------------------

    def create_parents(self, sha256: str) -> None:
        """Create the folders above the path of a file and force their names to the disk.

        :raises OSError: if they cannot be created.
        """
        parent = self.path(sha256).parent
        if parent in self._durable and parent.is_dir():
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, parent.parent, parent):
            folder.mkdir(exist_ok=True)
            # another process may have created it and not yet forced it to the disk
            sync_folder(folder.parent)
        self._durable.add(parent)

    def remove(self, sha256: str, before: float) -> int | None:
        """Delete a file that was last modified before a time.

        :returns: its size; None if there is no such file, or only a newer one.
        :raises StorageError: if it cannot be deleted.
        """
        path = self.path(sha256)
        with self.explain_write_errors():
            try:
                found = path.lstat()
                if found.st_mtime >= before:
                    return None
                path.unlink()
            except FileNotFoundError:
                return None
        return found.st_size

    @contextmanager
    def explain_write_errors(self) -> Iterator[None]:
        """Turn an OSError into a StorageError that names the folder and the setting."""
        with self._explain("written"):
            yield

    @contextmanager
    def _explain_read_errors(self) -> Iterator[None]:
        with self._explain("read"):
            yield

    @contextmanager
    def _explain(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the folder of files {self.folder} can't be {verb}: {error.strerror or error}; "
                f"set IBI_FILES_FOLDER to a folder that can be {verb}"
            ) from error


class Staging:
    """Files that are complete and on the disk, but not yet at their places in the store."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    @cached_property
    def _folder(self) -> Path:
        """The staging folder, in the folder of files; it is created when it is first needed."""
        self._store.create()
        with self._store.explain_write_errors():
            return Path(tempfile.mkdtemp(prefix=STAGING, dir=self._store.folder))

    def clear(self) -> None:
        """Delete the files that were not moved to the store."""
        if "_folder" in self.__dict__:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, path: Path) -> Content:
        """Copy a file to the staging area and return its checksum and size.

        :raises OSError: if the file cannot be read.
        :raises StorageError: if the copy cannot be written.
        """
        with path.open("rb") as stream:
            return self.add_stream(stream)

    def add_stream(self, stream: Readable) -> Content:
        """Copy a stream to the staging area; see :meth:`add`."""
        with _StagedFile(self._folder / "new", self._store) as new:
            content = copy_and_measure(stream, new)
            new.finish(self._folder / content.sha256)
        return content

    def move_to_store(self, content: Content) -> None:
        """Move a staged file to its place in the store; it replaces a file that may be damaged.

        Call it in the transaction that writes the row, after the row: the lock of that transaction
        keeps the file from being deleted as unneeded.

        :raises StorageError: if its place cannot be written.
        """
        place = self._store.path(content.sha256)
        staged = self._folder / content.sha256
        with self._store.explain_write_errors():
            self._store.create_parents(content.sha256)
            # a file that two items need was moved already
            os.utime(staged if staged.exists() else place)
            if staged.exists():
                staged.replace(place)
                sync_folder(place.parent)


class _StagedFile:
    """A new file whose write errors name the folder; read errors of the source stay as they are."""

    def __init__(self, path: Path, store: FileStore) -> None:
        self._path = path
        self._store = store
        with store.explain_write_errors():
            self._file = path.open("wb")

    def __enter__(self) -> _StagedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, block: bytes) -> None:
        """Write some bytes."""
        with self._store.explain_write_errors():
            self._file.write(block)

    def finish(self, path: Path) -> None:
        """Force the file to the disk and give it its final name."""
        with self._store.explain_write_errors():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._path.replace(path)


def _names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; an empty list if the folder does not exist."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _last_modified(path: Path) -> float:
    """Return when a folder, or a file in it, was last modified."""
    try:
        return max(found.lstat().st_mtime for found in (path, *path.glob("*")))
    except OSError:  # its process has just deleted it
        return time.time()
