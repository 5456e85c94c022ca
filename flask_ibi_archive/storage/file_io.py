"""Functions that measure files, write them completely or not at all, and lock folders."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from flask_ibi_archive.errors import StorageError

#: The number of bytes that are read at a time.
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a stored file: its checksum (SHA-256, hexadecimal) and its size in bytes."""

    sha256: str
    size: int


class Readable(Protocol):
    """A stream of bytes to read."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; b"" at the end."""


class Writable(Protocol):
    """A stream of bytes to write."""

    def write(self, block: bytes, /) -> object:
        """Write some bytes."""


class ProgressReader:
    """A stream that reports how many bytes were read from it.

    :param progress: called after each read with the number of bytes.
    """

    def __init__(self, stream: Readable | BinaryIO, progress: Callable[[int], None]) -> None:
        self._stream = stream
        self._progress = progress

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; b"" at the end."""
        block = self._stream.read(size)
        self._progress(len(block))
        return block


def copy_and_measure(stream: Readable | BinaryIO, target: Writable | None) -> Content:
    """Copy a stream and return its checksum and size.

    :param target: the stream to write to; None: the stream is only measured.
    """
    digest = hashlib.sha256()
    size = 0
    while block := stream.read(BLOCK):
        digest.update(block)
        size += len(block)
        if target is not None:
            target.write(block)
    return Content(digest.hexdigest(), size)


def measure(path: Path, progress: Callable[[int], None] = lambda count: None) -> Content:
    """Return the checksum and the size of a file.

    :param progress: called after each read with the number of bytes.
    :raises OSError: if the file cannot be read.
    """
    with path.open("rb") as stream:
        return copy_and_measure(ProgressReader(stream, progress), None)


def sync_folder(folder: Path) -> None:
    """Force new names in a folder to the disk, if the system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # on Windows, folders cannot be opened; a folder may be write-only
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


@contextmanager
def new_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a temporary file that is renamed to the path, and replaces an old file, at the end.

    The file is forced to the disk first. It gets the permissions of the old file.

    :param mode: the permissions if there is no old file; the umask applies.
    :raises StorageError: if the file cannot be written; then the old file is unchanged.
    """
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        replaces = path.exists()
        if replaces and not path.is_file():
            raise StorageError(f"{path} can't be written: it is not a regular file")
        permissions = stat.S_IMODE(path.stat().st_mode) if replaces else mode
        try:
            with open(
                temporary, "x+b", opener=lambda name, flags: os.open(name, flags, permissions)
            ) as new:
                if replaces:
                    temporary.chmod(permissions)
                yield new
                new.flush()
                os.fsync(new.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror or error}") from error


@contextmanager
def lock_folder(folder: Path, *, exclusive: bool) -> Iterator[bool]:
    """Lock a folder without waiting; the lock ends with the block or the process.

    :param exclusive: whether no other process may hold a lock at the same time.
    :returns: yields True if the folder is locked, and also if the folder does not exist or the
        system does not support locks; False if another process holds a lock.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield True
        return
    try:
        try:
            fcntl.flock(handle, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:  # a file system without locks
            pass
        yield True
    finally:
        os.close(handle)
