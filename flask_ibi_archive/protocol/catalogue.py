"""The interface through which the URL list reads the items of an Archive.

A :class:`Catalogue` finds an item by an identifier. The caller passes a :class:`Scope`: the list of
the data that the caller will read. Therefore a database can fetch all the data with one statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from flask_ibi_archive.protocol.states import State

#: The formats of Dublin Core that every Archive writes and lists.
DUBLIN_CORE: Mapping[str, None] = {"oai_dc": None}


@dataclass(frozen=True, slots=True)
class Scope:
    """The data of an item that the caller will read.

    :param shapes: the shapes of the relations that the caller will follow, and all beginnings of
        these shapes. A shape has one letter for each step, such as "um" (see
        :mod:`~flask_ibi_archive.protocol.relations`).
    :param next_edition: True if the caller will read the next edition.
    :param paths: the possible paths of the requested file. The first path that exists is the
        requested file. Without paths, the target file is the requested file.
    :param follow_editions: True if the catalogue finds the last edition by following the next
        editions in this Archive. If False, the last edition of an item that has a next edition is
        unknown.
    :param own_formats: the formats in which the Archive itself writes Dublin Core, as the keys of
        :attr:`OwnMetadata.formats`.
    """

    shapes: frozenset[str] = frozenset({""})
    next_edition: bool = False
    paths: tuple[str, ...] = ()
    follow_editions: bool = True
    own_formats: Mapping[str, None] = field(default_factory=lambda: DUBLIN_CORE, hash=False)


@dataclass(frozen=True, slots=True)
class File:
    """A file of an item.

    :param path: the path of the file within the item.
    :param url: the URL of the file if the file is on another server; otherwise None.
    """

    path: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class OwnMetadata:
    """Metadata of one item. These metadata have no identifier.

    :param url: the URL of the metadata in free form if the metadata are on another server.
    :param formats: the formats of the metadata. The value for a format is a URL if the metadata in
        this format are on another server; otherwise None.
    :param timestamp: the timestamp of the metadata (``YYYY-MM-DDThh:mm:ssZ``); None if unknown.
    """

    url: str | None
    formats: Mapping[str, str | None]
    timestamp: str | None = None


class NextEdition(Protocol):
    """The identifiers of the next edition of an item."""

    @property
    def rep(self) -> str | None:
        """The repository name of the item, or None."""

    @property
    def ibip(self) -> str | None:
        """The IBIp of the item, or the legacy identifier of an item of another Archive."""


class CatalogueItem(NextEdition, Protocol):
    """An item of an Archive, with the data that the scope lists."""

    @property
    def key(self) -> int | str:
        """The row ID of the item; for an item of a host's own catalogue, one of its identifiers.

        No other item of the Archive has this key. URL keys contain it.
        """

    @property
    def state(self) -> str | None:
        """Original, Copy or Deleted; None for an item of another Archive.

        This Archive knows only the IBI of an item of another Archive. For an item that was
        transferred to another Archive, the value is Deleted if the item is the requested item. The
        value is None if the item is the target of a relation.
        """

    @property
    def content_type(self) -> str:
        """Data or Metadata."""

    @property
    def timestamp(self) -> str:
        """The time when the item was updated last or removed, as ``YYYY-MM-DDThh:mm:ssZ``."""

    @property
    def language(self) -> str | None:
        """The language of the item, ``xx`` or ``xx-YY``; None if the language is unknown."""

    @property
    def is_service(self) -> bool:
        """True if the item represents the Archive service."""

    @property
    def formats(self) -> Mapping[str, str]:
        """The formats of an item of content type Metadata. The values are the URLs."""

    @property
    def shows_metadata(self) -> bool:
        """True if the metadata are for all users, including users who may not read the files."""

    def allows(self, address: str) -> bool:
        """Return True if a user at an IP address may read the files today.

        Networks and embargoes decide.
        """

    def file(self) -> File | None:
        """Return the file that the scope requests."""

    def target(self) -> File | None:
        """Return the target file: the file that users get without a path in the request."""

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return the metadata of the item: another item, or metadata without an identifier."""

    def next_edition(self) -> NextEdition | None:
        """Return the next edition of the requested item, in any Archive and in any state."""

    def last_edition(self) -> CatalogueItem | None:
        """Return the last edition; None if unknown. The item itself may be the last edition."""

    def translations(self) -> Mapping[str, CatalogueItem]:
        """Return the translations. The keys are languages. The item itself is included."""


class Catalogue(Protocol):
    """The items of one Archive."""

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier, in any state.

        :param ibi: the canonical text of the identifier.
        :returns: the item; None if the identifier is unknown.
        """


# --- the rules that all catalogues share ---------------------------------------------------------

Found = TypeVar("Found", bound=CatalogueItem)


def choose_file(paths: Sequence[str], files: Mapping[str, str | None]) -> File | None:
    """Return the requested file of an item; None if the item does not have this file.

    :param paths: the possible paths of the requested file (``Scope.paths``).
    :param files: the URL of each file of the item, by path. None: the file is in this Archive.
    """
    for path in paths:
        if path in files:
            return File(path, files[path])
    return None


def choose_last_edition(item: Found, later: Sequence[Found], scope: Scope) -> Found | None:
    """Return the last edition of an item that is not Deleted. This may be the item itself.

    :param later: all later editions, in their order.
    :returns: None if the last edition is in another Archive, or if later editions exist but the
        scope does not follow editions.
    """
    if not later:
        return item
    if not scope.follow_editions:
        return None
    for one in reversed(later):
        if one.state != State.DELETED:
            return None if one.state is None else one
    return item


class OpenItem:
    """An item for users who have access to all files of all items.

    :param item: the item.
    """

    def __init__(self, item: CatalogueItem) -> None:
        self._item = item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._item, name)

    def allows(self, address: str) -> bool:
        """Return True, because these users have access to all files."""
        return True

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return the metadata of the item."""
        found = self._item.metadata()
        return found if found is None or isinstance(found, OwnMetadata) else open_item(found)

    def last_edition(self) -> CatalogueItem | None:
        """Return the last edition; None if unknown."""
        found = self._item.last_edition()
        return None if found is None else open_item(found)

    def translations(self) -> Mapping[str, CatalogueItem]:
        """Return the translations, by language."""
        return {language: open_item(one) for language, one in self._item.translations().items()}


def open_item(item: CatalogueItem) -> CatalogueItem:
    """Return an item for users who have access to all files of all items."""
    return cast(CatalogueItem, OpenItem(item))


class OpenCatalogue:
    """A catalogue for users who have access to all files of all items.

    :param catalogue: the catalogue with the same items.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier; None if the identifier is unknown."""
        found = self._catalogue.find(ibi, scope)
        return None if found is None else open_item(found)
