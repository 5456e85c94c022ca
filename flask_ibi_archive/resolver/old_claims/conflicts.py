"""Conflicts: two Archives claim the Original of one identifier (federation CF-1).

The follower notes a conflict in the transaction that stores the claim, and ends it when the claim
of one of the two Archives is no longer that of an Original. As long as one of them is excluded, the
conflict is ended, too: it is open again if the Archive is included again, and both still claim the
Original. The administrators are told afterwards (conflict_alerts.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, not_, or_, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.old_claims.tables import Conflict
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update


@dataclass(frozen=True, slots=True)
class Claimant:
    """An Archive that claims the Original.

    :param service_ibi: the IBI of the Archive's service.
    :param address: the host and port of the Archive. None if it was never included.
    :param email: the address of its administrator. None if it is unknown.
    """

    id: int
    service_ibi: str
    address: str | None
    email: str | None


@dataclass(frozen=True, slots=True)
class FoundConflict:
    """A conflict with the two Archives. The fields are the columns with the same names.

    :param other_ibi: the other identifier of the item; None if it has one only.
    :param ended_at: the time since when one of the Archives claims something else or is excluded.
    :param claimants: the two Archives, in the order of their ids, whichever claimed first.
    """

    id: int
    ibi: str
    other_ibi: str | None
    found_at: datetime
    ended_at: datetime | None
    told_at: datetime | None
    claimants: tuple[Claimant, Claimant]


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
        ibi=ibi,
        other_ibi=other_ibi,
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
        Conflict.ibi == ibi,
        Conflict.ended_at.is_(None),
        or_(Conflict.first_archive_id == archive_id, Conflict.second_archive_id == archive_id),
    )
    return connection.execute(statement.values(ended_at=now)).rowcount


def list_open_ibis(connection: Connection, archive_id: int) -> list[str]:
    """Return the identifiers of the open conflicts with an Archive."""
    is_its = or_(Conflict.first_archive_id == archive_id, Conflict.second_archive_id == archive_id)
    statement = select(Conflict.ibi).where(Conflict.ended_at.is_(None), is_its).distinct()
    return list(connection.scalars(statement))


_first, _second = aliased(RegisteredArchive), aliased(RegisteredArchive)
#: The conditions of :func:`list_conflicts` for open and for ended conflicts.
IS_OPEN = and_(
    Conflict.ended_at.is_(None), _first.excluded_at.is_(None), _second.excluded_at.is_(None)
)
IS_ENDED = not_(IS_OPEN)
_ENDED_AT = func.coalesce(Conflict.ended_at, _first.excluded_at, _second.excluded_at)
_SELECT = (
    select(
        Conflict.id,
        Conflict.ibi,
        Conflict.other_ibi,
        Conflict.found_at,
        _ENDED_AT,
        Conflict.told_at,
        *(
            column
            for archive in (_first, _second)
            for column in (
                archive.id,
                archive.service_ibi,
                archive.address,
                # the Archive itself sent admin_email; email came from the resolver's administrator
                func.coalesce(archive.admin_email, archive.email),
            )
        ),
    )
    .join(_first, _first.id == Conflict.first_archive_id)
    .join(_second, _second.id == Conflict.second_archive_id)
    # an Archive that was excluded before conflicts with nobody yet
    .where(or_(IS_OPEN, Conflict.found_at <= _ENDED_AT))
)


def find_open_conflict(database: Database, ibi: str) -> int | None:
    """Return the number of the newest open conflict of an identifier; None if none is known.

    :param ibi: one of the item's identifiers in canonical case.
    """
    is_of_item = or_(Conflict.ibi == ibi, Conflict.other_ibi == ibi)
    try:
        found = database.read(
            lambda connection: list_conflicts(connection, IS_OPEN, is_of_item, limit=1)
        )
    except NotReady:  # the alert is right without the number
        return None
    return found[0].id if found else None


def list_conflicts(
    connection: Connection,
    *conditions: ColumnElement[bool],
    below: int | None = None,
    limit: int | None = None,
) -> list[FoundConflict]:
    """Return the conflicts that meet some conditions, the newest first.

    :param below: return only conflicts whose id is lower: the continuation of a page.
    :param limit: the maximum number of conflicts. None for all.
    """
    statement = _SELECT.where(*conditions).order_by(Conflict.id.desc()).limit(limit)
    if below is not None:
        statement = statement.where(Conflict.id < below)
    rows: Sequence[Any] = connection.execute(statement).all()
    found = []
    for number, ibi, other_ibi, found_at, ended_at, told_at, *pair in rows:
        claimants = Claimant(*pair[:4]), Claimant(*pair[4:])
        times = found_at, ended_at, told_at
        found.append(FoundConflict(number, ibi, other_ibi, *times, claimants))
    return found
