"""Finds the items for a urlRequest, in the tables of this package or in a host's own catalogue."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from itertools import starmap
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.items.files import FileStore
from flask_ibi_archive.archive.items.import_export import export_records
from flask_ibi_archive.archive.items.read import (
    ItemReader,
    find_files,
    find_owners,
    select_items,
    view_item,
)
from flask_ibi_archive.archive.items.tables import File, Item, ItemIdentifier, TombstoneRow
from flask_ibi_archive.archive.items.write import find_same_as_holders, has_addresses
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier
from flask_ibi_archive.core.protocol.access import HIDDEN
from flask_ibi_archive.core.protocol.catalogue import Catalogue, CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.relations import split_shapes
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.record import ItemView, Record
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import JSONRow, JSONValue, Key, UTCTime, has_lateral

# --- catalogue sql -----------------------------------------------------------------------------


class Fetched(NamedTuple):
    """A row of the result: an item with one of its files.

    The file is a requested file or the target file of the item. Rows whose ``base_id`` is their
    ``id`` belong to the requested item. If a relation leads back to this item, there may be more
    rows with the item. The fields after ``file_url`` are only read if the request follows relations
    or needs the next edition. The last two fields are the identifiers of the next edition of the
    requested item.
    """

    base_id: int | None
    id: int
    state: str
    rep: str | None
    ibip: str | None
    timestamp: str
    content_type: str
    is_service: bool
    target_path: str | None
    access_networks: str | None
    access_others: str | None
    embargo: str | None
    metadata_item_id: int | None
    metadata_url: str | None
    has_dublin_core: bool
    file_path: str | None
    file_url: str | None
    language: str | None = None
    edition_series_id: int | None = None
    edition_no: int | None = None
    translation_group_id: int | None = None
    metadata_formats: dict[str, str] | None = None
    metadata_timestamp: str | None = None
    formats: dict[str, str] | None = None
    next_rep: str | None = None
    next_ibip: str | None = None


# SQLAlchemy builds statements faster with tables than with ORM classes
ITEM: Any = Item.__table__
FILE: Any = File.__table__
IDENTIFIER: Any = ItemIdentifier.__table__
TOMBSTONE: Any = TombstoneRow.__table__

_decode_json = json.JSONDecoder().raw_decode

#: The fields that are not read for every request: the fields after ``file_url``.
FOLLOWING = Fetched._fields[-len(Fetched._field_defaults) :]
#: The last of these fields, which are read if the request needs the next edition.
NEXT_EDITION = ("next_rep", "next_ibip")


def format_time(text: str) -> str:
    """Return a time of a row in the form ``YYYY-MM-DDThh:mm:ssZ``.

    SQL does not format the times, because SQLite needs more time for it than Python.

    :param text: the time in UTC as the database writes it, such as ``YYYY-MM-DD hh:mm:ss.ffffff``.
    """
    return f"{text[:10]}T{text[11:19]}Z"


class CompiledStatement:
    """A statement that SQLAlchemy compiles only once.

    SQLAlchemy would need more time to compile the statement, or to find it in a cache, than the
    database needs to run it. The database joins the columns to one JSON list, because the drivers
    need more time for 20 columns than for one column.

    :param statement: a SELECT. The result contains what JSON can express: dates and times are
        texts, and on SQLite booleans are 0 and 1.
    """

    def __init__(self, statement: sa.Select[Any], dialect: sa.Dialect) -> None:
        row = JSONRow(*statement.selected_columns)
        if dialect.positional:  # the driver accepts names too; the order is not documented
            kind: Any = type(dialect)
            dialect = kind(paramstyle="named")
        compiled = statement.with_only_columns(row).compile(dialect=dialect)
        self.text = str(compiled)
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}

    def run(self, connection: sa.Connection, parameters: dict[str, Any]) -> list[list[Any]]:
        """Run the statement with some parameters and return the rows.

        :raises DBAPIError: if the database refuses the statement or does not answer.
        """
        rows = connection.exec_driver_sql(self.text, {**self._fixed, **parameters}).all()
        return [_decode_json(row[0])[0] for row in rows]


@lru_cache(maxsize=256)
def compile_statement(
    dialect: sa.Dialect,
    shapes: frozenset[str],
    next_edition: bool,
    paths: int,
    follow_editions: bool,
) -> CompiledStatement:
    """Return the statement of :func:`build_statement` in compiled form.

    The parameters are described there.
    """
    statement = build_statement(dialect, shapes, next_edition, paths, follow_editions)
    return CompiledStatement(statement, dialect)


def build_statement(
    dialect: sa.Dialect,
    shapes: frozenset[str],
    next_edition: bool,
    paths: int,
    follow_editions: bool,
) -> sa.Select[Any]:
    """Return the statement of a urlRequest; the columns are the first fields of Fetched.

    The SQL parameters of the statement are archive_id, ibi, path_0, path_1 and so on.

    An item may appear in several rows, with different files. If an item has an access rule or an
    embargo, the statement also reads the metadata item, because some users get the metadata instead
    of the item.

    :param dialect: the kind of database for which the statement is compiled.
    :param shapes: the relations to follow, as described in the docstring of this module.
    :param next_edition: True to read also the identifiers of the next edition.
    :param paths: the number of possible paths of the requested file.
    :param follow_editions: True to select the last edition in this Archive; False to select only
        the next edition.
    """
    laterals = has_lateral(dialect)
    found = _select_requested()
    steps = _number_steps(shapes)
    if steps:
        found = _select_reached(found, steps, follow_editions, laterals)
    rows = found.subquery("found")
    item, following = ITEM.alias(), ITEM.alias() if next_edition else None
    is_needed: sa.ColumnElement[bool] = FILE.c.path == item.c.target_path
    if paths:
        requested: list[Any] = [sa.bindparam(f"path_{number}") for number in range(paths)]
        is_needed = sa.or_(is_needed, FILE.c.path.in_(requested))
    is_needed = sa.and_(FILE.c.item_id == item.c.id, is_needed)
    file, is_file = FILE, is_needed
    if laterals:
        file, is_file = _fence(sa.select(FILE.c.path, FILE.c.url).where(is_needed)), sa.true()
    joined = item.outerjoin(file, is_file)
    if following is not None:
        later = sa.case((item.c.id == rows.c.base_id, _find_later_edition(item, is_last=False)))
        joined = joined.outerjoin(following, following.c.id == later)
    columns = _list_columns(rows.c.base_id, item, file, following, bool(steps))
    is_limited = rows.c.instead.is_not(None)
    # SQLite needs more time for item.id IN (id, instead)
    is_read = sa.or_(item.c.id == rows.c.id, sa.and_(is_limited, item.c.id == rows.c.instead))
    if laterals:
        return _select_for_each(rows, sa.select(*columns).select_from(joined).where(is_read))
    return sa.select(*columns).select_from(rows, joined).where(is_read)


def _select_for_each(
    rows: sa.FromClause, found: sa.Select[Any] | sa.CompoundSelect[Any]
) -> sa.Select[Any]:
    """Return a SELECT that runs another SELECT for each of some rows, on PostgreSQL.

    :param found: the other SELECT, which may use the columns of the rows.
    """
    each = _fence(found)
    return sa.select(*each.c).select_from(rows.join(each, sa.true()))


def _fence(found: sa.Select[Any] | sa.CompoundSelect[Any]) -> sa.FromClause:
    """Return a SELECT that PostgreSQL runs for each row of the tables before the SELECT.

    Because of OFFSET, PostgreSQL does not merge the SELECT with the whole statement, and searches
    rows by their keys. Otherwise it may read whole tables, because it expects too many rows.
    """
    return found.offset(sa.literal_column("0")).lateral()


def _select_requested() -> sa.Select[Any]:
    """Select the requested item, which is at place 0."""
    item = ITEM.alias()
    return (
        sa.select(
            item.c.id,
            _find_metadata_id(item),
            item.c.id.label("base_id"),
            sa.literal_column("0").label("place"),
        )
        .select_from(IDENTIFIER)
        .join(item, item.c.id == IDENTIFIER.c.item_id)
        .where(
            IDENTIFIER.c.text == sa.bindparam("ibi"),
            IDENTIFIER.c.archive_id == sa.bindparam("archive_id"),
        )
    )


def _number_steps(shapes: frozenset[str]) -> dict[str, dict[int, int]]:
    """Return the steps that the statement follows.

    A place is the position of an item on the way of the relations. The requested item is at place
    0, and each step leads to another place. Items from which the relations continue in the same way
    are at the same place. Therefore there are few places, even if there are many relations.

    :returns: for each letter: the place before the step, and the place to which the step leads.
    """
    places, waiting = {shapes: 0}, [shapes]
    steps: dict[str, dict[int, int]] = {}
    while waiting:
        shapes = waiting.pop()
        for letter, rest in split_shapes(shapes):
            if rest not in places:
                places[rest] = len(places)
                waiting.append(rest)
            steps.setdefault(letter, {})[places[shapes]] = places[rest]
    return steps


def _select_reached(
    requested: sa.Select[Any],
    steps: dict[str, dict[int, int]],
    follow_editions: bool,
    laterals: bool,
) -> sa.Select[Any]:
    """Select the requested item and all items to which the steps lead.

    :param laterals: whether the database is PostgreSQL; see :func:`has_lateral`.
    """
    reached = requested.cte("reached", recursive=True)
    following = [
        _select_next(reached, letter, places, follow_editions) for letter, places in steps.items()
    ]
    if laterals:  # PostgreSQL: only one SELECT may refer to the CTE itself
        following = [_select_for_each(reached, sa.union_all(*following))]
    if "t" not in steps:
        # An item that several steps reach is read several times. This takes less time than UNION,
        # which compares all rows.
        return sa.select(reached.union_all(*following))
    reached = reached.union(*following)
    # a relation may lead back to the requested item
    base_id = sa.func.max(reached.c.base_id).label("base_id")
    return sa.select(reached.c.id, reached.c.instead, base_id).group_by(
        reached.c.id, reached.c.instead
    )


def _select_next(
    reached: sa.CTE, letter: str, places: dict[int, int], follow_editions: bool
) -> sa.Select[Any]:
    """Select the items to which the steps with a letter lead from the reached items.

    If an item has no such related item, the step leads to the item itself. A step to translations
    also leads to the item itself.

    :param reached: the items that were reached already.
    :param places: the places to which the steps lead, by the places before the steps.
    """
    item, target = ITEM.alias(), ITEM.alias()
    if letter == "t":
        is_member = target.c.translation_group_id == item.c.translation_group_id
        leads = sa.or_(target.c.id == item.c.id, is_member)
    elif letter == "u":
        later = _find_later_edition(item, is_last=follow_editions)
        leads = target.c.id == sa.func.coalesce(later, item.c.id)
    else:
        leads = target.c.id == sa.func.coalesce(item.c.metadata_item_id, item.c.id)
    numbers: dict[Any, Any] = {
        sa.literal_column(str(place)): sa.literal_column(str(after))
        for place, after in places.items()
    }
    following = sa.case(numbers, value=reached.c.place).label("place")
    return (
        sa.select(target.c.id, _find_metadata_id(target), sa.cast(sa.null(), Key), following)
        .select_from(reached, item.join(target, leads))
        .where(item.c.id == reached.c.id, following.is_not(None))
    )


def _find_later_edition(item: Any, is_last: bool) -> sa.ColumnElement[int | None]:
    """Return the id of a later edition of an item; NULL if the item has none.

    :param is_last: False: the next edition. True: the last edition that is not deleted; an edition
        that was transferred to another Archive does not count as deleted.
    """
    later = ITEM.alias()
    found = sa.select(later.c.id).where(
        later.c.edition_series_id == item.c.edition_series_id,
        later.c.edition_no > item.c.edition_no,
    )
    if is_last:
        found = found.where(sa.or_(later.c.state != State.DELETED.value, _is_moved(later)))
    number = later.c.edition_no
    return (
        found.order_by(number.desc() if is_last else number)
        .limit(sa.literal_column("1"))
        .scalar_subquery()
    )


def _find_metadata_id(item: Any) -> sa.ColumnElement[int | None]:
    """Return the column ``instead``: the metadata item that some users get instead of the item.

    The value is the id of the metadata item if some users may not read the files, otherwise NULL.
    """
    is_limited = sa.or_(item.c.access_networks.is_not(None), item.c.embargo.is_not(None))
    return sa.case((is_limited, item.c.metadata_item_id)).label("instead")


def _list_columns(
    base_id: Any, item: Any, file: Any, next_edition: Any, followed: bool
) -> list[Any]:
    """Return the columns with the first fields of Fetched.

    :param file: the table of the files, or what was selected from it.
    :param next_edition: the next edition; None if the request does not need it.
    :param followed: True if the request follows relations and needs their fields.
    """
    special = {
        "base_id": base_id,
        "timestamp": UTCTime(item.c.timestamp),
        "metadata_timestamp": UTCTime(item.c.metadata_timestamp),
        "has_dublin_core": item.c.dublin_core.is_not(None),
        "metadata_formats": JSONValue(item.c.metadata_formats),
        "formats": JSONValue(item.c.formats),
        "file_path": file.c.path,
        "file_url": file.c.url,
    }
    if followed:
        moved = sa.and_(base_id.is_distinct_from(item.c.id), _is_moved(item))
        special["state"] = sa.case((moved, ELSEWHERE), else_=item.c.state)
    names = Fetched._fields[: -len(FOLLOWING)]
    if next_edition is not None:
        names = Fetched._fields
        special |= {"next_rep": next_edition.c.rep, "next_ibip": next_edition.c.ibip}
    elif followed:
        names = Fetched._fields[: -len(NEXT_EDITION)]
    return [special.get(name, item.c.get(name)).label(name) for name in names]


def _is_moved(item: Any) -> sa.ColumnElement[bool]:
    """Return the condition that an item was transferred to another Archive.

    The tombstone of a transferred item names the other Archive.
    """
    # A scalar subquery reads one row by its key. With EXISTS, PostgreSQL may read the whole table.
    archive = sa.select(TOMBSTONE.c.original_archive).where(TOMBSTONE.c.item_id == item.c.id)
    return sa.and_(item.c.state == State.DELETED.value, archive.scalar_subquery().is_not(None))


# --- item catalogue ----------------------------------------------------------------------------


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
        owner = find_owners(connection, self.find_served().id, [ibi]).get(ibi)
        if owner is None:
            raise UnknownItem(ibi)
        return [owner.id]

    def find_by_alias(
        self, connection: Connection, aliases: Sequence[ForeignIdentifier]
    ) -> tuple[ForeignIdentifier, str] | None:
        """Return the first of some aliases that an item has, and an identifier of this item."""
        digests = [alias.digest for alias in aliases]
        holders = find_same_as_holders(connection, self.find_served().id, digests)
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
