"""The items of an Archive, as far as URL lists need them: related items, files and access.

A :class:`Catalogue` finds an item by an identifier. The caller passes a :class:`Scope`: the list of
the data that the caller will read. Therefore a database can fetch all the data with few statements.

All users may read the files of an item without an access rule and without an embargo. During an
embargo, nobody may read the files. Without an embargo, an access rule allows only users with an IP
address in one of its networks to read the files. The rule may also hide the description of the item
from all other users (:data:`HIDDEN`). A host's access policy
(:mod:`flask_ibi_archive.archive.items.access`) may decide otherwise for the pages of the Archive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from ipaddress import ip_address, ip_network
from typing import Protocol

from flask_ibi_archive.core.identifiers.grammar import unmap

#: The value of ``AccessRule.others`` that hides the description of an item.
HIDDEN = "none"


def may_read(
    networks: Iterable[str] | None, embargo: date | None, address: str, today: date
) -> bool:
    """Return whether a user may read the files of an item.

    :param networks: the networks of the access rule, in CIDR form; None: there is no access rule.
    :param embargo: the first day (UTC) on which users may read the files, or None.
    :param address: the IP address of the user.
    :param today: the current day (UTC).
    """
    is_open = embargo is None or today >= embargo
    return is_open and (networks is None or networks_allow(networks, address))


def is_closed(embargo: date | None, today: date) -> bool:
    """Return whether an embargo closes the files of an item to all users."""
    return embargo is not None and today < embargo


def networks_allow(networks: Iterable[str] | None, address: str) -> bool:
    """Return whether an IP address is in one of the networks; None means all networks."""
    if networks is None:
        return True
    user = unmap(ip_address(address))
    return any(user in ip_network(network) for network in networks)


#: The formats of Dublin Core that every Archive writes and lists.
DUBLIN_CORE: Mapping[str, None] = {"oai_dc": None}
_FORMAT = re.compile("[A-Za-z0-9_-]+")


def is_format(text: str) -> bool:
    """Return True if a text may be the name of a metadata format: letters, digits, "_" and "-"."""
    return _FORMAT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Scope:
    """The data of an item that the caller will read.

    :param shapes: the relations that the caller will follow, as shapes: one letter for each step,
        such as "um" (see :mod:`~flask_ibi_archive.core.protocol.relations`). All beginnings of each
        shape are included, such as "" and "u".
    :param next_edition: True if the caller will read the next edition.
    :param paths: the possible paths of the requested file. The first path that exists in the item
        is used. () means that no file was requested; then the target file is used.
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


WHOLE = Scope()


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
    :param timestamp: when the metadata were updated last; None if unknown.
    """

    url: str | None
    formats: Mapping[str, str | None]
    timestamp: datetime | None = None


@dataclass(eq=False, slots=True)
class CatalogueItem:
    """An item of an Archive, with the data that the scope lists.

    :param key: the row ID of the item, or an identifier of the item if the host has its own
        catalogue. No other item of the Archive has this key.
    :param state: Original, Copy or Deleted; None for an item of another Archive, of which only the
        IBI is known. An item that was transferred to another Archive is Deleted if it is requested
        itself, and None if it is the target of a relation.
    :param ibip: the IBIp, or the legacy identifier of an item of another Archive.
    :param content_type: Data or Metadata.
    :param timestamp: when the item was updated last or removed; None if unknown.
    :param language: the language of the item, ``xx`` or ``xx-YY``; None if it is unknown.
    :param formats: the formats of an item of content type Metadata. The values are the URLs.
    :param is_service: True if the item represents the Archive service.
    :param networks: the networks of the access rule, in CIDR form; None: there is no rule.
    :param embargo: the first day (UTC) on which users may read the files, or None.
    :param shows_metadata: True if users who may not read the files may still read the metadata.
    :param files: a dictionary from the path of a file to its URL, or to None if the file is in this
        Archive. Other files than the requested one and the target file may be missing.
    :param target_path: the path of the target file.
    :param scope: the part of the catalogue that the request needs.
    :param today: the current day (UTC).

    A catalogue can also pass the related items, in the fields below. A catalogue that does not do
    so overrides the methods that return the fields.

    :ivar described_by: the result of :meth:`metadata`.
    :ivar following: the result of :meth:`next_edition`.
    :ivar members: the translations, including the item itself: a dictionary from the language to
        the item. None: there are no translations.
    """

    key: int | str
    state: str | None
    rep: str | None
    ibip: str | None
    content_type: str = "Data"
    timestamp: datetime | None = None
    language: str | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    is_service: bool = False
    networks: Sequence[str] | None = None
    embargo: date | None = None
    shows_metadata: bool = True
    files: Mapping[str, str | None] = field(default_factory=dict)
    target_path: str | None = None
    scope: Scope = WHOLE
    today: date = date.min
    described_by: CatalogueItem | OwnMetadata | None = None
    following: CatalogueItem | None = None
    members: Mapping[str, CatalogueItem] | None = None

    def allows(self, address: str) -> bool:
        """Return True if a user at an IP address may read the files today."""
        return may_read(self.networks, self.embargo, address, self.today)

    def file(self) -> File | None:
        """Return the first requested file that exists: see ``paths`` of :class:`Scope`; or None."""
        if not self.scope.paths:
            return self.target()
        path = next((path for path in self.scope.paths if path in self.files), None)
        return None if path is None else File(path, self.files[path])

    def target(self) -> File | None:
        """Return the target file, which users get if the request has no path; or None."""
        path = self.target_path
        return None if path is None else File(path, self.files.get(path))

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return the metadata: another item, metadata without an identifier, or None."""
        return self.described_by

    def next_edition(self) -> CatalogueItem | None:
        """Return the next edition, in any Archive and in any state; None if there is none."""
        return self.following

    def last_edition(self) -> CatalogueItem | None:
        """Return the last edition that is not Deleted. This may be the item itself.

        :returns: None if the last edition is in another Archive, or if later editions exist but the
            scope does not follow editions.
        """
        later = self.next_edition()
        if later is not None and not self.scope.follow_editions:
            return None
        last, seen = self, {id(self)}
        # editions of a host may form a circle by mistake
        while later is not None and id(later) not in seen:
            seen.add(id(later))
            if later.state != "Deleted":
                last = later
            later = later.next_edition()
        # the state None means that the item is in another Archive
        return last if last is self or last.state is not None else None

    def translations(self) -> Mapping[str, CatalogueItem]:
        """Return the translations and the item itself, by language; {} without translations."""
        if self.members is None:
            return {} if self.language is None else {self.language: self}
        return self.members


class Catalogue(Protocol):
    """Finds the items of one Archive."""

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier, in any state.

        :param ibi: the canonical text of the identifier.
        :returns: the item; None if the identifier is unknown.
        """
