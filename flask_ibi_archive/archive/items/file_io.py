"""Measures and copies files."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import quote

#: The number of bytes that one call reads from a file.
BLOCK = 1 << 20

#: A file that was changed less than this number of nanoseconds before it was read may change again
#: without another modification time: the clocks of file systems advance in steps of up to 10 ms.
CLOCK_STEP = 10_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """The file of the host from which a stored file was copied.

    :param path: the path as the host names it, percent-encoded, because paths need not be UTF-8.
    :param modified: the modification time in nanoseconds since 1970; None: the file may have been
        changed at this time once more, after it was read.
    """

    path: str
    modified: int | None


@dataclass(frozen=True, slots=True)
class Content:
    """The checksum (SHA-256, hexadecimal) and the size (in bytes) of a stored file.

    :param source: the file on disk from which it was copied; None if unknown. Contents that differ
        in their sources only are equal.
    """

    sha256: str
    size: int
    source: Source | None = field(default=None, compare=False)

    def is_current(self, path: Path) -> bool:
        """Return whether a file on disk has this content, as far as is known without reading it.

        If the content was copied from this path, it is also current when the file is gone, or
        cannot be examined.
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


class Writable(Protocol):
    """A stream to which bytes can be written."""

    def write(self, block: bytes, /) -> object:
        """Write the bytes of a block."""


def copy_and_measure(stream: Readable | BinaryIO, target: Writable | None) -> Content:
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
    """Return the content of a file of the host, with the file as its source.

    :param read: reads the open file.
    :raises OSError: if the file cannot be read.
    """
    with path.open("rb") as stream:
        before = os.fstat(stream.fileno()).st_mtime_ns
        content = read(stream)
        after = os.fstat(stream.fileno()).st_mtime_ns
    is_certain = before == after < time.time_ns() - CLOCK_STEP
    source = Source(quote(os.fsencode(path)), after if is_certain else None)
    return replace(content, source=source)
