"""Copy and transfer items between the Archives of one database.

A Copy has the same identifiers and the same description as the Original. The Original is in another
Archive.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from flask_ibi_archive.archive.items.archives import ServedArchive, find_archives
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.locks import lock_relations
from flask_ibi_archive.archive.items.operations.context import HasContext, canonicalize, find_item
from flask_ibi_archive.archive.items.operations.description import Identified, require_ibi
from flask_ibi_archive.archive.items.operations.noting import note, note_change, note_changed_item
from flask_ibi_archive.archive.items.operations.removing import add_tombstone
from flask_ibi_archive.archive.items.operations.updating import Update, update_item, upsert_item
from flask_ibi_archive.core.protocol.states import ELSEWHERE, Event, State, next_state
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.errors import RuleBroken, StorageError, UnknownItem
from flask_ibi_archive.signals import item_state_changed


def make_copy(archive: HasContext, ibi: str | Identified, to: str | None = None) -> None:
    """Copy an Original to another Archive of the database, or update an existing Copy there.

    ::

        ibi.archive.make_copy(item.ibi, to="sid.inpe.br/mtc-m19@80/2009/08.21.17.02")

    The Copy has the identifiers, the files, the description and the timestamp of the Original.

    :param to: the service IBI of the Archive that gets the Copy. None: the Original is in
        another Archive, and this Archive gets the Copy.
    :raises StorageError: if the database has no Archive with this service IBI.
    :raises RuleBroken: rule 4, if no other Archive of the database has the Original.
    :raises ForbiddenMove: if the item is not an Original, or if the state of the item in the
        target Archive does not allow a Copy.
    """
    context, text = archive.context, require_ibi(ibi)
    with context.transaction(canonicalize(text)) as store:
        if to is None:
            source, target = _find_holder(store, text), context.archive
        else:
            source, target = context.archive, context.get_archive(store.connection, to)
        if source.id == target.id:
            raise RuleBroken(
                4,
                canonicalize(text),
                "the Original of the item is in this Archive; a Copy must be in another Archive",
            )
        source_store = ItemStore(store.connection, source.id, store.notices)
        item_id, _ = find_item(source_store, text)
        lock_relations(store.connection, [source.id, target.id], [item_id])
        _copy(source_store, source, target, text, context.now())


def _find_holder(store: ItemStore, ibi: str) -> ServedArchive:
    """Return the Archive of the database that has the Original of an item."""
    found = store.copies.find_archive_of_original(canonicalize(ibi))
    if found is None:
        if canonicalize(ibi) not in store.find_owners([canonicalize(ibi)]):
            raise UnknownItem(ibi)
        raise RuleBroken(
            4, canonicalize(ibi), "no Archive of this database has the Original of the item"
        )
    return next(one for one in find_archives(store.connection) if one.id == found)


def _copy(
    store: ItemStore, source: ServedArchive, target: ServedArchive, ibi: str, now: datetime
) -> None:
    """Write a Copy of an Original into another Archive.

    The caller must lock both Archives first.

    :param source: the Archive that has the Original.
    :param target: the Archive that gets the Copy.
    """
    item_id, state = find_item(store, ibi)
    next_state(state, Event.BE_COPIED, canonicalize(ibi))
    record = replace(
        store.reader.read_record(item_id),
        state=State.COPY.value,
        original_archive=source.service_ibi,
        translations=store.relations.translations.find_others(item_id),
    )
    target_store = ItemStore(store.connection, target.id, store.notices)
    upsert_item(target_store, record, store.get_contents(item_id), now, Event.COPY)


def transfer(
    archive: HasContext, ibi: str | Identified, to: str, *, keep_copy: bool = False
) -> None:
    """Transfer an Original to another Archive of the database.

    ::

        ibi.archive.transfer(item.ibi, to="sid.inpe.br/mtc-m19@80/2009/08.21.17.02")

    If the other Archive has a Copy, a tombstone or a stub of the item, this row becomes the
    Original. (A stub is a row for an item that the Archive does not have, but that items of the
    Archive refer to.) Afterwards all Copies name the new Archive.

    :param to: the service IBI of the other Archive.
    :param keep_copy: True: a Copy remains in this Archive. False: a tombstone remains.
    :raises StorageError: if the database has no such Archive, or if the item is not
        transferable.
    :raises RuleBroken: rule 3, if ``to`` is this Archive. Or another rule.
    :raises ForbiddenMove: if the item is not an Original.
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
    item_id, state = find_item(store, ibi)
    event = Event.TRANSFER_KEEPING_COPY if keep_copy else Event.TRANSFER
    new_state = next_state(state, event, canonicalize(ibi))
    before = store.reader.read_record(item_id)
    if not before.transferable:
        raise StorageError(
            f"{canonicalize(ibi)} is not transferable; set its field transferable to true first"
        )
    record = replace(before, translations=store.relations.translations.find_others(item_id))
    contents = store.get_contents(item_id)
    # The database does not allow the removal of an Original with Copies. Copies without an Original
    # are not allowed either. Therefore the Copies have the state Deleted until the Original is in
    # the other Archive.
    copies = dict(store.copies.find_copies(item_id))
    target_store = ItemStore(store.connection, target.id, store.notices)
    owners = target_store.find_owners(record.identifiers).values()
    old_state = next((state for _, state in owners if state != ELSEWHERE), None)
    for row_id in (*copies, item_id):
        store.set_state(row_id, State.DELETED)
    new_id = upsert_item(target_store, record, contents, now, Event.RECEIVE)
    if new_state is State.COPY:
        store.set_state(item_id, State.COPY, target.service_ibi)
    else:
        tombstone = Tombstone(
            f"transferred to {target.service_ibi}",
            original_archive=target.service_ibi,
        )
        present = store.reader.read_record(item_id)
        record = add_tombstone(present, tombstone, now)
        update_item(store, Update(item_id, present, record, {}), now)
    note(target_store, item_state_changed, record, old_state=old_state, new_state=before.state)
    note_change(store, before, replace(before, state=new_state.value))
    for copy_id, archive_id in copies.items():
        if copy_id != new_id:
            store.set_state(copy_id, State.COPY, target.service_ibi)
            copy_store = ItemStore(store.connection, archive_id, store.notices)
            note_changed_item(copy_store, copy_id, ["original_archive"])
