"""Keeps the Originals of a restored backup single: items may have moved since it was written.

What the replaced database says about offers and items that were moved is kept. If it does not know
an offer that was open when the backup was written, the other Archive may have the Originals by now.
Therefore these items become Copies, until the other Archive takes them, or until the administrator
says that they were not moved (``flask ibi offers withdraw --not-moved``). Then there may be no
Original for a time, but never two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, inspect, select, update

from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.operations.transferring import Departure, give_up
from flask_ibi_archive.archive.items.tables import AccessCount, Item, Offer, OfferedItem
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.server.database.dialects import batched

#: The number of items that are given up together.
BATCH = 500


@dataclass(frozen=True, slots=True)
class MovedItems:
    """An offer of the replaced database, and the items that were moved with it.

    :param service: the service IBI of the Archive that made the offer.
    :param offer: the row of the offer.
    :param items: the rows of the items, by the identifiers of the items.
    """

    service: str
    offer: dict[str, Any]
    items: dict[str, dict[str, Any]] = field(default_factory=dict)


def read_moved_items(connection: Connection) -> list[MovedItems]:
    """Return what a database says about its offers, and the items that were moved."""
    if not inspect(connection).has_table(Offer.__tablename__):
        return []
    services = {archive.id: archive.service_ibi for archive in find_archives(connection)}
    moved = {
        row["id"]: MovedItems(services[row["archive_id"]], dict(row))
        for row in connection.execute(select(Offer.__table__)).mappings()
    }
    columns = OfferedItem.__table__.columns
    rows = connection.execute(
        select(*columns, Item.rep, Item.ibip)
        .join(Item, Item.id == OfferedItem.item_id)
        .where(OfferedItem.status.in_(("switched", "restored")))
    )
    for row in rows.mappings():
        values = {column.name: row[column.name] for column in columns}
        moved[values["offer_id"]].items[row["rep"] or row["ibip"]] = values
    return list(moved.values())


def restore_moves(
    connection: Connection, moved: list[MovedItems], created: datetime, now: datetime
) -> Iterator[str]:
    """Let no item of a restored backup be an Original that may be the second one.

    :param moved: the result of :func:`read_moved_items` for the replaced database.
    :param created: the time when the backup was written.
    :returns: what the administrator must know, one line for each offer.
    """
    for offer in moved:
        kept = _keep(connection, offer, now)
        if kept:
            yield (
                f"{kept} items were moved to {offer.offer['taker']} after the backup was written; "
                "they are no Originals here"
            )
    known = [offer.offer["public_id"] for offer in moved]
    offers = select(Offer.__table__).where(
        Offer.kind == "move",
        Offer.withdrawn_at.is_(None),
        Offer.expires_at > created,
        Offer.public_id.not_in(known),
    )
    for row in connection.execute(offers.order_by(Offer.id)).all():
        held = _hold(connection, row, now)
        if held:
            yield (
                f"{held} items of the offer {row.public_id} to {row.taker} may have been moved "
                "after the backup was written; they are Copies here until the other Archive takes "
                "them, or until you run: flask ibi offers withdraw --not-moved "
                f"{row.public_id}"
            )


def _keep(connection: Connection, moved: MovedItems, now: datetime) -> int:
    """Store again that items were moved; return the number of Originals that were given up."""
    archives = find_archives(connection, moved.service)
    if not archives:
        return 0
    store = ItemStore(connection, archives[0].id)
    offer_id = connection.scalar(
        select(Offer.id).where(Offer.public_id == moved.offer["public_id"])
    )
    if offer_id is None:
        values = {**moved.offer, "archive_id": store.archive_id}
        del values["id"]
        offer_id = connection.scalar(insert(Offer).values(values).returning(Offer.id))
    elif moved.offer["withdrawn_at"] is not None:
        is_of_offer = OfferedItem.offer_id == offer_id
        withdrawn_at = moved.offer["withdrawn_at"]
        connection.execute(
            update(Offer).where(Offer.id == offer_id).values(withdrawn_at=withdrawn_at)
        )
        connection.execute(update(OfferedItem).where(is_of_offer).values(open=False))
    owners = store.find_all_owners(moved.items)
    given_up = []
    for ibi, row in moved.items.items():
        item_id, state = owners.get(ibi, (0, ELSEWHERE))
        if state == ELSEWHERE:
            continue  # the item was deposited after the backup was written
        is_item = (OfferedItem.offer_id == offer_id, OfferedItem.number == row["number"])
        connection.execute(delete(OfferedItem).where(*is_item))
        values = {**row, "offer_id": offer_id, "item_id": item_id}
        connection.execute(insert(OfferedItem).values(values))
        connection.execute(delete(AccessCount).where(AccessCount.item_id == item_id))
        given_up.append(item_id)
    return _give_up(store, given_up, moved.offer["taker"], moved.offer["leaves"], now)


def _hold(connection: Connection, offer: Any, now: datetime) -> int:
    """Make the items of an offer that was open Copies; return their number."""
    store = ItemStore(connection, offer.archive_id)
    is_open = (OfferedItem.offer_id == offer.id, OfferedItem.open)
    items = connection.scalars(select(OfferedItem.item_id).where(*is_open)).all()
    held = _give_up(store, items, offer.taker, State.COPY.value, now)
    if not held:
        return 0
    connection.execute(update(OfferedItem).where(*is_open).values(status="restored", open=False))
    return held


def _give_up(store: ItemStore, items: Sequence[int], to: str, leaves: str, now: datetime) -> int:
    """Give up items of which the Archive has the Originals or tombstones; return their number.

    It does not matter whether the items are transferable now: they were when they were moved.
    """
    if find_archives(store.connection, to):
        return 0  # the other Archive is in this database, whose rules allow only one Original
    keep_copy, count = leaves == State.COPY.value, 0
    for batch in batched(items, BATCH):
        copies = store.copies.find_copies_of(batch)
        records = {
            item_id: view.record
            for item_id, view in store.reader.read_items(batch).items()
            if _is_own(view.record)
        }
        for item_id in copies.keys() & records.keys():
            state = State.COPY if keep_copy else State.DELETED
            departure = Departure(store, item_id, records.pop(item_id), state, copies[item_id])
            departure.release()
            departure.settle(to, now)
            count += 1
        give_up(store, records, to, keep_copy, now)
        count += len(records)
    return count


def _is_own(record: Record) -> bool:
    if record.state == State.DELETED.value:
        return record.tombstone is None or record.tombstone.original_archive is None
    return record.state == State.ORIGINAL.value
