"""The store of files, and the staging folders where new files are written first."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol
from urllib.parse import quote

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.atomic_files import sync_folder

# --- file io -----------------------------------------------------------------------------------


#: The number of bytes that one call reads from a file.
BLOCK = 1 << 20

#: A file that was changed less than this number of nanoseconds before it was read may change again
#: without another modification time: the clocks of file systems advance in steps of up to 10 ms.
CLOCK_STEP = 10_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """The file on the host's disk from which a stored file was copied.

    :param path: the path as the host names it, percent-encoded, because paths need not be UTF-8.
    :param modified: the modification time in nanoseconds since 1970; None: the time proves nothing,
        because the file may have changed once more at this same time.
    """

    path: str
    modified: int | None


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a stored file: its checksum (SHA-256, hexadecimal) and its size in bytes.

    :param source: the file on disk from which it was copied; None if unknown. It is ignored when
        two contents are compared.
    """

    sha256: str
    size: int
    source: Source | None = field(default=None, compare=False)

    def is_current(self, path: Path) -> bool:
        """Return whether a file on disk still has this content, without reading the file.

        Only the size and the time of change are compared. The result is False if the content was
        not copied from this path, and True if the file is gone or cannot be examined.
        """
        source = self.source
        if source is None or source.path != quote(os.fsencode(path)):
            return False
        try:
            status = path.stat()
        except OSError:
            return True
        return (status.st_size, status.st_mtime_ns) == (self.size, source.modified)


class Readable(Protocol):
    """A stream from which bytes can be read."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; b"" at the end."""


def copy_and_measure(stream: Readable, target: BinaryIO | None) -> Content:
    """Copy a stream and return its checksum and size.

    :param target: the stream that receives the bytes; None if the bytes are only measured.
    """
    digest = hashlib.sha256()
    size = 0
    while block := stream.read(BLOCK):
        digest.update(block)
        size += len(block)
        if target is not None:
            target.write(block)
    return Content(digest.hexdigest(), size)


def measure(path: Path) -> Content:
    """Return the checksum and the size of a file.

    :raises OSError: if the file cannot be read.
    """
    with path.open("rb") as stream:
        return copy_and_measure(stream, None)


def read_source(path: Path, read: Callable[[BinaryIO], Content]) -> Content:
    """Read a file of the host, and return its content, with the file as the source.

    :param read: reads the open file, and returns its checksum and size.
    :raises OSError: if the file cannot be read.
    """
    with path.open("rb") as stream:
        before = os.fstat(stream.fileno()).st_mtime_ns
        content = read(stream)
        after = os.fstat(stream.fileno()).st_mtime_ns
    is_certain = before == after < time.time_ns() - CLOCK_STEP
    source = Source(quote(os.fsencode(path)), after if is_certain else None)
    return replace(content, source=source)


# --- staging -----------------------------------------------------------------------------------


#: The names of staging folders begin with this text.
STAGING = ".new-"
#: The name of a stored file: its checksum.
NAME = re.compile("[0-9a-f]{64}")


