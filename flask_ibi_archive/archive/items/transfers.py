"""Copies and transfers of items between the Archives of a database.

A Copy in another Archive is made, and brought up to date, by :func:`make_copy`. The package
``moving`` copies and transfers items to Archives on other servers. Source: [R] 3.2, 6.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType

from msgspec.structs import replace

from flask_ibi_archive import signals
from flask_ibi_archive.archive.items import operations, write
from flask_ibi_archive.archive.items.item_record import Identified, canonicalize
from flask_ibi_archive.archive.items.served_archives import find_archives
from flask_ibi_archive.archive.items.stored_relations import lock_relations
from flask_ibi_archive.core.protocol.states import Event, State, next_state
from flask_ibi_archive.core.records.record import Record, Tombstone
from flask_ibi_archive.errors import RuleBroken, StorageError, UnknownItem


def make_copy(archive: operations.HasContext, ibi: str | Identified, to: str | None = None) -> None:
    """Copy an Original to another Archive of the database, or update an existing Copy there.

    ::

        ibi.archive.make_copy(item.ibi, to="sid.inpe.br/mtc-m19@80/2009/08.21.17.02")

    The Copy has the identifiers, the files, the description and the timestamp of the Original.

    :param to: the service IBI of the Archive that gets the Copy. None: the Original is in
        another Archive, and this Archive gets the Copy.
    :raises StorageError: if the database has no Archive with this service IBI.
    :raises RuleBroken: rule 4, if no other Archive of the database has the Original.
    :raises StorageError: if the item is not an Original, or if the state of the item in the
        target Archive does not allow a Copy.
    """
    context, text = archive.context, canonicalize(ibi)
    with context.transaction(text) as store:
        if to is not None:
            source, target = context.archive, context.get_archive(store.connection, to)
        else:
            target, owner_id = context.archive, store.find_archive_of_original(text)
            known = {archive.id: archive for archive in find_archives(store.connection)}
            if owner_id is None and text not in store.find_owners([text]):
                raise UnknownItem(text)
            if owner_id is None:
                raise RuleBroken(
                    4, text, "no Archive of this database has the Original of the item"
                )
            source = known[owner_id]
        if source.id == target.id:
            raise RuleBroken(
                4,
                text,
                "the Original of the item is in this Archive; a Copy must be in another Archive",
            )
        source_store = write.ItemStore(store.connection, source.id, store.notices)
        item_id = operations.find_item(source_store, text).id
        lock_relations(store.connection, [source.id, target.id], [item_id])
        original = source_store.reader.read_record(item_id)
        next_state(State(original.state), Event.BE_COPIED, text)
        record = replace(
            original,
            state=State.COPY.value,
            original_archive=source.service_ibi,
            translations=source_store.relations.find_others(original.identifiers[0]),
            key=None,  # it is the key of the Archive's own host
        )
        contents = source_store.get_contents_of([item_id]).get(item_id, {})
        target_store = write.ItemStore(store.connection, target.id, store.notices)
        operations.upsert_item(target_store, record, contents, context.now(), Event.COPY)


def transfer(
    archive: operations.HasContext, ibi: str | Identified, to: str, *, keep_copy: bool = False
) -> None:
    """Transfer an Original to another Archive of the database.

    ::

        ibi.archive.transfer(item.ibi, to="sid.inpe.br/mtc-m19@80/2009/08.21.17.02")

    If the other Archive has a Copy or a tombstone of the item, this becomes the Original.
    Afterwards all Copies name the other Archive as that of their Original.

    :param to: the service IBI of the other Archive.
    :param keep_copy: True: a Copy remains in this Archive. False: a tombstone remains.
    :raises StorageError: if the database has no such Archive, or if the item is not
        transferable.
    :raises RuleBroken: rule 3, if ``to`` is this Archive; or another rule that the transfer
        would break.
    :raises StorageError: if the item is not an Original.
    """
    context, text = archive.context, canonicalize(ibi)
    with context.transaction(text) as store:
        target = context.get_archive(store.connection, to)
        if target.id == context.archive.id:
            raise RuleBroken(3, text, "this Archive already has the Original; name another Archive")
        # Read the Copies before the lock: then all Archives can be locked in the same order. New
        # Copies may appear before the lock. The update of their rows locks these Copies.
        item_id = operations.find_item(store, text).id
        copies = store.find_copies([item_id]).get(item_id, {})
        archives = {*copies.values(), context.archive.id, target.id}
        lock_relations(store.connection, archives, [item_id, *copies])
        before = store.reader.read_record(item_id)
        copies = store.find_copies([item_id]).get(item_id, {})
        check_departure(before, keep_copy)
        translations = store.relations.find_others(before.identifiers[0])
        record = replace(before, translations=translations, key=None)
        contents = store.get_contents_of([item_id]).get(item_id, {})
        target_store = write.ItemStore(store.connection, target.id, store.notices)
        owners = target_store.find_owners(record.identifiers).values()
        old_state = next((owner.state for owner in owners), None)
        now = context.now()
        release_original(store, item_id, copies)
        new_id = operations.upsert_item(target_store, record, contents, now, Event.RECEIVE)
        operations.note_signal(
            target_store,
            signals.item_state_changed,
            record,
            old_state=old_state,
            new_state=before.state,
        )
        copies.pop(new_id, None)
        give_up(store, {item_id: before}, target.service_ibi, keep_copy, now, copies)


def release_original(store: write.ItemStore, item_id: int, copies: Collection[int]) -> None:
    """Set the states of an item and of its Copies to Deleted, before the item is given up.

    The database does not allow the removal of an Original with Copies. Copies without an Original
    are not allowed either. The states change again when :func:`give_up` is called.

    :param copies: the row IDs of the Copies of the item in other Archives of the database.
    """
    store.set_states(copies, State.DELETED)
    store.set_states([item_id], State.DELETED)


def give_up(
    store: write.ItemStore,
    items: Mapping[int, Record],
    to: str,
    keep_copy: bool,
    now: datetime,
    copies: Mapping[int, int] = MappingProxyType({}),
) -> None:
    """Replace Originals by Copies or tombstones, because another Archive has the Originals now.

    The caller must have locked the items, and have called :func:`release_original` for an item that
    has Copies.

    :param items: the records of the items by their row IDs. The caller has checked them with
        :func:`check_departure`.
    :param to: the service IBI of the other Archive.
    :param keep_copy: True: Copies remain. False: tombstones remain.
    :param copies: the Copies of the items in other Archives of the database: for the row ID of each
        Copy, the row ID of the Archive that has the Copy. They name the other Archive afterwards.
    """
    copied: list[int] = []
    removed: list[write.Update] = []
    for item_id, before in items.items():
        if keep_copy and before.state != State.DELETED.value:
            after = replace(before, state=State.COPY.value, original_archive=to)
            copied.append(item_id)
        else:
            stated = before.tombstone or Tombstone(f"transferred to {to}")
            tombstone = replace(stated, original_archive=to)
            if before.state == State.DELETED.value:
                after = replace(before, tombstone=tombstone)
            else:
                after = operations.add_tombstone(before, tombstone, now)
            removed.append(write.Update(item_id, before, after, {}))
        operations.note_change(store, before, after)
    store.set_states([*copied, *copies], State.COPY, to)
    store.replace(removed, now)
    for copy_id, archive_id in copies.items():
        copy_store = write.ItemStore(store.connection, archive_id, store.notices)
        operations.note_changed_item(copy_store, copy_id, ["original_archive"])


def check_departure(before: Record, keep_copy: bool) -> None:
    """Check that an Original may leave its Archive.

    :raises StorageError: if the item is not an Original, or is not transferable.
    """
    ibi = before.identifiers[0]
    event = Event.TRANSFER_KEEPING_COPY if keep_copy else Event.TRANSFER
    next_state(State(before.state), event, ibi)
    if not before.transferable:
        raise StorageError(f"{ibi} is not transferable; set its field transferable to true first")
