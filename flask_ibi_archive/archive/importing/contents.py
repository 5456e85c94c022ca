"""The files that the records of an import take in."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from flask_ibi_archive.archive.importing.errors import Errors
from flask_ibi_archive.archive.importing.source import ImportSource, Line, LineReader
from flask_ibi_archive.errors import RecordError, StorageError
from flask_ibi_archive.records.fields import quoted
from flask_ibi_archive.storage.items import Content

#: What a line holds that takes files in; the name of the field may be written with escapes.
SOURCE = re.compile(rb"source|\\u")

Look = Callable[[Path], Content]


def contents_of(source: ImportSource, line: Line, look: Look, errors: Errors) -> dict[str, Content]:
    """Return the contents of the files that a record takes in, by their paths.

    :param look: takes a file in, or measures it.
    :param errors: gets those of files that can't be read, or have another checksum.
    """
    found: dict[str, Content] = {}
    for number, file in enumerate(line.record.files):
        if file.source is None:
            continue
        path = source.folder / file.source
        name = f"files[{number}]"
        try:
            content = look(path)
        except (OSError, ValueError) as error:
            reason = f"{quoted(str(path))} can't be taken in: {getattr(error, 'strerror', error)}"
            errors.add(RecordError(source.name, line.number, f"{name}.source", reason))
            continue
        if file.sha256 not in (None, content.sha256):
            reason = f"the content of {quoted(str(path))} has the checksum {content.sha256}"
            errors.add(RecordError(source.name, line.number, f"{name}.sha256", reason))
        found[file.path] = content
    return found


class FileManifest:
    """The contents of the lines of a file, kept in a file of its own and read in the same order.

    :param folder: where that file is made, when there are contents; None: in the system's folder
        for such.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._next: tuple[int, dict[str, Content]] | None = None

    def fill(
        self, source: ImportSource, look: Look, progress: Callable[[int], None], errors: Errors
    ) -> None:
        """Look at all files that a source takes in.

        :param errors: gets those of the files, and of lines that are read here: the ones that may
            take files in, and all others where errors are collected.
        :raises StorageError: if what was found can't be kept.
        """
        reader = LineReader(source)
        for text in reader.lines():
            if text.strip() and (errors.collects or SOURCE.search(text)):
                found = self._look_at(reader, text, look, errors)
                if found:
                    self._write(reader.line, found)
            progress(reader.position)
        with self._writing():
            if self._file is not None:
                self._file.seek(0)  # and what is not written yet is written
        self._advance()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            folder = self._folder or Path(tempfile.gettempdir())
            raise StorageError(
                f"no temporary file can be written in {folder}: {error.strerror or error}"
            ) from error

    def _look_at(
        self, reader: LineReader, text: bytes, look: Look, errors: Errors
    ) -> dict[str, Content]:
        try:
            return contents_of(reader.source, reader.parse(text), look, errors)
        except RecordError:
            if not errors.collects:
                raise
        for error in reader.find_errors(text):
            errors.add(error)
        return {}

    def _write(self, line: int, found: dict[str, Content]) -> None:
        kept = [line, {path: [one.sha256, one.size] for path, one in found.items()}]
        with self._writing():
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see close
            self._file.write(json.dumps(kept).encode() + b"\n")

    def _advance(self) -> None:
        text = self._file.readline() if self._file is not None else b""
        self._next = None
        if text:
            line, found = json.loads(text)
            self._next = line, {path: Content(*one) for path, one in found.items()}

    def of(self, line: int) -> dict[str, Content]:
        """Return the contents of a line; lines are asked for in order."""
        while self._next is not None and self._next[0] < line:
            self._advance()
        return self._next[1] if self._next is not None and self._next[0] == line else {}

    def all(self) -> Iterator[Content]:
        """Return the contents of all lines."""
        if self._file is not None:
            self._file.seek(0)
            self._advance()
        while self._next is not None:
            yield from self._next[1].values()
            self._advance()

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            with suppress(OSError):  # what could not be written is of no use any more
                self._file.close()
