"""The fields of a description of a work among the fields of an ItemRecord.

A host may write them beside the other fields, as in ``deposit(title="Rain", contributors=[...])``.
They replace fields of the description that the item has, or that the field ``metadata`` states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask_ibi_archive.core.records.derive_dublin_core import derive_dublin_core
from flask_ibi_archive.core.records.description import Description, Name
from flask_ibi_archive.core.records.fields import quoted
from flask_ibi_archive.core.records.format_description import format_description
from flask_ibi_archive.core.records.parse_description import WORK_FIELDS
from flask_ibi_archive.core.records.record import DublinCoreMetadata
from flask_ibi_archive.core.records.work import read_dublin_core
from flask_ibi_archive.errors import StorageError

#: The fields that Dublin Core cannot have.
RICH_FIELDS = tuple(name for name in WORK_FIELDS if name != "creators")


def is_work(metadata: Any, given: Mapping[str, Any]) -> bool:
    """Return whether an item has a description of a work, or gets one.

    :param metadata: the metadata of the item, or those that a host states.
    :param given: the fields that a host states beside them.
    """
    if isinstance(metadata, Description) or getattr(metadata, "work", None) is not None:
        return True
    if isinstance(metadata, Mapping) and "work" in metadata:
        return True
    creators = given.get("creators")
    return any(given.get(name) for name in RICH_FIELDS) or any(
        isinstance(creator, Name) or (isinstance(creator, Mapping) and "name" in creator)
        for creator in (creators if isinstance(creators, list | tuple) else [creators])
    )


def merge_work(metadata: Any, given: Mapping[str, Any], is_stated: bool) -> dict[str, Any]:
    """Return metadata with a description whose fields ``given`` replaces.

    :param metadata: the present metadata of the item, or those that a host states.
    :param given: the new fields; an empty value removes a field. ``title`` replaces the title, but
        no subtitle and no translated title.
    :param is_stated: whether the host states the metadata.
    :raises StorageError: if the fields contradict the metadata or each other.
    """
    if "title" in given and "titles" in given:
        raise StorageError("title: the field titles contains the title too; omit one of them")
    base = _find_base(metadata, given, is_stated)
    fields = {**given}
    if "title" in fields:
        titles = format_description({"titles": fields.pop("title")}).get("titles", [])
        others = [one for one in base.get("titles", ()) if isinstance(one, dict) and "kind" in one]
        fields["titles"] = [*titles, *others] if isinstance(titles, list) else titles
    kept = {name: value for name, value in base.items() if name not in fields}
    return {"work": {**kept, **format_description(fields)}}


def _find_base(metadata: Any, given: Mapping[str, Any], is_stated: bool) -> Mapping[str, Any]:
    """Return the present description as a JSON object, which may be empty."""
    work = metadata.get("work") if isinstance(metadata, Mapping) else metadata
    if isinstance(work, DublinCoreMetadata):
        work = work.work or (None if is_stated else _convert(work, given))
    elif isinstance(metadata, Mapping) and metadata.keys() & {"dc", "ibi", "url"}:
        work = None
    base = format_description(work)
    if isinstance(base, Mapping):
        return base
    if metadata is None:
        return {}
    if isinstance(metadata, Mapping) and [*metadata] == ["work"]:
        raise StorageError(f"metadata.work: {quoted(base)} is not an object or a Description")
    raise StorageError(
        f"metadata: Dublin Core and metadata elsewhere can't have the field {_name(given)}; omit "
        'the field, or write all fields of the work as {"work": {...}}'
    )


def _convert(metadata: DublinCoreMetadata, given: Mapping[str, Any]) -> Description:
    """Return the description that Dublin Core states, if it states all of the Dublin Core.

    :raises StorageError: if a value of the Dublin Core would be lost.
    """
    description = read_dublin_core(metadata.elements)
    derived = derive_dublin_core(description)
    lost = [
        name
        for name, texts in metadata.elements.items()
        if not {*texts} <= {*derived.get(name, ())}
    ]
    if lost:
        raise StorageError(
            f"{_name(given)}: the item has Dublin Core that would be lost ({', '.join(lost)}); "
            'write all fields of the work as metadata={"work": {...}}'
        )
    return description


def _name(given: Mapping[str, Any]) -> str:
    """Return the name of the first field that makes the description one of a work."""
    return next((name for name in given if given[name] and name in RICH_FIELDS), "creators")
