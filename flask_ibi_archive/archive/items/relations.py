"""Stores the relations between items: editions and translations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Dialect,
    Row,
    Table,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.read import find_owners
from flask_ibi_archive.archive.items.tables import (
    ArchiveRow,
    EditionSeries,
    Item,
    ItemIdentifier,
    TranslationGroup,
    metadata,
)
from flask_ibi_archive.core.identifiers import Form, parse_identifier
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.record import Record, References
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.server.database.dialects import batched, is_one_of, run_on_postgresql

# --- bulk --------------------------------------------------------------------------------------


#: The drivers for which this module builds texts. The session of a host may have another driver.
DRIVERS = ("psycopg", "pysqlite")
#: From this number of rows on, COPY is faster on PostgreSQL. Fewer rows are inserted with one
#: statement, whose number of parameters is limited.
MANY_ROWS = 20
#: The settings of SQLite during an import: the size of the cache in KiB, and the number of pages
#: after which a commit copies the write-ahead log to the database. With random keys, a batch of
#: items changes more pages than the defaults allow for.
SQLITE_SETTINGS = ("cache_size = -65536", "wal_autocheckpoint = 10000")

#: A row; the keys are the names of the columns.
Values = Mapping[str, Any]


def insert_with_ids(connection: Connection, model: Any, rows: Sequence[Values]) -> list[int]:
    """Insert rows into a table, and return the ids of the rows in the same order.

    On SQLite, the transaction of the caller must have the write lock.

    :param rows: rows without ids, as in :func:`insert_rows`.
    :raises IntegrityError: if a constraint does not allow a row.
    """
    if len(rows) == 1 and connection.dialect.driver in DRIVERS:
        statement, values = _build_insert(connection, model, rows)
        return [connection.exec_driver_sql(f"{statement} RETURNING id", values).scalar_one()]
    ids = _reserve_ids(connection, model, len(rows))
    if len(rows) >= MANY_ROWS and connection.dialect.driver in DRIVERS:
        _insert_columns(connection, model, {"id": ids, **_transpose(rows)})
    else:
        numbered = [{"id": row_id, **row} for row_id, row in zip(ids, rows, strict=True)]
        insert_rows(connection, model, numbered)
    return ids


def _reserve_ids(connection: Connection, model: Any, count: int) -> list[int]:
    """Return new ids for rows of a table, in ascending order. No other row gets these ids."""
    if not count:
        return []
    table = model.__table__.name
    if connection.dialect.name == "postgresql":
        # nextval must be called for each row, because other transactions also take numbers
        numbers = text(
            "SELECT nextval(sequence) FROM"
            " (SELECT pg_get_serial_sequence(:name, 'id')::regclass AS sequence OFFSET 0) AS one,"
            " generate_series(1, :count)"
        )
        return list(connection.scalars(numbers, {"name": table, "count": count}))
    last = connection.scalar(
        text(
            "SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = :name),"
            f" (SELECT coalesce(max(id), 0) FROM {table}))"
        ),
        {"name": table},
    )
    return list(range(last + 1, last + 1 + count))


def insert_rows(connection: Connection, model: Any, rows: Sequence[Values]) -> None:
    """Insert rows into a table.

    :param rows: rows with the same columns in the same order.
    :raises IntegrityError: if a constraint does not allow a row.
    """
    if not rows:
        return
    if connection.dialect.driver not in DRIVERS:
        connection.execute(insert(model.__table__), rows)
    elif len(rows) >= MANY_ROWS:
        _insert_columns(connection, model, _transpose(rows))
    else:
        connection.exec_driver_sql(*_build_insert(connection, model, rows))


def _build_insert(
    connection: Connection, model: Any, rows: Sequence[Values]
) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that inserts a few rows, and its values for the driver."""
    statement, converters = _build_insert_text(
        model.__table__, connection.dialect, tuple(rows[0]), len(rows)
    )
    return statement, tuple(
        value if convert is None else convert(value)
        for row in rows
        for convert, value in zip(converters, row.values(), strict=True)
    )


@lru_cache
def _build_insert_text(
    table: Table, dialect: Dialect, names: tuple[str, ...], count: int
) -> tuple[str, list[Callable[[Any], Any] | None]]:
    """Return the text of the statement, and for each column the function that converts a value."""
    mark = "?" if dialect.name == "sqlite" else "%s"
    row = f"({', '.join([mark] * len(names))})"
    statement = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES {', '.join([row] * count)}"
    return statement, [_find_converter(table, name, dialect) for name in names]


def _find_converter(table: Table, name: str, dialect: Dialect) -> Callable[[Any], Any] | None:
    """Return the function that converts the values of a column for the driver, or None."""
    return table.c[name].type.dialect_impl(dialect).bind_processor(dialect)


