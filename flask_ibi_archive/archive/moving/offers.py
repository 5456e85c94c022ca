"""The offers of an Archive: makes, lists and withdraws them, and reads their items.

The secret of an offer is a random text of 256 bits. It is shown once, and the database contains its
SHA-256. A hash that is slow to compute is not needed, because nobody can guess 256 bits.

An offer reserves nothing: an item stays as it is, and can be in several offers. The first taker
(the other Archive) that asks for it gets it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, aliased, mapped_column

from flask_ibi_archive.archive.items.item_record import canonicalize
from flask_ibi_archive.archive.items.operations import HasContext
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.archive.items.served_archives import find_archives
from flask_ibi_archive.archive.items.tables import (
    Base,
    File,
    Item,
    ItemIdentifier,
    TombstoneRow,
    primary_form,
)
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.dialects import Key, UTCDateTime, is_one_of


class Offer(Base):
    """An offer of items to an Archive on another server. Its secret is not stored, only a hash."""

    __tablename__ = "ibi_offer"
    __table_args__: Any = (
        sa.UniqueConstraint("public_id", name="uq_ibi_offer_public_id"),
        sa.CheckConstraint("leaves IN ('Copy', 'Deleted')", name="ck_ibi_offer_leaves"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key, sa.ForeignKey("ibi_archive.id", name="fk_ibi_offer_archive")
    )
    #: The last part of the address: 16 hexadecimal digits.
    public_id: Mapped[str] = mapped_column(sa.String(16))
    #: The SHA-256 of the secret in hexadecimal digits.
    secret_hash: Mapped[str] = mapped_column(sa.String(64))
    #: The service IBI of the Archive that may take the items.
    taker: Mapped[str] = mapped_column(sa.String(255))
    #: The state of what remains here after a move; None: copies are offered.
    leaves: Mapped[str | None] = mapped_column(sa.String(7))
    created_at: Mapped[datetime] = mapped_column(UTCDateTime)
    expires_at: Mapped[datetime] = mapped_column(UTCDateTime)
    withdrawn_at: Mapped[datetime | None] = mapped_column(UTCDateTime)


class OfferedItem(Base):
    """A row for each item of an offer."""

    __tablename__ = "ibi_offered_item"
    __table_args__: Any = (
        sa.UniqueConstraint("offer_id", "item_id", name="uq_ibi_offered_item_item"),
        sa.Index("ix_ibi_offered_item_item", "item_id"),
    )

    offer_id: Mapped[int] = mapped_column(
        Key, sa.ForeignKey("ibi_offer.id", name="fk_ibi_offered_item_offer"), primary_key=True
    )
    #: The position in the offer, from 1.
    number: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    item_id: Mapped[int] = mapped_column(
        Key, sa.ForeignKey("ibi_item.id", name="fk_ibi_offered_item_item")
    )
    #: The daily counts of accesses that have moved with the item; None until it has moved.
    counts: Mapped[list[Any] | None] = mapped_column(sa.JSON(none_as_null=True))


class ReceivedItem(Base):
    """A row for each item that has moved here, with the Archive that gave it.

    Later offers of that Archive may relate their items to it.
    """

    __tablename__ = "ibi_received_item"

    item_id: Mapped[int] = mapped_column(
        Key, sa.ForeignKey("ibi_item.id", name="fk_ibi_received_item_item"), primary_key=True
    )
    #: The service IBI of the Archive that had the Original.
    giver: Mapped[str] = mapped_column(sa.String(255))


class StoredOffer(NamedTuple):
    """An offer of this Archive with its progress.

    :param leaves: the state of what remains here after a move; None: copies are offered.
    :param items: the number of items.
    :param moved: the number of items that have moved with this offer.
    :param files: the present number of stored files of the items.
    :param bytes: the sum of the sizes of these files.
    """

    id: int
    public_id: str
    secret_hash: str
    taker: str
    leaves: str | None
    created_at: datetime
    expires_at: datetime
    withdrawn_at: datetime | None
    items: int
    moved: int
    files: int
    bytes: int

    @property
    def kind(self) -> str:
        """What is offered: "move" or "copy"."""
        return messages.COPY if self.leaves is None else messages.MOVE

    def find_end(self, now: datetime) -> str | None:
        """Return the reason why nothing more can be taken; None if the offer is open."""
        if self.withdrawn_at is not None:
            return "the offer was withdrawn"
        return None if now < self.expires_at else "the offer has expired"

    def get_status(self, now: datetime) -> str:
        """Return the status: "open", "done", "withdrawn" or "expired"."""
        if self.withdrawn_at is not None:
            return "withdrawn"
        if self.moved == self.items:
            return "done"
        return "open" if now < self.expires_at else "expired"


def _count(column: Any, *conditions: Any) -> sa.ScalarSelect[int]:
    """Return an SQL expression for a number or a sum over the items of an offer.

    :param column: the aggregate.
    """
    return (
        sa.select(sa.cast(sa.func.coalesce(column, 0), Key))
        .select_from(OfferedItem)
        .outerjoin(File, sa.and_(File.item_id == OfferedItem.item_id, File.size.is_not(None)))
        .where(OfferedItem.offer_id == Offer.id, *conditions)
        .scalar_subquery()
    )


_NUMBERS = sa.func.count(OfferedItem.number.distinct())
_OFFERS = (
    sa.select(
        *(getattr(Offer, name) for name in StoredOffer._fields[:8]),
        _count(_NUMBERS),
        _count(_NUMBERS, OfferedItem.counts.is_not(None)),
        _count(sa.func.count(File.size)),
        _count(sa.func.sum(File.size)),
    )
    .where(Offer.archive_id == sa.bindparam("archive_id"))
    .order_by(Offer.id)
)


def list_offers(archive: HasContext) -> list[StoredOffer]:
    """Return the offers that the Archive has made, the oldest first."""
    with archive.context.reading() as store:
        rows = store.connection.execute(_OFFERS, {"archive_id": store.archive_id})
        return [StoredOffer._make(row) for row in rows]


def _read_offer(store: ItemStore, public_id: str) -> StoredOffer | None:
    statement = _OFFERS.where(Offer.public_id == public_id)
    row = store.connection.execute(statement, {"archive_id": store.archive_id}).first()
    return None if row is None else StoredOffer._make(row)


def find_offer(archive: HasContext, public_id: str, secret: str) -> StoredOffer | None:
    """Return the offer with an ID, if the secret is right; otherwise None.

    The same is computed whether the offer exists or not, so that the time of the answer does not
    tell which offers exist.
    """
    with archive.own_context.reading() as store:
        offer = _read_offer(store, public_id)
    stored = messages.hash_secret("") if offer is None else offer.secret_hash
    return offer if hmac.compare_digest(stored, messages.hash_secret(secret)) else None


def lock_offer(store: ItemStore, public_id: str) -> StoredOffer:
    """Return an offer, and lock it until the end of the transaction.

    :raises StorageError: if the Archive has no such offer.
    """
    # locked first, because the numbers may have changed when the lock is free
    store.connection.execute(
        sa.select(Offer.id).where(Offer.public_id == public_id).with_for_update()
    )
    offer = _read_offer(store, public_id)
    if offer is None:
        raise StorageError(
            f"this Archive has made no offer {public_id}; flask ibi offers lists the offers"
        )
    return offer


def withdraw_offer(archive: HasContext, public_id: str) -> None:
    """Withdraw an offer. The other Archive can take no more of the offered items.

    :raises StorageError: if there is no such offer, or if an item was moved.
    """
    context = archive.context
    with context.transaction() as store:
        offer = lock_offer(store, public_id)
        if offer.withdrawn_at is not None:
            raise StorageError(f"the offer {public_id} was withdrawn before")
        if offer.moved:
            raise StorageError(
                f"{offer.moved} of the {offer.items} items of the offer {public_id} were moved "
                f"already; to get them back, ask the administrator of {offer.taker} to run there: "
                f"flask ibi offer --file LIST --to {context.archive.service_ibi}"
            )
        withdrawn = {"withdrawn_at": context.now()}
        store.connection.execute(sa.update(Offer).where(Offer.id == offer.id).values(withdrawn))


def try_change(store: ItemStore, ibi: str, change: Callable[[], object]) -> str | None:
    """Call a function that changes an item, in a savepoint.

    :param ibi: an identifier of the item, for the message.
    :returns: None if the change is done; otherwise the reason why the database or a rule refuses
        it. A refused change is undone.
    """
    notices = len(store.notices)
    try:
        with store.connection.begin_nested():
            change()
        return None
    except IntegrityError as error:
        reason = str(explain_refusal(error, ibi))
    except StorageError as error:
        reason = str(error)
    del store.notices[notices:]
    return reason


# --- making an offer -----------------------------------------------------------------------------

#: The Deleted items that were Originals of this Archive when they were deleted.
_IS_OWN_TOMBSTONE = sa.and_(
    Item.state == State.DELETED.value,
    ~sa.exists().where(TombstoneRow.item_id == Item.id, TombstoneRow.original_archive.is_not(None)),
)
_CAN_BE_COPIED = sa.and_(Item.state == State.ORIGINAL.value, ~Item.is_service)
_CAN_BE_MOVED = sa.and_(
    sa.or_(Item.state == State.ORIGINAL.value, _IS_OWN_TOMBSTONE),
    Item.transferable,
    ~Item.is_service,
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What an offer allows, to whom, and for how long.

    :param to: the service IBI of the Archive that may take the items.
    :param leaves: the state of what remains here after a move; None: copies are offered.
    :param period: the time until the offer expires.
    """

    to: str
    leaves: State | None
    period: timedelta

    @property
    def condition(self) -> sa.ColumnElement[bool]:
        """The SQL condition that an item can be offered."""
        return _CAN_BE_COPIED if self.leaves is None else _CAN_BE_MOVED


