"""Finds the items for a urlRequest, in the tables of this package or in a host's own catalogue.

The first statement reads the requested item by its identifier. Then each step of the relations that
the request follows takes one more statement, which reads the related items of all items found so
far. Therefore the number of statements depends on the relations only, and not on the number of
items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from flask_ibi_archive.archive.items import read, tables
from flask_ibi_archive.archive.items.files import FileStore
from flask_ibi_archive.archive.items.ownership import find_same_as_holders, has_addresses
from flask_ibi_archive.archive.items.served_archives import ServedArchive
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.catalogue_items import (
    HIDDEN,
    Catalogue,
    CatalogueItem,
    OwnMetadata,
    Scope,
)
from flask_ibi_archive.core.protocol.relations import list_next_items, split_shapes
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import ItemView, Record
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import is_listed, list_few, list_values

# --- statements --------------------------------------------------------------------------------


# SQLAlchemy builds statements faster with tables than with ORM classes
ITEM: Any = tables.Item.__table__
FILE: Any = tables.File.__table__
NAME: Any = tables.ItemIdentifier.__table__
MEMBER: Any = tables.Translation.__table__
TOMBSTONE: Any = tables.TombstoneRow.__table__

#: The columns of an item that urlRequests do not read, as each column takes time, and those that
#: are not read as they are.
UNUSED_COLUMNS = ("transferable", "original_archive", "list_files", "host_key", "issued_year")
OTHER_COLUMNS = {"archive_id", "state", "dublin_core", "work", *UNUSED_COLUMNS}
COLUMNS = [
    *(column for column in ITEM.c if column.name not in OTHER_COLUMNS),
    ITEM.c.dublin_core.is_not(None).label("has_dublin_core"),
    FILE.c.path.label("file_path"),
    FILE.c.url.label("file_url"),
]


#: The identifier of an item by which references name it.
NAME_OF_ITEM = sa.func.coalesce(ITEM.c.rep, ITEM.c.ibip)


@lru_cache(maxsize=64)
def select_requested(paths: int) -> sa.Select[Any]:
    """Return a statement that reads the requested item by its identifier.

    The SQL parameters are archive_id, ibi, path_0, path_1 and so on. The result has one row for
    each file that was asked for.

    :param paths: the number of possible paths of the requested file.
    """
    named = NAME.join(ITEM, ITEM.c.id == NAME.c.item_id)
    return (
        sa.select(NAME_OF_ITEM.label("name"), ITEM.c.state, *COLUMNS)
        .select_from(_join_files(named, paths))
        .where(NAME.c.text == sa.bindparam("ibi"), NAME.c.archive_id == tables.ARCHIVE)
    )


@lru_cache(maxsize=256)
def select_related(paths: int, letters: frozenset[str], with_metadata: bool) -> sa.Select[Any]:
    """Return a statement that reads the items to which one step of relations leads.

    The SQL parameters are archive_id, path_0, path_1 and so on, and a list of identifiers for each
    letter: u, next editions, which are read with all editions that follow them; t, items whose
    translations are read; m, metadata items. In the row of an item of another Archive, everything
    but the identifier is NULL. An item that was transferred to another Archive has no state.

    :param paths: the number of possible paths of the requested file.
    :param letters: the letters of the step.
    :param with_metadata: whether the metadata items of all these items are read, too. Without this,
        they are still read for items whose files not everybody may read: some users get the
        metadata instead.
    """
    parts: list[sa.Select[Any]] = []
    groups: list[Any] = []
    if "u" in letters:
        editions = _list_given("u").cte("editions", recursive=True)
        parts.append(sa.select(editions.union(_follow(editions, "next_edition")).c.value))
    if "t" in letters:
        own, member = MEMBER.alias(), MEMBER.alias()
        heads = sa.select(own.c.head).where(
            own.c.archive_id == tables.ARCHIVE, is_listed(own.c.ibi, "t")
        )
        members = sa.select(member.c.ibi.label("value"))
        parts.append(members.where(member.c.archive_id == tables.ARCHIVE, member.c.head.in_(heads)))
    if "m" in letters:
        parts.append(_list_given("m"))
    reached = [sa.union(*parts).cte("reached")]
    if with_metadata:
        reached.append(_follow(reached[0], "metadata_ibi").cte("metadata"))
    instead = _follow(reached[-1], "metadata_ibi", is_limited=True)
    names = list_few(sa.union(*(sa.select(part.c.value) for part in reached), instead))
    if "t" in letters:
        groups = [
            _find_by_name(names, MEMBER.c.head, MEMBER.c.ibi).label("head"),
            _find_by_name(names, MEMBER.c.language, MEMBER.c.ibi).label("member_language"),
        ]
    items = names.outerjoin(ITEM, ITEM.c.id == _find_by_name(names, NAME.c.item_id, NAME.c.text))
    items = items.outerjoin(TOMBSTONE, TOMBSTONE.c.item_id == ITEM.c.id)
    state = sa.case((TOMBSTONE.c.original_archive.is_(None), ITEM.c.state)).label("state")
    return (
        sa.select(names.c.value.label("name"), *groups, state, *COLUMNS)
        .select_from(_join_files(items, paths))
        # NULL has no length. Because of this condition, PostgreSQL expects three rows, and searches
        # the items by keys. For ten rows, it would rather read all of a small table.
        .where(sa.func.length(names.c.value) > 0)
    )


def _list_given(name: str) -> sa.Select[Any]:
    """Return a statement that selects the identifiers in an SQL parameter.

    :param name: the name of the parameter. Its value is a list. :func:`list_few` tells the planner
        of PostgreSQL that the list is short. Otherwise it would assume a hundred rows, and would
        plan the statement anew for each request.
    """
    return sa.select(list_few(sa.select(list_values(name))))


def _follow(names: sa.CTE, column: str, is_limited: bool = False) -> sa.Select[Any]:
    """Return a statement that selects what a column of some items contains, such as next_edition.

    :param names: the identifiers of the items. For an unknown identifier, the result is NULL.
    :param is_limited: True: the result is also NULL for items without an access rule and an
        embargo.
    """
    item = ITEM.alias()
    item_id = _find_by_name(names, NAME.c.item_id, NAME.c.text)
    reference = sa.select(item.c[column]).where(item.c.id == item_id)
    if is_limited:
        reference = reference.where(
            sa.or_(item.c.access_networks.is_not(None), item.c.embargo.is_not(None))
        )
    return sa.select(reference.scalar_subquery().label("value")).select_from(names)


def _find_by_name(names: sa.FromClause, column: Any, name: Any) -> sa.ScalarSelect[Any]:
    """Return a subquery that finds, for each identifier, a column of its row; NULL without a row.

    A scalar subquery searches each row by its key. In a join, PostgreSQL may read all rows of the
    Archive, because it expects few of them.

    :param names: the table with the identifiers.
    :param column: the column to return.
    :param name: the column that is equal to the identifier.
    """
    row = sa.select(column).where(
        name == names.c.value, column.table.c.archive_id == tables.ARCHIVE
    )
    return row.correlate(names).scalar_subquery()


def _join_files(items: Any, paths: int) -> Any:
    """Return a join of items with two kinds of their files: target files and requested files."""
    requested = [sa.bindparam(f"path_{number}", type_=sa.Text) for number in range(paths)]
    is_needed = FILE.c.path.in_([ITEM.c.target_path, *requested])
    return items.outerjoin(FILE, sa.and_(FILE.c.item_id == ITEM.c.id, is_needed))


# --- item catalogue ----------------------------------------------------------------------------


#: The key of an item: its row ID, or an identifier of an item of the host.
ItemKey: TypeAlias = int | str
#: The key of an item, the path and the URL of one of its files.
KeyedFile: TypeAlias = tuple[ItemKey, str, str | None]


class StoredItem(CatalogueItem):
    """An item in the tables of this package.

    :ivar row: the columns of the item.
    :param related: all items that were read for the request, where this item finds its relations.
    """

    def __init__(self, row: sa.Row[Any], related: RelatedItems, today: date) -> None:
        super().__init__(
            row.id,
            row.state,
            row.rep,
            row.ibip,
            row.content_type,
            row.timestamp,
            row.language,
            row.formats or {},
            row.is_service,
            None if row.access_networks is None else row.access_networks.split(),
            row.embargo,
            row.access_others != HIDDEN,
            {},
            row.target_path,
            related.scope,
            today,
        )
        self.row = row
        self._related = related

    def metadata(self) -> CatalogueItem | OwnMetadata | None:
        """Return the metadata of the item, or None if the item has no metadata."""
        row = self.row
        if row.metadata_ibi is not None:
            return self._related.get(row.metadata_ibi)
        if row.metadata_url is not None:
            formats = row.metadata_formats or {}
            return OwnMetadata(row.metadata_url, formats, row.metadata_timestamp)
        return OwnMetadata(None, self.scope.own_formats) if row.has_dublin_core else None

    def next_edition(self) -> CatalogueItem | None:
        """Return the next edition of the item, or None if no next edition exists."""
        following = self.row.next_edition
        return None if following is None else self._related.get(following)

    def translations(self) -> Mapping[str, CatalogueItem]:
        """Return the item and all its translations, by language."""
        members = self._related.list_members(self.rep or self.ibip or "")
        return members or super().translations()


class RelatedItems:
    """All items that were read for a request, by their identifiers: the requested and related ones.

    A reference to an item of this Archive is the primary form of its identifier.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.items: dict[str, CatalogueItem] = {}
        #: The heads of groups of translations, by member, and the members by head and language.
        self._heads: dict[str, str] = {}
        self._groups: dict[str, dict[str, str]] = {}

    def get(self, ibi: str) -> CatalogueItem:
        """Return the item with an identifier. If it was not read, only its identifier is known."""
        return self.items.get(ibi) or _name_elsewhere(ibi)

    def find_start(self, item: StoredItem, letter: str) -> str | None:
        """Return the identifier that :func:`select_related` needs for a step from an item.

        :param letter: the letter of the step, as in :func:`select_related`.
        :returns: None if the item has no such reference, or if the metadata item was read already.
        """
        if letter == "u":
            next_edition: str | None = item.row.next_edition
            return next_edition
        metadata: str | None = item.row.metadata_ibi
        if letter == "m":
            return None if metadata in self.items else metadata
        return item.rep or item.ibip

    def list_members(self, ibi: str) -> dict[str, CatalogueItem]:
        """Return the members of the group of translations of an item, by language."""
        members = self._groups.get(self._heads.get(ibi, ""), {})
        return {language: self.get(member) for language, member in members.items()}

    def add(self, row: sa.Row[Any], today: date) -> None:
        """Add the item in a row, or add the file or the translation in the row to this item."""
        name: str = row.name
        item = self.items.get(name)
        if item is None:
            item = _name_elsewhere(name) if row.id is None else StoredItem(row, self, today)
            self.items[name] = item
        if row.file_path is not None:
            item.files = {**item.files, row.file_path: row.file_url}
        if (head := getattr(row, "head", None)) is not None:
            self._heads[name] = head
            if row.member_language is not None:
                self._groups.setdefault(head, {})[row.member_language] = name