def _transpose(rows: Sequence[Values]) -> dict[str, Sequence[Any]]:
    """Return the values of each column, by the name of the column."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def _insert_columns(
    connection: Connection, model: Any, columns: Mapping[str, Sequence[Any]]
) -> None:
    """Insert many rows, of which the values of each column are given."""
    table, dialect = model.__table__, connection.dialect
    names = ", ".join(columns)
    if dialect.driver == "psycopg":
        statement = f"COPY {table.name} ({names}) FROM STDIN"
        _copy(connection, statement, _convert(columns, table, dialect))
    else:  # the driver needs less time if SQLAlchemy does not convert each row
        marks = ", ".join("?" * len(columns))
        connection.exec_driver_sql(
            f"INSERT INTO {table.name} ({names}) VALUES ({marks})",
            list(_convert(columns, table, dialect)),
        )


def _convert(
    columns: Mapping[str, Iterable[Any]], table: Any, dialect: Any
) -> Iterator[tuple[Any, ...]]:
    """Return the rows as tuples with the values that the driver needs."""
    converted = []
    for name, values in columns.items():
        process = _find_converter(table, name, dialect)
        converted.append(values if process is None else map(process, values))
    return zip(*converted, strict=True)


def _copy(connection: Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Run COPY with psycopg, because SQLAlchemy has no function for it.

    :raises DBAPIError: if the driver raises an error. SQLAlchemy raises errors of the same classes.
    """
    driver: Any = connection.connection.driver_connection
    dbapi = connection.dialect.loaded_dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except dbapi.Error as error:
        if driver.closed:
            connection.invalidate(error)
        classes = {dbapi.IntegrityError: IntegrityError, dbapi.DataError: DataError}
        ours = [ours for theirs, ours in classes.items() if isinstance(error, theirs)]
        kind = ours[0] if ours else DBAPIError
        raise kind(statement, None, error, connection_invalidated=driver.closed) from error


def update_rows(connection: Connection, model: Any, rows: Sequence[Values]) -> None:
    """Update rows of a table.

    :param rows: for each row, its id and the new values of the same columns in the same order.
    :raises StatementError: if a time has no time zone.
    """
    if not rows:
        return
    table = model.__table__
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in rows[0] if name != "id"}
    connection.execute(
        update(table).where(table.c.id == bindparam("new_id")).values(values),
        [{f"new_{name}": value for name, value in row.items()} for row in rows],
    )


def prepare_for_many_rows(connection: Connection) -> None:
    """Prepare a connection for a transaction of an import that inserts many rows."""
    renew_plans(connection)
    if connection.dialect.name == "sqlite":
        for setting in SQLITE_SETTINGS:
            connection.execute(text(f"PRAGMA {setting}"))


def renew_plans(connection: Connection) -> None:
    """Make PostgreSQL plan its statements again, also those that check foreign keys.

    A plan for an empty table reads the whole table, and becomes slow while the table grows.
    """
    run_on_postgresql(connection, "DISCARD PLANS")


def examine_tables(connection: Connection) -> None:
    """Let PostgreSQL examine its tables after many rows were inserted.

    Until autovacuum has examined the tables, statements about many items would read all rows.
    """
    run_on_postgresql(connection, f"ANALYZE {', '.join(metadata.tables)}")


# --- locks -------------------------------------------------------------------------------------


#: The maximum number of seconds that a transaction waits for the lock on relations. The limit is
#: necessary, because the transaction of a host may hold the lock for a long time.
LOCK_WAIT = 5.0

#: The lock of a transaction that changes counts of accesses in any order, on PostgreSQL. A
#: transaction that stores one access has the same lock, shared. SQLite needs no lock.
STORING_KEY = int.from_bytes(b"ibi_accs", "big")
STORING = f"SELECT pg_advisory_xact_lock({STORING_KEY})"
#: Locks the counts of accesses together with other accesses, but not with :data:`STORING`.
COUNTING = f"SELECT pg_advisory_xact_lock_shared({STORING_KEY})"

#: Sets the limit in milliseconds, unless the present limit is lower. Returns the present limit.
_LIMIT_WAIT = text(
    "SELECT setting, set_config('lock_timeout',"
    " least(nullif(CAST(setting AS bigint), 0), CAST(:limit AS bigint))::text, true)"
    " FROM pg_settings WHERE name = 'lock_timeout'"
)
_RESTORE_WAIT = text("SELECT set_config('lock_timeout', :setting, true)")


