"""Read items for web pages and commands, and check which users may see an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.archive_facts import ArchiveFacts
from flask_ibi_archive.protocol.catalogue import Catalogue, OpenCatalogue
from flask_ibi_archive.protocol.messages import UrlRequest
from flask_ibi_archive.protocol.relations import Relation, Step
from flask_ibi_archive.protocol.url_list import answer_url_request
from flask_ibi_archive.protocol.verbs import VerbList
from flask_ibi_archive.records.record import (
    DublinCore,
    DublinCoreMetadata,
    FileRecord,
    Record,
    RelatedItem,
    Text,
)
from flask_ibi_archive.storage.catalogue import networks_allow
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.file_store import FileStore
from flask_ibi_archive.storage.item_views import read_item_view


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item for the web pages and the command line.

    :param record: the record of the item. The ``source`` of each file is the path of the stored
        content, or None if no content is stored.
    :param is_service: True if the item is the service of the Archive.
    :param today: the current day (UTC), on which the embargo depends.
    :param described_by: the Dublin Core of the metadata item that describes the item, or None.
    :param metadata_language: the language of the metadata item.
    :param related: the editions and translations of the item, and the item that replaces it.
    :param sizes: the sizes of the stored files in bytes, by path.
    :param id: the id of the item in the tables of the package, or None.
    """

    record: Record
    is_service: bool
    today: date
    described_by: DublinCore | None = None
    metadata_language: str | None = None
    related: tuple[RelatedItem, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    id: int | None = None

    @property
    def rep(self) -> str | None:
        """The repository name of the item (the rep form of its IBI)."""
        return self.record.rep

    @property
    def ibip(self) -> str | None:
        """The IBIp of the item (the ibip form of its IBI)."""
        return self.record.ibip

    @property
    def ibi(self) -> str:
        """An identifier of the item: the IBIp if there is one, because it is the short form."""
        return self.record.ibip or self.record.identifiers[0]

    @property
    def dublin_core(self) -> DublinCore:
        """The Dublin Core that describes the item; ``{}`` if the Archive has none."""
        metadata = self.record.metadata
        if isinstance(metadata, DublinCoreMetadata):
            return metadata.elements
        return self.described_by or {}

    @property
    def creators(self) -> list[str]:
        """The creators in the Dublin Core of the item."""
        return [text for text, _ in self.dublin_core.get("creator", ())]

    @property
    def embargo(self) -> date | None:
        """The first day (UTC) on which readers may read the files; None if today is not earlier."""
        day = self.record.embargo
        return day if day is not None and self.today < day else None

    @property
    def stated_title(self) -> Text | None:
        """The title in the Dublin Core of the item and the language of the title, or None."""
        return next(iter(self.dublin_core.get("title", ())), None)

    @property
    def title(self) -> str:
        """The title in the Dublin Core; otherwise the public target file; otherwise the IBI."""
        if self.stated_title is not None:
            return self.stated_title[0]
        is_open = self.record.access is None and self.embargo is None
        open_file = self.record.target_path if is_open else None
        return open_file or self.record.identifiers[0]

    def find_file(self, paths: tuple[str, ...]) -> FileRecord | None:
        """Return the file with the first of the paths that exists in the item.

        :returns: None if none of the paths exists in the item.
        """
        files = {file.path: file for file in self.record.files}
        return next((files[path] for path in paths if path in files), None)

    def is_inside(self, address: str) -> bool:
        """Return whether the access rule of the item, if any, allows an IP address."""
        rule = self.record.access
        return rule is None or networks_allow(" ".join(rule.networks), address)

    def allows(self, address: str) -> bool:
        """Return whether a user with an IP address has access to the files of the item today."""
        return self.embargo is None and self.is_inside(address)

    @property
    def is_hidden(self) -> bool:
        """Whether users who may not read the files must not see the description either."""
        return self.record.is_hidden

    def shows_itself(self, address: str) -> bool:
        """Return whether a user with an IP address may see the description or files of the item."""
        return not self.is_hidden or self.allows(address)


def view_item(
    database: Database, archive_id: int, folder: FileStore, ibi: str, today: date
) -> ItemView | None:
    """Return the item that has an identifier; None if this Archive has no such item.

    :param ibi: the identifier in canonical case.
    :param today: the current day (UTC), on which the embargo depends.
    """

    found = database.read(
        lambda connection: read_item_view(
            connection, archive_id, ibi, lambda sha256: str(folder.path(sha256))
        )
    )
    if found is None:
        return None
    return ItemView(
        found.record,
        found.is_service,
        today,
        found.dublin_core,
        found.metadata_language,
        found.related,
        found.sizes,
        found.id,
    )


def view_host_item(record: Record, metadata: Record | None, today: date) -> ItemView:
    """Return the view of an item that is in the catalogue of a host.

    :param metadata: the record of the item that contains the metadata, or None.
    """
    described = None
    if metadata is not None and isinstance(metadata.metadata, DublinCoreMetadata):
        described = None if metadata.is_hidden else metadata.metadata.elements
    related = [
        RelatedItem("translation", ibi, language=language)
        for language, ibi in record.translations.items()
    ]
    if record.next_edition is not None:
        related.insert(0, RelatedItem("later_edition", record.next_edition))
    if record.tombstone is not None and record.tombstone.successor is not None:
        related.append(RelatedItem("successor", record.tombstone.successor))
    language = None if metadata is None else metadata.language
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
    whole = replace(facts, relations=None, filter_url_list=True)
    request = UrlRequest(ibi, (user,), verbs=VerbList(relation))
    searched = OpenCatalogue(catalogue) if is_open else catalogue
    pairs = answer_url_request(searched, request, whole, lambda item: "")
    url = dict(pairs).get("url" + relation.name)
    return url if isinstance(url, str) else None
