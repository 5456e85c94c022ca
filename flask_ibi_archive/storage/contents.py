"""The folder where the contents of files are kept, each under its own checksum.

A content is complete or not there: it is written beside its place, forced to the disk, and renamed into it
when the row that needs it is written. Equal contents are kept once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage.items import Content

BLOCK = 1 << 20


class ContentFolder:
    """A folder of contents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str) -> Path:
        """Give where the content of a checksum is kept, or would be."""
        return self.folder / sha256[:2] / sha256[2:4] / sha256

    @contextmanager
    def staging(self) -> Iterator[Staging]:
        """Give a place for contents that may be kept; what was not is gone afterwards."""
        staging = Staging(self)
        try:
            yield staging
        finally:
            staging.clear()


class Staging:
    """Contents that were taken in and may be kept: on the disk, but not yet in their places."""

    def __init__(self, folder: ContentFolder) -> None:
        self._folder = folder

    @cached_property
    def _place(self) -> Path:
        """A folder beside the contents, made when it is needed."""
        try:
            self._folder.folder.mkdir(parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder.folder))
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
        with source.open("rb") as stream, _Target(self._place / "new", self._folder.folder) as new:
            content = copy_and_measure(stream, new)
            new.finish(self._place / content.sha256)
        return content

    def keep(self, content: Content) -> None:
        """Put a content that was taken in where it is kept.

        :raises StorageError: if its place can't be written.
        """
        place = self._folder.path(content.sha256)
        if place.exists():
            return
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            (self._place / content.sha256).replace(place)
            _sync_folder(place.parent)
        except OSError as error:
            raise unwritable(self._folder.folder, error) from error


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
    """Give the error of a folder of contents that can't be written."""
    return StorageError(
        f"the folder of files {folder} can't be written: {error.strerror or error}; see that "
        "IBI_FILES_FOLDER names one that can"
    )


def measure(source: Path) -> Content:
    """Give checksum and size of a file, keeping nothing."""
    with source.open("rb") as stream:
        return copy_and_measure(stream, None)


def copy_and_measure(stream: BinaryIO, target: _Target | None) -> Content:
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