def lock_relations(
    connection: Connection,
    archives: Collection[int],
    items: Collection[int] = (),
    limited: bool = True,
) -> None:
    """Lock the relations of Archives, and items whose relations or records change.

    :param archives: the row IDs of the Archives.
    :param items: the row IDs of the items.
    :param limited: whether to wait at most :data:`LOCK_WAIT` seconds for each lock.
    :raises DBAPIError: if a lock is not free in time.
    """
    if connection.dialect.name == "sqlite":
        return
    if limited:
        limit = {"limit": int(LOCK_WAIT * 1000)}
        before = connection.execute(_LIMIT_WAIT, limit).scalar_one()
    _lock(connection, ArchiveRow, archives)
    lock_items(connection, items)
    if limited:  # after an error, the rollback restores the setting
        connection.execute(_RESTORE_WAIT, {"setting": before})


def lock_items(connection: Connection, items: Collection[int]) -> None:
    """Lock items whose records change, but not their relations.

    :param items: the row IDs of the items.
    """
    if items and connection.dialect.name != "sqlite":
        _lock(connection, Item, items)


def _lock(
    connection: Connection, model: type[ArchiveRow] | type[Item], ids: Collection[int]
) -> None:
    connection.execute(
        select(model.id)
        .where(is_one_of(connection, model.id, ids))
        .order_by(model.id)
        .with_for_update(key_share=True)
    )


# --- editions ----------------------------------------------------------------------------------


class Place(NamedTuple):
    """The place of an item: the id of its series, and its number in the series.

    The id is negative while the series is not stored in the database.
    """

    series: int
    number: int


