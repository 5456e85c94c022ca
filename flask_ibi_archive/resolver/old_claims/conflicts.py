"""Conflicts: two Archives claim the Original of one identifier (federation CF-1).

The follower notes a conflict in the transaction that stores the claim, and ends it when the claim
of one of the two Archives is no longer that of an Original. As long as one of them is excluded, the
conflict is ended, too: it is open again if the Archive is included again, and both still claim the
Original. The administrators are told afterwards (conflict_alerts.py).
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, or_, select, update

from flask_ibi_archive.resolver.tables import Conflict
from flask_ibi_archive.server.database.dialects import insert_or_update


def note_rival(
    connection: Connection,
    ibi: str,
    archive_id: int,
    other_id: int,
    now: datetime,
    other_ibi: str | None = None,
) -> bool:
    """Store that two Archives claim the Original of an identifier.

    If the conflict is open already, nothing changes.

    :param ibi: the identifier in canonical case.
    :param archive_id: the id of the Archive whose claim was read now.
    :param other_id: the id of another Archive, whose claim was read before.
    :param other_ibi: the other identifier of the item, if it has two.
    :returns: whether the conflict is new.
    Source: federation CF-1.
    """
    first, second = sorted((archive_id, other_id))
    statement = insert_or_update(connection, Conflict).values(
        name=ibi,
        other_name=other_ibi,
        first_archive_id=first,
        second_archive_id=second,
        found_at=now,
    )
    statement = statement.on_conflict_do_nothing().returning(Conflict.id)
    return connection.execute(statement).one_or_none() is not None


def end_conflicts(connection: Connection, ibi: str, archive_id: int, now: datetime) -> int:
    """End the open conflicts of an identifier with an Archive that no longer claims the Original.

    A conflict with the same claim can be found again later; it is then a new conflict.

    :param ibi: the identifier in canonical case.
    :param archive_id: the id of the Archive whose claim changed.
    :returns: the number of conflicts that ended.
    Source: federation CF-1.
    """
    statement = update(Conflict).where(
        Conflict.name == ibi,
        Conflict.ended_at.is_(None),
        or_(Conflict.first_archive_id == archive_id, Conflict.second_archive_id == archive_id),
    )
    return connection.execute(statement.values(ended_at=now)).rowcount


def list_open_ibis(connection: Connection, archive_id: int) -> list[str]:
    """Return the identifiers of the open conflicts with an Archive."""
    is_its = or_(Conflict.first_archive_id == archive_id, Conflict.second_archive_id == archive_id)
    statement = select(Conflict.name).where(Conflict.ended_at.is_(None), is_its).distinct()
    return list(connection.scalars(statement))
