"""Switches items of an offer: this Archive gives up its Originals, and confirms.

A switch is one transaction. It locks the offer, so that the offer is not withdrawn at the same
time, then the items. An item that was switched before gets the same answer again: the answer may
have been lost, and the offer may have expired since.

The address of the taker is stored in the same transaction. This host redirects readers to it while
no resolver does.

The daily counts of accesses to the items move along. The counts of the whole Archive remain: they
say what this Archive has answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import bindparam, select, update
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.archives import store_address
from flask_ibi_archive.archive.items.import_export import take_counts
from flask_ibi_archive.archive.items.operations import (
    HasContext,
    check_departure,
    give_up,
    note_signal,
    release_original,
)
from flask_ibi_archive.archive.items.relations import STORING, lock_relations
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.archive.moving.giving import KnownOffer, show_item
from flask_ibi_archive.archive.moving.offers import lock_offer
from flask_ibi_archive.archive.moving.tables import OfferedItem
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.offer_messages import (
    MOVE,
    DailyCount,
    StoredVersion,
    SwitchAnswer,
    SwitchRequest,
    format_counts,
    parse_counts,
)
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.dialects import is_one_of, run_on_postgresql
from flask_ibi_archive.signals import moved_away


def switch_items(archive: HasContext, public_id: str, asked: SwitchRequest) -> list[SwitchAnswer]:
    """Switch the Originals that the taker has stored, or note that it has made Copies.

    :param public_id: the public id of the offer.
    :returns: an answer for each of the items, in their order.
    """
    context = archive.context
    now = context.now()
    with context.transaction() as store:
        row = lock_offer(store, public_id)
        offer = KnownOffer(*(getattr(row, name) for name in KnownOffer.__dataclass_fields__))
        switching = _Switching(store, offer, now)
        answers = switching.answer(asked.items)
        if offer.kind == MOVE:
            store_address(store.connection, store.archive_id, offer.taker, asked.address)
    return [answers[item.number] for item in asked.items]


class _Switching:
    """A switch of items, in one transaction.

    :param store: the items of the Archive. The offer is locked.
    """

    def __init__(self, store: ItemStore, offer: KnownOffer, now: datetime) -> None:
        self._store = store
        self._offer = offer
        self._now = now
        self._answers: dict[int, SwitchAnswer] = {}

    def answer(self, stored: Sequence[StoredVersion]) -> Mapping[int, SwitchAnswer]:
        """Return the answers by the numbers of the items."""
        rows = self._read_rows([item.number for item in stored])
        end = self._offer.find_end(self._now)
        versions: dict[int, str] = {}
        for item in stored:
            number, version = item.number, item.version
            row = rows.get(number)
            if row is None:
                self._refuse(number, "the offer has no item with this number")
            elif row.status == "switched":
                counts = parse_counts("", row.confirmation)
                self._answers[number] = SwitchAnswer(number, "switched", counts=counts)
            elif row.status == "taken":
                self._answers[number] = SwitchAnswer(number, "taken")
            elif end is not None:
                self._refuse(number, end)
            else:
                versions[number] = version
        if self._offer.kind == MOVE:
            self._switch({number: rows[number] for number in versions}, versions)
        else:
            self._settle(versions, "taken", {})
        return self._answers

    def _refuse(self, number: int, reason: str) -> None:
        self._answers[number] = SwitchAnswer(number, "refused", reason)

    def _read_rows(self, numbers: Sequence[int]) -> dict[int, Any]:
        connection = self._store.connection
        rows = connection.execute(
            select(OfferedItem.__table__).where(
                OfferedItem.offer_id == self._offer.id,
                is_one_of(OfferedItem.number, numbers),
            )
        )
        return {row.number: row for row in rows}

    def _switch(self, rows: Mapping[int, Any], versions: Mapping[int, str]) -> None:
        """Switch items that were not switched before.

        :param rows: the rows of the offered items by their numbers.
        :param versions: the versions that the taker states, by the numbers.
        """
        if not rows:
            return
        store = self._store
        items = {number: row.item_id for number, row in rows.items()}
        copies = store.find_copies(items.values())
        archives = {archive for of_item in copies.values() for archive in of_item.values()}
        others = {row_id for of_item in copies.values() for row_id in of_item}
        lock_relations(store.connection, {store.archive_id, *archives}, {*items.values(), *others})
        # An access that is stored has this lock, too, and may wait for an item. Therefore it is
        # taken before the first item changes.
        run_on_postgresql(store.connection, STORING)
        views = store.reader.read_items(list(items.values()))
        copies = store.find_copies(items.values())
        switched, leaving = {}, {}
        for number, item_id in items.items():
            view = views[item_id]
            offered = None if view is None else show_item(number, view, self._offer.taker)
            if view is None or offered is None:
                self._refuse(number, "this Archive no longer has the Original")
            elif offered.version != versions[number]:
                self._answers[number] = SwitchAnswer(number, "changed")
            elif self._may_leave(number, item_id, view.record, copies.get(item_id)):
                switched[number] = item_id
                if item_id not in copies:
                    leaving[item_id] = view.record
        give_up(store, leaving, self._offer.taker, self._keeps_copies, self._now)
        for item_id in switched.values():
            view = views[item_id]
            assert view is not None
            note_signal(store, moved_away, view.record, to=self._offer.taker)
        self._confirm(switched, versions)

    @property
    def _keeps_copies(self) -> bool:
        return self._offer.leaves == State.COPY.value

    def _may_leave(
        self, number: int, item_id: int, before: Record, copies: Mapping[int, int] | None
    ) -> bool:
        """Return whether an item may leave; otherwise refuse it.

        An item that has Copies in this database leaves now, because this may fail.
        """
        if before.state == State.DELETED.value and before.transferable:
            return True
        store, offer = self._store, self._offer
        try:
            check_departure(before, self._keeps_copies)
            if copies is not None:
                with store.connection.begin_nested():
                    release_original(store, item_id, copies)
                    items = {item_id: before}
                    give_up(store, items, offer.taker, self._keeps_copies, self._now, copies)
        except StorageError as error:
            self._refuse(number, str(error))
            return False
        except IntegrityError as error:
            self._refuse(number, str(explain_refusal(error, before.identifiers[0])))
            return False
        return True

    def _confirm(self, items: Mapping[int, int], versions: Mapping[int, str]) -> None:
        """Confirm that the taker has the Originals, and remove the counts, which move along."""
        counts = take_counts(self._store.connection, list(items.values()))
        confirmations = {number: counts.get(item_id, ()) for number, item_id in items.items()}
        self._settle({number: versions[number] for number in items}, "switched", confirmations)

    def _settle(
        self,
        versions: Mapping[int, str],
        status: Literal["switched", "taken"],
        counts: Mapping[int, tuple[DailyCount, ...]],
    ) -> None:
        """Store the answers for items that were switched or taken now."""
        if not versions:
            return
        is_switched = status == "switched"
        columns = OfferedItem.__table__.c
        statement = (
            update(OfferedItem)
            .where(columns.offer_id == self._offer.id, columns.number == bindparam("of_number"))
            .values(
                status=status,
                open=False,
                settled_at=self._now,
                version=bindparam("new_version"),
                confirmation=bindparam("new_confirmation", type_=OfferedItem.confirmation.type),
            )
        )
        parameters = [
            {
                "of_number": number,
                "new_version": version,
                "new_confirmation": format_counts(counts[number]) if is_switched else None,
            }
            for number, version in versions.items()
        ]
        self._store.connection.execute(statement, parameters)
        for number in versions:
            self._answers[number] = SwitchAnswer(number, status, counts=counts.get(number, ()))