class NewOffer(NamedTuple):
    """An offer that was just made.

    :param secret: the secret, which cannot be shown again.
    :param added: the number of metadata items that were added, because items refer to them.
    :param left_out: the number of chosen items that cannot be offered.
    """

    offer: StoredOffer
    secret: str
    added: int
    left_out: int


def make_offer(
    archive: HasContext, terms: Terms, identifiers: Collection[str] | None = None
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
    context, taker, secret = archive.context, canonicalize(terms.to), secrets.token_urlsafe(32)
    now, public_id = context.now(), secrets.token_hex(8)
    with context.transaction() as store:
        if find_archives(store.connection, taker):
            raise StorageError(
                f"the Archive {taker} is in this database; use flask ibi transfer or flask ibi copy"
            )
        if identifiers is None:
            chosen, left_out = _find_all(store, terms)
        else:
            chosen, left_out = _find_named(store, identifiers, terms), 0
        added = _find_metadata_items(store, chosen, terms)
        if not chosen:
            raise StorageError("there are no items that can be offered")
        row = {
            "archive_id": store.archive_id,
            "public_id": public_id,
            "secret_hash": messages.hash_secret(secret),
            "taker": taker,
            "leaves": None if terms.leaves is None else terms.leaves.value,
            "created_at": now,
            "expires_at": now + terms.period,
        }
        offer_id = store.connection.scalar(sa.insert(Offer).values(row).returning(Offer.id))
        numbered = sa.select(
            sa.literal(offer_id), sa.func.row_number().over(order_by=Item.id), Item.id
        ).where(is_one_of(Item.id, {*chosen, *added}))
        columns = ["offer_id", "number", "item_id"]
        store.connection.execute(sa.insert(OfferedItem).from_select(columns, numbered))
        return NewOffer(lock_offer(store, public_id), secret, len(added), left_out)


def _find_named(store: ItemStore, identifiers: Collection[str], terms: Terms) -> list[int]:
    """Return the row IDs of the items with the given identifiers.

    :raises StorageError: if one of them cannot be offered.
    """
    names = {canonicalize(text): text for text in identifiers}
    owners = store.find_owners(names)
    items: dict[int, str] = {}
    for text, stated in names.items():
        if text not in owners:
            raise UnknownItem(stated)
        items[owners[text].id] = text
    refused = store.connection.execute(
        sa.select(Item.id, Item.state, Item.is_service, Item.transferable)
        .where(is_one_of(Item.id, items), ~terms.condition)
        .order_by(Item.id)
    ).first()
    if refused is not None:
        raise StorageError(f"{items[refused.id]} can't be offered: {_explain(refused, terms)}")
    return list(items)


def _explain(item: Any, terms: Terms) -> str:
    """Return the reason why an item cannot be offered."""
    if item.is_service:
        return "it is the service of the Archive"
    if item.state == State.COPY.value:
        return "it is a Copy; the Archive that has the Original can offer it"
    if item.state == State.DELETED.value and terms.leaves is None:
        return "it is deleted, and a deleted item can only be moved"
    if not item.transferable:
        return "it is not transferable; set its field transferable to true first"
    return "it is deleted, and its Original was in another Archive"


def _find_all(store: ItemStore, terms: Terms) -> tuple[list[int], int]:
    """Return the row IDs of all items that can be offered, and the number of the other items."""
    rows = store.connection.execute(
        sa.select(Item.id, terms.condition).where(
            Item.archive_id == store.archive_id, ~Item.is_service
        )
    ).all()
    items = [item_id for item_id, can_be_offered in rows if can_be_offered]
    return items, len(rows) - len(items)


def _find_metadata_items(store: ItemStore, chosen: Collection[int], terms: Terms) -> list[int]:
    """Return the row IDs of the metadata items that must be offered with the chosen items."""
    described, staying = aliased(Item), aliased(Item)
    needed = (
        sa.select(ItemIdentifier.item_id)
        .join(described, described.metadata_ibi == ItemIdentifier.text)
        .where(is_one_of(described.id, chosen), ItemIdentifier.archive_id == described.archive_id)
    )
    conditions = [Item.id.in_(needed), ~is_one_of(Item.id, chosen), terms.condition]
    if terms.leaves is State.DELETED:
        others = (
            staying.archive_id == Item.archive_id,
            staying.metadata_ibi == primary_form(),
            staying.state != State.DELETED.value,
            ~is_one_of(staying.id, chosen),
        )
        conditions.append(~sa.exists().where(*others))
    return list(store.connection.scalars(sa.select(Item.id).where(*conditions)))


# --- what the taker may read: the items and their files, as they are now -------------------------


def describe_offer(archive: HasContext, offer: StoredOffer) -> messages.OfferDescription:
    """Return the description of an offer, with the present numbers of items and files."""
    return messages.OfferDescription(
        offer=offer.public_id,
        kind=offer.kind,
        leaves=offer.leaves,
        giver=archive.context.archive.service_ibi,
        taker=offer.taker,
        expires=offer.expires_at,
        items=offer.items,
        bytes=offer.bytes,
        files=offer.files,
    )


def _select_items(archive: HasContext, offer: StoredOffer, *columns: Any) -> sa.Select[Any]:
    """Return a statement that reads the items of an offer.

    After the end of the offer, the statement reads only the items that have moved: the taker (the
    other Archive) may not know yet that they have moved.
    """
    statement = sa.select(*columns).select_from(OfferedItem).where(OfferedItem.offer_id == offer.id)
    has_ended = offer.find_end(archive.context.now()) is not None
    return statement.where(OfferedItem.counts.is_not(None)) if has_ended else statement


def read_page(archive: HasContext, offer: StoredOffer, after: int) -> list[bytes]:
    """Return the next items of an offer, each as a line.

    Items that this Archive does not have any more, and items that cannot be read, are left out.

    :param after: the number of the item before the first one.
    :returns: lines of at most :data:`.MAX_ITEMS` items and :data:`.MAX_PAGE` bytes. The list is
        only empty if no items follow.
    """
    lines: list[bytes] = []
    size = 0
    statement = (
        _select_items(archive, offer, OfferedItem.number, OfferedItem.item_id)
        .where(OfferedItem.number > sa.bindparam("after"))
        .order_by(OfferedItem.number)
        .limit(messages.MAX_ITEMS)
    )
    with archive.context.reading() as store:
        while not lines and (rows := store.connection.execute(statement, {"after": after}).all()):
            views = store.reader.read_items([row.item_id for row in rows])
            for after, item_id in rows:
                offered = show_item(after, views[item_id], offer.taker)
                line = b"" if offered is None else messages.format_offered(offered)
                size += len(line)
                if lines and size > messages.MAX_PAGE:
                    break
                if 0 < len(line) <= messages.MAX_LINE:
                    lines.append(line)
    return lines


def show_item(number: int, view: ItemView, other: str) -> messages.OfferedRecord | None:
    """Return an item in the form in which the taker (the other Archive) reads it.

    The record lists the translations of the item, also if another item is the head of the group. A
    Copy or tombstone that remains of an item that has moved to the taker is shown as if it were the
    Original.

    :param other: the service IBI of the taker.
    :returns: None if the taker cannot take the item, because a third Archive has the Original.
    """
    record = view.record
    elsewhere = record.original_elsewhere
    if elsewhere not in (None, other):
        return None
    if elsewhere is not None and record.tombstone is not None:
        record = replace(record, tombstone=replace(record.tombstone, original_archive=None))
    elif elsewhere is not None:
        record = replace(record, state=State.ORIGINAL.value, original_archive=None)
    translations = {
        member.language: member.ibi
        for member in view.related
        if member.kind == "translation" and member.language is not None
    }
    record = replace(record, translations=translations)
    return messages.offer_record(number, record, view.sizes, elsewhere is not None)


def find_content(
    archive: HasContext, offer: StoredOffer, number: int, path: str
) -> tuple[Path, str] | None:
    """Return the stored file of an offered item, and its SHA-256.

    :returns: None if the item has no such stored file now, or is not in the offer.
    """
    statement = (
        _select_items(archive, offer, File.sha256)
        .join(File, File.item_id == OfferedItem.item_id)
        .where(OfferedItem.number == number, File.path == path, File.size.is_not(None))
    )
    with archive.context.reading() as store:
        sha256 = store.connection.scalar(statement)
    return None if sha256 is None else (archive.context.folder.path(sha256), sha256)