class Editions:
    """The chains of editions of one Archive. The methods use the transaction of the caller."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def link(self, item_id: int, next_id: int, ibi: str) -> None:
        """Store that the item ``next_id`` is the next edition of the item ``item_id``.

        The parameters and errors are those of :meth:`EditionLinks.add`.
        """
        links = EditionLinks(self.connection, self.archive_id, [item_id, next_id])
        links.add(item_id, next_id, ibi)
        links.write()

    def unlink_next(self, item_id: int) -> None:
        """Remove the link from an item to its next edition.

        The later editions become a separate chain.
        """
        row = self._find_place(item_id)
        if row is None or row.following is None:
            return
        series, number = row.edition_series_id, row.edition_no
        [later] = create_series(self.connection, self.archive_id, 1)
        self.connection.execute(
            update(Item)
            .where(Item.edition_series_id == series, Item.edition_no > number)
            .values(edition_series_id=later)
        )
        for series_id in (series, later):
            self._delete_if_small(series_id)

    def remove(self, item_id: int) -> int | None:
        """Remove an item from its chain.

        :returns: the id of the previous edition; None if the item had no previous edition.
        """
        row = self._find_place(item_id)
        if row is None:
            return None
        self._remove_from_series(item_id)
        self._delete_if_small(row.edition_series_id)
        previous: int | None = row.previous
        return previous

    def find_last_edition(self, item_id: int) -> int:
        """Return the id of the last edition in the chain of an item.

        If the item has no later edition, the method returns the id of the item.
        """
        row = self._find_place(item_id)
        if row is None:
            return item_id
        return self.connection.scalars(
            select(Item.id)
            .where(Item.edition_series_id == row.edition_series_id)
            .order_by(Item.edition_no.desc())
            .limit(1)
        ).one()

    def find_all_previous(self, items: Collection[int]) -> dict[int, int]:
        """Return the previous editions of items. Items without a previous edition are missing."""
        rows = self.connection.execute(
            _select_places().where(is_one_of(self.connection, Item.id, items))
        )
        return {row.id: row.previous for row in rows if row.previous is not None}

    def _find_place(self, item_id: int) -> Any:
        """Return the place of an item in its chain; None if the item is in no chain."""
        return self.connection.execute(_select_places().where(Item.id == item_id)).first()

    def _remove_from_series(self, item_id: int) -> None:
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(edition_series_id=None, edition_no=None)
        )

    def _delete_if_small(self, series: int) -> None:
        """Delete a series that has fewer than two items: a single item is no chain."""
        members = self.connection.scalars(
            select(Item.id).where(Item.edition_series_id == series).limit(2)
        ).all()
        if len(members) < 2:
            for item_id in members:
                self._remove_from_series(item_id)
            self.connection.execute(delete(EditionSeries).where(EditionSeries.id == series))


class EditionLinks:
    """New links between editions, which are checked one by one and stored together.

    :param items: the ids of all items for which :meth:`add` will be called.
    """

    def __init__(self, connection: Connection, archive_id: int, items: Iterable[int]) -> None:
        self._connection = connection
        self._archive_id = archive_id
        self._places: dict[int, Place] = {}
        self._next: dict[int, int] = {}
        self._previous: dict[int, int] = {}
        #: For each merged series: the series that now contains its items, and the value that is
        #: added to their numbers.
        self._moved: dict[int, tuple[int, int]] = {}
        #: The items that get a new place.
        self._placed: set[int] = set()
        #: The id of the newest series that is not stored yet (negative).
        self._new = 0
        self._read(items)

    def _read(self, items: Iterable[int]) -> None:
        for item_id, series, number, following, previous in self._connection.execute(
            _select_places().where(is_one_of(self._connection, Item.id, items))
        ).all():
            self._places[item_id] = Place(series, number)
            if following is not None:
                self._next[item_id] = following
            if previous is not None:
                self._previous[item_id] = previous

    def add(self, item_id: int, next_id: int, ibi: str) -> None:
        """Check that ``next_id`` can be the next edition of ``item_id``, and add this link.

        The method :meth:`write` stores the link.

        :param ibi: the identifier of the earlier item, for the error message.
        :raises RuleBroken: rule 7. Either the earlier item already has another next edition, or the
            later item is already the next edition of another item, or the chain would become a
            circle.
        """
        following = self._next.get(item_id)
        if following == next_id:
            return
        if following is not None:
            raise RuleBroken(7, ibi, "the item already has another next edition")
        if next_id in self._previous:
            raise RuleBroken(
                7, ibi, "the chosen next edition is already the next edition of another item"
            )
        place, next_place = self._find_position(item_id), self._find_position(next_id)
        if item_id == next_id or (place and next_place and place.series == next_place.series):
            raise RuleBroken(7, ibi, "the chain of editions would become a circle")
        self._next[item_id], self._previous[next_id] = next_id, item_id
        if place is None and next_place is None:
            self._new -= 1
            place = self._set_place(item_id, self._new, 1)
        if place is None:
            assert next_place is not None
            self._set_place(item_id, next_place.series, next_place.number - 1)
        elif next_place is None:
            self._set_place(next_id, place.series, place.number + 1)
        else:
            self._merge(place, next_place)

    def _find_position(self, item_id: int) -> Place | None:
        """Return the place of an item after all merges; None if the item is in no series."""
        place = self._places.get(item_id)
        if place is None:
            return None
        series, shift = self._resolve(place.series)
        return Place(series, place.number + shift)

    def _resolve(self, series: int) -> tuple[int, int]:
        """Return the series that now contains the items, and the value to add to their numbers.

        The result is stored for all series on the way, so that the next search is short.
        """
        shift, passed = 0, []
        while series in self._moved:
            passed.append(series)
            series, more = self._moved[series]
            shift += more
        total = shift
        for merged in passed:
            more = self._moved[merged][1]
            self._moved[merged] = series, total
            total -= more
        return series, shift

    def _set_place(self, item_id: int, series: int, number: int) -> Place:
        self._placed.add(item_id)
        self._places[item_id] = place = Place(series, number)
        return place

    def _merge(self, place: Place, next_place: Place) -> None:
        """Merge two series, so that the second one continues after the first one."""
        shift = place.number + 1 - next_place.number
        # If one series is not stored yet, its items move: then no stored row changes.
        if place.series < 0:
            self._moved[place.series] = next_place.series, -shift
        else:
            self._moved[next_place.series] = place.series, shift

    def write(self) -> None:
        """Store the links that :meth:`add` has checked."""
        moves = [(series, *self._resolve(series)) for series in self._moved if series > 0]
        places = {item_id: self._find_position(item_id) for item_id in self._placed}
        new = sorted({place.series for place in places.values() if place and place.series < 0})
        # the stored ids of the new series
        rows = dict(
            zip(new, create_series(self._connection, self._archive_id, len(new)), strict=True)
        )
        table: Any = Item.__table__
        if moves:
            self._connection.execute(
                update(table)
                .where(table.c.edition_series_id == bindparam("old"))
                .values(
                    edition_series_id=bindparam("new"),
                    edition_no=table.c.edition_no + bindparam("shift"),
                ),
                [
                    {"old": old, "new": rows.get(new, new), "shift": shift}
                    for old, new, shift in moves
                ],
            )
            self._connection.execute(
                delete(EditionSeries).where(EditionSeries.id.in_([old for old, _, _ in moves]))
            )
        update_rows(
            self._connection,
            Item,
            [
                {
                    "id": item_id,
                    "edition_series_id": rows.get(place.series, place.series),
                    "edition_no": place.number,
                }
                for item_id, place in sorted(places.items())
                if place is not None
            ],
        )


def create_series(connection: Connection, archive_id: int, count: int) -> list[int]:
    """Store new series without items and return the ids of the series."""
    return insert_with_ids(connection, EditionSeries, [{"archive_id": archive_id}] * count)


# The result is cached: SQLAlchemy needs more time to build this statement than to run it.
@cache
def _select_places() -> Any:
    return select(
        Item.id,
        Item.edition_series_id,
        Item.edition_no,
        _select_neighbour(after=True).label("following"),
        _select_neighbour(after=False).label("previous"),
    ).where(Item.edition_series_id.is_not(None))


def _select_neighbour(after: bool) -> Any:
    """Select the id of the edition just after or just before an item in its series."""
    other = aliased(Item)
    return (
        select(other.id)
        .where(
            other.edition_series_id == Item.edition_series_id,
            other.edition_no > Item.edition_no if after else other.edition_no < Item.edition_no,
        )
        .order_by(other.edition_no if after else other.edition_no.desc())
        .limit(1)
        .scalar_subquery()
    )


# --- translations ------------------------------------------------------------------------------


#: The first temporary id of groups that are not stored yet. This id is higher than all stored ids.
FIRST_TEMPORARY_ID = 1 << 62


@dataclass(frozen=True, slots=True)
class AssignedLanguage:
    """The language that an item got from the record of another item, and the id of the group."""

    group: int
    language: str


class Translations:
    """Reads and changes the groups of translations of one Archive.

    All changes are made in the transaction of the caller.
    """

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def join(self, head_id: int, members: Mapping[str, int], ibi: str) -> None:
        """Put an item and its translations into one group, and store the group.

        :meth:`TranslationJoins.add` describes the parameters and the errors.
        """
        joins = TranslationJoins(self.connection, self.archive_id, [head_id, *members.values()])
        joins.add(head_id, members, ibi)
        joins.write()

    def dissolve(self, head_id: int) -> None:
        """Delete the group whose head is an item; do nothing if there is no such group."""
        groups = self.connection.scalars(
            select(TranslationGroup.id).where(
                TranslationGroup.archive_id == self.archive_id,
                TranslationGroup.head_item_id == head_id,
            )
        ).all()
        if groups:
            self._remove_members(Item.translation_group_id.in_(groups))
            self.connection.execute(delete(TranslationGroup).where(TranslationGroup.id.in_(groups)))

    def leave_for_update(self, item_id: int) -> AssignedLanguage | None:
        """Remove an item from its group, before its record is replaced.

        :returns: the value to pass to :meth:`rejoin` after the update; None if the item is not in a
            group or has no language.
        """
        group, language = self.connection.execute(
            select(Item.translation_group_id, Item.language).where(Item.id == item_id)
        ).one()
        if group is None:
            return None
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(translation_group_id=None, language=None)
        )
        return None if language is None else AssignedLanguage(group, language)

    def rejoin(self, item_id: int, assigned: AssignedLanguage, ibi: str) -> None:
        """Put an item back into its former group, if the group still exists.

        :param item_id: the id of the item.
        :param assigned: the value that :meth:`leave_for_update` returned.
        :param ibi: the identifier of the item, for the message.
        :raises RuleBroken: rule 8, if the new record of the item states another language.
        """
        head_id = self.connection.execute(
            select(TranslationGroup.head_item_id).where(TranslationGroup.id == assigned.group)
        ).scalar()
        if head_id is None:
            return
        stated = self.connection.execute(select(Item.language).where(Item.id == item_id)).scalar()
        if stated not in (None, assigned.language):
            raise RuleBroken(
                8,
                ibi,
                f"the item states the language {stated}, but the record of another item lists the "
                f"item as the translation into {assigned.language}",
            )
        self.join(head_id, {assigned.language: item_id}, ibi)

    def leave(self, item_id: int) -> None:
        """Remove an item from its group permanently.

        The other members stay in the group. If the item was the head, another member becomes the
        head. The group is deleted if only one member remains or if all remaining members are stubs.
        """
        members = self.find_members(item_id)
        if not members:
            return
        self._remove_members(Item.id == item_id)
        group = members[0].translation_group_id
        others = [member for member in members if member.id != item_id]
        here = [member for member in others if member.state != ELSEWHERE]
        if len(others) < 2 or not here:
            self._remove_members(Item.translation_group_id == group)
            self.connection.execute(delete(TranslationGroup).where(TranslationGroup.id == group))
            return
        head = min(here, key=lambda member: (member.state == State.DELETED.value, member.id))
        self.connection.execute(
            update(TranslationGroup)
            .where(TranslationGroup.id == group, TranslationGroup.head_item_id == item_id)
            .values(head_item_id=head.id)
        )

    def _remove_members(self, condition: Any) -> None:
        """Remove the items with a condition from their groups. Stubs lose their language."""
        members = update(Item).where(condition)
        self.connection.execute(members.where(Item.state == ELSEWHERE).values(language=None))
        self.connection.execute(members.values(translation_group_id=None))

    def find_groups(self, items: Iterable[int]) -> dict[int, int]:
        """Return the ids of the groups of items. Items that are in no group are missing."""
        rows = self.connection.execute(
            select(Item.id, Item.translation_group_id).where(
                is_one_of(self.connection, Item.id, items), Item.translation_group_id.is_not(None)
            )
        )
        return {row.id: row.translation_group_id for row in rows}

    def find_members(self, item_id: int) -> list[Row[tuple[int, str, str | None, str, int]]]:
        """Return the members of the group of an item, including the item.

        :returns: rows with the columns id, state, language, ibi and translation_group_id. The list
            is empty if the item is not in a group.
        """
        group = select(Item.translation_group_id).where(Item.id == item_id).scalar_subquery()
        return list(
            self.connection.execute(
                select(
                    Item.id,
                    Item.state,
                    Item.language,
                    func.coalesce(Item.rep, Item.ibip).label("ibi"),
                    Item.translation_group_id,
                )
                .where(Item.translation_group_id == group)
                .order_by(Item.id)
            )
        )

    def find_others(self, item_id: int) -> dict[str, str]:
        """Return the identifiers of the other members of the group of an item, by language."""
        return {
            member.language: member.ibi
            for member in self.find_members(item_id)
            if member.id != item_id and member.language is not None
        }

    def add_member(self, item_id: int, other_id: int, language: str, ibi: str) -> None:
        """Put an item into the group of another item.

        :param item_id: the id of the item.
        :param other_id: the id of the other item.
        :param language: the language that the item states.
        :param ibi: the identifier of the item, for the message.
        :raises RuleBroken: rule 8, if the group already has an item in this language.
        """
        for member in self.find_members(other_id):
            if member.language == language:
                raise RuleBroken(
                    8,
                    ibi,
                    f"the group of translations already has an item in the language {language}: "
                    f"{member.ibi}",
                )
        self.join(self._find_head(other_id), {language: item_id}, ibi)

    def _find_head(self, item_id: int) -> int:
        """Return the id of the head of an item's group; without a group, the id of the item."""
        group = select(Item.translation_group_id).where(Item.id == item_id).scalar_subquery()
        found = self.connection.execute(
            select(TranslationGroup.head_item_id).where(TranslationGroup.id == group)
        ).scalar()
        return item_id if found is None else found


