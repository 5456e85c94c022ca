"""What Algorithm 2 asks of a storage: the small interface between protocol and storage.

A :class:`Catalogue` finds an item by one of its identifiers. The :class:`Scope` says beforehand
what will be asked of it, so that a storage can fetch all of it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Scope:
    """What will be asked of an item.

    :param shapes: the shapes of the relations that will be followed (a letter a step, such as
        "um"), what they begin with included.
    :param next_edition: whether its next edition will be asked for.
    :param paths: the file asked for of each item reached, as paths of which the first that exists
        counts; empty: their target files.
    :param follow_editions: whether editions that live here are followed to the last one; otherwise
        an item that has a next edition has no known last one.
    """

    shapes: frozenset[str] = frozenset({""})
    next_edition: bool = False
    paths: tuple[str, ...] = ()
    follow_editions: bool = True


@dataclass(frozen=True, slots=True)
class File:
    """A file of an item.

    :param path: its path within the item.
    :param url: where it is served, when elsewhere.
    """

    path: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OwnMetadata:
    """Metadata that is no identified item.

    :param url: its free form, when that is served elsewhere.
    :param formats: the formats that it carries, with the URL of each that is served elsewhere.
    :param timestamp: its own (``YYYY-MM-DDThh:mm:ssZ``), where known.
    """

    url: str | None
    formats: Mapping[str, str | None]
    timestamp: str | None = None


class CatalogueItem(Protocol):
    """An item as an Archive knows it. What is asked outside the scope it was found for is
    undefined.
    """

    @property
    def key(self) -> int:
        """A number that tells it from the Archive's other items; URL keys carry it."""

    @property
    def rep(self) -> str | None:
        """Its repository name."""

    @property
    def ibip(self) -> str | None:
        """Its IBIp (of an item elsewhere perhaps a legacy identifier)."""

    @property
    def state(self) -> str | None:
        """Original, Copy or Deleted; None: it is in another Archive and only its IBI is known.

        A tombstone that names the Archive of the Original is Deleted as the item that was asked
        for, and None as the target of a relation.
        """

    @property
    def content_type(self) -> str:
        """Data or Metadata."""

    @property
    def timestamp(self) -> str:
        """Of the last update or removal, ``YYYY-MM-DDThh:mm:ssZ``."""

    @property
    def language(self) -> str | None:
        """``xx`` or ``xx-YY``, None: not stated."""

    @property
    def is_service(self) -> bool:
        """Whether it is the Archive service itself."""

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats that an item of content type Metadata carries, with the URL of each."""

    @property
    def shows_metadata(self) -> bool:
        """Whether its metadata are given to those who may not have its files."""

    def allows(self, address: str) -> bool:
        """Tell whether a user at an IP address may have its files."""

    def file(self) -> File | None:
        """Return the file that the scope asks for."""

    def target(self) -> File | None:
        """Return its target file."""

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return its metadata, an item or not."""

    def next_edition(self) -> CatalogueItem | None:
        """Return its next edition, wherever it lives, deleted or not."""

    def last_edition(self) -> CatalogueItem | None:
        """Return the end of its chain of editions, itself included; None: unknown."""

    def translations(self) -> Mapping[str, CatalogueItem]:
        """Return the members of its group of translations that state a language, itself included."""


class Catalogue(Protocol):
    """The items of one Archive."""

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item that bears an identifier (canonical text), whatever its state, or None."""
