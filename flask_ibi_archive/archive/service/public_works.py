"""Describes items for readers who are in no network: harvesters and crawlers.

The service is no document. An item that contains the metadata of other items has no description of
its own: it is part of the descriptions of these items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from mimetypes import guess_type
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from flask_ibi_archive.archive.items import visibility
from flask_ibi_archive.archive.items.reading import ItemReader
from flask_ibi_archive.archive.items.viewing import view_host_item
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import MetadataItem, Record
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


def read_works(
    archive: Archive, connection: Connection, item_ids: Sequence[int]
) -> dict[int, Work | None]:
    """Return the descriptions of the public items among some items, in the order of the ids.

    The description of an item is None if its row or that of its metadata item is malformed.
    """
    reader = ItemReader(
        connection, archive.served().id, today=archive.today, with_descriptions=True
    )
    items = reader.read_items(item_ids, visibility.is_public())
    return {
        item_id: None if (item := items[item_id]) is None else _describe(archive, item)
        for item_id in item_ids
        if item_id in items
    }


def describe_host_item(
    archive: Archive, find_record: Callable[[str], Record | None], record: Record
) -> Work:
    """Return the description of an item in the catalogue of a host.

    :param find_record: returns the record of the item with an identifier.
    """
    named = record.metadata
    metadata = find_record(named.ibi) if isinstance(named, MetadataItem) else None
    return _describe(archive, view_host_item(record, metadata, archive.today))


def is_public_record(record: Record) -> bool:
    """Return whether harvesters may see the description of an item.

    :func:`flask_ibi_archive.archive.items.visibility.is_public` is the same rule for rows.
    """
    return (
        record.state in (State.ORIGINAL, State.COPY)
        and record.content_type == "Data"
        and not record.is_hidden
    )


def _describe(archive: Archive, item: ItemView) -> Work:
    """Return the description of an item for readers who are in no network."""
    record, elements = item.record, item.dublin_core
    # a harvested record must lead to the item
    url = archive.persistent_url(item)
    identifiers = elements.get("identifier", ())
    if url not in [text for text, _ in identifiers]:
        elements = {**elements, "identifier": (*identifiers, (url, None))}
    return make_work(
        record,
        elements,
        archive.config.persistent_url_base,
        page_url=archive.addresses.item(record),
        files=_list_files(archive, item),
        metadata_language=item.metadata_language,
        translation_of=item.original,
        archive_name=archive.config.archive_name,
        today=item.today,
    )


def _list_files(archive: Archive, item: ItemView) -> list[WorkFile]:
    """Return the files that all readers may read."""
    record = item.record
    if not item.is_open or not record.list_files:
        return []
    return [
        WorkFile(
            file.path,
            file.url or archive.addresses.file(record, file.path),
            guess_type(file.path)[0],
        )
        for file in record.files
    ]
