"""Identifiers that are held for drafts: held, then used or released, and never given again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, insert, or_, select, update

from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.storage import models

HELD, USED, RELEASED = "held", "used", "released"


@dataclass(frozen=True, slots=True)
class Reservation:
    """An identifier, in both forms, that was held for a draft.

    :param status: held, used or released; :param settled_at: when it became the latter.
    """

    rep: str
    ibip: str
    status: str
    note: str | None
    reserved_at: datetime
    settled_at: datetime | None


def hold(
    connection: Connection, archive_id: int, rep: str, ibip: str, note: str | None, now: datetime
) -> None:
    """Write down that an identifier is held for a draft of an Archive."""
    connection.execute(
        insert(models.Reservation).values(
            rep=rep, ibip=ibip, archive_id=archive_id, status=HELD, note=note, reserved_at=now
        )
    )


def settle(
    connection: Connection, archive_id: int, ibi: str, status: str, now: datetime
) -> tuple[str, str]:
    """Let an identifier be held no longer: it is used or released, by one who asks at a time.

    :param ibi: either form (canonical).
    :returns: both forms.
    :raises StorageError: if no draft of the Archive holds it, or no longer.
    """
    row = models.Reservation
    settled = connection.execute(
        update(row)
        .where(_named([ibi]), row.archive_id == archive_id, row.status == HELD)
        .values(status=status, settled_at=now)
        .returning(row.rep, row.ibip)
    ).first()
    if settled is not None:
        return settled.rep, settled.ibip
    found = connection.execute(select(row.archive_id, row.status).where(_named([ibi]))).first()
    if found is None:
        raise StorageError(f"{ibi} is not reserved; flask ibi reserve holds an identifier")
    if found.status != HELD:
        raise StorageError(f"the reservation of {ibi} was {found.status} already")
    raise StorageError(f"{ibi} is reserved for a draft of another Archive of the database")


def check_held(connection: Connection, identifiers: Sequence[str]) -> None:
    """Check that no identifier that an item is to bear is held for a draft.

    :raises RuleBroken: rule 1, naming the first that is.
    """
    if not identifiers:
        return
    held = connection.scalars(
        select(models.Reservation.rep)
        .where(_named(identifiers), models.Reservation.status == HELD)
        .order_by(models.Reservation.reserved_at)
        .limit(1)
    ).first()
    if held is not None:
        raise RuleBroken(
            1, held, "it is held for a draft; deposit the draft with it, or release it first"
        )


def read_reservations(connection: Connection, archive_id: int) -> list[Reservation]:
    """Return the reservations of an Archive, the oldest first."""
    row = models.Reservation
    rows = connection.execute(
        select(row.rep, row.ibip, row.status, row.note, row.reserved_at, row.settled_at)
        .where(row.archive_id == archive_id)
        .order_by(row.reserved_at, row.rep)
    )
    return [Reservation(*found) for found in rows]


def _named(identifiers: Sequence[str]) -> ColumnElement[bool]:
    return or_(models.Reservation.rep.in_(identifiers), models.Reservation.ibip.in_(identifiers))
