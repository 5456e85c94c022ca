"""The items of an Archive, in the tables of this package or in a host's own catalogue.

The statement (:mod:`.catalogue_sql`) returns the requested item and related items, such as
editions and translations. This module finds the relations between these items in the columns of the
items.

Requests, pages, counts and commands read items through :class:`ItemCatalogue`. They need not know
where the items are. The service of the Archive is always in the tables of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import starmap
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.items.conditions import select_items
from flask_ibi_archive.archive.items.exporting import export_records
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.identifiers import find_owners
from flask_ibi_archive.archive.items.item_parts import find_files
from flask_ibi_archive.archive.items.reading import ItemReader
from flask_ibi_archive.archive.items.same_as import find_holders, has_addresses
from flask_ibi_archive.archive.items.viewing import view_item
from flask_ibi_archive.archive.service.catalogue_sql import (
    Fetched,
    compile_statement,
    format_time,
)
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier
from flask_ibi_archive.core.protocol.access import HIDDEN
from flask_ibi_archive.core.protocol.catalogue import Catalogue, CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.database import Database

#: The key of an item: its row ID, or an identifier of an item of the host.
ItemKey: TypeAlias = int | str
#: The key of an item, the path and the URL of one of its files.
KeyedFile: TypeAlias = tuple[ItemKey, str, str | None]


class StoredForms(NamedTuple):
    """The two forms of the identifier of an item."""

    rep: str | None
    ibip: str | None


def make_items(
    rows: Iterable[Fetched], scope: Scope, today: date
) -> tuple[CatalogueItem | None, list[CatalogueItem]]:
    """Return the requested item, or None, and all items of the rows. The items refer to each other.

    :param rows: the result of the statement of :mod:`.catalogue_sql`.
    :param scope: the part of the catalogue that the request needs.
    :param today: the current day (UTC), on which embargoes depend.
    """
    requested = None
    chosen: dict[int, Fetched] = {}
    files: dict[int, dict[str, str | None]] = {}
    for row in rows:
        if row.id == row.base_id:
            requested = row.id
        # A row with base_id is preferred: in other rows of the requested item, the next edition is
        # missing, and a transferred item has the state Elsewhere.
        if row.id == row.base_id or row.id not in chosen:
            chosen[row.id] = row
        if row.file_path is not None:
            files.setdefault(row.id, {})[row.file_path] = row.file_url
    items = {
        row.id: _make_item(row, files.get(row.id, {}), scope, today) for row in chosen.values()
    }
    _relate(items, chosen.values(), scope)
    return None if requested is None else items[requested], [*items.values()]


def _make_item(
    row: Fetched, files: Mapping[str, str | None], scope: Scope, today: date
) -> CatalogueItem:
    return CatalogueItem(
        row.id,
        None if row.state == ELSEWHERE else row.state,
        row.rep,
        row.ibip,
        row.content_type,
        format_time(row.timestamp),
        row.language,
        row.formats or {},
        bool(row.is_service),
        None if row.access_networks is None else row.access_networks.split(),
        None if row.embargo is None else date.fromisoformat(row.embargo),
        row.access_others != HIDDEN,
        files,
        row.target_path,
        scope,
        today,
    )


def _relate(items: Mapping[int, CatalogueItem], rows: Iterable[Fetched], scope: Scope) -> None:
    """Set the relations between items."""
    groups: dict[int, dict[str, CatalogueItem]] = {}
    series: dict[int, dict[int, CatalogueItem]] = {}
    for row in rows:
        item = items[row.id]
        item.described_by = _find_metadata(row, items, scope)
        if row.next_rep is not None or row.next_ibip is not None:
            item.following = StoredForms(row.next_rep, row.next_ibip)
        if row.edition_series_id is not None:
            series.setdefault(row.edition_series_id, {})[row.edition_no or 0] = item
        if row.translation_group_id is not None:
            item.members = members = groups.setdefault(row.translation_group_id, {})
            if item.language is not None:
                members[item.language] = item
    for editions in series.values():
        chain = [edition for _, edition in sorted(editions.items(), key=itemgetter(0))]
        for number, item in enumerate(chain, 1):
            item.later = chain[number:]


def _find_metadata(
    row: Fetched, items: Mapping[int, CatalogueItem], scope: Scope
) -> CatalogueItem | OwnMetadata | None:
    if row.metadata_item_id is not None:
        return items.get(row.metadata_item_id)
    if row.metadata_url is not None:
        changed_at = row.metadata_timestamp and format_time(row.metadata_timestamp)
        return OwnMetadata(row.metadata_url, row.metadata_formats or {}, changed_at)
    return OwnMetadata(None, scope.own_formats, None) if row.has_dublin_core else None


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

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier, or None if no such item exists.

        The item may be in any state.

        :param ibi: the identifier in canonical case.
        """
        statement = compile_statement(
            self.connection.dialect,
            scope.shapes,
            scope.next_edition,
            len(scope.paths),
            scope.follow_editions,
        )
        parameters: dict[str, Any] = {"archive_id": self.archive_id, "ibi": ibi}
        for number, path in enumerate(scope.paths):
            parameters[f"path_{number}"] = path
        rows = starmap(Fetched, statement.run(self.connection, parameters))
        return make_items(rows, scope, self.today)[0]


