"""The folder where the contents of files are kept, each under its own checksum.

A content is complete or not there: it is written beside its place, forced to the disk, then renamed. Equal
contents are kept once.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from flask_ibi_archive.storage.items import Content

BLOCK = 1 << 20


class ContentFolder:
    """A folder of contents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str) -> Path:
        """Give where the content of a checksum is kept, or would be."""
        return self.folder / sha256[:2] / sha256[2:4] / sha256

    def take(self, source: Path) -> Content:
        """Keep the content of a file.

        :raises OSError: if the file can't be read or the content not be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as stream:
            handle, name = tempfile.mkstemp(prefix=".new-", dir=self.folder)
            temporary = Path(name)
            try:
                with os.fdopen(handle, "wb") as target:
                    content = copy_and_measure(stream, target)
                    target.flush()
                    os.fsync(target.fileno())
                place = self.path(content.sha256)
                if not place.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    temporary.replace(place)
                    _sync_folder(place.parent)
            finally:
                temporary.unlink(missing_ok=True)
        return content


def measure(source: Path) -> Content:
    """Give checksum and size of a file, keeping nothing."""
    with source.open("rb") as stream:
        return copy_and_measure(stream, None)


def copy_and_measure(stream: BinaryIO, target: BinaryIO | None) -> Content:
    """Copy a stream, if somewhere, and give its checksum and size."""
    digest = hashlib.sha256()
    size = 0
    while block := stream.read(BLOCK):
        digest.update(block)
        size += len(block)
        if target is not None:
            target.write(block)
    return Content(digest.hexdigest(), size)


def _sync_folder(folder: Path) -> None:
    """Force a new name to the disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
