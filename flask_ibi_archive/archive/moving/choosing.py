"""Chooses the items of an offer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, or_, select
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.operations import canonicalize
from flask_ibi_archive.archive.items.read import primary_form
from flask_ibi_archive.archive.items.tables import Item, ItemIdentifier, TombstoneRow
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.archive.moving.tables import OfferedItem
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.offer_messages import COPY, MOVE
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.dialects import is_one_of

#: The Deleted items that were Originals of this Archive when they were deleted.
_IS_OWN_TOMBSTONE = and_(
    Item.state == State.DELETED.value,
    ~exists().where(TombstoneRow.item_id == Item.id, TombstoneRow.original_archive.is_not(None)),
)
_IS_IN_OPEN_OFFER = exists().where(OfferedItem.item_id == Item.id, OfferedItem.open)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of an offer.

    :param to: the service IBI of the Archive that may take the items.
    :param leaves: the state of what remains here after a move; None: copies are offered.
    :param period: the time until the offer expires.
    """

    to: str
    leaves: State | None
    period: timedelta

    @property
    def kind(self) -> str:
        """What is offered: "move" or "copy"."""
        return COPY if self.leaves is None else MOVE


def _can_be_offered(terms: Terms) -> ColumnElement[bool]:
    if terms.leaves is None:
        return and_(Item.state == State.ORIGINAL.value, ~Item.is_service)
    return and_(
        or_(Item.state == State.ORIGINAL.value, _IS_OWN_TOMBSTONE),
        Item.transferable,
        ~Item.is_service,
        ~_IS_IN_OPEN_OFFER,
    )


def find_named(store: ItemStore, identifiers: Collection[str], terms: Terms) -> list[int]:
    """Return the row IDs of the items with some identifiers, all of which must be offerable."""
    names = {canonicalize(text): text for text in identifiers}
    owners = store.find_owners(names)
    items: dict[int, str] = {}
    for text, stated in names.items():
        if text not in owners:
            raise UnknownItem(stated)
        items[owners[text].id] = text
    refused = store.connection.execute(
        select(Item.id, Item.state, Item.is_service, Item.transferable, _IS_IN_OPEN_OFFER)
        .where(is_one_of(Item.id, items), ~_can_be_offered(terms))
        .order_by(Item.id)
    ).first()
    if refused is not None:
        raise StorageError(f"{items[refused[0]]} can't be offered: {_explain(refused, terms)}")
    return list(items)


def _explain(row: Any, terms: Terms) -> str:
    """Return why an item can't be offered."""
    _, state, is_service, transferable, is_in_open_offer = row
    if is_service:
        return "it is the service of the Archive"
    if state == State.COPY.value:
        return "it is a Copy; the Archive that has the Original can offer it"
    if state == State.DELETED.value and terms.leaves is None:
        return "it is deleted, and a deleted item can only be moved"
    if state == State.DELETED.value and transferable and not is_in_open_offer:
        return "it is deleted, and its Original was in another Archive"
    if not transferable:
        return "it is not transferable; set its field transferable to true first"
    return "it is in another open offer; flask ibi offers lists the offers"


def find_all(store: ItemStore, terms: Terms) -> tuple[list[int], int]:
    """Return the row IDs of all items that can be offered, and the number of the others."""
    rows = store.connection.execute(
        select(Item.id, _can_be_offered(terms)).where(
            Item.archive_id == store.archive_id,
            ~Item.is_service,
        )
    ).all()
    items = [item_id for item_id, can_be_offered in rows if can_be_offered]
    return items, len(rows) - len(items)


def find_metadata_items(store: ItemStore, chosen: Collection[int], terms: Terms) -> list[int]:
    """Return the row IDs of the metadata items that are offered together with other items."""
    described, staying = aliased(Item), aliased(Item)
    connection = store.connection
    needed = (
        select(ItemIdentifier.item_id)
        .join(described, described.metadata_ibi == ItemIdentifier.text)
        .where(
            is_one_of(described.id, chosen),
            ItemIdentifier.archive_id == described.archive_id,
        )
    )
    conditions = [Item.id.in_(needed), ~is_one_of(Item.id, chosen)]
    if terms.leaves is State.DELETED:
        others = (
            staying.archive_id == Item.archive_id,
            staying.metadata_ibi == primary_form(),
            staying.state != State.DELETED.value,
            ~is_one_of(staying.id, chosen),
        )
        conditions.append(~exists().where(*others))
    return list(connection.scalars(select(Item.id).where(*conditions, _can_be_offered(terms))))