def _name_elsewhere(ibi: str) -> CatalogueItem:
    """Return an item of another Archive, of which only the identifier is known."""
    is_rep = parse_identifier(ibi).form is Form.REP
    # in answers, the word "ibip" precedes a legacy identifier of an item elsewhere
    return CatalogueItem(ibi, None, ibi if is_rep else None, None if is_rep else ibi)


class StoredCatalogue:
    """The items of one Archive in the database.

    :param connection: the connection for reading.
    :param archive_id: the id of the Archive.
    :param today: the current day (UTC), on which embargoes depend.
    """

    def __init__(self, connection: Connection, archive_id: int, today: date) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.today = today

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier, or None if no such item exists.

        The item may be in any state. The relations of a deleted item are unknown.

        :param ibi: the identifier in canonical case.
        """
        parameters: dict[str, Any] = {"archive_id": self.archive_id}
        parameters |= {f"path_{number}": path for number, path in enumerate(scope.paths)}
        related = RelatedItems(scope)
        self._read(select_requested(len(scope.paths)), {**parameters, "ibi": ibi}, related)
        item = next(iter(related.items.values()), None)
        if isinstance(item, StoredItem) and item.state != State.DELETED:
            self._follow(item, related, parameters)
        return item

    def _read(
        self, statement: sa.Select[Any], parameters: Mapping[str, Any], related: RelatedItems
    ) -> None:
        """Run a statement, and add the items that it finds to the related items."""
        for row in self.connection.execute(statement, parameters).all():
            related.add(row, self.today)

    def _follow(
        self, requested: StoredItem, related: RelatedItems, parameters: dict[str, Any]
    ) -> None:
        """Read all related items that the request needs, with one statement for each step.

        :param parameters: the SQL parameters for the Archive and for the paths.
        """
        scope, nothing = related.scope, frozenset[str]()
        steps = [(requested, letter, rest) for letter, rest in split_shapes(scope.shapes)]
        if scope.next_edition:
            steps.append((requested, "u", nothing))
        if requested.networks is not None or requested.embargo is not None:
            steps.append((requested, "m", nothing))
        while steps:
            lists: dict[str, list[str]] = {}
            for item, letter, _ in steps:
                if (name := related.find_start(item, letter)) is not None:
                    lists.setdefault(letter, []).append(name)
            if lists:
                # the statement that reads the editions or translations also reads their metadata
                with_metadata = any("m" in rest for _, _, rest in steps)
                statement = select_related(len(scope.paths), frozenset(lists), with_metadata)
                self._read(statement, {**parameters, **lists}, related)
            reached: dict[StoredItem, frozenset[str]] = {}
            for item, letter, rest in steps:
                # from the last step, no other one follows
                for following in list_next_items(item, letter) if rest > {""} else ():
                    if isinstance(following, StoredItem):
                        reached[following] = reached.get(following, nothing) | rest
            steps = [
                (item, letter, rest)
                for item, shapes in reached.items()
                for letter, rest in split_shapes(shapes)
            ]


class CannotList(StorageError):
    """Raised if the catalogue of a host has no method that lists its items."""


class ItemCatalogue:
    """The items of an Archive, in the tables of this package. A subclass reads those of a host.

    :param find_served: returns the Archive that the app serves.
    :param folder: the store that contains the files of the items.
    """

    @property
    def records(self) -> RecordSource | None:
        """The source of records, if the items are in the catalogue of a host; otherwise None.

        Lists for harvesters and crawlers are made from these records. For items in the tables of
        this package, the lists are made with SQL statements.
        """
        return None

    def __init__(
        self, database: Database, find_served: Callable[[], ServedArchive], folder: FileStore
    ) -> None:
        self._database = database
        self.find_served = find_served
        self._folder = folder

    def open(self, connection: Connection, today: date) -> Catalogue:
        """Return the catalogue that answers urlRequests with a connection.

        :param today: the current day (UTC), on which embargoes depend.
        """
        return StoredCatalogue(connection, self.find_served().id, today)

    def view(self, ibi: str, today: date) -> ItemView | None:
        """Return an item for pages and commands; None if there is no such item.

        :param ibi: an identifier of the item, in canonical case.
        """
        archive_id = self.find_served().id
        return self._database.read(
            lambda connection: read.view_item(connection, archive_id, self._folder, ibi, today)
        )

    def list(
        self,
        search: str | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> Generator[Record, None, None]:
        """Yield the records of items; see :meth:`Archive.list_records`."""
        archive_id = self.find_served().id
        selection = read.select_items(archive_id, state, search)
        return read.export_records(self._database, archive_id, self._folder, selection, limit)

    def count(self) -> int | None:
        """Return the number of items that :meth:`list` yields; None if the number is unknown."""
        archive_id = self.find_served().id
        return self._database.read(
            lambda connection: read.ItemReader(connection, archive_id).count_records()
        )

    def find_by_alias(
        self, connection: Connection, aliases: Sequence[ForeignIdentifier]
    ) -> tuple[ForeignIdentifier, str] | None:
        """Return the first given alias that belongs to an item, with an identifier of that item.

        The aliases are identifiers of other systems and former addresses (the field ``same_as``).

        :returns: None if none of the aliases belongs to an item.
        """
        digests = [alias.digest for alias in aliases]
        holders = find_same_as_holders(connection, self.find_served().id, digests)
        return next(
            ((alias, holders[alias.digest][1]) for alias in aliases if alias.digest in holders),
            None,
        )

    def may_have_addresses(self) -> bool:
        """Return whether any item may have a former address.

        :raises NotReady: if the database does not answer.
        """
        return has_addresses(self._database)

    def find_files(
        self, connection: Connection, keys: Sequence[ItemKey], paths: Sequence[str]
    ) -> Iterator[KeyedFile]:
        """Yield those files of the given items that have one of the paths, or have a URL."""
        ids = [key for key in keys if isinstance(key, int)]
        if ids:
            yield from read.find_files(connection, ids, [*paths])


class RecordSource(ItemCatalogue, ABC):
    """A source of items that are not in the tables of this package, as records."""

    #: The name of the source, for messages.
    name: str

    @property
    @abstractmethod
    def can_list(self) -> bool:
        """True if the source lists its items."""

    @property
    @abstractmethod
    def can_list_changes(self) -> bool:
        """True if the source lists the changed items without reading all items."""

    @abstractmethod
    def find_record(self, ibi: str) -> Record | None:
        """Return the record of the item with an identifier; None if there is no such item."""

    @abstractmethod
    def iterate_changes(
        self, since: datetime | None, after: tuple[datetime, str] | None, limit: int
    ) -> Iterator[tuple[tuple[datetime, str], Record | None]]:
        """Yield the items that have changed; see :meth:`RecordCatalogue.changes`.

        Each item is a pair: its position (timestamp and identifier), and its record or None.
        """
