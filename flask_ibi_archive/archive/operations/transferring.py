"""Transfers Originals from one Archive of a database to another."""

from __future__ import annotations

from dataclasses import replace

from flask_ibi_archive.archive.archives import ServedArchive
from flask_ibi_archive.archive.operations.context import OperationContext, canonical, find_item, now
from flask_ibi_archive.archive.operations.removing import bury, cite
from flask_ibi_archive.archive.operations.updating import take_in
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.records.record import Tombstone
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.links import lock_archives
from flask_ibi_archive.storage.states import Event, State, next_state


def transfer(place: OperationContext, ibi: str, to: str, keep_copy: bool = False) -> None:
    """Transfer an Original to another Archive of the database.

    What is there of it (a Copy, a tombstone, a mention) becomes the Original. The Copies in other
    Archives name the new place from then on.

    :param to: the service IBI of that Archive.
    :param keep_copy: whether a Copy stays here; else a tombstone does.
    :raises StorageError: if there is no such Archive, or the item is not transferable.
    :raises RuleBroken: rule 3, if it is there already; or the rule that refuses it there.
    :raises ForbiddenMove: if it is no Original.
    """
    with place.transaction(canonical(ibi)) as store:
        target = place.find_archive(store.connection, to)
        if target.id == place.archive.id:
            raise RuleBroken(3, canonical(ibi), "this very Archive holds the Original already")
        # found before the locks, so that all of them are taken in one order; those that come
        # meanwhile name this Archive, and their rows are locked as they are moved
        item_id, _ = find_item(store, ibi)
        others = {archive_id for _, archive_id in store.copies_of(item_id)}
        lock_archives(store.connection, others | {place.archive.id, target.id})
        _move(store, place.archive, target, ibi, keep_copy)


def _move(
    store: ItemStore, source: ServedArchive, target: ServedArchive, ibi: str, keep_copy: bool
) -> None:
    item_id, state = find_item(store, ibi)
    event = Event.TRANSFER_KEEPING_COPY if keep_copy else Event.TRANSFER
    left = next_state(state, event, canonical(ibi))
    before = store.read_record(item_id)
    if not before.transferable:
        raise StorageError(f"{canonical(ibi)} is not transferable, as its record says")
    coming = replace(before, translations=store.translations_of(item_id))
    contents = store.contents_of(item_id)
    moment = now()
    # an Original with Copies stays, and a Copy has its Original (rule 4): so the Copies step aside
    # first
    copies = [copy_id for copy_id, _ in store.copies_of(item_id)]
    for copy_id in copies:
        store.set_state(copy_id, State.DELETED)
    store.set_state(item_id, State.DELETED)
    there = ItemStore(store.connection, target.id)
    new_id = take_in(there, coming, contents, moment, Event.RECEIVE)
    if left is State.COPY:
        store.set_state(item_id, State.COPY, target.service_ibi)
    else:
        left_behind = Tombstone(
            f"transferred to {target.service_ibi}",
            cite(before),
            original_archive=target.service_ibi,
        )
        bury(store, item_id, left_behind, moment)
    for copy_id in copies:
        if copy_id != new_id:
            store.set_state(copy_id, State.COPY, target.service_ibi)
