"""The class of records: the identifiers, relations, metadata and files of an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

#: A value of a Dublin Core element, and the language of the value or None.
Text = tuple[str, "str | None"]
#: The elements of Dublin Core with their values, in the order of the standard.
DublinCore = Mapping[str, tuple[Text, ...]]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of an item.

    :param path: the path of the file within the item.
    :param url: the URL, if the file is on another server.
    :param source: the path on disk, if the file is to be imported.
    :param sha256: the checksum of the file, if known.
    """

    path: str
    url: str | None = None
    source: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataItem:
    """Metadata that are another item."""

    ibi: str


@dataclass(frozen=True, slots=True)
class MetadataAddress:
    """Metadata without an identifier on another server."""

    url: str
    formats: Mapping[str, str] = field(default_factory=dict)
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class DublinCoreMetadata:
    """Metadata that this Archive stores."""

    elements: DublinCore


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A rule about the users who may read the files of an item.

    :param networks: users with an IP address in these networks (CIDR) may read the files.
    :param others: "metadata" if other users may read the metadata, otherwise "none".
    """

    networks: tuple[str, ...]
    others: str = "metadata"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The data that remain of a removed item.

    :param reason: why the item was removed.
    :param citation: the citation of the item as text.
    :param successor: the IBI of the item that replaces it, in any Archive (canonical).
    :param original_archive: for a former Copy or a transferred item, the service IBI of the Archive
        that had the Original at that time and may still have it.
    """

    reason: str
    citation: str | None = None
    successor: str | None = None
    original_archive: str | None = None


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """The record of an item; identifiers are canonical.

    A ``timestamp`` of None means the current time, and a ``target_file`` of None means the first
    file. A host application that deposits an item may use similar types
    (:mod:`flask_ibi_archive.records.format`).
    """

    rep: str | None = None
    ibip: str | None = None
    aliases: tuple[str, ...] = ()
    state: str = "Original"
    original_archive: str | None = None
    timestamp: datetime | None = None
    content_type: str = "Data"
    language: str | None = None
    transferable: bool = True
    next_edition: str | None = None
    translations: Mapping[str, str] = field(default_factory=dict)
    metadata: MetadataItem | DublinCoreMetadata | MetadataAddress | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    files: tuple[FileRecord, ...] = ()
    target_file: str | None = None
    list_files: bool = True
    access: AccessRule | None = None
    tombstone: Tombstone | None = None

    @property
    def identifiers(self) -> tuple[str, ...]:
        """All identifiers of the item, first rep and ibip, then the aliases."""
        return (*filter(None, (self.rep, self.ibip)), *self.aliases)

    @property
    def target_path(self) -> str | None:
        """The path of the target file; None if the item has no file."""
        return self.target_file or (self.files[0].path if self.files else None)

    @property
    def has_references(self) -> bool:
        """Whether the record refers to other items."""
        return bool(
            self.next_edition or self.translations or isinstance(self.metadata, MetadataItem)
        )
