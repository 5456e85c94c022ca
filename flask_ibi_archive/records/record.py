"""The record of an item: its identifiers, relations, metadata and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

#: A value of a Dublin Core element and its language (None if not stated).
Text = tuple[str, "str | None"]
#: Elements of unqualified Dublin Core, in its order, with their values.
DublinCore = Mapping[str, tuple[Text, ...]]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of an item: on another server (url), on disk (source), or only named."""

    path: str
    url: str | None = None
    source: str | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataItem:
    """Metadata that are an identified item."""

    ibi: str


@dataclass(frozen=True, slots=True)
class MetadataAddress:
    """Metadata on another server that are not an identified item."""

    url: str
    formats: Mapping[str, str] = field(default_factory=dict)
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class DublinCoreMetadata:
    """Metadata stored in this Archive."""

    elements: DublinCore


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may read the files of an item: users in some networks (CIDR).

    :param others: what other users may read: "metadata" or "none".
    """

    networks: tuple[str, ...]
    others: str = "metadata"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The data about an item that was removed.

    :param reason: why it was removed.
    :param citation: its citation as text.
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

    A ``timestamp`` of None means now, a ``target_file`` of None the first file. A record to deposit
    may also have lists instead of tuples, a text instead of a list with that text, and the JSON
    form of ``metadata`` and ``access`` (:mod:`flask_ibi_archive.records.format`).
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
        """All identifiers of the item, rep and ibip first."""
        return (*filter(None, (self.rep, self.ibip)), *self.aliases)

    @property
    def target_path(self) -> str | None:
        """The path of its target file, None if it has no file."""
        return self.target_file or (self.files[0].path if self.files else None)

    @property
    def has_references(self) -> bool:
        """Whether it refers to other items."""
        return bool(
            self.next_edition or self.translations or isinstance(self.metadata, MetadataItem)
        )
