"""Makes Copies the Originals after the giver has given up its Originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.import_export import CountsByItem, add_counts
from flask_ibi_archive.archive.items.operations import (
    note_change,
    note_changed_item,
    note_signal,
)
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.archive.items.tables import Item, ItemIdentifier, TombstoneRow
from flask_ibi_archive.archive.items.write import ItemStore
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.offer_messages import DailyCount
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.dialects import is_one_of
from flask_ibi_archive.signals import moved_here


@dataclass
class Receiver:
    """Makes items of this Archive the Originals, in the transaction of the caller.

    :param giver: the service IBI of the Archive that had the Originals.
    :param taker: the service IBI of this Archive.
    """

    store: ItemStore
    giver: str
    taker: str

    def receive(self, items: Mapping[str, Sequence[DailyCount]]) -> dict[str, str]:
        """Make items the Originals, and add the counts of accesses that moved along.

        :param items: the counts, by an identifier of each item.
        :returns: the items that cannot become Originals, with the reasons.
        """
        owners = self.store.find_owners(items)
        ids = {owners[ibi].id: ibi for ibi in items if ibi in owners}
        self.store.lock_relations(list(ids), limited=False)
        views = self.store.reader.read_items(sorted(ids))
        found = {item_id: view for item_id, view in views.items() if view is not None}
        known = {ids[item_id] for item_id in found}
        refused = {
            ibi: "this Archive has no such item any more" for ibi in items if ibi not in known
        }
        counts = {item_id: items[ids[item_id]] for item_id in found}
        try:
            self._receive(found, counts)
        except (IntegrityError, StorageError):  # one by one, to find the item that is refused
            for item_id, view in found.items():
                try:
                    self._receive({item_id: view}, counts)
                except IntegrityError as error:
                    refused[ids[item_id]] = str(explain_refusal(error, ids[item_id]))
                except StorageError as error:
                    refused[ids[item_id]] = str(error)
        return refused

    def _receive(self, views: Mapping[int, ItemView], counts: CountsByItem) -> None:
        """Make items the Originals in a savepoint. The keys are the row IDs of the items."""
        notices = len(self.store.notices)
        try:
            with self.store.connection.begin_nested():
                self._change_states(views)
                of_views = {item_id: counts[item_id] for item_id in views}
                add_counts(self.store.connection, self.store.archive_id, of_views)
        except (IntegrityError, StorageError):
            del self.store.notices[notices:]
            raise

    def _change_states(self, views: Mapping[int, ItemView]) -> None:
        connection = self.store.connection
        # a removed item stays removed; it is ours now
        removed = [
            item_id for item_id, view in views.items() if view.record.state == State.DELETED.value
        ]
        for item_id in removed:
            self.store.relations.leave(views[item_id].record.identifiers[0])
        originals = {item_id: views[item_id].record for item_id in views.keys() - set(removed)}
        for record in originals.values():
            if record.state != State.COPY.value or record.original_archive != self.giver:
                raise StorageError(f"the item is not a Copy from {self.giver} any more")
        new = State.ORIGINAL.value
        self.store.set_states(originals, State.ORIGINAL)
        if removed:
            connection.execute(
                update(TombstoneRow)
                .where(is_one_of(TombstoneRow.item_id, removed))
                .values(original_archive=None)
            )
        for item_id, view in sorted(views.items()):
            after = view.record
            if item_id in originals:
                after = replace(after, state=new, original_archive=None)
                note_change(self.store, view.record, after)
            note_signal(self.store, moved_here, after, giver=self.giver)
        self._rename_copies([text for one in originals.values() for text in one.identifiers])

    def _rename_copies(self, texts: Sequence[str]) -> None:
        """Let the Copies in other Archives of the database name this Archive."""
        connection, owner = self.store.connection, ItemIdentifier.__table__.c
        rows = connection.execute(
            select(Item.id, Item.archive_id)
            .join(ItemIdentifier, owner.item_id == Item.id)
            .where(
                is_one_of(owner.text, texts),
                Item.archive_id != self.store.archive_id,
                Item.original_archive == self.giver,
            )
            .distinct()
        ).all()
        for copy_id, archive_id in rows:
            self.store.set_states([copy_id], State.COPY, self.taker)
            store = ItemStore(connection, archive_id, self.store.notices)
            note_changed_item(store, copy_id, ["original_archive"])
