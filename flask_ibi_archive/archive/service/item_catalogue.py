"""The items of an Archive, in the tables of this package or in a host's own catalogue.

Requests, pages, counts and commands read items through :class:`ItemCatalogue`. They need not know
where the items are. The service of the Archive is always in the tables of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from datetime import date, datetime
from typing import Protocol, TypeAlias

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.items.exporting import export_records
from flask_ibi_archive.archive.items.file_rows import find_files
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.identifiers import find_owners
from flask_ibi_archive.archive.items.item_search import select_items
from flask_ibi_archive.archive.items.reading import ItemReader, OnMalformed, log_malformed
from flask_ibi_archive.archive.items.viewing import view_item
from flask_ibi_archive.archive.service.stored_catalogue import StoredCatalogue
from flask_ibi_archive.core.protocol.catalogue import Catalogue
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.database import Database

#: The key of an item: its row ID, or an identifier of an item of the host.
ItemKey: TypeAlias = int | str
#: The key of an item, the path and the URL of one of its files.
KeyedFile: TypeAlias = tuple[ItemKey, str, str | None]


class CannotList(StorageError):
    """The catalogue of a host has no method that lists its items."""


class ItemCatalogue(Protocol):
    """The items of an Archive."""

    @property
    def records(self) -> RecordSource | None:
        """The items as records if they are not in the tables of this package; otherwise None.

        Lists for harvesters and crawlers are made from these records, or with statements.
        """

    def open(self, connection: Connection, today: date) -> Catalogue:
        """Return the catalogue that answers urlRequests.

        :param today: the current day (UTC), on which embargoes depend.
        """

    def view(self, ibi: str, today: date) -> ItemView | None:
        """Return an item for pages and commands; None if there is no such item.

        :param ibi: an identifier of the item, in canonical case.
        """

    def list(
        self,
        search: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        on_malformed: OnMalformed = log_malformed,
    ) -> Generator[Record, None, None]:
        """Yield the records of items; see :meth:`Archive.list_records`."""

    def count(self) -> int | None:
        """Return the number of items that :meth:`list` yields; None if nobody has counted them."""

    def find_rows(self, connection: Connection, ibi: str) -> Collection[int]:
        """Return the IDs of the rows to which the accesses of an item refer.

        :param ibi: an identifier of the item, in canonical case.
        :raises UnknownItem: if there is no such item.
        """

    def find_files(
        self, connection: Connection, keys: Sequence[ItemKey], paths: Sequence[str]
    ) -> Iterator[KeyedFile]:
        """Yield the files of some items that have one of the paths or have a URL."""


class RecordSource(ItemCatalogue, Protocol):
    """Items that SQL statements of this package can't select, as records."""

    @property
    def name(self) -> str:
        """The name of the source, for messages."""

    @property
    def can_list(self) -> bool:
        """True if the source lists its items."""

    def find_record(self, ibi: str) -> Record | None:
        """Return the record of the item with an identifier; None if there is no such item."""

    def iterate_changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterator[tuple[tuple[datetime, str], Record | None]]:
        """Yield the positions and records of changed items; see :meth:`RecordCatalogue.changes`."""


class StoredItems:
    """The items in the tables of this package.

    :param find_served: returns the Archive that the app serves.
    :param folder: the store that contains the files of the items.
    """

    records: RecordSource | None = None

    def __init__(
        self, database: Database, find_served: Callable[[], ServedArchive], folder: FileStore
    ) -> None:
        self._database = database
        self.find_served = find_served
        self._folder = folder

    def open(self, connection: Connection, today: date) -> Catalogue:
        """Return the catalogue that answers urlRequests."""
        return StoredCatalogue(connection, self.find_served().id, today)

    def view(self, ibi: str, today: date) -> ItemView | None:
        """Return an item for pages and commands; None if there is no such item."""
        return view_item(self._database, self.find_served().id, self._folder, ibi, today)

    def list(
        self,
        search: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        on_malformed: OnMalformed = log_malformed,
    ) -> Generator[Record, None, None]:
        """Yield the records of items, which are read in one transaction."""
        selection, archive_id = select_items(state, search), self.find_served().id
        return export_records(
            self._database, archive_id, self._folder, selection, limit, on_malformed
        )

    def count(self) -> int:
        """Return the number of items."""
        archive_id = self.find_served().id
        return self._database.read(
            lambda connection: ItemReader(connection, archive_id).count_records()
        )

    def find_rows(self, connection: Connection, ibi: str) -> Collection[int]:
        """Return the row ID of an item."""
        item_id, state = find_owners(connection, self.find_served().id, [ibi]).get(
            ibi, (0, ELSEWHERE)
        )
        if state == ELSEWHERE:
            raise UnknownItem(ibi)
        return [item_id]

    def find_files(
        self, connection: Connection, keys: Sequence[ItemKey], paths: Sequence[str]
    ) -> Iterator[KeyedFile]:
        """Yield the files of some items that have one of the paths or have a URL."""
        ids = [key for key in keys if isinstance(key, int)]
        if ids:
            yield from find_files(connection, ids, [*paths])
