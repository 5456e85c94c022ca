"""The offers of an Archive: they are made, listed and withdrawn.

The secret of an offer is a random text of 256 bits. It is shown once, and the database contains its
SHA-256. A hash that is slow to compute is not needed, because nobody can guess 256 bits.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, literal, select, update

from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.operations import HasContext, canonicalize
from flask_ibi_archive.archive.items.tables import File, Item
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.archive.moving.choosing import (
    Terms,
    find_all,
    find_metadata_items,
    find_named,
)
from flask_ibi_archive.archive.moving.tables import Acceptance, AcceptedItem, Offer, OfferedItem
from flask_ibi_archive.core.records.offer_messages import hash_secret
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.dialects import is_one_of


@dataclass(frozen=True, slots=True)
class NewOffer:
    """An offer that was just made.

    :param public_id: the last part of its address.
    :param secret: the secret, which cannot be shown again.
    :param items: the number of items.
    :param bytes: the size of their stored files.
    :param added: the number of metadata items that were added, because items refer to them.
    :param left_out: the number of chosen items that cannot be offered.
    """

    public_id: str
    secret: str
    items: int
    bytes: int
    added: int
    left_out: int


def make_offer(
    archive: HasContext,
    terms: Terms,
    identifiers: Collection[str] | None = None,
) -> NewOffer:
    """Offer items to an Archive on another server.

    A metadata item that describes chosen items is added, unless a tombstone of it would remain and
    other items here need it.

    :param identifiers: the identifiers of the items. None: all items; those that cannot be offered
        are left out.
    :raises StorageError: if the other Archive is in this database, if an item that is named cannot
        be offered, or if there are no items.
    :raises UnknownItem: if no item has one of the identifiers.
    """
    context = archive.context
    now = context.now()
    with context.transaction() as store:
        to = _check_taker(store, terms.to)
        store.lock_relations()  # another offer could have the same items
        _close_expired(store.connection, now)
        if identifiers is None:
            chosen, left_out = find_all(store, terms)
        else:
            chosen, left_out = find_named(store, identifiers, terms), 0
        added = find_metadata_items(store, chosen, terms)
        items = sorted({*chosen, *added})
        if not items:
            raise StorageError("there are no items that can be offered")
        secret = secrets.token_urlsafe(32)
        size = _measure(store.connection, items)
        row = {
            "archive_id": store.archive_id,
            "public_id": secrets.token_hex(8),
            "secret_hash": hash_secret(secret),
            "taker": to,
            "kind": terms.kind,
            "leaves": None if terms.leaves is None else terms.leaves.value,
            "created_at": now,
            "expires_at": now + terms.period,
            "items": len(items),
            "bytes": size,
        }
        offer_id = store.connection.scalar(insert(Offer).values(row).returning(Offer.id))
        numbered = select(
            literal(offer_id),
            func.row_number().over(order_by=Item.id),
            Item.id,
            literal(terms.leaves is not None),
        ).where(is_one_of(Item.id, items))
        columns = ["offer_id", "number", "item_id", "open"]
        store.connection.execute(insert(OfferedItem).from_select(columns, numbered))
    return NewOffer(str(row["public_id"]), secret, len(items), size, len(added), left_out)


def withdraw_offer(archive: HasContext, public_id: str) -> None:
    """Withdraw an offer. The other Archive can take no more of its items.

    :raises StorageError: if there is no such offer, or if an item was moved.
    """
    context = archive.context
    with context.transaction() as store:
        row = lock_offer(store, public_id)
        if row.withdrawn_at is not None:
            raise StorageError(f"the offer {public_id} was withdrawn before")
        is_offered = OfferedItem.offer_id == row.id
        moved = store.connection.scalar(
            select(func.count()).where(is_offered, OfferedItem.status == "switched")
        )
        if moved:
            raise StorageError(
                f"{moved} of the {row.items} items of the offer {public_id} were moved already; "
                f"to get them back, ask the administrator of {row.taker} to run there: "
                f"flask ibi offer --file LIST --to {context.archive.service_ibi}"
            )
        store.connection.execute(update(OfferedItem).where(is_offered).values(open=False))
        withdrawn = {"withdrawn_at": context.now()}
        store.connection.execute(update(Offer).where(Offer.id == row.id).values(withdrawn))


def lock_offer(store: ItemStore, public_id: str) -> Any:
    """Return the row of an offer, and lock it until the end of the transaction.

    :raises StorageError: if the Archive has no such offer.
    """
    row = store.connection.execute(
        select(Offer.__table__)
        .where(Offer.public_id == public_id, Offer.archive_id == store.archive_id)
        .with_for_update()
    ).first()
    if row is None:
        raise StorageError(
            f"this Archive has made no offer {public_id}; flask ibi offers lists the offers"
        )
    return row


class ListedOffer(NamedTuple):
    """An offer with its progress, as the administrator sees it.

    :param settled: the number of items that were moved or copied.
    """

    public_id: str
    taker: str
    kind: str
    items: int
    bytes: int
    settled: int
    created_at: datetime
    expires_at: datetime
    withdrawn_at: datetime | None

    def get_status(self, now: datetime) -> str:
        """Return the status: open, done, withdrawn or expired."""
        if self.withdrawn_at is not None:
            return "withdrawn"
        if self.settled == self.items:
            return "done"
        return "open" if now < self.expires_at else "expired"


def list_offers(archive: HasContext) -> list[ListedOffer]:
    """Return the offers that the Archive has made, the oldest first."""
    settled = (
        select(func.count())
        .where(OfferedItem.offer_id == Offer.id, OfferedItem.status != "offered")
        .scalar_subquery()
    )
    with archive.context.reading() as store:
        rows = store.connection.execute(
            select(
                Offer.public_id,
                Offer.taker,
                Offer.kind,
                Offer.items,
                Offer.bytes,
                settled,
                Offer.created_at,
                Offer.expires_at,
                Offer.withdrawn_at,
            )
            .where(Offer.archive_id == store.archive_id)
            .order_by(Offer.id)
        )
        return [ListedOffer(*row) for row in rows]


class ListedAcceptance(NamedTuple):
    """An offer of another Archive that this Archive has accepted, with its progress.

    :param source: the address of the offer without its secret.
    """

    source: str
    giver: str
    kind: str
    items: int
    bytes: int
    done: int
    refused: int
    started_at: datetime
    finished_at: datetime | None

    @property
    def public_id(self) -> str:
        """The public id of the offer."""
        return self.source[-16:]


def list_acceptances(archive: HasContext) -> list[ListedAcceptance]:
    """Return the offers that the Archive has accepted, the oldest first."""
    done, refused = (
        select(func.count())
        .where(AcceptedItem.acceptance_id == Acceptance.id, AcceptedItem.status == status)
        .scalar_subquery()
        for status in ("done", "refused")
    )
    with archive.context.reading() as store:
        rows = store.connection.execute(
            select(
                Acceptance.source,
                Acceptance.giver,
                Acceptance.kind,
                Acceptance.items,
                Acceptance.bytes,
                done,
                refused,
                Acceptance.started_at,
                Acceptance.finished_at,
            )
            .where(Acceptance.archive_id == store.archive_id)
            .order_by(Acceptance.id)
        )
        return [ListedAcceptance(*row) for row in rows]


def _check_taker(store: ItemStore, to: str) -> str:
    """Return the service IBI of the other Archive in canonical case."""
    taker = canonicalize(to)
    if find_archives(store.connection, taker):
        raise StorageError(
            f"the Archive {taker} is in this database; use flask ibi transfer or flask ibi copy"
        )
    return taker


def _close_expired(connection: Connection, now: datetime) -> None:
    """Let the items of expired offers be offered again."""
    expired = select(Offer.id).where(Offer.expires_at <= now)
    connection.execute(
        update(OfferedItem)
        .where(OfferedItem.open, OfferedItem.offer_id.in_(expired))
        .values(open=False)
    )


def _measure(connection: Connection, items: Collection[int]) -> int:
    """Return the size of the stored files of items in bytes."""
    size = connection.scalar(
        select(func.coalesce(func.sum(File.size), 0)).where(is_one_of(File.item_id, items))
    )
    return int(size or 0)
