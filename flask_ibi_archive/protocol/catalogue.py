"""The interface through which the URL list reads the items of an Archive.

A :class:`Catalogue` finds an item by an identifier. The caller passes a :class:`Scope`, the list of
data that it will read, so that a database can fetch all the data with one statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Scope:
    """The data of an item that the caller will read.

    :param shapes: the shapes of the relations that will be followed, and all beginnings of these
        shapes. A shape has one letter for each step, such as "um" (see
        :mod:`~flask_ibi_archive.protocol.relations`).
    :param next_edition: whether the next edition will be read.
    :param paths: the possible paths of the requested file, the first match wins; if empty, the
        target file is requested.
    :param follow_editions: whether to follow the editions in this Archive to the last edition. If
        False, the last edition of an item that has a next edition is unknown.
    """

    shapes: frozenset[str] = frozenset({""})
    next_edition: bool = False
    paths: tuple[str, ...] = ()
    follow_editions: bool = True


@dataclass(frozen=True, slots=True)
class File:
    """A file of an item.

    :param path: the path of the file within the item.
    :param url: the URL of the file if it is on another server.
    """

    path: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OwnMetadata:
    """Metadata without an identifier; they belong to one item.

    :param url: the URL of the metadata in free form, if another server has them.
    :param formats: the formats of the metadata, each with a URL if another server has that format.
    :param timestamp: the timestamp of the metadata (``YYYY-MM-DDThh:mm:ssZ``), if known.
    """

    url: str | None
    formats: Mapping[str, str | None]
    timestamp: str | None = None


class CatalogueItem(Protocol):
    """An item of an Archive, with the data that the scope lists."""

    @property
    def key(self) -> int:
        """The number of the item, unique within the Archive."""

    @property
    def rep(self) -> str | None:
        """The repository name of the item."""

    @property
    def ibip(self) -> str | None:
        """The IBIp of the item; for an item of another Archive, it may be a legacy identifier."""

    @property
    def state(self) -> str | None:
        """Original, Copy or Deleted; None if only the IBI of the item is known.

        Only the IBI is known of an item of another Archive. An item that was transferred to another
        Archive is Deleted as the requested item, and None as the target of a relation.
        """

    @property
    def content_type(self) -> str:
        """Data or Metadata."""

    @property
    def timestamp(self) -> str:
        """The time of the last update or of the removal, ``YYYY-MM-DDThh:mm:ssZ``."""

    @property
    def language(self) -> str | None:
        """The language, ``xx`` or ``xx-YY``; None if the record states no language."""

    @property
    def is_service(self) -> bool:
        """Whether the item represents the Archive service."""

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats of an item of content type Metadata, with the URL of each."""

    @property
    def shows_metadata(self) -> bool:
        """Whether users who may not read the files may read the metadata."""

    def allows(self, address: str) -> bool:
        """Return whether a user at an IP address may read the files."""

    def file(self) -> File | None:
        """Return the file that the scope requests."""

    def target(self) -> File | None:
        """Return the target file, the file that users get if they request no path."""

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return the metadata: an item, or metadata without an identifier."""

    def next_edition(self) -> CatalogueItem | None:
        """Return the next edition, in any Archive and in any state."""

    def last_edition(self) -> CatalogueItem | None:
        """Return the last edition, which may be the item itself; None if unknown."""

    def translations(self) -> Mapping[str, CatalogueItem]:
        """Return the translations by language, including the item itself."""


class Catalogue(Protocol):
    """The items of one Archive."""

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier (canonical text), in any state; None if unknown."""