class TranslationJoins:
    """Collects changes of groups, and stores all changes together.

    :meth:`add` checks and adds one change. :meth:`write` stores all changes.

    :param items: the ids of all items that will be passed to :meth:`add`.
    """

    def __init__(self, connection: Connection, archive_id: int, items: Iterable[int]) -> None:
        self._connection = connection
        self._archive_id = archive_id
        self._languages: dict[int, str | None] = {}
        self._groups: dict[int, int] = {}
        self._members: dict[int, set[int]] = {}
        self._heads: dict[int, int] = {}
        self._changed: set[int] = set()
        self._read("id", items)
        # read the other members of these groups; reading them fills the same dict
        self._read("translation_group_id", list(self._members))

    def _read(self, column: str, values: Iterable[int]) -> None:
        """Read the languages and groups of the items that have a value in a column."""
        for item_id, language, group in self._connection.execute(
            select(Item.id, Item.language, Item.translation_group_id).where(
                is_one_of(self._connection, getattr(Item, column), values)
            )
        ).all():
            self._languages[item_id] = language
            if group is not None:
                self._groups[item_id] = group
                self._members.setdefault(group, set()).add(item_id)

    def add(self, head_id: int, members: Mapping[str, int], ibi: str) -> None:
        """Put an item and its translations into one group. Their present groups are merged.

        If a member states no language, the member gets the language in the list of the head.

        :param head_id: the id of the item whose record lists the translations.
        :param members: the ids of the translations, by language.
        :param ibi: the identifier of the head, for the message.
        :raises RuleBroken: rule 8, if a member states a different language than the list, or if the
            group has two items in the same language.
        """
        if len(set(members.values())) < len(members):
            raise RuleBroken(
                8, ibi, "the item lists one translation twice, with two different languages"
            )
        assigned = {member_id: language for language, member_id in members.items()}
        for member_id, language in assigned.items():
            stated = self._languages[member_id]
            if stated not in (None, language):
                raise RuleBroken(
                    8,
                    ibi,
                    f"the item lists a translation into {language}, but this translation states "
                    f"the language {stated}",
                )
        ids = {head_id, *assigned}
        groups = {self._groups[item_id] for item_id in ids if item_id in self._groups}
        everybody = ids.union(*(self._members[group] for group in groups))
        languages = {member: assigned.get(member, self._languages[member]) for member in everybody}
        listed = list(languages.values())
        for stated in set(listed) - {None}:
            if listed.count(stated) > 1:
                raise RuleBroken(
                    8, ibi, f"the group of translations has two items in the language {stated}"
                )
        group = self._groups.get(head_id) or min(groups, default=0) or self._add_group(head_id)
        for item_id, new_language in languages.items():
            if (self._groups.get(item_id), self._languages[item_id]) != (group, new_language):
                self._groups[item_id], self._languages[item_id] = group, new_language
                self._changed.add(item_id)
        for merged in groups - {group}:
            self._members[merged] = set()
        self._members[group] = everybody

    def _add_group(self, head_id: int) -> int:
        group = FIRST_TEMPORARY_ID + len(self._heads)
        self._heads[group] = head_id
        return group

    def write(self) -> None:
        """Store all changes that were added."""
        rows = self._store_new_groups()
        update_rows(
            self._connection,
            Item,
            [
                {
                    "id": item_id,
                    "translation_group_id": rows.get(self._groups[item_id], self._groups[item_id]),
                    "language": self._languages[item_id],
                }
                for item_id in sorted(self._changed)
            ],
        )
        empty = [
            group
            for group, members in self._members.items()
            if not members and group < FIRST_TEMPORARY_ID
        ]
        for piece in batched(empty):
            self._connection.execute(delete(TranslationGroup).where(TranslationGroup.id.in_(piece)))

    def _store_new_groups(self) -> dict[int, int]:
        """Store the new groups, and return the stored id for each temporary id."""
        new = [group for group in sorted(self._heads) if self._members[group]]
        if not new:
            return {}
        ids = insert_with_ids(
            self._connection,
            TranslationGroup,
            [{"archive_id": self._archive_id, "head_item_id": self._heads[group]} for group in new],
        )
        return dict(zip(new, ids, strict=True))


