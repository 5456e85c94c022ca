"""What the taker of an offer may read: the offered items and their files, as they are now."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy import bindparam, func, select

from flask_ibi_archive.archive.items.operations import HasContext
from flask_ibi_archive.archive.items.tables import File
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.archive.moving.tables import Offer, OfferedItem
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.offer_messages import (
    MAX_ITEMS,
    MAX_LINE,
    MAX_PAGE,
    OfferDescription,
    OfferedRecord,
    format_offered,
    hash_secret,
    offer_record,
)
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.server.database.dialects import is_one_of

#: The number of items that are read with one statement.
BATCH = 100


@dataclass(frozen=True, slots=True)
class KnownOffer:
    """An offer of this Archive, whose secret the sender of the request knows.

    :param id: the row ID.
    """

    id: int
    public_id: str
    taker: str
    kind: str
    leaves: str | None
    items: int
    expires_at: datetime
    withdrawn_at: datetime | None

    def find_end(self, now: datetime) -> str | None:
        """Return why the offer is no longer open; None if it is open."""
        if self.withdrawn_at is not None:
            return "the offer was withdrawn"
        return None if now < self.expires_at else "the offer has expired"


_COLUMNS = tuple(getattr(Offer, name) for name in KnownOffer.__dataclass_fields__)


def find_offer(archive: HasContext, public_id: str, secret: str) -> KnownOffer | None:
    """Return the offer with an id and a secret; None if there is none.

    The same is computed whether the offer exists or not, so that the time of the answer does not
    tell which offers exist.
    """
    with archive.own_context.reading() as store:
        row = store.connection.execute(
            select(Offer.secret_hash, *_COLUMNS).where(
                Offer.public_id == public_id, Offer.archive_id == store.archive_id
            )
        ).first()
    stored = hash_secret("") if row is None else row.secret_hash
    is_right = hmac.compare_digest(stored, hash_secret(secret))
    return KnownOffer(*row[1:]) if row is not None and is_right else None


def describe_offer(archive: HasContext, offer: KnownOffer) -> OfferDescription:
    """Return what an offer contains now."""
    with archive.context.reading() as store:
        files = store.connection.execute(
            select(func.count(), func.coalesce(func.sum(File.size), 0))
            .join(OfferedItem, OfferedItem.item_id == File.item_id)
            .where(OfferedItem.offer_id == offer.id, File.size.is_not(None))
        ).one()
    return OfferDescription(
        offer.public_id,
        offer.kind,
        offer.leaves,
        archive.context.archive.service_ibi,
        offer.taker,
        offer.expires_at,
        offer.items,
        int(files[1] or 0),
        files[0],
    )


# --- reading -------------------------------------------------------------------------------------


def read_page(archive: HasContext, offer: KnownOffer, after: int) -> list[bytes]:
    """Return the lines of the items that follow a number.

    Items that remain as tombstones after their move, and items that cannot be read, are left out.

    :returns: lines of at most :data:`MAX_ITEMS` items and :data:`MAX_PAGE` bytes. The list is only
        empty if no items follow.
    """
    lines: list[bytes] = []
    size = 0
    with archive.context.reading() as store:
        for offered in read_offered(store, offer, after):
            line = format_offered(offered)
            if len(line) > MAX_LINE:
                continue
            if len(lines) == MAX_ITEMS or size + len(line) > MAX_PAGE:
                break
            lines.append(line)
            size += len(line)
    return lines


def read_numbers(archive: HasContext, offer: KnownOffer, numbers: Sequence[int]) -> list[bytes]:
    """Return the lines of single items. Numbers that the offer does not have are ignored."""
    with archive.context.reading() as store:
        rows = store.connection.execute(
            select(OfferedItem.number, OfferedItem.item_id)
            .where(
                OfferedItem.offer_id == offer.id,
                is_one_of(OfferedItem.number, numbers),
            )
            .order_by(OfferedItem.number)
        ).all()
        lines = list(map(format_offered, _read(store, offer, rows)))
    return [line for line in lines if len(line) <= MAX_LINE]


def read_offered(store: ItemStore, offer: KnownOffer, after: int = 0) -> Iterator[OfferedRecord]:
    """Yield the items of an offer in the order of their numbers.

    :param after: only items with higher numbers are yielded.
    """
    following = (
        select(OfferedItem.number, OfferedItem.item_id)
        .where(OfferedItem.offer_id == offer.id, OfferedItem.number > bindparam("after"))
        .order_by(OfferedItem.number)
        .limit(BATCH)
    )
    while rows := store.connection.execute(following, {"after": after}).all():
        yield from _read(store, offer, rows)
        after = rows[-1].number


def _read(store: ItemStore, offer: KnownOffer, rows: Sequence[Any]) -> Iterator[OfferedRecord]:
    items = store.reader.read_items([row.item_id for row in rows])
    for number, item_id in rows:
        item = items[item_id]
        offered = None if item is None else show_item(number, item, offer.taker)
        if offered is not None:
            yield offered


def show_item(number: int, item: ItemView, other: str) -> OfferedRecord | None:
    """Return an item as an offer describes it; None if it cannot be taken.

    The record lists the translations of the item, also if another item is the head of the group.
    A Copy of an Original in the other Archive is shown as that Original: after the switch, the
    giver has this Copy.

    :param other: the service IBI of the other Archive.
    """
    record = item.record
    if record.original_archive == other:
        record = replace(record, state=State.ORIGINAL.value, original_archive=None)
    if record.original_elsewhere:
        return None
    translations = {
        other.language: other.ibi
        for other in item.related
        if other.kind == "translation" and other.language is not None
    }
    return offer_record(number, replace(record, translations=translations), item.sizes)


def find_content(
    archive: HasContext, offer: KnownOffer, number: int, path: str
) -> tuple[Path, str] | None:
    """Return the stored file of an offered item, and its SHA-256.

    :returns: None if the item has no such stored file now, or is not in the offer.
    """
    with archive.context.reading() as store:
        sha256 = store.connection.scalar(
            select(File.sha256)
            .join(OfferedItem, OfferedItem.item_id == File.item_id)
            .where(
                OfferedItem.offer_id == offer.id,
                OfferedItem.number == number,
                File.path == path,
                File.size.is_not(None),
            )
        )
    return None if sha256 is None else (archive.context.folder.path(sha256), sha256)
