"""The folder where the contents of files are kept, each under its own checksum.

A content is complete or not there: it is written beside its place, forced to the disk, and renamed
into it when the row that needs it is written. Equal contents are kept once.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage.folder_locks import locked
from flask_ibi_archive.storage.items import Content

BLOCK = 1 << 20
#: What a folder of contents on their way is called.
STAGING = ".new-"
#: Seconds after which what nobody needs may be taken out: what is younger may be on its way.
GRACE = 24 * 3600
_NAME = re.compile("[0-9a-f]{64}")


class StoredFile(NamedTuple):
    """A content as it lies in the folder."""

    sha256: str
    size: int
    modified: float


class FileStore:
    """A folder of contents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._durable: set[Path] = set()

    def make(self) -> None:
        """Make the folder, where it is missing.

        :raises StorageError: if it can't be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def path(self, sha256: str) -> Path:
        """Return where the content of a checksum is kept, or would be."""
        return self.folder / sha256[:2] / sha256[2:4] / sha256

    @contextmanager
    def staging(self) -> Iterator[Staging]:
        """Return a place for contents that may be kept; what was not is gone afterwards."""
        staging = Staging(self)
        try:
            yield staging
        finally:
            staging.clear()

    def make_place(self, sha256: str) -> None:
        """See that the folder of a content is there, and its name on the disk.

        :raises OSError: if it can't be made.
        """
        parent = self.path(sha256).parent
        folders = [self.folder, parent.parent, parent]
        if parent in self._durable and parent.is_dir():
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            folder.mkdir(exist_ok=True)
            # another process may have made it and not come so far as to force it to the disk
            sync_folder(folder.parent)
        self._durable.add(parent)

    def walk(self) -> Iterator[StoredFile]:
        """Return what is kept, in the order of the checksums; other files are passed over.

        :raises StorageError: if the folder can't be read.
        """
        try:
            for first in _names(self.folder):
                for second in _names(self.folder / first):
                    for name in _names(self.folder / first / second):
                        if _NAME.fullmatch(name) and name[:4] == first + second:
                            yield from self._look(name)
        except OSError as error:
            raise unreadable(self.folder, error) from error

    def _look(self, sha256: str) -> Iterator[StoredFile]:
        try:
            found = self.path(sha256).lstat()
        except FileNotFoundError:
            return
        yield StoredFile(sha256, found.st_size, found.st_mtime)

    def holds(self, content: Content) -> bool:
        """Tell whether a content is kept whole; if so, it is as good as new from now on."""
        path = self.path(content.sha256)
        try:
            if path.stat().st_size != content.size or measure(path) != content:
                return False
            os.utime(path)
        except OSError:
            return False
        return True

    def remove(self, sha256: str, before: float) -> int | None:
        """Take a content out if it came before a moment.

        :returns: its size; None where there is none so old.
        :raises StorageError: if it can't be taken out.
        """
        path = self.path(sha256)
        try:
            found = path.lstat()
            if found.st_mtime >= before:
                return None
            path.unlink()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unwritable(self.folder, error) from error
        return found.st_size

    def stale_stagings(self, before: float) -> list[Path]:
        """Return what processes that were killed before a moment have left behind."""
        try:
            found = sorted(self.folder.glob(f"{STAGING}*"))
        except OSError as error:
            raise unreadable(self.folder, error) from error
        return [path for path in found if _newest(path) < before]

    @contextmanager
    def in_use(self, *, alone: bool = False) -> Iterator[None]:
        """Keep contents that no row needs any more from being taken out by others meanwhile.

        :param alone: nobody else may rely on them: for who takes them out.
        :raises StorageError: if somebody is at work who bears no company.
        """
        with locked(self.folder, alone=alone) as free:
            if not free:
                raise StorageError(
                    f"a backup, or a verify --prune, is at work on the folder of files {self.folder}; "
                    "try again when it has ended"
                )
            yield


class Staging:
    """Contents that were taken in and may be kept: on the disk, but not yet in their places."""

    def __init__(self, folder: FileStore) -> None:
        self._folder = folder

    @cached_property
    def _place(self) -> Path:
        """A folder beside the contents, made when it is needed."""
        self._folder.make()
        try:
            return Path(tempfile.mkdtemp(prefix=STAGING, dir=self._folder.folder))
        except OSError as error:
            raise unwritable(self._folder.folder, error) from error

    def clear(self) -> None:
        """Take out what was not kept."""
        if "_place" in self.__dict__:
            shutil.rmtree(self._place, ignore_errors=True)

    def take(self, source: Path) -> Content:
        """Copy a file in.

        :raises OSError: if the file can't be read.
        :raises StorageError: if the copy can't be written.
        """
        with source.open("rb") as stream:
            return self.take_stream(stream)

    def take_stream(self, stream: Readable) -> Content:
        """Copy a stream in; see :meth:`take`."""
        with _Target(self._place / "new", self._folder.folder) as new:
            content = copy_and_measure(stream, new)
            new.finish(self._place / content.sha256)
        return content

    def keep(self, content: Content) -> None:
        """Put a content that was taken in where it is kept, in place of what is there.

        To be called in the transaction that needs it, after its rows are written: that
        transaction's lock keeps the content from being taken for one that no row needs. What is
        there already may be damaged; what was taken in is whole, and new.

        :raises StorageError: if its place can't be written.
        """
        place = self._folder.path(content.sha256)
        staged = self._place / content.sha256
        try:
            self._folder.make_place(content.sha256)
            os.utime(staged if staged.exists() else place)
            if staged.exists():
                staged.replace(place)
                sync_folder(place.parent)
        except OSError as error:
            raise unwritable(self._folder.folder, error) from error


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, none at the end."""


