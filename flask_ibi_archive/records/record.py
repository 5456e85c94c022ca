"""What a record says of an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

#: A value of a Dublin Core element, with the language it is in (None: not stated).
Text = tuple[str, "str | None"]
#: Elements of unqualified Dublin Core, in its order, with their values.
DublinCore = Mapping[str, tuple[Text, ...]]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of an item: served elsewhere (url), taken in from the disk (source), or only named."""

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
    """Metadata that are served elsewhere and are no identified item."""

    url: str
    formats: Mapping[str, str] = field(default_factory=dict)
    timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class DublinCoreMetadata:
    """Metadata kept here."""

    elements: DublinCore


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Who may have the files of an item: users in some networks (CIDR).

    :param others: what the others get: "metadata" or "none".
    """

    networks: tuple[str, ...]
    others: str = "metadata"


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is said of an item that was removed.

    :param reason: why it was.
    :param citation: how it was cited, as text.
    :param successor: the IBI of the item that takes its place, wherever that is (canonical).
    :param original_archive: of what was a Copy here, or was transferred: the service IBI of the
        Archive that kept the Original then, where the item may live on.
    """

    reason: str
    citation: str | None = None
    successor: str | None = None
    original_archive: str | None = None


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """An item. Identifiers are canonical; ``timestamp`` None means now, ``target_file`` None the
    first.

    A record to deposit may also hold lists in place of tuples, a text in place of a list with that
    text alone, and the JSON form of ``metadata`` and ``access``
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
        """Every identifier that the item bears, its forms first."""
        return (*filter(None, (self.rep, self.ibip)), *self.aliases)

    @property
    def target_path(self) -> str | None:
        """The path of its target file, None where it has no file."""
        return self.target_file or (self.files[0].path if self.files else None)

    @property
    def has_references(self) -> bool:
        """Whether it speaks of other items."""
        return bool(
            self.next_edition or self.translations or isinstance(self.metadata, MetadataItem)
        )