# --- relations ---------------------------------------------------------------------------------


class Relations:
    """The relations between the items of one Archive.

    The methods use the transaction of the caller.
    """

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.editions = Editions(connection, archive_id)
        self.translations = Translations(connection, archive_id)

    def add(self, item_id: int, record: Record, now: datetime) -> None:
        """Store the relations of a record. The item keeps its other relations.

        :param now: the timestamp of new stubs.
        :raises RuleBroken: rule 6, 7 or 8.
        """
        if record.has_references:
            references = record.references
            batch = RelationBatch(self.connection, self.archive_id, [(item_id, references)], now)
            batch.add(item_id, references)
            batch.write()

    def remove(self, item_id: int) -> None:
        """Remove the relations that the record of an item states."""
        self.set_metadata_item(item_id, None)
        self.editions.unlink_next(item_id)
        self.translations.dissolve(item_id)

    def set_metadata_item(self, item_id: int, metadata_id: int | None) -> None:
        """Store which item contains the metadata of an item.

        :param metadata_id: the id of the item with the metadata; None removes the relation.
        """
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(metadata_item_id=metadata_id)
        )

    def merge_stub(self, stub_id: int, item_id: int, ibi: str) -> None:
        """Delete a stub whose item is now stored, and give its relations to the item.

        :param ibi: the identifier of the item, for the error message.
        :raises RuleBroken: rule 7, if the item is already the next edition of another item.
        """
        previous = self.editions.remove(stub_id)
        self.connection.execute(
            update(Item).where(Item.metadata_item_id == stub_id).values(metadata_item_id=item_id)
        )
        state = self.connection.execute(select(Item.state).where(Item.id == item_id)).scalar_one()
        self.connection.execute(
            update(ItemIdentifier)
            .where(ItemIdentifier.item_id == stub_id)
            .values(item_id=item_id, state=state)
        )
        self.connection.execute(delete(Item).where(Item.id == stub_id))
        if previous is not None:
            self.editions.link(previous, item_id, ibi)

    def find_related_stubs(self, item_id: int) -> list[int]:
        """Return the ids of the stubs that are related to an item."""
        series, group, metadata = self.connection.execute(
            select(Item.edition_series_id, Item.translation_group_id, Item.metadata_item_id).where(
                Item.id == item_id
            )
        ).one()
        values = {
            Item.edition_series_id: series,
            Item.translation_group_id: group,
            Item.id: metadata,
        }
        is_related = [column == value for column, value in values.items() if value is not None]
        if not is_related:
            return []
        stubs = select(Item.id).where(Item.state == ELSEWHERE, or_(*is_related))
        return list(self.connection.scalars(stubs))

    def delete_unused_stubs(self, among: Collection[int] | None = None) -> None:
        """Delete the stubs to which no item refers.

        :param among: the ids of the stubs to check; None: all stubs of the Archive.
        """
        if among is not None and not among:
            return
        referring = aliased(Item)
        unused = delete(Item).where(
            Item.archive_id == self.archive_id,
            Item.state == ELSEWHERE,
            Item.edition_series_id.is_(None),
            Item.translation_group_id.is_(None),
            ~exists().where(referring.metadata_item_id == Item.id),
        )
        if among is not None:
            unused = unused.where(Item.id.in_(among))
        self.connection.execute(unused)


