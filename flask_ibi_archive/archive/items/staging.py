"""Staging folders: new files are written there, before they are moved to the store."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from flask_ibi_archive.archive.items.file_io import (
    BLOCK,
    Content,
    Readable,
    copy_and_measure,
    read_source,
)
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.files import lock_folder, sync_folder

if TYPE_CHECKING:
    from flask_ibi_archive.archive.items.file_store import FileStore

#: The names of staging folders begin with this text.
STAGING = ".new-"
#: The name of a stored file: its checksum.
NAME = re.compile("[0-9a-f]{64}")


class Staging:
    """A staging folder with files that are complete, but not yet at their places in the store.

    :param name: the name of a folder that is used again if the process is killed. None: a new
        folder.
    """

    def __init__(
        self,
        store: FileStore,
        on_new: Callable[[str], None] = lambda sha256: None,
        name: str | None = None,
    ) -> None:
        self._store = store
        self._on_new = on_new
        self._name = name

    @cached_property
    def _folder(self) -> Path:
        """The path of the staging folder. The first use creates the folder."""
        self._store.folder.mkdir(parents=True, exist_ok=True)
        if self._name is None:
            return Path(tempfile.mkdtemp(prefix=STAGING, dir=self._store.folder))
        folder = self._store.folder / f"{STAGING}{self._name}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from using the folder of this name during the ``with`` block.

        :raises StorageError: if another process uses the folder.
        """
        with self._store.explain_errors("written"):
            folder = self._folder
        with lock_folder(folder, exclusive=True) as locked:
            if not locked:
                raise StorageError(f"another process is using {folder}; wait until it has ended")
            yield

    @contextmanager
    def receive(self, content: Content) -> Iterator[PartialFile]:
        """Yield a file that is received in parts, also after the process was killed.

        The file is complete when the ``with`` block ends; otherwise it may be continued later.

        :param content: the stated checksum and size of the file.
        :raises StorageError: if the file cannot be written, or is not the stated one at the end.
        """
        path = self._folder / f"{content.sha256}.part"
        with self._store.explain_errors("written"), path.open("a+b") as file:
            partial = PartialFile(self._store, file, content)
            yield partial
            if not partial.is_complete():
                path.unlink()
                raise StorageError("the content is not the stated one: size or SHA-256 differ")
            file.flush()
            os.fsync(file.fileno())
            path.replace(self._folder / content.sha256)

    def has(self, content: Content) -> bool:
        """Return whether the folder contains a complete file with this content."""
        return (self._folder / content.sha256).exists()

    def clear(self) -> None:
        """Delete the files that were not moved to the store."""
        if "_folder" in self.__dict__:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, path: Path) -> Content:
        """Copy a file to the staging folder and return its checksum and size.

        :raises OSError: if the file cannot be read.
        :raises StorageError: if the copy cannot be written.
        """
        return read_source(path, self.add_stream)

    def add_stream(self, stream: Readable) -> Content:
        """Copy a stream to the staging folder and return its checksum and size.

        :raises OSError: if the stream cannot be read.
        :raises StorageError: if the copy cannot be written.
        """
        source = _Source(stream)
        try:
            with self._store.explain_errors("written"):
                new = self._folder / "new"
                with new.open("wb") as file:
                    content = copy_and_measure(source, file)
                    file.flush()
                    os.fsync(file.fileno())
                new.replace(self._folder / content.sha256)
        except StorageError:
            if source.error is not None:
                raise source.error from None
            raise
        return content

    def move_to_store(self, content: Content) -> None:
        """Move a file from the staging folder to its place in the store.

        An old file with the same checksum is replaced, because the old file may be damaged.

        Call this method after the row of the file was written, and in the same transaction. The
        lock of this transaction prevents other processes from deleting the file as unneeded.

        :raises StorageError: if the file cannot be moved.
        """
        path = self._store.path(content.sha256)
        with self._store.explain_errors("written"):
            staged = self._folder / content.sha256
            self._store.create_parents(path.parent)
            # If two new items have this file, the first call has moved the file already.
            os.utime(staged if staged.exists() else path)
            if staged.exists():
                if not path.exists():
                    self._on_new(content.sha256)
                staged.replace(path)
                sync_folder(path.parent)

    def move_all_to_store(self) -> None:
        """Move all files from the staging folder to the store, as :meth:`move_to_store` does."""
        if "_folder" in self.__dict__:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if NAME.fullmatch(entry.name):
                        self.move_to_store(Content(entry.name, entry.stat().st_size))


class PartialFile:
    """A file of which the beginning is stored; see :meth:`Staging.receive`.

    :ivar size: the number of bytes that are stored.
    """

    def __init__(self, store: FileStore, file: BinaryIO, content: Content) -> None:
        self._store, self._file, self._content = store, file, content
        self._digest = hashlib.sha256()
        self.size = 0
        file.seek(0)
        while block := file.read(BLOCK):
            self._add(block)
        if self.size > content.size:
            self.restart()

    def _add(self, block: bytes) -> None:
        self._digest.update(block)
        self.size += len(block)

    def restart(self) -> None:
        """Discard what is stored."""
        self._file.truncate(0)
        self._digest, self.size = hashlib.sha256(), 0

    def write(self, block: bytes) -> None:
        """Append the next bytes.

        :raises StorageError: if the file becomes longer than stated, or if it cannot be written.
        """
        if self.size + len(block) > self._content.size:
            self.restart()
            raise StorageError(f"the file is longer than the stated {self._content.size} bytes")
        with self._store.explain_errors("written"):
            self._file.write(block)
        self._add(block)

    def is_complete(self) -> bool:
        """Return whether the file is the stated one."""
        return Content(self._digest.hexdigest(), self.size) == self._content


class _Source:
    """A stream that stores its read error in ``error``.

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