class CannotList(StorageError):
    """The catalogue of a host has no method that lists its items."""


class ItemCatalogue(Protocol):
    """The items of an Archive."""

    @property
    def records(self) -> RecordSource | None:
        """The items as records, if they are not in the tables of this package; otherwise None.

        Lists for harvesters and crawlers are made from these records. For items in the tables of
        this package, the lists are made with SQL statements.
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
    ) -> Generator[Record, None, None]:
        """Yield the records of items; see :meth:`Archive.list_records`."""

    def count(self) -> int | None:
        """Return the number of items that :meth:`list` yields; None if the number is unknown."""

    def find_rows(self, connection: Connection, ibi: str) -> Collection[int]:
        """Return the IDs of the rows to which the accesses of an item refer.

        :param ibi: an identifier of the item, in canonical case.
        :raises UnknownItem: if there is no such item.
        """

    def find_by_alias(
        self, connection: Connection, aliases: Sequence[ForeignIdentifier]
    ) -> tuple[ForeignIdentifier, str] | None:
        """Return the first of some aliases that an item has, and an identifier of this item.

        The aliases are identifiers of other systems and former addresses (the field ``same_as``).

        :returns: None if no item has one of the aliases.
        """

    def may_have_addresses(self) -> bool:
        """Return whether an item may have a former address.

        :raises NotReady: if the database does not answer.
        """

    def find_files(
        self, connection: Connection, keys: Sequence[ItemKey], paths: Sequence[str]
    ) -> Iterator[KeyedFile]:
        """Yield the files of some items that have one of the paths or have a URL."""


class RecordSource(ItemCatalogue, Protocol):
    """Items that are not in the tables of this package. They are available as records."""

    @property
    def name(self) -> str:
        """The name of the source, for messages."""

    @property
    def can_list(self) -> bool:
        """True if the source lists its items."""

    @property
    def can_list_changes(self) -> bool:
        """True if the source lists its changed items without reading all of them."""

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
    ) -> Generator[Record, None, None]:
        """Yield the records of items, which are read in one transaction."""
        selection, archive_id = select_items(state, search), self.find_served().id
        return export_records(self._database, archive_id, self._folder, selection, limit)

    def count(self) -> int:
        """Return the number of items."""
        archive_id = self.find_served().id
        return self._database.read(
            lambda connection: ItemReader(connection, archive_id).count_records()
        )

    def find_rows(self, connection: Connection, ibi: str) -> Collection[int]:
        """Return the row ID of an item."""
        owners = find_owners(connection, self.find_served().id, [ibi])
        item_id, state = owners.get(ibi, (0, ELSEWHERE))
        if state == ELSEWHERE:
            raise UnknownItem(ibi)
        return [item_id]

    def find_by_alias(
        self, connection: Connection, aliases: Sequence[ForeignIdentifier]
    ) -> tuple[ForeignIdentifier, str] | None:
        """Return the first of some aliases that an item has, and an identifier of this item."""
        digests = [alias.digest for alias in aliases]
        holders = find_holders(connection, self.find_served().id, digests)
        return next(
            ((alias, holders[alias.digest][1]) for alias in aliases if alias.digest in holders),
            None,
        )

    def may_have_addresses(self) -> bool:
        """Return whether an item has a former address; see :func:`.has_addresses`."""
        return has_addresses(self._database)

    def find_files(
        self, connection: Connection, keys: Sequence[ItemKey], paths: Sequence[str]
    ) -> Iterator[KeyedFile]:
        """Yield the files of some items that have one of the paths or have a URL."""
        ids = [key for key in keys if isinstance(key, int)]
        if ids:
            yield from find_files(connection, ids, [*paths])
