"""The statements that keep accesses and count them.

An access is one row, and nothing else is written when it comes: so the many that come at once never wait
for each other longer than a commit takes. Second clicks are told when the rows are read, as the COUNTER
Code of Practice says (release 5.1, 7.2): of two accesses by one user to one item within 30 seconds the
later one counts, and so on along a chain. Robots are left out first (7.8).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import date, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    Connection,
    Select,
    and_,
    case,
    delete,
    func,
    literal,
    not_,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.models import Access, AccessCount, File, Item, VisitorSalt
from flask_ibi_archive.storage.states import ELSEWHERE

#: Seconds between two clicks of which the second takes the place of the first.
DOUBLE_CLICK = 30
#: Seconds that an access waits for other writers before it is kept elsewhere.
PATIENCE = 0.5

DAY = 86400
EPOCH = date(1970, 1, 1)
ASKED, DELIVERED = "asked", "delivered"

#: Nobody adds to the counts meanwhile; asked for before the transaction first looks at the tables.
LOCK_COUNTS = "LOCK TABLE ibi_access_count IN SHARE ROW EXCLUSIVE MODE"


class DayCounts(NamedTuple):
    """What was counted on one day, of one content type."""

    day: date
    content_type: str
    accesses: int
    double_clicks: int
    robots: int


def day_of(second: int) -> date:
    """Give the UTC day of a POSIX second."""
    return EPOCH + timedelta(days=second // DAY)


def second_of(day: date) -> int:
    """Give the POSIX second that a UTC day begins with."""
    return (day - EPOCH).days * DAY


# --- writing ------------------------------------------------------------------------------------------


def insert_access(connection: Connection, values: dict[str, Any]) -> bool:
    """Keep an access.

    :returns: False where its URL key was used before; nothing is written then.
    """
    made: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = made.insert(Access).values(values)
    statement = statement.on_conflict_do_nothing(index_elements=[Access.url_key])
    return connection.execute(statement.returning(Access.id)).first() is not None


def find_item(connection: Connection, item_id: int) -> tuple[int, str] | None:
    """Give the Archive of an item and one of its identifiers.

    :returns: None where there is no such item, or only its identifier is known.
    """
    row = connection.execute(
        select(Item.archive_id, func.coalesce(Item.rep, Item.ibip)).where(
            Item.id == item_id, Item.state != ELSEWHERE
        )
    ).one_or_none()
    return None if row is None else (row[0], row[1])


def find_files(
    connection: Connection, item_ids: list[int], paths: list[str]
) -> list[tuple[int, str, str | None]]:
    """Give, of the files of some items, those at some paths and those that are served elsewhere."""
    rows = connection.execute(
        select(File.item_id, File.path, File.url).where(
            File.item_id.in_(item_ids), or_(File.path.in_(paths), File.url.is_not(None))
        )
    )
    return [(row[0], row[1], row[2]) for row in rows]


def was_here(connection: Connection, archive_id: int, visitor: str, second: int) -> bool:
    """Tell whether a visitor came within the seconds of a double click before a moment."""
    found = connection.execute(
        select(Access.id)
        .where(
            Access.archive_id == archive_id,
            Access.second.between(second - DOUBLE_CLICK, second),
            Access.visitor == visitor,
        )
        .limit(1)
    )
    return found.first() is not None


def read_salts(connection: Connection, days: list[date]) -> dict[date, bytes]:
    """Give the salts of some days, as far as they are there."""
    rows = connection.execute(
        select(VisitorSalt.day, VisitorSalt.salt).where(VisitorSalt.day.in_(days))
    )
    return {day: bytes.fromhex(salt) for day, salt in rows}


def add_salt(connection: Connection, day: date, salt: bytes) -> None:
    """Keep the salt of a day, unless it has one; throw away those that were before yesterday's."""
    made: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(
        made.insert(VisitorSalt).values(day=day, salt=salt.hex()).on_conflict_do_nothing()
    )
    drop_salts(connection, day)


def drop_salts(connection: Connection, today: date) -> None:
    """Throw away the salts of the days before yesterday."""
    connection.execute(delete(VisitorSalt).where(VisitorSalt.day < today - timedelta(days=1)))


# --- counting -----------------------------------------------------------------------------------------


