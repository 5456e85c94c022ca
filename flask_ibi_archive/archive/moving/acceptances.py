"""Stores which offers an Archive accepts, and how far each of their items is."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, cast, func, insert, select, update

from flask_ibi_archive.archive.items.tables import File, ItemIdentifier
from flask_ibi_archive.archive.moving.tables import Acceptance, AcceptedItem
from flask_ibi_archive.core.records.offer_messages import OfferDescription
from flask_ibi_archive.errors import OfferError
from flask_ibi_archive.server.database.dialects import (
    Key,
    insert_or_update,
    is_one_of,
)

#: "stored": the item is a Copy, and the giver was not asked to switch, or its answer was lost.
STORED, DONE, REFUSED = "stored", "done", "refused"


@dataclass(frozen=True, slots=True)
class ItemStatus:
    """How far an item of an acceptance is.

    :param ibi: an identifier of the item; "" if its record is unreadable.
    :param version: the version that was stored or refused.
    :param reason: why the item was refused.
    """

    number: int
    ibi: str
    version: str
    status: str
    reason: str | None = None


def find_acceptance(
    connection: Connection, archive_id: int, source: str
) -> Row[tuple[Any, ...]] | None:
    """Return the row of the acceptance of an offer; None if the offer was not accepted yet."""
    return connection.execute(
        select(Acceptance.__table__).where(
            Acceptance.archive_id == archive_id, Acceptance.source == source
        )
    ).first()


def begin_acceptance(
    connection: Connection, archive_id: int, source: str, offer: OfferDescription, now: datetime
) -> int:
    """Store that an offer is accepted, and return the id of the acceptance.

    The number of bytes may grow, because the giver may change the items.

    :raises OfferError: if the offer was accepted before, and had other contents then.
    """
    stated: dict[str, Any] = {"giver": offer.giver, "kind": offer.kind, "items": offer.items}
    found = find_acceptance(connection, archive_id, source)
    if found is not None:
        for name, value in stated.items():
            if getattr(found, name) != value:
                raise OfferError(
                    source, f"states {name} {value}, but stated {getattr(found, name)} before"
                )
        size = max(offer.bytes, found.bytes)
        connection.execute(update(Acceptance).where(Acceptance.id == found.id).values(bytes=size))
        return int(found.id)
    stated["bytes"] = offer.bytes
    values = {"archive_id": archive_id, "source": source, "started_at": now, **stated}
    return connection.execute(
        insert(Acceptance).values(values).returning(Acceptance.id)
    ).scalar_one()


def finish_acceptance(connection: Connection, acceptance_id: int, now: datetime) -> None:
    """Store that all items of an offer were taken."""
    connection.execute(
        update(Acceptance).where(Acceptance.id == acceptance_id).values(finished_at=now)
    )


def save_statuses(
    connection: Connection, acceptance_id: int, statuses: Iterable[ItemStatus]
) -> None:
    """Store how far items are."""
    rows = [
        {
            "acceptance_id": acceptance_id,
            "number": one.number,
            "ibi": one.ibi,
            "version": one.version,
            "status": one.status,
            "reason": one.reason,
        }
        for one in statuses
    ]
    if not rows:
        return
    statement = insert_or_update(connection, AcceptedItem.__table__)
    changed = {name: statement.excluded[name] for name in ("ibi", "version", "status", "reason")}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["acceptance_id", "number"], set_=changed),
        rows,
    )


def find_last_number(connection: Connection, acceptance_id: int) -> int:
    """Return the number of the last item that was stored or refused; 0 if there is none."""
    last = select(func.max(AcceptedItem.number)).where(AcceptedItem.acceptance_id == acceptance_id)
    return connection.scalar(last) or 0


def count_statuses(connection: Connection, acceptance_id: int) -> dict[str, int]:
    """Return the number of items with each status."""
    rows = connection.execute(
        select(AcceptedItem.status, func.count())
        .where(AcceptedItem.acceptance_id == acceptance_id)
        .group_by(AcceptedItem.status)
    )
    return {STORED: 0, DONE: 0, REFUSED: 0, **{row[0]: row[1] for row in rows}}


def read_statuses(
    connection: Connection, acceptance_id: int, status: str, after: int = 0, limit: int | None = 500
) -> list[ItemStatus]:
    """Return items with a status, in the order of their numbers.

    :param after: only items with higher numbers are returned.
    """
    columns = AcceptedItem.__table__.c
    rows = connection.execute(
        select(columns.number, columns.ibi, columns.version, columns.status, columns.reason)
        .where(
            columns.acceptance_id == acceptance_id,
            columns.status == status,
            columns.number > after,
        )
        .order_by(columns.number)
        .limit(limit)
    )
    return [ItemStatus(*row) for row in rows]


def count_bytes_left(connection: Connection, archive_id: int, acceptance_id: int) -> int:
    """Return the number of bytes that further files may have: those of the offer, but not taken."""
    owner = ItemIdentifier.__table__.c
    statement = (
        select(cast(func.sum(File.size), Key))
        .select_from(AcceptedItem)
        .join(ItemIdentifier, owner.text == AcceptedItem.ibi)
        .join(File, File.item_id == owner.item_id)
        .where(
            AcceptedItem.acceptance_id == acceptance_id,
            AcceptedItem.status != REFUSED,
            owner.archive_id == archive_id,
        )
    )
    stated = select(Acceptance.bytes).where(Acceptance.id == acceptance_id)
    return connection.scalars(stated).one() - (connection.scalar(statement) or 0)


def find_accepted(
    connection: Connection, archive_id: int, giver: str, identifiers: Collection[str]
) -> set[str]:
    """Return those of the identifiers whose items came with offers of a giver."""
    rows = connection.scalars(
        select(AcceptedItem.ibi)
        .join(Acceptance, Acceptance.id == AcceptedItem.acceptance_id)
        .where(
            Acceptance.archive_id == archive_id,
            Acceptance.giver == giver,
            AcceptedItem.status != REFUSED,
            is_one_of(AcceptedItem.ibi, identifiers),
        )
    )
    return set(rows)
