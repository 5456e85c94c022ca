"""Formatting of records: converts an :class:`Record` to a JSON object.

The JSON object does not contain fields that have their default value.

A host application may create a record with similar types. For example, it may use a list instead
of a tuple, or a text instead of a list with one text. The functions convert these types. Other
values are copied unchanged. If such a value is wrong,
:func:`~flask_ibi_archive.records.parse.parse_record` later refuses the value and names the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from flask_ibi_archive.protocol.states import State
from flask_ibi_archive.protocol.timestamps import format_timestamp
from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Tombstone,
)

#: The empty default values of fields, by the name of the field.
EMPTY_VALUES: dict[str, Any] = {"aliases": [], "translations": {}, "formats": {}, "files": []}


def format_record(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object.

    If the JSON object is parsed, the result is an equal record.
    """
    values: dict[str, Any] = {
        "rep": record.rep,
        "ibip": record.ibip,
        "aliases": _format_list(record.aliases),
        "state": None if record.state == State.ORIGINAL else record.state,
        "original_archive": record.original_archive,
        "timestamp": record.timestamp and _format_moment(record.timestamp),
        "content_type": None if record.content_type == "Data" else record.content_type,
        "language": record.language,
        "transferable": None if record.transferable is True else record.transferable,
        "next_edition": record.next_edition,
        "translations": _format_object(record.translations),
        "metadata": _format_metadata(record.metadata),
        "formats": _format_object(record.formats),
        "files": [_format_file(file) for file in record.files],
        "target_file": record.target_file,
        "list_files": None if record.list_files is True else record.list_files,
        "access": record.access and _format_access(record.access),
        "embargo": _format_day(record.embargo),
        "tombstone": record.tombstone and _format_tombstone(record.tombstone),
    }
    return {
        name: value
        for name, value in values.items()
        if value is not None and value != EMPTY_VALUES.get(name)
    }


def format_line(record: Record) -> str:
    """Return a record as one line of JSON, without a line end."""
    return json.dumps(format_record(record), ensure_ascii=False)


def format_dublin_core(elements: Any) -> Any:
    """Return Dublin Core metadata as JSON.

    A value without a language is a text. A value with a language is an object with the text and
    the language.
    """
    if not isinstance(elements, Mapping):
        return elements
    return {element: _format_dublin_core_values(values) for element, values in elements.items()}


def _format_dublin_core_values(values: Any) -> Any:
    if isinstance(values, tuple) and len(values) == 2 and all(isinstance(v, str) for v in values):
        # The tuple is not converted: it may be two values, or one value and its language.
        return values
    listed = _format_list(values)
    return (
        [_format_dublin_core_value(one) for one in listed] if isinstance(listed, list) else listed
    )


def _format_dublin_core_value(value: Any) -> Any:
    if not isinstance(value, tuple) or len(value) != 2:
        return value
    text, language = value
    return text if language is None else {"value": text, "lang": language}


def _format_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, tuple) else value


def _format_object(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): one for name, one in value.items()}
    return value


def _format_moment(value: Any) -> Any:
    is_aware = isinstance(value, datetime) and value.tzinfo is not None
    return format_timestamp(value) if is_aware else value


def _format_day(value: Any) -> Any:
    # a datetime is a date too, but its day depends on the time zone
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return value.isoformat() if is_day else value


def _format_metadata(found: Any) -> Any:
    if isinstance(found, MetadataItem):
        return {"ibi": found.ibi}
    if isinstance(found, DublinCoreMetadata):
        return {"dc": format_dublin_core(found.elements)}
    if isinstance(found, MetadataAddress):
        values = {
            "url": found.url,
            "formats": _format_object(found.formats),
            "timestamp": _format_moment(found.timestamp),
        }
        return {name: value for name, value in values.items() if value}
    if isinstance(found, Mapping):
        return {
            name: format_dublin_core(value) if name == "dc" else value
            for name, value in found.items()
        }
    return found


def _format_file(file: FileRecord) -> dict[str, str]:
    values = {"path": file.path, "url": file.url, "source": file.source, "sha256": file.sha256}
    return {name: value for name, value in values.items() if value is not None}


def _format_access(found: Any) -> Any:
    if not isinstance(found, AccessRule):
        return found
    networks = {"networks": _format_list(found.networks)}
    return networks if found.others == "metadata" else {**networks, "others": found.others}


def _format_tombstone(found: Any) -> Any:
    if not isinstance(found, Tombstone):
        return found
    values = {
        "reason": found.reason,
        "citation": found.citation,
        "successor": found.successor,
        "original_archive": found.original_archive,
    }
    return {name: value for name, value in values.items() if value is not None}
