"""Names and stages the files that a host gives to an operation: paths, streams and uploads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from flask_ibi_archive.archive.items.file_io import Content, measure
from flask_ibi_archive.archive.items.file_store import Staging
from flask_ibi_archive.archive.items.operations.description import Files
from flask_ibi_archive.core.records.fields import FieldError, parse_path, quoted
from flask_ibi_archive.core.records.record import FileRecord
from flask_ibi_archive.errors import StorageError

#: The description of a FileSource in messages.
FILE_FORMS = (
    "a path (text or Path), a file open in binary mode, an upload, or a name with one of these"
)


def stage_files(
    staging: Staging, files: Files, stored: Mapping[str, Content] = MappingProxyType({})
) -> tuple[tuple[FileRecord, ...], dict[str, Content]]:
    """Copy files to the staging folder.

    :param stored: the stored contents of the item, by file name. A file on disk that has the same
        content is not copied.
    :returns: the records of the files, and the new contents by file name. A file on another server
        has no content.
    :raises StorageError: if two files have the same name, or if a file cannot be read.
    """
    named = [name_file(number, file) for number, file in enumerate(list_files(files))]
    records: dict[str, FileRecord] = {}
    contents: dict[str, Content] = {}
    for path, file in named:
        if path in records:
            raise StorageError(
                f"two files are named {path}; the files of an item need different names"
            )
        if isinstance(file, FileRecord):
            records[path] = file
            continue
        old = stored.get(path)
        try:
            if old and isinstance(file, Path) and _has_content(file, old):
                content = old
            else:
                content = staging.add(file) if isinstance(file, Path) else staging.add_stream(file)
        except OSError as error:
            where = file if isinstance(file, Path) else path
            raise StorageError(f"{where} can't be read: {error.strerror or error}") from error
        if content != old:
            contents[path] = content
        records[path] = FileRecord(path, sha256=content.sha256)
    return tuple(records.values()), contents


def _has_content(file: Path, content: Content) -> bool:
    return file.stat().st_size == content.size and measure(file) == content


def list_files(files: Any) -> list[Any]:
    """Return the files of an item as a list. For a single file, the list has one file.

    :raises StorageError: if the value is neither a file nor a sequence of files.
    """
    if isinstance(files, (str, os.PathLike, FileRecord)) or hasattr(files, "read"):
        return [files]
    if isinstance(files, (Sequence, Iterator)) and not isinstance(files, (bytes, bytearray)):
        return list(files)
    raise StorageError(
        f"files: {quoted(files)} is not a list of files; each file must be {FILE_FORMS}"
    )


def name_file(number: int, file: Any) -> tuple[str, Path | IO[bytes] | FileRecord]:
    """Return the name that a file gets in the item, and the path or stream of the content."""
    field = f"files[{number}]"
    name: object = None
    if isinstance(file, FileRecord):
        if file.source is None:
            return _check_path(field, file.path), file
        name, file = file.path, file.source
    elif isinstance(file, tuple) and len(file) == 2:
        name, file = file
    elif not isinstance(file, (str, os.PathLike)) and hasattr(file, "filename"):
        if file.filename == "":  # a form whose file was left out
            raise StorageError(f"{field}: the upload is empty, because the user chose no file")
        name, file = Path(file.filename or "").name or None, file.stream
    path = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
    if isinstance(path, str):
        if "\0" in path:
            raise StorageError(
                f"{field}: {quoted(path)} contains a NUL character, which paths cannot contain"
            )
        return _check_path(field, name) if name else _check_name(path), Path(path)
    if not hasattr(file, "read"):
        raise StorageError(f"{field}: {quoted(file)} is not {FILE_FORMS}")
    try:
        is_binary = isinstance(file.read(0), bytes)
    except (
        OSError,
        TypeError,
        ValueError,
    ) as error:  # the file is closed, or open only for writing
        raise StorageError(f"{field}: {quoted(file)} can't be read: {error}") from error
    if not is_binary:
        raise StorageError(
            f"{field}: {quoted(file)} is open in text mode; open it in binary mode ('rb')"
        )
    if name:
        return _check_path(field, name), file
    # the name of an anonymous temporary file is a number
    found = getattr(file, "name", None)
    return _check_name(found) if isinstance(found, str) else f"file-{number + 1}", file


def _check_path(field: str, path: object) -> str:
    try:
        return parse_path(field, path)
    except FieldError as error:
        raise StorageError(str(error)) from error


def _check_name(path: str) -> str:
    try:
        return parse_path("file", Path(path).name)
    except FieldError as error:
        raise StorageError(f"{path!r}: {error.reason}") from error