def create_stubs(
    connection: Connection, archive_id: int, identifiers: Sequence[str], now: datetime
) -> dict[str, int]:
    """Store a stub for each identifier, and return the ids of the stubs by identifier.

    :param identifiers: different identifiers that the Archive does not know.
    :param now: the timestamp of the stubs.
    """
    if not identifiers:
        return {}
    new = [(text, parse_identifier(text).form) for text in identifiers]
    ids = insert_with_ids(
        connection,
        Item,
        [
            {
                "archive_id": archive_id,
                "state": ELSEWHERE,
                "rep": text if form is Form.REP else None,
                # in answers, the word "ibip" precedes a legacy identifier of an item elsewhere
                "ibip": None if form is Form.REP else text,
                "timestamp": now,
            }
            for text, form in new
        ],
    )
    insert_rows(
        connection,
        ItemIdentifier,
        [
            {
                "text": text,
                "archive_id": archive_id,
                "item_id": item_id,
                "state": ELSEWHERE,
                "form": form.value,
            }
            for item_id, (text, form) in zip(ids, new, strict=True)
        ],
    )
    return dict(zip(identifiers, ids, strict=True))


class RelationBatch:
    """The relations of several records, which are checked one by one and stored together.

    The constructor stores a stub for each item that the Archive does not know.

    :param items: the ids and the references of all items for which :meth:`add` will be called.
    :param now: the timestamp of new stubs.
    """

    def __init__(
        self,
        connection: Connection,
        archive_id: int,
        items: Sequence[tuple[int, References]],
        now: datetime,
    ) -> None:
        self._connection, self._archive_id = connection, archive_id
        #: The keys are all identifiers in the records. Each value contains the id and the state of
        #: the item.
        self.known = find_owners(
            connection,
            archive_id,
            {text for _, record in items for text in (*record.identifiers, *_others(record))},
        )
        others = dict.fromkeys(text for _, record in items for text in _others(record))
        unknown = [text for text in others if text not in self.known]
        stubs = create_stubs(connection, archive_id, unknown, now)
        self.known.update((text, (item_id, ELSEWHERE)) for text, item_id in stubs.items())
        self._service_id = connection.execute(
            select(ArchiveRow.service_item_id).where(ArchiveRow.id == archive_id)
        ).scalar()
        self._metadata: list[dict[str, int]] = []
        self._editions = EditionLinks(
            connection,
            archive_id,
            {
                row_id
                for item_id, record in items
                if record.next_edition is not None
                for row_id in (item_id, self.get_item_id(record.next_edition))
            },
        )
        self._translations = TranslationJoins(
            connection,
            archive_id,
            {
                row_id
                for item_id, record in items
                if record.translations
                for row_id in (item_id, *map(self.get_item_id, record.translations.values()))
            },
        )

    def get_item_id(self, ibi: str) -> int:
        """Return the id of the item that has an identifier.

        One of the records must contain the identifier.
        """
        return self.known[ibi][0]

    def add(self, item_id: int, references: References) -> None:
        """Check the relations of an item and add them to the batch, which :meth:`write` stores.

        :raises RuleBroken: rule 6, 7 or 8.
        """
        identifiers, next_edition, translations, metadata = references
        ibi = identifiers[0]
        others = [
            self.get_item_id(text)
            for text in (next_edition, *translations.values())
            if text is not None
        ]
        if self._service_id in others:
            raise RuleBroken(
                6, ibi, "the service of the Archive can't be an edition or a translation"
            )
        if metadata is not None:
            self._metadata.append({"id": item_id, "metadata_item_id": self.get_item_id(metadata)})
        if next_edition is not None:
            self._editions.add(item_id, self.get_item_id(next_edition), ibi)
        if translations:
            members = {
                language: self.get_item_id(other) for language, other in translations.items()
            }
            self._translations.add(item_id, members, ibi)

    def write(self) -> None:
        """Store the relations that :meth:`add` has checked."""
        update_rows(self._connection, Item, self._metadata)
        self._editions.write()
        self._translations.write()


def _others(references: References) -> Iterator[str]:
    """Yield the identifiers of the items that a record refers to."""
    if references.metadata is not None:
        yield references.metadata
    if references.next_edition is not None:
        yield references.next_edition
    yield from references.translations.values()
