"""The statements that store accesses to items. :mod:`.access_counts` counts the accesses.

Only one row is inserted to store an access. Therefore an access waits for another access no longer
than a commit takes.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, TextClause, bindparam, delete, func, or_, select, text

from flask_ibi_archive.protocol.states import ELSEWHERE
from flask_ibi_archive.storage.dialects import insert_or_update
from flask_ibi_archive.storage.models import Access, File, Item, VisitorSalt

#: If a user accesses an item twice within this number of seconds, the earlier access is a double
#: click.
DOUBLE_CLICK = 30
#: An access waits this number of seconds for other writers. Then the access is stored in the spool.
LOCK_TIMEOUT = 0.5

DAY = 86400
EPOCH = date(1970, 1, 1)

#: The statement that locks the access counts on PostgreSQL. SQLite needs no lock, because only one
#: transaction can write at a time. Counting must wait for all transactions that insert accesses,
#: because all accesses with lower ids must be committed first.
LOCK = "LOCK TABLE ibi_counted_accesses IN {} MODE"
INSERTING = LOCK.format("ROW SHARE")
#: During purging, accesses can be inserted but not counted.
PURGING = LOCK.format("SHARE ROW EXCLUSIVE")
#: There are two locks. Other transactions can insert accesses until the first lock is obtained.
COUNTING = f"{PURGING}; {LOCK.format('EXCLUSIVE')}"


_SELECT_ITEM = select(Item.archive_id, func.coalesce(Item.rep, Item.ibip)).where(
    Item.id == bindparam("item_id"), Item.state != ELSEWHERE
)


def get_utc_day(second: int) -> date:
    """Return the UTC day that contains a POSIX timestamp in seconds."""
    return EPOCH + timedelta(days=second // DAY)


def start_of_day(day: date) -> int:
    """Return the POSIX timestamp, in seconds, of the start of a UTC day."""
    return (day - EPOCH).days * DAY


# --- writing -------------------------------------------------------------------------------------


def insert_access(connection: Connection, values: dict[str, Any]) -> int | None:
    """Store an access, and return the id of the access.

    :param connection: a connection with the table lock :data:`INSERTING`.
    :param values: the values of the columns.
    :returns: None if an access with the same URL key already exists. Then nothing is stored.
    """
    number: int | None = connection.scalar(_insert_access(tuple(values)), values)
    return number


@lru_cache
def _insert_access(columns: tuple[str, ...]) -> TextClause:
    # to build this statement for each access would take longer than to run it
    values = ", ".join([f":{name}" for name in columns])
    return text(
        f"INSERT INTO ibi_access ({', '.join(columns)}) VALUES ({values})"
        " ON CONFLICT (url_key) DO NOTHING RETURNING id"
    )


def find_item(connection: Connection, item_id: int) -> tuple[int, str] | None:
    """Return the id of the Archive that contains an item, and an identifier of the item.

    :returns: None if the item does not exist, or if the item is a stub (see :data:`ELSEWHERE`).
    """
    row = connection.execute(_SELECT_ITEM, {"item_id": item_id}).first()
    return None if row is None else (row[0], row[1])


def find_files(
    connection: Connection, item_ids: list[int], paths: list[str]
) -> list[tuple[int, str, str | None]]:
    """Return the item id, path and URL of files that have one of the paths or have a URL.

    Files with a URL are on another server.
    """
    rows = connection.execute(
        select(File.item_id, File.path, File.url).where(
            File.item_id.in_(item_ids), or_(File.path.in_(paths), File.url.is_not(None))
        )
    )
    return [(row[0], row[1], row[2]) for row in rows]


def has_recent_access(connection: Connection, archive_id: int, visitor: str, second: int) -> bool:
    """Return True if a visitor accessed any item in the 30 seconds before a time.

    :param second: the time as a POSIX timestamp in seconds.
    """
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
    """Return the stored salts of the given days, by day."""
    rows = connection.execute(
        select(VisitorSalt.day, VisitorSalt.salt).where(VisitorSalt.day.in_(days))
    )
    return {day: bytes.fromhex(salt) for day, salt in rows}


def add_salt(connection: Connection, day: date, salt: bytes) -> None:
    """Store the salt of a day if the day has no salt, and delete old salts."""
    statement = insert_or_update(connection, VisitorSalt).values(day=day, salt=salt.hex())
    connection.execute(statement.on_conflict_do_nothing())
    delete_old_salts(connection, day)


def delete_old_salts(connection: Connection, today: date) -> None:
    """Delete the salts of all days before yesterday."""
    connection.execute(delete(VisitorSalt).where(VisitorSalt.day < today - timedelta(days=1)))
