"""Formatting of records: converts an :class:`Record` to a JSON object.

The JSON object has the fields of the class, in their order, without those that have their default
value.

A host application may create a record with similar types. For example, it may use a list instead
of a tuple, or a text instead of a list with one text. The functions convert these types. Other
values are copied unchanged. If such a value is wrong,
:func:`~flask_ibi_archive.core.records.parse.parse_record` later refuses the value and names the
field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import date, datetime
from typing import Any

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Tombstone,
)


def format_record(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object.

    If the JSON object is parsed, the result is an equal record.
    """
    return _format_fields(record)


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
    if isinstance(values, str):
        return [values]
    if not isinstance(values, list | tuple):
        return values
    return [_format_dublin_core_value(value) for value in values]


def _format_dublin_core_value(value: Any) -> Any:
    if not isinstance(value, tuple) or len(value) != 2:
        return value
    text, language = value
    return text if language is None else {"value": text, "lang": language}


def _format_fields(described: Any) -> dict[str, Any]:
    """Return the fields of a record, or of a part of a record, as a JSON object."""
    formatted = {}
    for name, is_list, default in _FIELDS[type(described)]:
        value = getattr(described, name)
        value = [value] if is_list and isinstance(value, str) else _format_value(value)
        # 1 is equal to the default True, but not right
        if value is not None and (value != default or type(value) is not type(default)):
            formatted[name] = value
    return formatted


def _format_value(value: Any) -> Any:
    if value is None or isinstance(value, str):  # most values
        return value
    if isinstance(value, DublinCoreMetadata):
        return {"dc": format_dublin_core(value.elements)}
    if isinstance(value, tuple):
        return [_format_value(member) for member in value]
    if isinstance(value, Mapping):
        return {
            str(name): format_dublin_core(member) if name == "dc" else member
            for name, member in value.items()
        }
    if isinstance(value, datetime):
        return value if value.tzinfo is None else format_timestamp(value)
    if isinstance(value, date):
        return value.isoformat()
    return _format_fields(value) if type(value) in _FIELDS else value


def _list_fields(kind: Any) -> list[tuple[str, bool, Any]]:
    """Return the name of each field of a class, whether it is a list, and its default in JSON."""
    listed = []
    for field in fields(kind):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if field.compare:  # other fields are not stored
            listed.append((field.name, field.type.startswith("tuple"), _format_value(default)))
    return listed


_FIELDS: dict[type, list[tuple[str, bool, Any]]] = {}
_FIELDS.update(
    (kind, _list_fields(kind))
    for kind in (AccessRule, FileRecord, MetadataAddress, MetadataItem, Record, Tombstone)
)
