"""Add the files that the records of an import name in their ``source`` fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from flask_ibi_archive.archive.importing.reporting import STEP, Errors, ImportProgress
from flask_ibi_archive.archive.importing.source import ImportSource, Line, LineReader
from flask_ibi_archive.errors import RecordError
from flask_ibi_archive.records.fields import shown
from flask_ibi_archive.storage.items import Content

#: Matches every line that may name a file to add; a field name may be written with escapes.
MAY_NAME_FILES = re.compile(rb"source|\\u")

#: Adds a file to the store, or only measures it.
AddFile = Callable[[Path], Content]


def stage_files(
    source: ImportSource, add_file: AddFile, progress: ImportProgress, errors: Errors
) -> None:
    """Add all files that a source names, before the transaction that writes the items begins.

    The lines that are parsed here (those that may name files; all, if errors are collected) are
    stored in ``source.staged``.

    :raises StorageError: if they cannot be stored.
    """
    reader = LineReader(source)
    reported = 0
    for text in reader.lines():
        if (errors.collects or MAY_NAME_FILES.search(text)) and text.strip():
            try:
                line = reader.parse(text)
            except RecordError:
                if not errors.collects:
                    raise
                for error in reader.find_errors(text):
                    errors.add(error)
            else:
                line.contents = add_files(source, line, add_file, errors)
                source.staged.add(line)
        if reader.position - reported >= STEP:
            reported = reader.position
            progress.staged(reported)
    progress.staged(reader.position)


def add_files(
    source: ImportSource, line: Line, add_file: AddFile, errors: Errors
) -> dict[str, Content]:
    """Add the files that a record names, and return their contents by their paths.

    :param errors: gets an error for each file that cannot be read or has another checksum.
    """
    found: dict[str, Content] = {}
    for number, file in enumerate(line.record.files):
        if file.source is None:
            continue
        path = source.folder / file.source
        name = f"files[{number}]"
        try:
            content = add_file(path)
        except (OSError, ValueError) as error:
            reason = f"{shown(str(path))} can't be read: {getattr(error, 'strerror', error)}"
            errors.add(RecordError(source.name, line.number, f"{name}.source", reason))
            continue
        if file.sha256 not in (None, content.sha256):
            reason = f"the file {shown(str(path))} has the checksum {content.sha256}"
            errors.add(RecordError(source.name, line.number, f"{name}.sha256", reason))
        found[file.path] = content
    return found
