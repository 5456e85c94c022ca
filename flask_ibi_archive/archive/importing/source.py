"""A file of records, read line by line, from its beginning or from where an import has come."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flask_ibi_archive.errors import RecordError, StorageError
from flask_ibi_archive.records.fields import FieldError
from flask_ibi_archive.records.parse import find_errors, parse_line
from flask_ibi_archive.records.record import ItemRecord

MAX_LINE = 16 << 20
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """A line that holds a record; its number counts from 1."""

    number: int
    record: ItemRecord


@dataclass(frozen=True, slots=True)
class Limits:
    """What is read of a file at a time, at most: lines, bytes of them and identifiers in them.

    The line that reaches a limit still belongs to it.
    """

    lines: int
    bytes: int = 4 << 20
    identifiers: int = 5000


@dataclass(slots=True)
class ImportSource:
    """A file of records.

    :param name: what messages call it.
    :param folder: what the paths in ``source`` fields are relative to.
    :param place: where it is, by which it is known again when an import goes on; None: it can't be.
    """

    name: str
    stream: BinaryIO
    folder: Path
    place: str | None = None

    @property
    def size(self) -> int:
        """Its bytes."""
        here = self.stream.tell()
        size = self.stream.seek(0, os.SEEK_END)
        self.stream.seek(here)
        return size


@contextmanager
def open_source(path: str, standard_input: BinaryIO) -> Iterator[ImportSource]:
    """Open a file of records; ``-`` is standard input, which is kept in a temporary file meanwhile.

    :raises StorageError: if it can't be read.
    """
    if path == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(standard_input, copy)
            yield ImportSource("standard input", copy, Path())
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error
    with stream:
        # any name, as a text that both databases can hold
        place = os.fsencode(Path(path).resolve()).decode("utf-8", "backslashreplace")
        yield ImportSource(path, stream, Path(path).parent, place)


class LineReader:
    """Reads a source from its beginning, and knows what of it is read: lines, bytes and their
    digest.

    :param left_out: the numbers of lines that hold no record to be imported.
    """

    def __init__(self, source: ImportSource, left_out: Container[int] = ()) -> None:
        self.source = source
        self._left_out = left_out
        self.line = 0
        self.position = 0
        self._digest = hashlib.sha256()
        source.stream.seek(0)

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of the bytes that are read."""
        return self._digest.hexdigest()

    def skip(self, position: int, line: int, digest: str) -> bool:
        """Read over what is done with, to a place where a line ends.

        :param digest: what the digest of it was.
        :returns: whether it is what it was.
        """
        last = b"\n"
        while block := self.source.stream.read(min(BLOCK, position - self.position)):
            self._pass(block)
            last = block[-1:]
        self.line = line
        same = self.position == position and (not position or self.digest == digest)
        if last == b"\n":
            return same
        # the file ended here without a line end, and may have been given one
        rest = self.source.stream.readline()
        self._pass(rest)
        return same and not rest.strip()

    def skip_lines(self, count: int) -> None:
        """Read over some lines."""
        while self.line < count and self._next() is not None:
            pass

    def at_end(self) -> bool:
        """Tell whether nothing but empty lines follows; the reader stays where it is."""
        here = self.source.stream.tell()
        try:
            return all(not line.strip() for line in self.source.stream)
        finally:
            self.source.stream.seek(here)

    def _pass(self, data: bytes) -> None:
        self._digest.update(data)
        self.position += len(data)

    def _next(self) -> bytes | None:
        """Return the next line, None at the end."""
        line = self.source.stream.readline(MAX_LINE + 1)
        if not line:
            return None
        self.line += 1
        if len(line) > MAX_LINE:
            raise self.error(None, f"is longer than {MAX_LINE} bytes")
        self._pass(line)
        return line.removeprefix(b"\xef\xbb\xbf") if self.line == 1 else line

    def records(self) -> Iterator[tuple[bytes, Line]]:
        """Return the records that follow, and the lines that they stand in; empty lines are passed
        over.

        :raises RecordError: at the first line that holds no record.
        """
        while (line := self._next()) is not None:
            if line.strip() and self.line not in self._left_out:
                yield line, self.parse(line)

    def lines(self) -> Iterator[bytes]:
        """Return the lines that follow, as they are."""
        while (line := self._next()) is not None:
            yield line

    def batch(self, limits: Limits) -> list[Line]:
        """Return the next records, none at the end.

        :raises RecordError: at the first line that holds no record.
        """
        found: list[Line] = []
        size = identifiers = 0
        for text, line in self.records():
            found.append(line)
            size += len(text)
            identifiers += len(line.record.identifiers)
            if (
                len(found) >= limits.lines
                or size >= limits.bytes
                or identifiers >= limits.identifiers
            ):
                break
        return found

    def chosen(self, wanted: Mapping[int, int]) -> list[Line]:
        """Return the records of some lines, and read no further.

        :param wanted: the numbers of the lines, in order.
        :raises RecordError: if one of them holds no record, or isn't there.
        """
        found: list[Line] = []
        for number in wanted:
            self.skip_lines(number - 1)
            line = self._next()
            if line is None or not line.strip():
                self.line = number
                raise self.error(None, "held an item when the file was taken in, and is empty now")
            found.append(self.parse(line))
        return found

    def parse(self, line: bytes) -> Line:
        """Return the record of the line that was read last.

        :raises RecordError: if it holds none.
        """
        try:
            return Line(self.line, parse_line(line))
        except FieldError as error:
            raise self.error(error.field or None, error.reason) from error

    def find_errors(self, line: bytes) -> list[RecordError]:
        """Return all errors in the line that was read last."""
        return [self.error(error.field or None, error.reason) for error in find_errors(line)]

    def error(self, field: str | None, reason: str) -> RecordError:
        """Return an error of the line that was read last."""
        return RecordError(self.source.name, self.line, field, reason)
