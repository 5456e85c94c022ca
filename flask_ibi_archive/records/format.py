"""Writes a record: :class:`ItemRecord` to JSON; what has its default is left out."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from flask_ibi_archive.records.record import (
    DublinCore,
    DublinCoreMetadata,
    FileRecord,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
)


def format_record(record: ItemRecord) -> dict[str, Any]:
    """Give a record as a JSON object that reads as the same record."""
    values: dict[str, Any] = {
        "rep": record.rep,
        "ibip": record.ibip,
        "aliases": list(record.aliases),
        "state": None if record.state == "Original" else record.state,
        "original_archive": record.original_archive,
        "timestamp": format_moment(record.timestamp),
        "content_type": None if record.content_type == "Data" else record.content_type,
        "language": record.language,
        "transferable": None if record.transferable else False,
        "next_edition": record.next_edition,
        "translations": dict(record.translations),
        "metadata": _metadata(record),
        "formats": dict(record.formats),
        "files": [_file(file) for file in record.files],
        "target_file": record.target_file,
        "list_files": None if record.list_files else False,
        "access": _access(record),
        "tombstone": _tombstone(record),
    }
    return {name: value for name, value in values.items() if value not in (None, [], {})}


def format_line(record: ItemRecord) -> str:
    """Give a record as a line of JSON, without its line end."""
    return json.dumps(format_record(record), ensure_ascii=False)


def format_moment(moment: datetime | None) -> str | None:
    """Give a moment in UTC as ``YYYY-MM-DDThh:mm:ssZ``."""
    if moment is None:
        return None
    return moment.replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def format_dublin_core(elements: DublinCore) -> dict[str, list[Any]]:
    """Give Dublin Core as JSON: a value alone is a text, with a language an object."""
    return {
        element: [
            value if language is None else {"value": value, "lang": language}
            for value, language in values
        ]
        for element, values in elements.items()
    }


def _metadata(record: ItemRecord) -> dict[str, Any] | None:
    found = record.metadata
    if isinstance(found, MetadataItem):
        return {"ibi": found.ibi}
    if isinstance(found, DublinCoreMetadata):
        return {"dc": format_dublin_core(found.elements)}
    if isinstance(found, MetadataAddress):
        values = {
            "url": found.url,
            "formats": dict(found.formats),
            "timestamp": format_moment(found.timestamp),
        }
        return {name: value for name, value in values.items() if value}
    return None


def _file(file: FileRecord) -> dict[str, str]:
    values = {"path": file.path, "url": file.url, "source": file.source, "sha256": file.sha256}
    return {name: value for name, value in values.items() if value is not None}


def _access(record: ItemRecord) -> dict[str, Any] | None:
    if record.access is None:
        return None
    networks = {"networks": list(record.access.networks)}
    return networks if record.access.others == "metadata" else {**networks, "others": "none"}


def _tombstone(record: ItemRecord) -> dict[str, str] | None:
    found = record.tombstone
    if found is None:
        return None
    values = {
        "reason": found.reason,
        "citation": found.citation,
        "successor": found.successor,
        "original_archive": found.original_archive,
    }
    return {name: value for name, value in values.items() if value is not None}
