"""Read items for web pages and commands."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.reading import ItemReader
from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.catalogue import Catalogue
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.core.protocol.relations import Relation, Step, VerbList
from flask_ibi_archive.core.protocol.url_list import answer_url_request
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import Record, RelatedItem
from flask_ibi_archive.server.database.database import Database


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
        described, language = getattr(metadata.metadata, "elements", None), metadata.language
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

    The complete URL list of the item for this user contains the same URL.

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
