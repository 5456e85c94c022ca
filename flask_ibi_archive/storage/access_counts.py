"""Daily counts of the accesses to each item and each Archive.

The stored counts include every access up to a certain id (:class:`CountedAccesses`). Accesses with
higher ids are counted when the counts are read. After some hundred new accesses,
:func:`count_accesses` adds them to the stored counts. So a new access needs only one INSERT.

Double clicks and robots are counted separately, as the COUNTER Code of Practice requires (5.1, 7.2
and 7.8). If a user accesses an item twice within 30 seconds, the earlier access is a double click.
So a new access can turn the previous access, which is already counted, into a double click.
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
    day_of,
    second_of,
)
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.dialects import insert_or_update
from flask_ibi_archive.storage.models import (
    Access,
    AccessCount,
    ArchiveAccessCount,
    CountedAccesses,
)

#: The most accesses that one transaction counts: during this time, no access can be stored.
BATCH = 1000

ASKED, DELIVERED = "asked", "delivered"
NUMBERS = ("accesses", "double_clicks", "robots")
NO_LIMIT = (1 << 63) - 1


class DayCounts(NamedTuple):
    """The counts of one day and one content type."""

    day: date
    content_type: str
    accesses: int
    double_clicks: int
    robots: int


class _Key(NamedTuple):
    """The key of a row of ``ibi_access_count`` without the role."""

    archive_id: int
    item_id: int
    day: date
    content_type: str


_Changes = dict[_Key, list[int]]


# --- reading -------------------------------------------------------------------------------------


def read_counts(
    connection: Connection, archive_id: int, role: str, item_id: int | None = None
) -> list[DayCounts]:
    """Return the counts of an item, or of a whole Archive; a day may be in several rows.

    :param connection: a connection that :meth:`Database.snapshot` yielded.
    :param role: "asked" counts the accesses that requested the item, "delivered" those that
        requested another item; a whole Archive only has counts of "asked".
    """
    table = ArchiveAccessCount if item_id is None else AccessCount
    of = (
        [ArchiveAccessCount.archive_id == archive_id]
        if item_id is None
        else [AccessCount.item_id == item_id, AccessCount.role == role]
    )
    columns = (table.day, table.content_type, table.accesses, table.double_clicks, table.robots)
    stored = connection.execute(select(*columns).where(*of)).all()
    new = _read_changes(connection, role, newest_counted(connection), NO_LIMIT, archive_id, item_id)
    return [
        *map(DayCounts._make, stored),
        *(DayCounts(key.day, key.content_type, *numbers) for key, numbers in new.items()),
    ]


def newest_counted(connection: Connection) -> int:
    """Return the id of the newest access that the stored counts include; 0 without any."""
    return connection.execute(select(CountedAccesses.newest)).scalar() or 0


def _read_changes(
    connection: Connection,
    role: str,
    counted: int,
    newest: int,
    archive_id: int | None = None,
    item_id: int | None = None,
) -> _Changes:
    """Return the numbers to add to the counts to include newer accesses.

    :param counted: the id of the newest access that the counts include.
    :param newest: the id of the newest access that the counts will include.
    """
    changes: _Changes = defaultdict(lambda: [0, 0, 0])
    for row in connection.execute(_affected(role, counted, newest, archive_id, item_id)):
        numbers = changes[_Key(row.archive_id, row.item_id, day_of(row.second), row.content_type)]
        numbers[2 if row.robot else int(row.is_double)] += 1
        if row.is_counted:
            numbers[int(row.was_double)] -= 1
    return changes


def _affected(
    role: str, counted: int, newest: int, archive_id: int | None, item_id: int | None
) -> Select[Any]:
    """Return the statement for the new accesses and the accesses directly before them.

    Accesses further back cannot change: the access after them has already decided whether they are
    double clicks.
    """
    new = _new_accesses(counted, newest)
    item = _item_of(new.c, role)
    of_these: list[ColumnElement[bool]] = [item.is_not(None)]
    if archive_id is not None:
        of_these.append(new.c.archive_id == archive_id)
    if item_id is not None:
        of_these.append(item == item_id)
    ids = (
        select(new.c.id)
        .where(*of_these)
        .union(select(_id_before(new.c, role, newest)).where(not_(new.c.robot), *of_these))
        .cte("ids")
    )
    is_counted = Access.id <= counted
    columns: list[Any] = [
        Access.archive_id,
        _item_of(Access, role).label("item_id"),
        Access.second,
        Access.content_type,
        Access.robot,
        is_counted.label("is_counted"),
        _is_followed(role, newest).label("is_double"),
        and_(is_counted, _is_followed(role, counted)).label("was_double"),
    ]
    return select(*columns).join(ids, ids.c.id == Access.id)


def _new_accesses(counted: int, newest: int) -> CTE:
    # materialised, because otherwise the planner uses the index of the items, which is slower
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


def _item_of(access: Any, role: str) -> ColumnElement[int]:
    column: ColumnElement[int] = access.item_id if role == ASKED else access.delivered_item_id
    return column


def _same_clicks(one: Any, other: Any, role: str) -> list[ColumnElement[bool]]:
    """Return the conditions of a double click without the condition on the times."""
    return [
        _item_of(one, role) == _item_of(other, role),
        one.visitor == other.visitor,
        one.content_type == other.content_type,
        not_(one.robot),
    ]


def _is_followed(role: str, newest: int) -> ColumnElement[bool]:
    """Return the condition that a later access, up to an id, made an access a double click."""
    later = aliased(Access)
    return (
        select(later.id)
        .where(
            *_same_clicks(later, Access, role),
            later.second.between(Access.second, Access.second + DOUBLE_CLICK),
            or_(later.second > Access.second, later.id > Access.id),
            later.id <= newest,
        )
        .correlate(Access)
        .exists()
    )


def _id_before(new: Any, role: str, newest: int) -> ColumnElement[int]:
    """Return the id of the last access that a new access turns into a double click."""
    earlier = aliased(Access)
    return (
        select(earlier.id)
        .where(
            *_same_clicks(earlier, new, role),
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
    """Add the new accesses to the stored counts, one batch in each transaction.

    :param lock_timeout: the seconds that each transaction waits for locks; None: without a limit.
    :raises NotReady: if the database is locked or does not answer.
    """
    while True:
        with database.writing(lock_timeout, COUNTING) as connection:
            if count_batch(connection) < BATCH:
                return


def count_batch(connection: Connection, limit: int = BATCH) -> int:
    """Add the next accesses to the stored counts and return their number.

    :param connection: a connection with the table lock :data:`COUNTING`.
    """
    counted = newest_counted(connection)
    ids = connection.scalars(
        select(Access.id).where(Access.id > counted).order_by(Access.id).limit(limit)
    ).all()
    if not ids:
        return 0
    rows: list[dict[str, Any]] = []
    sums: dict[tuple[int, date, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for role in (ASKED, DELIVERED):
        for key, numbers in _read_changes(connection, role, counted, ids[-1]).items():
            rows.append({**key._asdict(), "role": role, **_named(numbers)})
            if role == ASKED:
                total = sums[key.archive_id, key.day, key.content_type]
                total[:] = [one + other for one, other in zip(total, numbers, strict=True)]
    _add(connection, AccessCount, rows)
    _add(
        connection,
        ArchiveAccessCount,
        [
            {"archive_id": archive, "day": day, "content_type": kind, **_named(numbers)}
            for (archive, day, kind), numbers in sums.items()
        ],
    )
    statement = insert_or_update(connection, CountedAccesses).values(row_no=1, newest=ids[-1])
    connection.execute(
        statement.on_conflict_do_update(index_elements=["row_no"], set_={"newest": ids[-1]})
    )
    return len(ids)


def _named(numbers: Iterable[int]) -> dict[str, int]:
    return dict(zip(NUMBERS, numbers, strict=True))


def _add(connection: Connection, table: Any, rows: list[dict[str, Any]]) -> None:
    statement = insert_or_update(connection, table)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=list(table.__table__.primary_key.columns),
            set_={name: getattr(table, name) + statement.excluded[name] for name in NUMBERS},
        ),
        rows,
    )


# --- purging -------------------------------------------------------------------------------------


def first_day(connection: Connection, archive_id: int) -> date | None:
    """Return the day of the oldest access; None without any access."""
    second = connection.execute(
        select(func.min(Access.second)).where(Access.archive_id == archive_id)
    ).scalar_one()
    return None if second is None else day_of(second)


def count_before(connection: Connection, archive_id: int, day: date) -> int:
    """Return the number of accesses before a day."""
    return connection.execute(
        select(func.count()).where(Access.archive_id == archive_id, Access.second < second_of(day))
    ).scalar_one()


def delete_day(connection: Connection, archive_id: int, day: date) -> int:
    """Delete the accesses of a day that the stored counts include, and return their number.

    :param connection: a connection with the table lock :data:`PURGING`.
    """
    begin = second_of(day)
    return connection.execute(
        delete(Access).where(
            Access.archive_id == archive_id,
            Access.second >= begin,
            Access.second < begin + DAY,
            Access.id <= newest_counted(connection),
        )
    ).rowcount
