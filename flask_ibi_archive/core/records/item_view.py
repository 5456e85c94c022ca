"""An item as pages, commands and hosts see it: its record, its description, its related items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier, parse_foreign
from flask_ibi_archive.core.protocol.access import is_closed, may_read, networks_allow
from flask_ibi_archive.core.records.description import Description, Text
from flask_ibi_archive.core.records.record import (
    DublinCore,
    DublinCoreMetadata,
    FileRecord,
    Record,
    RelatedItem,
)


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item for the web pages and the command line.

    :param record: the record of the item. The ``source`` of each file is the path of the stored
        content, or None if no content is stored.
    :param is_service: True if the item is the service of the Archive.
    :param today: the current day (UTC), on which the embargo depends.
    :param described_by: the metadata that the metadata item of the item contains, or None.
    :param metadata_language: the language of the metadata item.
    :param related: the editions and translations of the item, and the item that replaces it.
    :param sizes: the sizes of the stored files in bytes, by path.
    :param id: the id of the item in the tables of the package, or None.
    :param head: an identifier of the first item of the group of translations, if it is another
        item. Unlike the items of ``related``, it may have no language.
    """

    record: Record
    is_service: bool
    today: date
    described_by: DublinCoreMetadata | None = None
    metadata_language: str | None = None
    related: tuple[RelatedItem, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    id: int | None = None
    head: str | None = None

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
    def same_as(self) -> tuple[ForeignIdentifier, ...]:
        """The identifiers of the item in other systems, and its former addresses."""
        return tuple(map(parse_foreign, self.record.same_as))

    @property
    def dublin_core(self) -> DublinCore:
        """The Dublin Core that describes the item; ``{}`` if the Archive has none."""
        return {} if self._stated is None else self._stated.elements

    @property
    def description(self) -> Description | None:
        """The description of the item; None if only Dublin Core describes the item."""
        return None if self._stated is None else self._stated.work

    @property
    def _stated(self) -> DublinCoreMetadata | None:
        """The metadata of the item, or of its metadata item."""
        own = self.record.metadata
        return own if isinstance(own, DublinCoreMetadata) else self.described_by

    @property
    def creators(self) -> list[str]:
        """The creators in the Dublin Core of the item."""
        return [text for text, _ in self.dublin_core.get("creator", ())]

    @property
    def embargo(self) -> date | None:
        """The first day (UTC) on which readers may read the files; None if today is not earlier."""
        return self.record.embargo if is_closed(self.record.embargo, self.today) else None

    @property
    def stated_title(self) -> Text | None:
        """The title in the Dublin Core of the item and the language of the title, or None."""
        return next(iter(self.dublin_core.get("title", ())), None)

    @property
    def title(self) -> str:
        """The title in the Dublin Core; otherwise the public target file; otherwise the IBI."""
        if self.stated_title is not None:
            return self.stated_title[0]
        open_file = self.record.target_path if self.is_open else None
        return open_file or self.record.identifiers[0]

    @property
    def original(self) -> str | None:
        """An identifier of the item of which the item is a translation, or None."""
        return next((other.ibi for other in self.related if other.is_original), None)

    def find_file(self, paths: tuple[str, ...]) -> FileRecord | None:
        """Return the file with the first of the paths that exists in the item.

        :returns: None if none of the paths exists in the item.
        """
        files = {file.path: file for file in self.record.files}
        return next((files[path] for path in paths if path in files), None)

    @property
    def is_open(self) -> bool:
        """Whether all users may read the files of the item today."""
        return self.record.access is None and self.embargo is None

    def is_inside(self, address: str) -> bool:
        """Return whether the networks of the item contain an IP address.

        True if the item has no networks, because the item is then open to all addresses.
        """
        return networks_allow(self.record.networks, address)

    def allows(self, address: str) -> bool:
        """Return whether a user with an IP address has access to the files of the item today."""
        return may_read(self.record.networks, self.record.embargo, address, self.today)

    @property
    def is_hidden(self) -> bool:
        """Whether users who may not read the files must not see the description either."""
        return self.record.is_hidden

    def shows_itself(self, address: str) -> bool:
        """Return whether a user with an IP address may see that the item exists.

        A user who may not read the files usually sees the description; of a hidden item, nothing.
        """
        return not self.is_hidden or self.allows(address)
