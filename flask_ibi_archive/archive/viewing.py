"""Views of items for people: the record of an item, and which users may see it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from flask_ibi_archive.identifiers import Identifier
from flask_ibi_archive.protocol.messages import UrlRequest
from flask_ibi_archive.protocol.relations import Relation, Step
from flask_ibi_archive.protocol.url_list import ArchiveFacts, answer_url_request
from flask_ibi_archive.protocol.verbs import VerbList
from flask_ibi_archive.records.record import DublinCoreMetadata, FileRecord, ItemRecord, Text
from flask_ibi_archive.storage.catalogue import StoredCatalogue, networks_allow
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.file_store import FileStore
from flask_ibi_archive.storage.identifiers import find_owners
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.reading import ItemReader
from flask_ibi_archive.storage.states import ELSEWHERE


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item for the web pages and the command line.

    The ``source`` of a file is the path of its content, None if that is not stored here.
    """

    record: ItemRecord
    is_service: bool

    @property
    def rep(self) -> str | None:
        """Its repository name."""
        return self.record.rep

    @property
    def ibip(self) -> str | None:
        """Its IBIp."""
        return self.record.ibip

    @property
    def stated_title(self) -> Text | None:
        """The title in its Dublin Core, with the language of the title."""
        metadata = self.record.metadata
        if isinstance(metadata, DublinCoreMetadata):
            return next(iter(metadata.elements.get("title", ())), None)
        return None

    @property
    def title(self) -> str:
        """The title to show: that of its Dublin Core, or its target file if public, or its IBI."""
        if self.stated_title is not None:
            return self.stated_title[0]
        open_file = self.record.target_path if self.record.access is None else None
        return open_file or self.record.identifiers[0]

    def find_file(self, paths: tuple[str, ...]) -> FileRecord | None:
        """Return its first file with one of the paths, None if it has none of them."""
        files = {file.path: file for file in self.record.files}
        return next((files[path] for path in paths if path in files), None)

    def allows(self, address: str) -> bool:
        """Return whether a user at an IP address has access to its files."""
        rule = self.record.access
        return rule is None or networks_allow(" ".join(rule.networks), address)

    def shows_itself(self, address: str) -> bool:
        """Return whether a user at an IP address may see its description or its files."""
        rule = self.record.access
        return rule is None or rule.others == "metadata" or self.allows(address)


def view_item(database: Database, archive_id: int, folder: FileStore, ibi: str) -> ItemView | None:
    """Return the item that bears an identifier (canonical), None where there is none here."""

    def look(connection: Connection) -> ItemView | None:
        owners = find_owners(connection, archive_id, [ibi])
        item_id, state = owners.get(ibi, (0, ELSEWHERE))
        if state == ELSEWHERE:
            return None
        reader = ItemReader(connection, archive_id, lambda sha256: str(folder.path(sha256)))
        is_service = ItemStore(connection, archive_id).is_service(item_id)
        return ItemView(reader.read_record(item_id), is_service)

    return database.read(look)


def find_metadata_url(
    database: Database,
    archive_id: int,
    facts: ArchiveFacts,
    ibi: Identifier,
    user: str,
    step: Step,
) -> str | None:
    """Return the URL of the metadata of an item for a user, as in a complete URL list.

    :param user: the IP address of the user.
    :param step: the step to the metadata, in free form or in a format.
    :returns: None if there is no such URL.
    """
    relation = Relation((step,))
    whole = replace(facts, relations=None, filter_url_list=True)
    with database.reading() as connection:
        pairs = answer_url_request(
            StoredCatalogue(connection, archive_id),
            UrlRequest(ibi, (user,), verbs=VerbList(relation)),
            whole,
            lambda item: "",
        )
    url = dict(pairs).get("url" + relation.name)
    return url if isinstance(url, str) else None
