"""The folder of stored files (the setting IBI_FILES_FOLDER).

The name of a file is the checksum of its content. Therefore equal files are stored only once. The
store never contains an incomplete file: a new file is first written to a staging folder and to the
disk. The transaction that writes the database row of the file then moves the file to its path.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from flask_ibi_archive.archive.items.file_io import Content, measure
from flask_ibi_archive.archive.items.staging import NAME, STAGING, Staging
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.files import sync_folder

#: An unneeded file may be deleted if the file is older than this number of seconds. A newer file
#: may belong to a transaction that is not committed yet.
GRACE = 24 * 3600


class StoredFile(NamedTuple):
    """A file in the folder, and its modification time in POSIX seconds."""

    sha256: str
    modified: float


class FileStore:
    """A folder of stored files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: The folders that certainly remain after a crash of the computer.
        self._durable: set[Path] = set()
        #: The checksums of files that a host has rolled back, and that are not deleted yet.
        self.unneeded: set[str] = set()

    def create(self) -> None:
        """Create the folder if it does not exist.

        :raises StorageError: if the folder cannot be created.
        """
        with self.explain_errors("written"):
            self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Return the path of the file with a checksum, even if the file does not exist."""
        return self.folder / sha256[:2] / sha256[2:4] / sha256

    @contextmanager
    def staging(self, on_new: Callable[[str], None] = lambda sha256: None) -> Iterator[Staging]:
        """Yield a staging folder, which is deleted at the end.

        :param on_new: called with the checksum of each file that is new in the store.
        """
        staging = Staging(self, on_new)
        try:
            yield staging
        finally:
            staging.clear()

    # --- reading ---------------------------------------------------------------------------------

    def walk(self) -> Iterator[StoredFile]:
        """Yield the stored files. All other files in the folder are ignored.

        :raises StorageError: if the folder cannot be read.
        """
        with self.explain_errors("read"):
            for path in self.folder.glob("??/??/*"):
                # another process may have just deleted the file
                with suppress(FileNotFoundError):
                    if NAME.fullmatch(path.name) and path == self.path(path.name):
                        yield StoredFile(path.name, path.lstat().st_mtime)

    def has_undamaged_file(self, content: Content) -> bool:
        """Return whether the store contains an undamaged file with this content.

        If the result is True, the modification time of the file is now the current time.
        """
        path = self.path(content.sha256)
        try:
            if path.stat().st_size != content.size or measure(path) != content:
                return False
            os.utime(path)
        except OSError:
            return False
        return True

    def find_stale_stagings(self, before: float) -> list[Path]:
        """Return the staging folders that processes did not delete, because they were killed.

        :param before: a folder is returned if nothing in the folder changed after this time, which
            is in POSIX seconds.
        :raises StorageError: if the folder of files cannot be read.
        """
        with self.explain_errors("read"):
            stagings = sorted(self.folder.glob(f"{STAGING}*"))
        return [path for path in stagings if _last_modified(path) < before]

    # --- writing ---------------------------------------------------------------------------------

    def remove(self, sha256: str, before: float) -> None:
        """Delete a file if it is old.

        :param before: the file is deleted if it was last modified before this time, which is in
            POSIX seconds.
        :raises StorageError: if the file cannot be deleted.
        """
        path = self.path(sha256)
        with self.explain_errors("written"), suppress(FileNotFoundError):
            if path.lstat().st_mtime < before:
                path.unlink()

    @contextmanager
    def explain_errors(self, verb: str) -> Iterator[None]:
        """Replace an OSError by a StorageError that names the folder and the setting.

        :param verb: "read" or "written", for the message "the folder can't be read".
        """
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"the folder of files {self.folder} can't be {verb}: {error.strerror or error}; "
                f"set IBI_FILES_FOLDER to a folder that can be {verb}"
            ) from error

    def create_parents(self, parent: Path) -> None:
        """Create the folder of a stored file and all folders above this folder.

        When the method returns, the folders are on the disk, and remain after a crash.


        :raises OSError: if a folder cannot be created.
        """
        if parent in self._durable and parent.is_dir():
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, parent.parent, parent):
            folder.mkdir(exist_ok=True)
            # even if the folder exists: another process may have created it without sync_folder()
            sync_folder(folder.parent)
        self._durable.add(parent)


def _last_modified(path: Path) -> float:
    """Return the time when a folder or one of its files was last modified."""
    try:
        return max(changed.lstat().st_mtime for changed in (path, *path.glob("*")))
    except OSError:  # another process has just deleted the folder
        return time.time()
