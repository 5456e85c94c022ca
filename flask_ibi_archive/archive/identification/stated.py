"""The record that a program states: what it may contain, and which other items it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import MetadataItem, Record, parse_record
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import StorageError

#: The fields of a record that a program states. The Archive sets the others.
STATED = (
    "aliases",
    "same_as",
    "content_type",
    "language",
    "transferable",
    "next_edition",
    "translations",
    "metadata",
    "formats",
    "files",
    "target_file",
    "list_files",
    "access",
    "embargo",
)


@contextmanager
def naming_record() -> Iterator[None]:
    """Name the field ``record`` of the request in errors about fields of the record."""
    try:
        yield
    except FieldError as error:
        name = f"record.{error.field}" if error.field else "record"
        raise FieldError(name, error.reason) from error


def parse_stated(data: object, before: Record | None) -> Record:
    """Return the record that a program states.

    What the Archive sets (identifiers, state, timestamp) may be in the record of an existing item,
    so that a program can send back what it got. It must not differ.

    :param data: the record as a JSON object.
    :param before: the present record of the item; None if the item is new.
    :raises FieldError: if a field is wrong.
    :raises StorageError: if the item has changed since the program read it.
    """
    record = parse_record(data, has_identifier=False)
    _check_stated(record, before)
    return record


def _check_stated(record: Record, before: Record | None) -> None:
    """Check that a record states only what a program may state; see :func:`parse_stated`."""
    for name in ("rep", "ibip", "key", "timestamp", "original_archive", "tombstone"):
        stated = getattr(record, name)
        if stated is None or (before is not None and stated == getattr(before, name)):
            continue
        if name == "timestamp" and before is not None:
            if get_stated(record) == get_stated(before):
                continue  # the program repeats its request
            raise StorageError("the item has changed since it was read; read it again")
        raise FieldError(name, "the Archive sets this field; omit it")
    if record.state != State.ORIGINAL:
        raise FieldError("state", "the state of an item that is deposited or updated is Original")
    stored = {} if before is None else {file.path: file for file in before.files}
    for number, file in enumerate(record.files):
        known = stored.get(file.path)
        is_known = known is not None and known.url is None and file.sha256 == known.sha256
        if file.source is not None:
            raise FieldError(f"files[{number}].source", "a program cannot name files of the server")
        if file.url is None and not is_known:
            raise FieldError(
                f"files[{number}].url", "the field is missing; write where the file is"
            )


def get_stated(record: Record) -> dict[str, Any]:
    """Return the fields of a record that a program states."""
    return {name: getattr(record, name) for name in STATED}


def list_related(record: Record) -> dict[str, str]:
    """Return the identifiers of other items in a record, by field."""
    related = {f"translations.{name}": ibi for name, ibi in record.translations.items()}
    if record.next_edition is not None:
        related["next_edition"] = record.next_edition
    if isinstance(record.metadata, MetadataItem):
        related["metadata.ibi"] = record.metadata.ibi
    return related
