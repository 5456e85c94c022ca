"""Reads items for web pages and commands, and describes them for harvesters and crawlers.

Harvesters and crawlers do not see the service, which is no document, or items that contain the
metadata of other items, because these metadata are part of the descriptions of the other items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from mimetypes import guess_type
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.conditions import is_public
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.reading import ItemReader
from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.catalogue import Catalogue
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import Relation, Step, VerbList
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import answer_url_request
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    MetadataItem,
    Record,
    RelatedItem,
)
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work
from flask_ibi_archive.server.database.database import Database

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


def view_item(
    database: Database, archive_id: int, folder: FileStore, ibi: str, today: date
) -> ItemView | None:
    """Return the item that has an identifier; None if this Archive has no such item.

    :param ibi: the identifier in canonical case.
    :param today: the current day (UTC), on which the embargo depends.
    """

    def find(connection: Connection) -> ItemView | None:
        return ItemReader(
            connection,
            archive_id,
            lambda sha256: str(folder.path(sha256)),
            today=today,
            with_descriptions=True,
        ).find_item(ibi)

    return database.read(find)


def view_host_item(record: Record, metadata: Record | None, today: date) -> ItemView:
    """Return the view of an item that is in the catalogue of a host.

    :param metadata: the record of the item that contains the metadata, or None.
    """
    described = language = None
    if metadata is not None and not metadata.is_hidden:
        language = metadata.language
        if isinstance(metadata.metadata, DublinCoreMetadata):
            described = metadata.metadata
    related = [
        RelatedItem("translation", ibi, language=language)
        for language, ibi in record.translations.items()
    ]
    if record.next_edition is not None:
        related.insert(0, RelatedItem("later_edition", record.next_edition))
    if record.tombstone is not None and record.tombstone.successor is not None:
        related.append(RelatedItem("successor", record.tombstone.successor))
    return ItemView(record, False, today, described, language, tuple(related))


def find_metadata_url(
    catalogue: Catalogue,
    facts: ArchiveFacts,
    ibi: Identifier,
    user: str,
    step: Step,
    is_open: bool = False,
) -> str | None:
    """Return the URL of the metadata of an item for a user.

    The URL is that of the answer to a urlRequest without a selection of relations.

    :param facts: the published facts of the Archive.
    :param user: the IP address of the user.
    :param step: the step of a relation that selects the metadata, with or without a format.
    :param is_open: True if the user may read the metadata in spite of networks and embargoes.
    :returns: None if the item has no such URL for this user.
    """
    relation = Relation((step,))
    whole = replace(facts, relations=None, filter_url_list=True, checks_access=not is_open)
    request = UrlRequest(ibi, (user,), verbs=VerbList(relation))
    pairs = answer_url_request(catalogue, request, whole, lambda item: "")
    url = dict(pairs).get("url" + relation.name)
    return url if isinstance(url, str) else None


def read_works(
    archive: Archive, connection: Connection, item_ids: Sequence[int]
) -> dict[int, Work]:
    """Return the descriptions of the given items that are public, in the order of the ids."""
    reader = ItemReader(
        connection, archive.served().id, today=archive.today, with_descriptions=True
    )
    items = reader.read_items(item_ids, is_public())
    return {one: _describe(archive, items[one]) for one in item_ids if one in items}


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

    :func:`flask_ibi_archive.archive.items.conditions.is_public` is the same rule for rows.
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
        description=item.description,
        page_url=archive.addresses.item(record),
        files=_list_files(archive, item),
        metadata_language=item.metadata_language,
        translation_of=None if record.language is None else item.head,
        archive_name=archive.config.archive_name,
        publisher=archive.config.publisher,
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
            sha256=file.sha256,
        )
        for file in record.files
    ]
