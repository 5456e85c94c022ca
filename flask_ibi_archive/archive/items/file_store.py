"""The folder of stored files (the setting IBI_FILES_FOLDER).

The name of a file is the checksum of its content. Therefore equal files are stored only once. The
store never contains an incomplete file: a new file is first written to a staging folder and to the
disk. The transaction that writes the database row of the file then moves the file to its path.

Each Archive that uses the folder has an entry there (:class:`.FolderEntry`). Unneeded files are
only deleted if all entries are known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from flask_ibi_archive.archive.items.file_io import Content, FolderEntry, check_entries, measure
from flask_ibi_archive.archive.items.staging import NAME, STAGING, Staging
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.files import lock_folder, new_file, sync_folder

#: An unneeded file may be deleted if the file is older than this number of seconds. A newer file
#: may belong to a transaction that is not committed yet.
GRACE = 24 * 3600


class StoredFile(NamedTuple):
    """A file in the folder: its size in bytes and its modification time in POSIX seconds."""

    sha256: str
    size: int
    modified: float


class FileStore:
    """A folder of stored files.

    :param get_entry: returns the entry of the Archive that adds files, which is then written to the
        folder. None: the caller must call :meth:`enter`.
    """

    def __init__(
        self, folder: Path, get_entry: Callable[[FileStore], FolderEntry] | None = None
    ) -> None:
        self.folder = folder
        self.get_entry = get_entry
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

    def enter(self, entry: FolderEntry) -> None:
        """Write the entry of an Archive into the folder, unless it is there.

        :raises StorageError: if the entry cannot be written.
        """
        path = self.folder / entry.name
        if not path.exists():
            self.create()
            with new_file(path, 0o644) as file:
                file.write(f"{entry.text}\n".encode())

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

    @contextmanager
    def locked(self, *, exclusive: bool = False) -> Iterator[None]:
        """Prevent other processes from deleting unneeded files during the ``with`` block.

        :param exclusive: True if this process deletes files. Then no other process may hold a lock.
        :raises StorageError: if the lock of another process prevents this lock.
        """
        with lock_folder(self.folder, exclusive=exclusive) as locked:
            if not locked:
                raise StorageError(
                    f"another backup or verify --prune is using the folder of files {self.folder}; "
                    "try again when the other command has ended"
                )
            yield

    # --- reading ---------------------------------------------------------------------------------

    def walk(self) -> Iterator[StoredFile]:
        """Yield the stored files in the order of their checksums.

        Other files are ignored.

        :raises StorageError: if the folder cannot be read.
        """
        with self.explain_errors("read"):
            for path in self._list_paths():
                if self._is_stored_file(path):
                    try:
                        status = path.lstat()
                    except FileNotFoundError:
                        continue
                    yield StoredFile(path.name, status.st_size, status.st_mtime)

    def check_users(self, own: FolderEntry, known: Collection[FolderEntry]) -> None:
        """Check that only known Archives use the folder, and that it contains no unknown files.

        :param own: the entry that the folder must contain.
        :param known: all entries that the folder may contain.
        :raises StorageError: if the check fails. The message says what to do.
        """
        with self.explain_errors("read"):
            others = (path for path in self._list_paths() if not self._is_stored_file(path))
            check_entries(self.folder, others, own, known)

    def _list_paths(self) -> Iterator[Path]:
        """Yield the paths of stored files in the order of their names, and all unknown paths."""
        for outer in _list_folder(self.folder):
            for inner in _list_folder(outer) if len(outer.name) == 2 else [outer]:
                yield from _list_folder(inner) if len(inner.name) == 2 else [inner]

    def _is_stored_file(self, path: Path) -> bool:
        """Return whether a path is that of a stored file: its name and its folders are right."""
        return bool(NAME.fullmatch(path.name)) and path == self.path(path.name)

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

    def remove(self, sha256: str, before: float) -> int | None:
        """Delete an old file.

        :param before: the file is deleted if it was last modified before this time, which is in
            POSIX seconds.
        :returns: the size of the deleted file; None if no file was deleted.
        :raises StorageError: if the file cannot be deleted.
        """
        path = self.path(sha256)
        with self.explain_errors("written"):
            try:
                status = path.lstat()
                if status.st_mtime >= before:
                    return None
                path.unlink()
            except FileNotFoundError:
                return None
        return status.st_size

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


def _list_folder(folder: Path) -> list[Path]:
    """Return the sorted paths in a folder.

    The list is empty if the folder does not exist. Names that begin with a dot are omitted, and
    the folder lost+found of a file system.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in names if name != "lost+found"]


def _last_modified(path: Path) -> float:
    """Return the time when a folder or one of its files was last modified."""
    try:
        return max(changed.lstat().st_mtime for changed in (path, *path.glob("*")))
    except OSError:  # another process has just deleted the folder
        return time.time()
