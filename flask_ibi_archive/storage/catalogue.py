"""The catalogue of an Archive. One SQL statement reads all data that a urlRequest needs.

The statement (:mod:`.statements`) returns the requested item and related items, such as editions
and translations. This module finds the relations between these items in the columns of the items.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import starmap
from typing import Any, NamedTuple

from sqlalchemy import Connection

from flask_ibi_archive.protocol.catalogue import (
    File,
    OwnMetadata,
    Scope,
    choose_file,
    choose_last_edition,
)
from flask_ibi_archive.protocol.states import ELSEWHERE
from flask_ibi_archive.storage.statements import Fetched, driver_statement, format_time


class StoredForms(NamedTuple):
    """The two forms of the identifier of an item."""

    rep: str | None
    ibip: str | None


class StoredItem:
    """An item in the result of the statement.

    :param row: the values of the item.
    :param neighbours: all items in the result, by id.
    :param scope: the part of the catalogue that the request needs.
    :param today: the current day (UTC).
    """

    __slots__ = (
        "_files",
        "_neighbours",
        "_row",
        "_scope",
        "_today",
        "content_type",
        "ibip",
        "key",
        "rep",
        "state",
        "timestamp",
    )

    def __init__(
        self, row: Fetched, neighbours: Mapping[int, StoredItem], scope: Scope, today: date
    ) -> None:
        self._neighbours = neighbours
        self._scope = scope
        self._today = today
        self._files: dict[str, str | None] = {}
        self.key = row.id
        self.rep = row.rep
        self.ibip = row.ibip
        self.content_type = row.content_type
        self.timestamp = format_time(row.timestamp)
        self.set_row(row)

    def set_row(self, row: Fetched) -> None:
        """Set the values that may differ between the rows of an item."""
        self._row = row
        self.state = None if row.state == ELSEWHERE else row.state

    @property
    def language(self) -> str | None:
        """The language of the item as ``xx`` or ``xx-YY``. None if the language is not known."""
        return self._row.language

    @property
    def is_service(self) -> bool:
        """True if the item is the service of the Archive."""
        return bool(self._row.is_service)

    @property
    def formats(self) -> Mapping[str, str]:
        """The URL of each metadata format, if the content type of the item is Metadata."""
        return self._row.formats or {}

    @property
    def shows_metadata(self) -> bool:
        """True if users without access to the files may see the metadata."""
        return self._row.access_others != "none"

    def allows(self, address: str) -> bool:
        """Return True if a user at an IP address has access to the files."""
        embargo = self._row.embargo
        if embargo is not None and self._today < date.fromisoformat(embargo):
            return False
        return networks_allow(self._row.access_networks, address)

    def add_file(self, path: str, url: str | None) -> None:
        """Add a file to the item.

        :param url: the URL of a file on another server. None for all other files.
        """
        self._files[path] = url

    def file(self) -> File | None:
        """Return the requested file, or None if the item does not have this file."""
        paths = self._scope.paths
        return choose_file(paths, self._files) if paths else self.target()

    def target(self) -> File | None:
        """Return the target file, or None if the item has no target file."""
        path = self._row.target_path
        return None if path is None else File(path, self._files.get(path))

    def metadata(self) -> StoredItem | OwnMetadata | None:
        """Return the metadata of the item, or None if the item has no metadata.

        The metadata may be a separate item.
        """
        row = self._row
        if row.metadata_item_id is not None:
            return self._neighbours.get(row.metadata_item_id)
        if row.metadata_url is not None:
            changed_at = row.metadata_timestamp and format_time(row.metadata_timestamp)
            return OwnMetadata(row.metadata_url, row.metadata_formats or {}, changed_at)
        if row.has_dublin_core:
            return OwnMetadata(None, self._scope.own_formats, None)
        return None

    def _later_editions(self) -> list[StoredItem]:
        series, number = self._row.edition_series_id, self._row.edition_no or 0
        if series is None:
            return []
        editions = {
            other._row.edition_no or 0: other
            for other in self._neighbours.values()
            if other._row.edition_series_id == series
        }
        return [editions[one] for one in sorted(editions) if one > number]

    def next_edition(self) -> StoredForms | None:
        """Return the next edition of the requested item, or None if no next edition exists.

        The next edition may be Deleted or in another Archive.
        """
        found = StoredForms(self._row.next_rep, self._row.next_ibip)
        return found if any(found) else None

    def last_edition(self) -> StoredItem | None:
        """Return the last edition that is not Deleted. The last edition may be this item.

        :returns: None if the last edition is in another Archive, or if later editions exist but
            the request does not follow editions.
        """
        return choose_last_edition(self, self._later_editions(), self._scope)

    def translations(self) -> Mapping[str, StoredItem]:
        """Return the item and all its translations, by language."""
        group = self._row.translation_group_id
        if group is None:
            return {} if self.language is None else {self.language: self}
        return {
            other.language: other
            for other in self._neighbours.values()
            if other._row.translation_group_id == group and other.language is not None
        }


class StoredCatalogue:
    """The items of one Archive in the database.

    :param connection: the connection for reading. Each call of :meth:`find` runs one statement.
    :param archive_id: the id of the Archive.
    :param today: the current day (UTC), on which embargoes depend.
    """

    def __init__(self, connection: Connection, archive_id: int, today: date) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.today = today

    def find(self, ibi: str, scope: Scope) -> StoredItem | None:
        """Return the item with an identifier, or None if no such item exists.

        The item may be in any state.

        :param ibi: the identifier in canonical case.
        """
        statement = driver_statement(
            self.connection.dialect,
            scope.shapes,
            scope.next_edition,
            len(scope.paths),
            scope.follow_editions,
        )
        parameters: dict[str, Any] = {"archive_id": self.archive_id, "ibi": ibi}
        for number, path in enumerate(scope.paths):
            parameters[f"path_{number}"] = path
        items: dict[int, StoredItem] = {}
        found: StoredItem | None = None
        for row in starmap(Fetched, statement.run(self.connection, parameters)):
            item = items.get(row.id)
            if item is None:
                item = items[row.id] = StoredItem(row, items, scope, self.today)
            if row.id == row.base_id:
                found = item
                # in other rows, the next edition is missing, and a transferred item is Elsewhere
                item.set_row(row)
            if row.file_path is not None:
                item.add_file(row.file_path, row.file_url)
        return found


def networks_allow(networks: str | None, address: str) -> bool:
    """Return True if an IP address is in one of the networks.

    :param networks: the networks in CIDR form, separated by spaces. None means all networks.
    """
    if networks is None:
        return True
    user = ip_address(address)
    if isinstance(user, IPv6Address) and user.ipv4_mapped is not None:
        user = user.ipv4_mapped
    return any(user in ip_network(network) for network in networks.split())