class _Target:
    """A new file; what goes wrong in writing it is told from what goes wrong in reading its source."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._folder = folder
        with self._told():
            self._target = path.open("wb")

    def __enter__(self) -> _Target:
        return self

    def __exit__(self, *error: object) -> None:
        self._target.close()

    def write(self, block: bytes) -> None:
        """Write some bytes."""
        with self._told():
            self._target.write(block)

    def finish(self, path: Path) -> None:
        """Force the file to the disk, under its final name."""
        with self._told():
            self._target.flush()
            os.fsync(self._target.fileno())
            self._target.close()
            self._path.replace(path)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self._folder, error) from error


def unwritable(folder: Path, error: OSError) -> StorageError:
    """Return the error of a folder of contents that can't be written."""
    return StorageError(
        f"the folder of files {folder} can't be written: {error.strerror or error}; see that "
        "IBI_FILES_FOLDER names one that can"
    )


def unreadable(folder: Path, error: OSError) -> StorageError:
    """Return the error of a folder of contents that can't be read."""
    return StorageError(
        f"the folder of files {folder} can't be read: {error.strerror or error}; see that "
        "IBI_FILES_FOLDER names one that can"
    )


def measure(source: Path, progress: Callable[[int], None] | None = None) -> Content:
    """Return checksum and size of a file, keeping nothing.

    :param progress: told the number of bytes that were read since it was told last.
    """
    with source.open("rb") as stream:
        return copy_and_measure(
            stream if progress is None else ProgressReader(stream, progress), None
        )


class ProgressReader:
    """A stream that tells how much was read of it."""

    def __init__(self, stream: Readable | BinaryIO, progress: Callable[[int], None]) -> None:
        self._stream = stream
        self._progress = progress

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, none at the end."""
        block = self._stream.read(size)
        self._progress(len(block))
        return block


class Writable(Protocol):
    """What bytes can be written to."""

    def write(self, block: bytes, /) -> object:
        """Write some bytes."""


def copy_and_measure(stream: Readable | BinaryIO, target: Writable | None) -> Content:
    """Copy a stream, if somewhere, and give its checksum and size."""
    digest = hashlib.sha256()
    size = 0
    while block := stream.read(BLOCK):
        digest.update(block)
        size += len(block)
        if target is not None:
            target.write(block)
    return Content(digest.hexdigest(), size)


def _names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _newest(path: Path) -> float:
    """Return when a folder, or what lies in it, was written last."""
    try:
        return max(found.lstat().st_mtime for found in (path, *path.glob("*")))
    except OSError:  # its process has just taken it away
        return time.time()


def sync_folder(folder: Path) -> None:
    """Force new names to the disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders, and one may be for writing only
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)