def _told_apart(role: str, *conditions: Any) -> CTE:
    """Give accesses with what each is: whether it is a robot's, or a click that another one followed."""
    item = Access.item_id if role == ASKED else Access.delivered_item_id
    following = func.lead(Access.second).over(
        partition_by=[item, Access.content_type, Access.robot, Access.visitor],
        order_by=[Access.second, Access.id],
    )
    return (
        select(
            item.label("item_id"),
            Access.archive_id,
            Access.second,
            Access.content_type,
            Access.robot,
            and_(
                not_(Access.robot), func.coalesce(following - Access.second <= DOUBLE_CLICK, False)
            ).label("double"),
        )
        .where(item.is_not(None), *conditions)
        .cte("told")
    )


def _sums(told: CTE) -> list[Any]:
    def count(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

    return [
        count(not_(or_(told.c.robot, told.c.double))).label("accesses"),
        count(told.c.double).label("double_clicks"),
        count(told.c.robot).label("robots"),
    ]


def _live_counts(archive_id: int, role: str, item_id: int | None) -> Select[Any]:
    item = Access.item_id if role == ASKED else Access.delivered_item_id
    # an item is one Archive's: to name that too would lead SQLite to the wrong index
    told = _told_apart(
        role, Access.archive_id == archive_id if item_id is None else item == item_id
    )
    day = (told.c.second // DAY).label("day")
    return select(day, told.c.content_type, *_sums(told)).group_by(day, told.c.content_type)


def read_counts(
    connection: Connection, archive_id: int, role: str, item_id: int | None = None
) -> list[DayCounts]:
    """Give what was counted of an item, or of a whole Archive: purged days first, then the others.

    :param connection: one that sees the database as it is at one moment (:meth:`Database.snapshot`).
    :param role: "asked" or "delivered".
    """
    of = AccessCount.archive_id == archive_id if item_id is None else AccessCount.item_id == item_id
    purged = connection.execute(
        select(
            AccessCount.day,
            AccessCount.content_type,
            func.sum(AccessCount.accesses),
            func.sum(AccessCount.double_clicks),
            func.sum(AccessCount.robots),
        )
        .where(of, AccessCount.role == role)
        .group_by(AccessCount.day, AccessCount.content_type)
    )
    live = connection.execute(_live_counts(archive_id, role, item_id))
    return [
        *(DayCounts(day, kind, *map(int, numbers)) for day, kind, *numbers in purged),
        *(
            DayCounts(EPOCH + timedelta(days=int(day)), kind, *map(int, numbers))
            for day, kind, *numbers in live
        ),
    ]


# --- purging ------------------------------------------------------------------------------------------


def purging(database: Database) -> AbstractContextManager[Connection]:
    """Return a connection in a transaction that alone purges, and sees no access that comes meanwhile."""
    is_postgresql = database.engine.dialect.name == "postgresql"
    return database.writing(
        begin=f"BEGIN ISOLATION LEVEL REPEATABLE READ; {LOCK_COUNTS}" if is_postgresql else None
    )


def first_day(connection: Connection, archive_id: int) -> date | None:
    """Give the day of the oldest access, None where there is none."""
    second = connection.execute(
        select(func.min(Access.second)).where(Access.archive_id == archive_id)
    ).scalar_one()
    return None if second is None else day_of(second)


def count_before(connection: Connection, archive_id: int, day: date) -> int:
    """Give how many accesses came before a day."""
    return connection.execute(
        select(func.count()).where(Access.archive_id == archive_id, Access.second < second_of(day))
    ).scalar_one()


def fold_day(connection: Connection, archive_id: int, day: date) -> int:
    """Add the accesses of a day to its counts and take them out; give how many they were.

    The accesses right behind the day are looked at too: a click may be followed by one of the next day.
    """
    begin, end = second_of(day), second_of(day) + DAY
    made: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    for role in (ASKED, DELIVERED):
        told = _told_apart(
            role,
            Access.archive_id == archive_id,
            Access.second.between(begin, end + DOUBLE_CLICK),
        )
        counted = (
            select(
                told.c.item_id,
                literal(role),
                literal(day, AccessCount.day.type),
                told.c.content_type,
                told.c.archive_id,
                *_sums(told),
            )
            .where(told.c.second < end)
            .group_by(told.c.item_id, told.c.content_type, told.c.archive_id)
        )
        statement = made.insert(AccessCount).from_select(
            [
                "item_id",
                "role",
                "day",
                "content_type",
                "archive_id",
                "accesses",
                "double_clicks",
                "robots",
            ],
            counted,
        )
        names = ("accesses", "double_clicks", "robots")
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["item_id", "role", "day", "content_type"],
                set_={
                    name: getattr(AccessCount, name) + statement.excluded[name] for name in names
                },
            )
        )
    return connection.execute(
        delete(Access).where(
            Access.archive_id == archive_id, Access.second >= begin, Access.second < end
        )
    ).rowcount
