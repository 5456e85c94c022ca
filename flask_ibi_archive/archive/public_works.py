"""Describes items for readers who are in no network: harvesters and crawlers.

The service is no document. An item that contains the metadata of other items has no description of
its own: it is part of the descriptions of these items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from mimetypes import guess_type

from sqlalchemy import Connection

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.records.record import DublinCore, DublinCoreMetadata, MetadataItem, Record
from flask_ibi_archive.records.work import Work, WorkFile, make_work
from flask_ibi_archive.storage.reading import ItemReader
from flask_ibi_archive.storage.translations import Translations


def read_works(
    archive: Archive, connection: Connection, item_ids: Sequence[int]
) -> dict[int, Work | None]:
    """Return the descriptions of the public items among some items, in the order of the ids.

    The description of an item is None if its row or that of its metadata item is malformed.
    """
    reader = ItemReader(connection, archive.served().id)
    records = reader.read_items(item_ids)
    described = [
        item_id
        for item_id, record in records.items()
        if record is not None and isinstance(record.metadata, MetadataItem)
    ]
    metadata = reader.read_metadata(described) if described else {}
    translated = [item_id for item_id, record in records.items() if record and record.language]
    translations = Translations(connection, archive.served().id)
    originals = translations.find_originals(translated) if translated else {}
    works: dict[int, Work | None] = {}
    for item_id in item_ids:
        record = records.get(item_id)
        if record is not None and is_public(record):
            found = metadata.get(item_id, ({}, None))
            original = originals.get(item_id)
            works[item_id] = found and _describe(archive, record, *found, original)
        elif record is None and item_id in records:
            works[item_id] = None
    return works


def describe_host_item(
    archive: Archive, find_record: Callable[[str], Record | None], record: Record
) -> Work:
    """Return the description of an item in the catalogue of a host.

    :param find_record: returns the record of the item with an identifier.
    """
    if isinstance(record.metadata, MetadataItem):
        metadata = find_record(record.metadata.ibi)
        if metadata is not None and not metadata.is_hidden:
            elements = getattr(metadata.metadata, "elements", {})
            return _describe(archive, record, elements, metadata.language)
    return _describe(archive, record, {})


def is_public(record: Record) -> bool:
    """Return whether harvesters may see the description of an item.

    The storage has the same rule: :func:`flask_ibi_archive.storage.harvests.is_described`.
    """
    return (
        record.state in ("Original", "Copy")
        and record.content_type == "Data"
        and not record.is_hidden
    )


def _describe(
    archive: Archive,
    record: Record,
    elements: DublinCore,
    language: str | None = None,
    translation_of: str | None = None,
) -> Work:
    """Return the description of an item for readers who are in no network.

    :param elements: the Dublin Core of the metadata item; {} if there is none.
    :param language: the language of the metadata item.
    :param translation_of: the identifier of the item of which the item is a translation.
    """
    if isinstance(record.metadata, DublinCoreMetadata):
        elements = record.metadata.elements
    # a harvested record must lead to the item
    url = archive.persistent_url(record.ibip or record.identifiers[0])
    identifiers = elements.get("identifier", ())
    if url not in [text for text, _ in identifiers]:
        elements = {**elements, "identifier": (*identifiers, (url, None))}
    return make_work(
        record,
        elements,
        archive.config.persistent_url_base,
        page_url=archive.addresses.item(record),
        files=_list_files(archive, record, archive.today),
        metadata_language=language,
        translation_of=translation_of,
        archive_name=archive.config.archive_name,
        today=archive.today,
    )


def _list_files(archive: Archive, record: Record, today: date) -> list[WorkFile]:
    """Return the files that all readers may read."""
    is_closed = record.embargo is not None and today < record.embargo
    if record.access is not None or is_closed or not record.list_files:
        return []
    return [
        WorkFile(
            file.path,
            file.url or archive.addresses.file(record, file.path),
            guess_type(file.path)[0],
        )
        for file in record.files
    ]
