"""The statements that store accesses; :mod:`.access_counts` counts them.

An access is one row, and nothing else is written when it comes: so the many that come at once never
wait for each other longer than a commit takes.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from flask_ibi_archive.storage.models import Access, File, Item, VisitorSalt
from flask_ibi_archive.storage.states import ELSEWHERE

#: Seconds between two clicks of which the second takes the place of the first.
DOUBLE_CLICK = 30
#: Seconds that an access waits for other writers before it is kept elsewhere.
PATIENCE = 0.5

DAY = 86400
EPOCH = date(1970, 1, 1)

#: Modes of one lock on PostgreSQL; on SQLite every write transaction is alone. Who counts waits for
#: those that insert, since the accesses up to an id can only be counted when no older id is still
#: to be committed.
LOCK = "LOCK TABLE ibi_counted_accesses IN {} MODE"
INSERTING = LOCK.format("ROW SHARE")
#: Purging excludes counting, not inserting.
PURGING = LOCK.format("SHARE ROW EXCLUSIVE")
#: In two steps, so that inserting goes on while another transaction counts or purges.
COUNTING = f"{PURGING}; {LOCK.format('EXCLUSIVE')}"


def day_of(second: int) -> date:
    """Return the UTC day of a POSIX second."""
    return EPOCH + timedelta(days=second // DAY)


def second_of(day: date) -> int:
    """Return the POSIX second that a UTC day begins with."""
    return (day - EPOCH).days * DAY


# --- writing -------------------------------------------------------------------------------------


def insert_access(connection: Connection, values: dict[str, Any]) -> int | None:
    """Store an access and return its id; None where its URL key was used before: nothing is written
    then.

    :param connection: in a transaction for :data:`INSERTING`.
    """
    made: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = made.insert(Access).values(values)
    statement = statement.on_conflict_do_nothing(index_elements=[Access.url_key])
    return connection.execute(statement.returning(Access.id)).scalar()


def find_item(connection: Connection, item_id: int) -> tuple[int, str] | None:
    """Return the Archive of an item and one of its identifiers.

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
    """Return the salts of some days, as far as they are there."""
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
