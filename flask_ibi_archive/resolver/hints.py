"""Where IBIs were last found."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive

#: Hints that are kept at most: the newest ones.
MOST_HINTS = 1_000_000
#: What a column of an IBI takes.
LONGEST_IBI = 255


def remember_hints(connection: Connection, found: Mapping[str, int], now: datetime) -> None:
    """Write down where IBIs were found; what was known of them before is replaced.

    :param found: the number of the Archive, by the IBI in canonical case. One that is not
        registered any more is passed over.
    """
    # the Archives first, and all in one order: so no two that write wait for each other
    wanted = sorted(set(found.values()))
    there = set(
        connection.scalars(
            select(RegisteredArchive.id)
            .where(RegisteredArchive.id.in_(wanted))
            .order_by(RegisteredArchive.id)
            .with_for_update(read=True, key_share=True)
        )
    )
    rows = [
        {"ibi": ibi, "archive_id": archive_id, "found_at": now}
        for ibi, archive_id in sorted(found.items())
        if archive_id in there and len(ibi) <= LONGEST_IBI
    ]
    if rows:
        made = postgresql if connection.dialect.name == "postgresql" else sqlite
        statement = made.insert(Hint)
        newer = {
            "archive_id": statement.excluded.archive_id,
            "found_at": statement.excluded.found_at,
        }
        connection.execute(
            statement.on_conflict_do_update(index_elements=[Hint.ibi], set_=newer), rows
        )


def forget_old_hints(connection: Connection, before: datetime, most: int = MOST_HINTS) -> int:
    """Take out hints that are old, or too many; give how many there were.

    :param before: those found before this moment go.
    :param most: so many of the newest stay.
    """
    gone = connection.execute(delete(Hint).where(Hint.found_at < before)).rowcount
    oldest = (
        select(Hint.found_at).order_by(Hint.found_at.desc()).offset(most).limit(1).scalar_subquery()
    )
    return gone + connection.execute(delete(Hint).where(Hint.found_at <= oldest)).rowcount
