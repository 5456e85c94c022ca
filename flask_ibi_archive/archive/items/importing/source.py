"""Reads a file of records, and adds the files that the records name.

The person who wrote the records need not be the administrator. Therefore only regular files in one
folder are read.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.file_io import Content, copy_and_measure
from flask_ibi_archive.core.records.fields import FieldError, quoted
from flask_ibi_archive.core.records.parse import find_errors, parse_record, read_json
from flask_ibi_archive.core.records.record import Record, References
from flask_ibi_archive.core.records.switches import DailyCount, parse_counts
from flask_ibi_archive.errors import RecordError, StorageError

MAX_LINE = 16 << 20
#: With these flags, the system neither follows a symbolic link nor waits for the writer of a FIFO.
#: Windows has no such flags.
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: A function that adds a file to the store, or only computes the size and checksum of the file.
AddFile = Callable[[BinaryIO], Content]


@dataclass(slots=True)
class Line:
    """A parsed line.

    :param number: the number of the line. The first line has the number 1.
    :param contents: the checksum and size of each file that the record adds, by path.
    :param counts: the daily counts of accesses to the item; None if the line has none.
    """

    number: int
    record: Record
    contents: Mapping[str, Content] = field(default_factory=dict)
    counts: tuple[DailyCount, ...] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a batch of lines.

    The batch ends with the line that reaches one of the limits.

    :param lines: the number of lines.
    :param bytes: the number of bytes.
    :param identifiers: the number of identifiers.
    """

    lines: int
    bytes: int = 4 << 20
    identifiers: int = 5000


class Errors:
    """The errors of an import. Either the first error is raised, or all errors are reported.

    :param report: a function that is called with each error. The line with the error is then
        ignored. None means that the first error is raised.
    :ivar lines: the numbers of the ignored lines.
    :ivar collects: whether all errors are reported.
    """

    def __init__(self, report: Callable[[RecordError], None] | None = None) -> None:
        self._report = report
        self.lines: set[int] = set()
        self.collects = report is not None

    def add(self, error: RecordError) -> None:
        """Report the error, or raise the error if there is no function ``report``."""
        if self._report is None:
            raise error
        self.lines.add(error.line)
        self._report(error)

    def rolling_back_on_error(self, connection: Connection) -> AbstractContextManager[object]:
        """Return a context manager that rolls back the changes of its context after an error.

        If the first error ends the import, the context manager does nothing.
        """
        return connection.begin_nested() if self.collects else nullcontext()


@dataclass(slots=True)
class ImportSource:
    """A file of records.

    :param name: the name of the file in messages.
    :param folder: the folder of the file of records. A relative path in a field ``source`` begins
        there if ``files_folder`` has no file with this path.
    :param files_folder: the fields ``source`` may name files in this folder and below. None: they
        may name no files.
    """

    name: str
    stream: BinaryIO
    folder: Path
    files_folder: Path | None = None

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        position = self.stream.tell()
        size = self.stream.seek(0, os.SEEK_END)
        self.stream.seek(position)
        return size


@contextmanager
def open_source(
    path: str, standard_input: BinaryIO, files_folder: Path | None = None
) -> Iterator[ImportSource]:
    """Open a file of records until the end of the ``with`` block.

    :param path: the path of the file. The path ``-`` means standard input.
    :param standard_input: the standard input. It is copied to a temporary file.
    :param files_folder: the fields ``source`` may name files in this folder and below. None: the
        folder of the file; with standard input, they may name no files.
    :raises StorageError: if the file cannot be read.
    """
    if path == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(standard_input, copy)
            yield ImportSource("standard input", copy, Path(), files_folder)
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error
    with stream:
        if not stream.seekable():
            raise StorageError(f"{path} is a pipe; read it as standard input: import - < {path}")
        folder = Path(path).parent
        yield ImportSource(path, stream, folder, files_folder or folder)


class LineReader:
    """Reads the lines of a source.

    :ivar line: the number of the line that was read last.
    """

    def __init__(self, source: ImportSource) -> None:
        self.source = source
        self.line = 0
        self._lines = self._read_lines()
        source.stream.seek(0)

    def _read_lines(self) -> Iterator[bytes]:
        while text := self.source.stream.readline(MAX_LINE + 1):
            self.line += 1
            if len(text) > MAX_LINE:
                raise self.error(None, f"the line is longer than {MAX_LINE} bytes")
            yield text.removeprefix(b"\xef\xbb\xbf") if self.line == 1 else text

    def read_batch(self, limits: Limits, errors: Errors, add_file: AddFile) -> list[Line]:
        """Return the next lines that contain records, and add their files.

        Empty lines are skipped. At the end of the file, the result is an empty list.

        :param errors: the object to which the errors of lines are added.
        :param add_file: a function that adds a file.
        """
        lines: list[Line] = []
        size = identifiers = 0
        for text in self._lines:
            if not text.strip():
                continue
            try:
                line = self.parse(text)
            except RecordError as error:
                # an error in the counts is the only one of its line
                for each in (errors.collects and self.find_errors(text)) or [error]:
                    errors.add(each)
                continue
            line.contents = add_files(self.source, line, add_file, errors)
            if line.number in errors.lines:
                continue
            lines.append(line)
            size += len(text)
            identifiers += len(line.record.identifiers)
            if (
                len(lines) >= limits.lines
                or size >= limits.bytes
                or identifiers >= limits.identifiers
            ):
                break
        return lines

    def read_references(self, numbers: Iterable[int]) -> list[References]:
        """Return the references of the lines with certain numbers.

        The file is read only up to the last of these lines.

        :param numbers: the numbers of the lines, in ascending order.
        """
        found: list[References] = []
        for number in numbers:
            text = next((text for text in self._lines if self.line == number), b"")
            found.append(self.parse(text).record.references)
        return found

    def parse(self, text: bytes) -> Line:
        """Parse the line that was read last.

        :raises RecordError: if the line is not a valid record.
        """
        try:
            data, counts = read_json(text), None
            if isinstance(data, dict) and "counts" in data:
                counts = parse_counts("counts", data.pop("counts"))
            return Line(self.line, parse_record(data), counts=counts)
        except FieldError as error:
            raise self.error(error.field or None, error.reason) from error

    def find_errors(self, text: bytes) -> list[RecordError]:
        """Return all errors in the record of the line that was read last."""
        return [
            self.error(error.field or None, error.reason)
            for error in find_errors(text)
            if error.field != "counts"  # a field of the line, but not of the record
        ]

    def error(self, field: str | None, reason: str) -> RecordError:
        """Return an error in the line that was read last.

        :param field: the wrong field; None if the whole line is wrong.
        """
        return RecordError(self.source.name, self.line, field, reason)


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
    """Return the path of the file that a field ``source`` names.

    A relative path begins at ``files_folder``. If this folder has no such file, the path begins at
    the folder of the file of records, as in an export whose files are not below its folder.

    :param name: the value of the field.
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
