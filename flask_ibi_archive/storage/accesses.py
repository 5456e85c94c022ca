"""The statements that store accesses to items; :mod:`.access_counts` counts the accesses.

To store an access, only one row is inserted. So concurrent accesses do not wait for each other
longer than a commit takes.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, or_, select

from flask_ibi_archive.storage.dialects import insert_or_update
from flask_ibi_archive.storage.models import Access, File, Item, VisitorSalt
from flask_ibi_archive.storage.states import ELSEWHERE

#: Two accesses by a user to an item within this number of seconds are a double click.
DOUBLE_CLICK = 30
#: The seconds that an access waits for other writers; after that it is stored in the spool.
LOCK_TIMEOUT = 0.5

DAY = 86400
EPOCH = date(1970, 1, 1)

#: A lock with several modes, only needed on PostgreSQL: write transactions of SQLite exclude each
#: other. Counting waits for INSERTs, because all accesses with lower ids must be committed.
LOCK = "LOCK TABLE ibi_counted_accesses IN {} MODE"
INSERTING = LOCK.format("ROW SHARE")
#: Purging excludes counting, but not inserting.
PURGING = LOCK.format("SHARE ROW EXCLUSIVE")
#: In two steps: while this transaction waits for the first lock, others can insert accesses.
COUNTING = f"{PURGING}; {LOCK.format('EXCLUSIVE')}"


def day_of(second: int) -> date:
    """Return the UTC day of a POSIX second."""
    return EPOCH + timedelta(days=second // DAY)


def second_of(day: date) -> int:
    """Return the POSIX second at which a UTC day begins."""
    return (day - EPOCH).days * DAY


# --- writing -------------------------------------------------------------------------------------


def insert_access(connection: Connection, values: dict[str, Any]) -> int | None:
    """Store an access and return its id; None if the URL key was used before.

    :param connection: a connection with the table lock :data:`INSERTING`.
    :returns: None if an access with the same URL key is stored; then nothing is changed.
    """
    statement = insert_or_update(connection, Access).values(values)
    statement = statement.on_conflict_do_nothing(index_elements=[Access.url_key])
    return connection.execute(statement.returning(Access.id)).scalar()


def find_item(connection: Connection, item_id: int) -> tuple[int, str] | None:
    """Return the id of the Archive of an item, and an identifier of the item.

    :returns: None if the item does not exist or is a stub (see :data:`ELSEWHERE`).
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
    """Return the files of some items that have one of the paths or are on another server."""
    rows = connection.execute(
        select(File.item_id, File.path, File.url).where(
            File.item_id.in_(item_ids), or_(File.path.in_(paths), File.url.is_not(None))
        )
    )
    return [(row[0], row[1], row[2]) for row in rows]


def has_recent_access(connection: Connection, archive_id: int, visitor: str, second: int) -> bool:
    """Return whether a visitor made an access in the 30 seconds before a moment."""
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
    """Return the stored salts of some days."""
    rows = connection.execute(
        select(VisitorSalt.day, VisitorSalt.salt).where(VisitorSalt.day.in_(days))
    )
    return {day: bytes.fromhex(salt) for day, salt in rows}


def add_salt(connection: Connection, day: date, salt: bytes) -> None:
    """Store the salt of a day that has no salt, and delete the salts before the previous day."""
    statement = insert_or_update(connection, VisitorSalt).values(day=day, salt=salt.hex())
    connection.execute(statement.on_conflict_do_nothing())
    drop_salts(connection, day)


def drop_salts(connection: Connection, today: date) -> None:
    """Delete the salts of the days before yesterday."""
    connection.execute(delete(VisitorSalt).where(VisitorSalt.day < today - timedelta(days=1)))