@dataclass
class Staging:
    """A folder with new files that are complete, but not yet in the store.

    :param on_new: called with the checksum of each file that is new in the store.
    :param name: the name of a folder that is used again if the process is killed. None: a new
        folder.
    """

    store: FileStore
    on_new: Callable[[str], None] = lambda sha256: None
    name: str | None = None

    @cached_property
    def _folder(self) -> Path:
        """The path of the staging folder. The first use creates the folder."""
        folder = self.store.folder / f"{STAGING}{self.name}"
        try:
            self.store.folder.mkdir(parents=True, exist_ok=True)
            if self.name is None:
                return Path(tempfile.mkdtemp(prefix=STAGING, dir=self.store.folder))
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise self.store.explain(error, "written") from error
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of this named folder during the ``with`` block.

        :raises StorageError: if another process uses the folder.
        """
        folder = self._folder
        if os.name != "posix":  # no locks of folders
            yield
            return
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                reason = f"another process is using {folder}; wait until it has ended"
                raise StorageError(reason) from error
            except OSError:  # the file system does not support locks
                pass
            yield
        finally:
            os.close(handle)

    @contextmanager
    def receive(self, content: Content) -> Iterator[PartialFile]:
        """Yield a partial file to which the caller writes, and check it at the end of the block.

        If an exception or a kill ends the block, the next call for the same content continues the
        file.

        :param content: the checksum and size that the complete file must have.
        :raises StorageError: if the file cannot be written, or has another content at the end.
        """
        path = self._folder / f"{content.sha256}.part"
        with self.store.explain_errors("written"), path.open("a+b") as file:
            partial = PartialFile(self.store, file, content)
            yield partial
            file.seek(0)
            if copy_and_measure(file, None) != content:
                path.unlink()
                raise StorageError("the content is not the stated one: size or SHA-256 differ")
            os.fsync(file.fileno())
            path.replace(self._folder / content.sha256)

    def has(self, content: Content) -> bool:
        """Return whether the folder contains a complete file with this content."""
        return (self._folder / content.sha256).exists()

    def clear(self) -> None:
        """Delete the files that were not moved to the store."""
        if "_folder" in self.__dict__:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add_stream(self, stream: Readable) -> Content:
        """Copy a stream to the staging folder and return its checksum and size.

        :raises OSError: if the stream cannot be read.
        :raises StorageError: if the copy cannot be written.
        """
        source = _Source(stream)
        new = self._folder / "new"
        try:
            with new.open("wb") as file:
                content = copy_and_measure(source, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._folder / content.sha256)
        except OSError as error:
            if error is source.error:
                raise
            raise self.store.explain(error, "written") from error
        return content

    def move_to_store(self, content: Content) -> None:
        """Move a file from the staging folder to its place in the store.

        An old file with the same checksum is replaced, because the old file may be damaged.

        Call this method after the row of the file was written, and in the same transaction. The
        lock of this transaction prevents other processes from deleting the file as unneeded.

        :raises StorageError: if the file cannot be moved.
        """
        path, staged = self.store.path(content.sha256), self._folder / content.sha256
        try:
            self.store.create_parents(path.parent)
            # If two new items have this file, the first call has moved the file already.
            os.utime(staged if staged.exists() else path)
            if staged.exists():
                if not path.exists():
                    self.on_new(content.sha256)
                staged.replace(path)
                sync_folder(path.parent)
        except OSError as error:
            raise self.store.explain(error, "written") from error

    def move_all_to_store(self) -> None:
        """Move all files from the staging folder to the store, as :meth:`move_to_store` does."""
        if "_folder" in self.__dict__:
            for path in [*self._folder.iterdir()]:
                if NAME.fullmatch(path.name):
                    self.move_to_store(Content(path.name, path.stat().st_size))


class PartialFile:
    """A file of which the beginning is stored; see :meth:`Staging.receive`.

    :ivar size: the number of bytes that are stored.
    """

    def __init__(self, store: FileStore, file: BinaryIO, content: Content) -> None:
        self._store, self._file, self._content = store, file, content
        self.size: int = file.seek(0, os.SEEK_END)
        if self.size > content.size:
            self.restart()

    def restart(self) -> None:
        """Discard what is stored."""
        self._file.truncate(0)
        self.size = 0

    def write(self, block: bytes) -> None:
        """Append the next bytes.

        :raises StorageError: if the file becomes longer than stated, or if it cannot be written.
        """
        if self.size + len(block) > self._content.size:
            self.restart()
            raise StorageError(f"the file is longer than the stated {self._content.size} bytes")
        with self._store.explain_errors("written"):
            self._file.write(block)
        self.size += len(block)


class _Source:
    """A stream that notes a read error in ``error``.

    Therefore the caller can distinguish read errors of the stream from write errors of the copy.
    """

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; b"" at the end."""
        try:
            return self._stream.read(size)
        except OSError as error:
            self.error = error
            raise


# --- file store --------------------------------------------------------------------------------


#: An unneeded file may be deleted if the file is older than this number of seconds. A newer file
#: may belong to a transaction that is not committed yet.
GRACE = 24 * 3600


class StoredFile(NamedTuple):
    """A file in the store, and its modification time in POSIX seconds."""

    sha256: str
    modified: float


class FileStore:
    """The folder of stored files, which are named by their checksums."""

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
        """Yield a staging folder, which is deleted at the end of the ``with`` block.

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

        If so, set the modification time of the file to the current time, so that it is not deleted.
        """
        path = self.path(content.sha256)
        with suppress(OSError):
            if path.stat().st_size == content.size and measure(path) == content:
                os.utime(path)
                return True
        return False

    def find_stale_stagings(self, before: float) -> list[Path]:
        """Return the staging folders that killed processes have left behind.

        :param before: a folder is returned if nothing in the folder changed after this time, which
            is in POSIX seconds.
        :raises StorageError: if the folder of files cannot be read.
        """
        with self.explain_errors("read"):
            stagings = sorted(self.folder.glob(f"{STAGING}*"))
        return [path for path in stagings if _last_modified(path) < before]

    # --- writing ---------------------------------------------------------------------------------

    def remove(self, sha256: str, before: float) -> None:
        """Delete a stored file, unless it was modified recently.

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
        """In the ``with`` block, replace an OSError by a StorageError.

        Its message names the folder and the setting.

        :param verb: "read" or "written", for the message "the folder can't be read".
        """
        try:
            yield
        except OSError as error:
            raise self.explain(error, verb) from error

    def explain(self, error: OSError, verb: str) -> StorageError:
        """Return the error that names the folder and the setting; see :meth:`explain_errors`."""
        return StorageError(
            f"the folder of files {self.folder} can't be {verb}: {error.strerror or error}; "
            f"set IBI_FILES_FOLDER to a folder that can be {verb}"
        )

    def create_parents(self, parent: Path) -> None:
        """Create the folder that will contain a stored file, and all folders above it.

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
    """Return the latest modification time of a folder and the files in it."""
    try:
        return max(changed.lstat().st_mtime for changed in (path, *path.glob("*")))
    except OSError:  # another process has just deleted the folder
        return time.time()
