"""The interface between the protocol and a storage of items, which Algorithm 2 uses.

A :class:`Catalogue` finds an item by one of its identifiers. A :class:`Scope` says in advance which
of its data will be read, so that a storage can fetch all of them with one statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Scope:
    """The data of an item that will be read.

    :param shapes: the shapes of the relations to be followed (one letter per step, such as "um"),
        with all their prefixes.
    :param next_edition: whether its next edition will be read.
    :param paths: the requested file of each related item: the first of these paths that exists;
        if empty, its target file.
    :param follow_editions: whether the editions in this Archive are followed to the last one;
        otherwise the last edition of an item with a next edition is unknown.
    """

    shapes: frozenset[str] = frozenset({""})
    next_edition: bool = False
    paths: tuple[str, ...] = ()
    follow_editions: bool = True


@dataclass(frozen=True, slots=True)
class File:
    """A file of an item.

    :param path: its path within the item.
    :param url: its URL if another server has it.
    """

    path: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OwnMetadata:
    """Metadata that are not an identified item.

    :param url: the URL of their free form if another server has it.
    :param formats: their formats; each with its URL if another server has it.
    :param timestamp: their own timestamp (``YYYY-MM-DDThh:mm:ssZ``), if known.
    """

    url: str | None
    formats: Mapping[str, str | None]
    timestamp: str | None = None


class CatalogueItem(Protocol):
    """An item of an Archive, with the data of the scope that it was found for."""

    @property
    def key(self) -> int:
        """A number that is unique within the Archive; URL keys contain it."""

    @property
    def rep(self) -> str | None:
        """Its repository name."""

    @property
    def ibip(self) -> str | None:
        """Its IBIp; for an item of another Archive possibly a legacy identifier."""

    @property
    def state(self) -> str | None:
        """Original, Copy or Deleted; None if only the IBI of an item elsewhere is known.

        A tombstone that names the Archive of the Original is Deleted as the requested item, and
        None as the target of a relation.
        """

    @property
    def content_type(self) -> str:
        """Data or Metadata."""

    @property
    def timestamp(self) -> str:
        """Of the last update or removal, ``YYYY-MM-DDThh:mm:ssZ``."""

    @property
    def language(self) -> str | None:
        """``xx`` or ``xx-YY``, None if not stated."""

    @property
    def is_service(self) -> bool:
        """Whether it is the Archive service itself."""

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats of an item of content type Metadata, with the URL of each."""

    @property
    def shows_metadata(self) -> bool:
        """Whether users without access to its files may read its metadata."""

    def allows(self, address: str) -> bool:
        """Return whether a user at an IP address may read its files."""

    def file(self) -> File | None:
        """Return the requested file of the scope."""

    def target(self) -> File | None:
        """Return its target file."""

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return its metadata: an item, or metadata of its own."""

    def next_edition(self) -> CatalogueItem | None:
        """Return its next edition, in any Archive and in any state."""

    def last_edition(self) -> CatalogueItem | None:
        """Return the last item of its chain of editions, possibly itself; None if unknown."""

    def translations(self) -> Mapping[str, CatalogueItem]:
        """Return the items of its group of translations by language, including itself."""


class Catalogue(Protocol):
    """The items of one Archive."""

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier (canonical text), in any state, or None."""
