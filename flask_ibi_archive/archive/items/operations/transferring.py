"""Transfer Originals to other Archives, of the same database or on another server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.items.items import Contents, ItemStore
from flask_ibi_archive.archive.items.locks import lock_relations
from flask_ibi_archive.archive.items.operations.context import (
    HasContext,
    canonicalize,
    find_item,
    note,
    note_change,
    note_changed_item,
)
from flask_ibi_archive.archive.items.operations.description import Identified, require_ibi
from flask_ibi_archive.archive.items.operations.life_cycle import add_tombstone
from flask_ibi_archive.archive.items.operations.updating import Update, update_item, upsert_item
from flask_ibi_archive.core.protocol.states import ELSEWHERE, Event, State, next_state
from flask_ibi_archive.core.records.record import Record, Tombstone
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.signals import item_state_changed


def transfer(
    archive: HasContext, ibi: str | Identified, to: str, *, keep_copy: bool = False
) -> None:
    """Transfer an Original to another Archive of the database.

    ::

        ibi.archive.transfer(item.ibi, to="sid.inpe.br/mtc-m19@80/2009/08.21.17.02")

    If the other Archive has a Copy, a tombstone or a stub of the item, its row becomes the
    Original. (A stub is a row for an item that the Archive does not have, but to which items of
    the Archive refer.) Afterwards all Copies name the new Archive.

    :param to: the service IBI of the other Archive.
    :param keep_copy: True: a Copy remains in this Archive. False: a tombstone remains.
    :raises StorageError: if the database has no such Archive, or if the item is not
        transferable.
    :raises RuleBroken: rule 3, if ``to`` is this Archive; or another rule that the transfer
        would break.
    :raises StorageError: if the item is not an Original.
    """
    context, text = archive.context, require_ibi(ibi)
    with context.transaction(canonicalize(text)) as store:
        target = context.get_archive(store.connection, to)
        if target.id == context.archive.id:
            raise RuleBroken(
                3, canonicalize(text), "this Archive already has the Original; name another Archive"
            )
        # Read the Copies before the lock: then all Archives can be locked in the same order. New
        # Copies may appear before the lock. The update of their rows locks these Copies.
        item_id, _ = find_item(store, text)
        copies = dict(store.copies.find_copies(item_id))
        archives = {*copies.values(), context.archive.id, target.id}
        lock_relations(store.connection, archives, [item_id, *copies])
        _transfer(store, target, text, keep_copy, context.now())


def _transfer(
    store: ItemStore, target: ServedArchive, ibi: str, keep_copy: bool, now: datetime
) -> None:
    """Transfer an Original. The caller must lock all Archives that have the item first."""
    item_id, _ = find_item(store, ibi)
    before = store.reader.read_record(item_id)
    copies = dict(store.copies.find_copies(item_id))
    departure = Departure(store, item_id, before, check_departure(before, keep_copy), copies)
    translations = store.relations.translations.find_others(item_id)
    record = replace(before, translations=translations, key=None)
    contents = store.get_contents(item_id)
    target_store = ItemStore(store.connection, target.id, store.notices)
    owners = target_store.find_owners(record.identifiers).values()
    old_state = next((state for _, state in owners if state != ELSEWHERE), None)
    departure.release()
    new_id = upsert_item(target_store, record, contents, now, Event.RECEIVE)
    note(target_store, item_state_changed, record, old_state=old_state, new_state=before.state)
    departure.settle(target.service_ibi, now, received=new_id)


@dataclass(frozen=True, slots=True)
class Departure:
    """An Original that leaves its Archive.

    :param store: the items of the Archive.
    :param item_id: the row ID of the item.
    :param before: the record of the item.
    :param new_state: the state of what remains in the Archive: Copy or Deleted.
    :param copies: the Copies of the item in other Archives of the database: the row IDs of their
        Archives by their own row IDs.
    """

    store: ItemStore
    item_id: int
    before: Record
    new_state: State
    copies: Mapping[int, int]

    def release(self) -> None:
        """Let another Archive have the Original.

        The database does not allow the removal of an Original with Copies. Copies without an
        Original are not allowed either. Therefore the item and its Copies have the state Deleted
        until :meth:`settle` is called.
        """
        for row_id in (*self.copies, self.item_id):
            self.store.set_state(row_id, State.DELETED)

    def settle(self, to: str, now: datetime, received: int | None = None) -> None:
        """Store that another Archive has the Original. All Copies name this Archive afterwards.

        :param to: the service IBI of the other Archive.
        :param received: the row ID of the new Original, if the other Archive is in this database.
        """
        store, item_id = self.store, self.item_id
        if self.new_state is State.COPY:
            store.set_state(item_id, State.COPY, to)
        else:
            tombstone = Tombstone(f"transferred to {to}", original_archive=to)
            present = store.reader.read_record(item_id)
            record = add_tombstone(present, tombstone, now)
            update_item(store, Update(item_id, present, record, {}), now)
        note_change(store, self.before, replace(self.before, state=self.new_state.value))
        for copy_id, archive_id in self.copies.items():
            if copy_id != received:
                store.set_state(copy_id, State.COPY, to)
                copy_store = ItemStore(store.connection, archive_id, store.notices)
                note_changed_item(copy_store, copy_id, ["original_archive"])


def give_up(
    store: ItemStore, items: Mapping[int, Record], to: str, keep_copy: bool, now: datetime
) -> None:
    """Store that an Archive on another server has the Originals of items, or their tombstones.

    The caller must have locked the items. They have no Copies in this database. They are written
    together, which is many times faster than a departure of each.

    :param items: the records of the items by their row IDs. :func:`check_departure` allows them.
    :param to: the service IBI of the other Archive.
    :param keep_copy: True: Copies remain. False: tombstones remain.
    """
    copied: list[int] = []
    removed: list[tuple[int, Record, Contents]] = []
    for item_id, before in items.items():
        if before.state == State.DELETED.value:
            tombstone = before.tombstone or Tombstone(f"transferred to {to}")
            after = replace(before, tombstone=replace(tombstone, original_archive=to))
            removed.append((item_id, after, {}))
        elif keep_copy:
            after = replace(before, state=State.COPY.value, original_archive=to)
            copied.append(item_id)
        else:
            tombstone = Tombstone(f"transferred to {to}", original_archive=to)
            after = add_tombstone(before, tombstone, now)
            removed.append((item_id, after, {}))
        note_change(store, before, after)
    store.set_states(copied, State.COPY, to)
    store.replace_records(removed, now)


def check_departure(before: Record, keep_copy: bool) -> State:
    """Return the state of what remains of an Original that leaves its Archive.

    :raises StorageError: if the item is not an Original.
    :raises StorageError: if the item is not transferable.
    """
    ibi = before.identifiers[0]
    event = Event.TRANSFER_KEEPING_COPY if keep_copy else Event.TRANSFER
    new_state = next_state(State(before.state), event, ibi)
    if not before.transferable:
        raise StorageError(f"{ibi} is not transferable; set its field transferable to true first")
    return new_state
