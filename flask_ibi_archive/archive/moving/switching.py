"""Switches items of an offer: this Archive (the giver) gives up its Originals, and confirms.

A switch is one transaction. It locks the offer, so that the offer is not withdrawn at the same
time, then the items. If the taker (the other Archive) asks again about an item that it already got,
it gets the same answer: the first answer may have been lost, and the offer may have expired since.

The address of the taker is stored in the same transaction. This host redirects readers to it while
no resolver does.

The daily counts of accesses to the items move along. The counts of the whole Archive remain: they
say what this Archive has answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from flask_ibi_archive.archive.items import operations, transfers
from flask_ibi_archive.archive.items.import_export import take_counts
from flask_ibi_archive.archive.items.served_archives import store_address
from flask_ibi_archive.archive.items.stored_relations import STORING, lock_relations
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.archive.moving import offers
from flask_ibi_archive.archive.moving.offers import OfferedItem
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.offer_messages import SwitchAnswer
from flask_ibi_archive.core.records.record import ItemView, Record
from flask_ibi_archive.server.database.dialects import is_one_of, run_on_postgresql
from flask_ibi_archive.signals import moved_away


def switch_items(
    archive: operations.HasContext, public_id: str, asked: messages.SwitchRequest
) -> list[SwitchAnswer]:
    """Give up those Originals that the taker (the other Archive) has stored as Copies.

    :param public_id: the public ID of the offer.
    :param asked: the items, with the versions that the taker has stored.
    :returns: an answer for each of the items, in their order.
    """
    context = archive.context
    with context.transaction() as store:
        switch = _Switch(store, offers.lock_offer(store, public_id), context.now())
        answers = switch.answer(asked.items)
        if switch.offer.leaves:
            store_address(store.connection, store.archive_id, switch.offer.taker, asked.address)
    return answers


class _Switch:
    """Switches several items, in one transaction.

    :param offer: the offer, which is locked.
    """

    def __init__(self, store: ItemStore, offer: offers.StoredOffer, now: datetime) -> None:
        self.store = store
        self.offer = offer
        self.now = now
        self.switched: dict[int, int] = {}
        self.end = offer.find_end(now) if offer.leaves else "only copies are offered"

    def answer(self, asked: Sequence[messages.StoredVersion]) -> list[SwitchAnswer]:
        """Switch items, and return an answer for each of them, in their order."""
        numbers = [item.number for item in asked]
        rows = {
            row.number: row
            for row in self.store.connection.execute(
                sa.select(OfferedItem.__table__).where(
                    OfferedItem.offer_id == self.offer.id, is_one_of(OfferedItem.number, numbers)
                )
            )
        }
        items = [row.item_id for row in rows.values()]
        copies = self._lock(items)
        views = self.store.reader.read_items(items)
        moved = self._read_counts(items)
        answers = {
            item.number: self._refuse(item.number, "the offer has no item with this number")
            if (row := rows.get(item.number)) is None
            else self._answer(item, row, views[row.item_id], copies.get(row.item_id, {}), moved)
            for item in asked
        }
        taken = take_counts(self.store.connection, self.switched.values())
        for number, item_id in self.switched.items():
            counts = taken.get(item_id, ())
            answers[number] = SwitchAnswer(number, "switched", counts=counts)
            self.store.connection.execute(
                sa.update(OfferedItem)
                .where(OfferedItem.offer_id == self.offer.id, OfferedItem.number == number)
                .values(counts=messages.format_counts(counts))
            )
        return list(answers.values())

    def _lock(self, items: Sequence[int]) -> Mapping[int, Mapping[int, int]]:
        """Lock items and their Copies, and return the Copies; see :meth:`.find_copies`."""
        store = self.store
        copies = store.find_copies(items)
        archives = {archive for of_item in copies.values() for archive in of_item.values()}
        others = {row_id for of_item in copies.values() for row_id in of_item}
        lock_relations(store.connection, {store.archive_id, *archives}, {*items, *others})
        # An access that is stored has this lock, too, and may wait for an item. Therefore it is
        # taken before the first item changes.
        run_on_postgresql(store.connection, STORING)
        return store.find_copies(items)

    def _read_counts(self, items: Sequence[int]) -> dict[int, Any]:
        """Return the access counts that an earlier switch has sent, by the row ID of the item.

        The earlier switch may belong to another offer.
        """
        rows = self.store.connection.execute(
            sa.select(OfferedItem.item_id, OfferedItem.counts)
            .where(is_one_of(OfferedItem.item_id, items), OfferedItem.counts.is_not(None))
            .order_by(OfferedItem.offer_id)
        )
        return {row.item_id: row.counts for row in rows}

    def _refuse(self, number: int, reason: str) -> SwitchAnswer:
        return SwitchAnswer(number, "refused", reason)

    def _answer(
        self,
        item: messages.StoredVersion,
        row: Any,
        view: ItemView,
        copies: Mapping[int, int],
        counts: Mapping[int, Any],
    ) -> SwitchAnswer:
        """Switch an item if it is still here, and return the answer to the taker.

        :param row: the row of the item in the offer.
        :param view: the item.
        :param copies: the Copies of the item in this database.
        :param counts: the counts that were sent when items moved earlier, by row ID.
        """
        shown = offers.show_item(item.number, view, self.offer.taker)
        if shown is None:
            return self._refuse(item.number, "this Archive no longer has the Original")
        if shown.moved:
            moved = messages.parse_counts("", counts.get(row.item_id, []))
            return SwitchAnswer(item.number, "switched", counts=moved)
        if self.end is not None:
            return self._refuse(item.number, self.end)
        if row.counts is not None:
            return self._refuse(item.number, "it has moved with this offer, and has come back")
        if shown.version != item.version:
            return SwitchAnswer(item.number, "changed")
        record = view.record
        reason = offers.try_change(
            self.store,
            record.identifiers[0],
            lambda: self._give_up(row.item_id, record, copies),
        )
        if reason is not None:
            return self._refuse(item.number, reason)
        self.switched[item.number] = row.item_id
        return SwitchAnswer(item.number, "switched")

    def _give_up(self, item_id: int, record: Record, copies: Mapping[int, int]) -> None:
        """Replace an Original by what remains of it here: a Copy or a tombstone."""
        store, to = self.store, self.offer.taker
        keeps_copy = self.offer.leaves == State.COPY.value
        if record.state != State.DELETED.value or not record.transferable:
            transfers.check_departure(record, keeps_copy)
        if copies:
            transfers.release_original(store, item_id, copies)
        transfers.give_up(store, {item_id: record}, to, keeps_copy, self.now, copies)
        operations.note_signal(store, moved_away, record, to=to)
