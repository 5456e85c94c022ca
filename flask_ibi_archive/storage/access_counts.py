"""Daily counts of the accesses to each item and each Archive.

The stored counts include all accesses up to a certain id (:class:`CountedAccesses`). Accesses with
higher ids are *new accesses*. New accesses are counted each time the counts are read. After some
hundred new accesses, :func:`count_accesses` adds the new accesses to the stored counts. Therefore
only one INSERT is necessary to store an access.

Double clicks and accesses by robots are counted separately, as the COUNTER Code of Practice
requires (5.1, 7.2 and 7.8). If a user accesses an item twice within 30 seconds, the earlier access
is a double click. Therefore a new access can turn the previous access into a double click. The
previous access may already be part of the stored counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

from sqlalchemy import CTE, ColumnElement, Connection, Select, and_, delete, func, not_, or_, select
from sqlalchemy.orm import aliased

from flask_ibi_archive.storage.accesses import (
    COUNTING,
    DAY,
    DOUBLE_CLICK,
    get_utc_day,
    start_of_day,
)
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.dialects import insert_or_update
from flask_ibi_archive.storage.models import (
    Access,
    AccessCount,
    ArchiveAccessCount,
    CountedAccesses,
)

#: The maximum number of accesses that one transaction counts. During this transaction, no access
#: can be stored.
BATCH = 1000

ASKED, DELIVERED = "asked", "delivered"
NUMBERS = ("accesses", "double_clicks", "robots")
NO_LIMIT = (1 << 63) - 1


class DayCounts(NamedTuple):
    """The numbers of accesses on one day to items of one content type."""

    day: date
    content_type: str
    accesses: int
    double_clicks: int
    robots: int


class _Key(NamedTuple):
    """The primary key of a row in ``ibi_access_count`` without the role."""

    archive_id: int
    item_id: int
    day: date
    content_type: str


_Changes = dict[_Key, list[int]]


# --- reading -------------------------------------------------------------------------------------


def read_counts(
    connection: Connection, archive_id: int, role: str, item_id: int | None = None
) -> list[DayCounts]:
    """Return the counts of an item or of a whole Archive.

    The result may contain several rows for the same day and content type.

    :param connection: a connection that :meth:`Database.snapshot` yielded.
    :param role: the role of the item in the accesses. "asked": the users requested this item.
        "delivered": the users requested another item and received this item. The role of a whole
        Archive is always "asked".
    :param item_id: the id of the item. None returns the counts of the whole Archive.
    """
    table = ArchiveAccessCount if item_id is None else AccessCount
    of = (
        [ArchiveAccessCount.archive_id == archive_id]
        if item_id is None
        else [AccessCount.item_id == item_id, AccessCount.role == role]
    )
    columns = (table.day, table.content_type, table.accesses, table.double_clicks, table.robots)
    stored = connection.execute(select(*columns).where(*of)).all()
    new = _read_changes(
        connection, role, find_newest_counted_id(connection), NO_LIMIT, archive_id, item_id
    )
    return [
        *map(DayCounts._make, stored),
        *(DayCounts(key.day, key.content_type, *numbers) for key, numbers in new.items()),
    ]


def find_newest_counted_id(connection: Connection) -> int:
    """Return the id of the newest access in the stored counts, or 0 if there is no such access."""
    return connection.execute(select(CountedAccesses.newest)).scalar() or 0


def _read_changes(
    connection: Connection,
    role: str,
    counted: int,
    newest: int,
    archive_id: int | None = None,
    item_id: int | None = None,
) -> _Changes:
    """Return the changes of the counts that newer accesses cause.

    The caller adds the returned numbers to the counts.

    :param counted: the id of the newest access that the counts already include.
    :param newest: the id of the newest access that the counts include after the change.
    """
    changes: _Changes = defaultdict(lambda: [0, 0, 0])
    for row in connection.execute(
        select_affected_accesses(role, counted, newest, archive_id, item_id)
    ):
        numbers = changes[
            _Key(row.archive_id, row.item_id, get_utc_day(row.second), row.content_type)
        ]
        numbers[2 if row.robot else int(row.is_double)] += 1
        if row.is_counted:
            numbers[int(row.was_double)] -= 1
    return changes


def select_affected_accesses(
    role: str, counted: Any, newest: Any, archive_id: Any, item_id: Any
) -> Select[Any]:
    """Return the statement that selects new accesses and the access before each new access.

    New accesses cannot change the counts of any other access.
    """
    new = _select_new_accesses(counted, newest)
    item = _get_item_column(new.c, role)
    of_these: list[ColumnElement[bool]] = [item.is_not(None)]
    if archive_id is not None:
        of_these.append(new.c.archive_id == archive_id)
    if item_id is not None:
        of_these.append(item == item_id)
    ids = (
        select(new.c.id)
        .where(*of_these)
        .union(
            select(_find_previous_access_id(new.c, role, newest)).where(
                not_(new.c.robot), *of_these
            )
        )
        .cte("ids")
    )
    is_counted = Access.id <= counted
    columns: list[Any] = [
        Access.archive_id,
        _get_item_column(Access, role).label("item_id"),
        Access.second,
        Access.content_type,
        Access.robot,
        is_counted.label("is_counted"),
        _is_double_click(role, newest).label("is_double"),
        and_(is_counted, _is_double_click(role, counted)).label("was_double"),
    ]
    return select(*columns).join(ids, ids.c.id == Access.id)


def _select_new_accesses(counted: int, newest: int) -> CTE:
    # without MATERIALIZED, the query planner uses the index of the items, which is slower
    return (
        select(
            Access.id,
            Access.archive_id,
            Access.item_id,
            Access.delivered_item_id,
            Access.visitor,
            Access.content_type,
            Access.robot,
            Access.second,
        )
        .where(Access.id > counted, Access.id <= newest)
        .cte("new")
        .prefix_with("MATERIALIZED")
    )


def _get_item_column(access: Any, role: str) -> ColumnElement[int]:
    column: ColumnElement[int] = access.item_id if role == ASKED else access.delivered_item_id
    return column


def _match_double_click(one: Any, other: Any, role: str) -> list[ColumnElement[bool]]:
    """Return the conditions for a double click, except the condition for the time."""
    return [
        _get_item_column(one, role) == _get_item_column(other, role),
        one.visitor == other.visitor,
        one.content_type == other.content_type,
        not_(one.robot),
    ]


def _is_double_click(role: str, newest: int) -> ColumnElement[bool]:
    """Return the condition that an access is a double click.

    :param newest: the id of the newest access that can turn an access into a double click.
    """
    later = aliased(Access)
    return (
        select(later.id)
        .where(
            *_match_double_click(later, Access, role),
            later.second.between(Access.second, Access.second + DOUBLE_CLICK),
            or_(later.second > Access.second, later.id > Access.id),
            later.id <= newest,
        )
        .correlate(Access)
        .exists()
    )


def _find_previous_access_id(new: Any, role: str, newest: int) -> ColumnElement[int]:
    """Return a subquery for the latest access that a new access turns into a double click.

    The subquery selects the id of this access.
    """
    earlier = aliased(Access)
    return (
        select(earlier.id)
        .where(
            *_match_double_click(earlier, new, role),
            earlier.second.between(new.second - DOUBLE_CLICK, new.second),
            or_(earlier.second < new.second, earlier.id < new.id),
            earlier.id <= newest,
        )
        .order_by(earlier.second.desc(), earlier.id.desc())
        .limit(1)
        .scalar_subquery()
    )


# --- writing -------------------------------------------------------------------------------------


def count_accesses(database: Database, lock_timeout: float | None = None) -> None:
    """Add all new accesses to the stored counts. Each batch is a separate transaction.

    :param lock_timeout: the seconds that each transaction waits for locks. None means no limit.
    :raises NotReady: if the database is locked or does not answer.
    """
    while True:
        with database.writing(lock_timeout, COUNTING) as connection:
            if count_batch(connection) < BATCH:
                return


def count_batch(connection: Connection, limit: int = BATCH) -> int:
    """Add the next new accesses to the stored counts, and return the number of these accesses.

    :param connection: a connection with the table lock :data:`COUNTING`.
    :param limit: the maximum number of accesses to add.
    """
    counted = find_newest_counted_id(connection)
    ids = connection.scalars(
        select(Access.id).where(Access.id > counted).order_by(Access.id).limit(limit)
    ).all()
    if not ids:
        return 0
    rows: list[dict[str, Any]] = []
    sums: dict[tuple[int, date, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for role in (ASKED, DELIVERED):
        for key, numbers in _read_changes(connection, role, counted, ids[-1]).items():
            rows.append({**key._asdict(), "role": role, **_name_numbers(numbers)})
            if role == ASKED:
                total = sums[key.archive_id, key.day, key.content_type]
                total[:] = [one + other for one, other in zip(total, numbers, strict=True)]
    _add_to_counts(connection, AccessCount, rows)
    _add_to_counts(
        connection,
        ArchiveAccessCount,
        [
            {"archive_id": archive, "day": day, "content_type": kind, **_name_numbers(numbers)}
            for (archive, day, kind), numbers in sums.items()
        ],
    )
    statement = insert_or_update(connection, CountedAccesses).values(row_no=1, newest=ids[-1])
    connection.execute(
        statement.on_conflict_do_update(index_elements=["row_no"], set_={"newest": ids[-1]})
    )
    return len(ids)


def _name_numbers(numbers: Iterable[int]) -> dict[str, int]:
    return dict(zip(NUMBERS, numbers, strict=True))


def _add_to_counts(connection: Connection, table: Any, rows: list[dict[str, Any]]) -> None:
    statement = insert_or_update(connection, table)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(table.__table__.primary_key.columns),
            set_={name: getattr(table, name) + statement.excluded[name] for name in NUMBERS},
        ),
        rows,
    )


# --- purging -------------------------------------------------------------------------------------


def find_first_day(connection: Connection, archive_id: int) -> date | None:
    """Return the day of the oldest access in an Archive, or None if there are no accesses."""
    second = connection.execute(
        select(func.min(Access.second)).where(Access.archive_id == archive_id)
    ).scalar_one()
    return None if second is None else get_utc_day(second)


def count_accesses_before(connection: Connection, archive_id: int, day: date) -> int:
    """Return the number of accesses to an Archive before a day."""
    return connection.execute(
        select(func.count()).where(
            Access.archive_id == archive_id, Access.second < start_of_day(day)
        )
    ).scalar_one()


def delete_day(connection: Connection, archive_id: int, day: date) -> int:
    """Delete the counted accesses of a day, and return the number of deleted accesses.

    New accesses, which the stored counts do not include yet, are not deleted.

    :param connection: a connection with the table lock :data:`PURGING`.
    """
    begin = start_of_day(day)
    return connection.execute(
        delete(Access).where(
            Access.archive_id == archive_id,
            Access.second >= begin,
            Access.second < begin + DAY,
            Access.id <= find_newest_counted_id(connection),
        )
    ).rowcount
