"""The items to which acknowledgments refer.

An item is named by its row ID. An item of a host's own catalogue is named by an identifier; it gets
a row with the state Elsewhere when its first access is stored, because accesses refer to rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses.access_rows import find_item
from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.items.relations import find_or_create_stub
from flask_ibi_archive.archive.service.item_catalogue import ItemCatalogue, ItemKey, KeyedFile
from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, Scope
from flask_ibi_archive.errors import IBIError


class NotCounted(IBIError):
    """Raised if an acknowledgment does not count; the message states the reason."""


@dataclass(frozen=True, slots=True)
class AccessedItems:
    """The items of an Archive to which acknowledgments refer."""

    connection: Connection
    served: ServedArchive
    items: ItemCatalogue

    def find(self, ibi: str, scope: Scope, day: date) -> CatalogueItem | None:
        """Return the item with an identifier, or None if there is no such item.

        :param day: the day (UTC) of the access, on which embargoes depend.
        """
        return self.items.open(self.connection, day).find(ibi, scope)

    def get_identifier(self, key: ItemKey) -> str:
        """Return an identifier of an item.

        :raises NotCounted: if the item does not exist, or is in another Archive.
        """
        if isinstance(key, str):
            return key
        found = find_item(self.connection, key)
        if found is None:
            raise NotCounted("the URL key is for an item that no longer exists")
        if found[0] != self.served.id:
            raise NotCounted("the URL key is for an item of another Archive")
        return found[1]

    def find_files(self, keys: Sequence[ItemKey], paths: Sequence[str]) -> Iterator[KeyedFile]:
        """Yield the key of the item, the path and the URL of files of some items.

        Only files that have one of the paths or have a URL are returned.
        """
        return self.items.find_files(self.connection, keys, paths)


def get_row_id(connection: Connection, archive_id: int, key: ItemKey) -> int:
    """Return the row ID of an item.

    :param connection: a connection in a transaction for writing.
    """
    if isinstance(key, int):
        return key
    now = datetime.now(timezone.utc).replace(microsecond=0)
    return find_or_create_stub(connection, archive_id, key, now)
