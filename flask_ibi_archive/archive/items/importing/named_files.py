"""Adds the files that the records of an import name.

The person who wrote the records need not be the administrator. Therefore only regular files in one
folder are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from flask_ibi_archive.archive.items.file_io import Content, copy_and_measure
from flask_ibi_archive.archive.items.importing.reporting import Errors
from flask_ibi_archive.archive.items.importing.source import ImportSource, Line
from flask_ibi_archive.core.records.fields import quoted
from flask_ibi_archive.errors import RecordError

#: With these flags, the system neither follows a symbolic link nor waits for the writer of a FIFO.
#: Windows has no such flags.
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: A function that adds a file to the store, or only computes the size and checksum of the file.
AddFile = Callable[[BinaryIO], Content]


def measure_file(stream: BinaryIO) -> Content:
    """Return the checksum and the size of a file."""
    return copy_and_measure(stream, None)


def add_files(
    source: ImportSource, line: Line, add_file: AddFile, errors: Errors
) -> dict[str, Content]:
    """Add the files that a record names, and return the checksum and size of each file by path.

    :param add_file: a function that adds a file.
    :param errors: the object to which an error is added for each file that cannot be read or has a
        wrong checksum.
    """
    found: dict[str, Content] = {}
    for number, file in enumerate(line.record.files):
        if file.source is None:
            continue
        path, name = find_file(source, file.source), f"files[{number}]"
        try:
            with open_file(path, source.files_folder) as stream:
                content = add_file(stream)
        except (OSError, ValueError) as error:
            reason = f"{quoted(path)} can't be read: {getattr(error, 'strerror', error)}"
            errors.add(RecordError(source.name, line.number, f"{name}.source", reason))
            continue
        if file.sha256 not in (None, content.sha256):
            reason = f"the file {quoted(path)} has the checksum {content.sha256}"
            errors.add(RecordError(source.name, line.number, f"{name}.sha256", reason))
        found[file.path] = content
    return found


def find_file(source: ImportSource, name: str) -> str:
    """Return the path that a field ``source`` means.

    A relative path begins at the folder of files. If the folder has no such file, the path begins
    at the folder of the records, as in an export whose files are not below that folder.
    """
    folders = (source.files_folder or source.folder, source.folder)
    paths = [os.path.join(folder, name) for folder in folders]  # noqa: PTH118 - name may be wrong
    return next(filter(os.path.exists, paths), paths[0])


@contextmanager
def open_file(path: str, folder: Path | None) -> Iterator[BinaryIO]:
    """Open a regular file in a folder.

    :param folder: the folder; None: no file may be opened.
    :raises OSError: if the file cannot be read.
    :raises ValueError: if the file is not in the folder, or is not a regular file.
    """
    if folder is None:
        raise ValueError("for standard input, --files-folder must name the folder of the files")
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"it is not in the folder {folder}; --files-folder names another folder")
    with open(real, "rb", opener=lambda name, flags: os.open(name, flags | SAFE)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        yield stream
