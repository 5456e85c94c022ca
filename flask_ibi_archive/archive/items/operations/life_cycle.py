"""Delete items, and copy and transfer items between the Archives of one database.

A Copy has the same identifiers and the same description as the Original. The Original is in another
Archive.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from flask_ibi_archive.archive.items.archives import ServedArchive, find_archives
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
from flask_ibi_archive.archive.items.operations.description import Identified, get_ibi, require_ibi
from flask_ibi_archive.archive.items.operations.updating import (
    Update,
    UpdateBatch,
    update_item,
    upsert_item,
)
from flask_ibi_archive.core.protocol.states import ELSEWHERE, Event, State, next_state
from flask_ibi_archive.core.records import fields
from flask_ibi_archive.core.records.record import Record, Tombstone
from flask_ibi_archive.errors import RuleBroken, StorageError, UnknownItem
from flask_ibi_archive.signals import item_state_changed


def delete(
    archive: HasContext,
    ibi: str | Identified,
    reason: str,
    *,
    citation: str | None = None,
    successor: str | Identified | None = None,
    discard_description: bool = False,
) -> None:
    """Delete an item. A tombstone with the metadata, and the links between editions remain.

    ::

        ibi.archive.delete(item.ibi, "Retracted by the author.", successor=other.ibi)

    :param reason: the reason for the deletion, which the public can read.
    :param citation: a text that cites the item. None: pages make the citation from the
        metadata.
    :param successor: the item that replaces the deleted item.
    :param discard_description: True: also delete the metadata.
    :raises RuleBroken: rule 4, if the item is an Original that has Copies. The message names
        the Archives that have the Copies. Rule 6, if the item is the service.
    :raises ForbiddenMove: if the item was deleted already.
    """
    replaced_by = get_ibi("successor", successor)
    stated = Tombstone(reason, citation, replaced_by, discard_description=discard_description)
    context, text = archive.context, require_ibi(ibi)
    tombstone = validate_tombstone(stated, text)
    now = context.now()
    with context.transaction(canonicalize(text)) as store:
        item_id, _ = find_item(store, text)
        batch = UpdateBatch(store, {item_id: lambda before: remove(before, text, tombstone, now)})
        batch.lock()
        batch.write(now)


def remove(
    before: Record, ibi: str, tombstone: Tombstone, now: datetime
) -> tuple[Record, Contents]:
    """Return the record of a deleted item, for :class:`~.updating.UpdateBatch`.

    :param ibi: an identifier of the item, for messages.
    :param tombstone: the result of :func:`validate_tombstone`.
    :raises ForbiddenMove: if the state of the item does not allow the deletion. If the item was
        removed before, only its description can be deleted.
    """
    if before.state == State.DELETED.value and tombstone.discard_description:
        return discard_description(before, tombstone), {}
    next_state(State(before.state), Event.DELETE, canonicalize(ibi))
    if tombstone.successor in before.identifiers:
        raise StorageError(
            f"{canonicalize(ibi)} can't replace itself; name another item as the successor"
        )
    return add_tombstone(before, tombstone, now), {}


def add_tombstone(before: Record, tombstone: Tombstone, now: datetime) -> Record:
    """Return the record of an item that is removed now.

    The record has no embargo and no files. The contents of the files remain in the store. The
    metadata and the access rule, which may hide the metadata, remain: pages make the citation from
    the metadata. With ``tombstone.discard_description``, both are removed too. If the Original is
    in another Archive, the item remains in its group of translations, because the group leads a
    resolver to the Original. Otherwise the item is removed from the group.

    :param before: the present record of the item.
    """
    original_archive = tombstone.original_archive or before.original_archive
    return replace(
        before,
        state=State.DELETED.value,
        original_archive=None,
        timestamp=now,
        translations={} if original_archive is None else before.translations,
        metadata=None if tombstone.discard_description else before.metadata,
        formats={},
        files=(),
        target_file=None,
        list_files=True,
        access=None if tombstone.discard_description else before.access,
        embargo=None,
        tombstone=replace(tombstone, original_archive=original_archive),
    )


def discard_description(before: Record, tombstone: Tombstone) -> Record:
    """Return the record of a removed item without its metadata and its access rule.

    The timestamp of the record does not change.

    :param before: the present record of the removed item.
    :param tombstone: the new tombstone. If it names no successor, the earlier successor remains.
        The Archive of the Original is always that of the earlier tombstone.
    """
    previous = before.tombstone or tombstone
    stated = replace(
        tombstone,
        successor=tombstone.successor or previous.successor,
        original_archive=previous.original_archive,
    )
    return replace(before, metadata=None, access=None, tombstone=stated)


def validate_tombstone(tombstone: Tombstone, ibi: str) -> Tombstone:
    """Check the fields of a tombstone, and return the tombstone in canonical form.

    :param ibi: the identifier of the item, for messages.
    :raises StorageError: if a field is wrong. The message names the field.
    """
    try:
        return Tombstone(
            fields.parse_text("reason", tombstone.reason),
            None
            if tombstone.citation is None
            else fields.parse_text("citation", tombstone.citation),
            None
            if tombstone.successor is None
            else fields.parse_ibi("successor", tombstone.successor),
            discard_description=tombstone.discard_description,
        )
    except fields.FieldError as error:
        raise StorageError(f"{ibi}: {error}") from error


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
    """Return the Archive of the database that has the Original of an item.

    :raises UnknownItem: if the Archive of the store does not know the identifier.
    :raises RuleBroken: rule 4, if no Archive of the database has the Original.
    """
    archive_id = store.copies.find_archive_of_original(canonicalize(ibi))
    if archive_id is None:
        if canonicalize(ibi) not in store.find_owners([canonicalize(ibi)]):
            raise UnknownItem(ibi)
        raise RuleBroken(
            4, canonicalize(ibi), "no Archive of this database has the Original of the item"
        )
    return next(archive for archive in find_archives(store.connection) if archive.id == archive_id)


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
        key=None,  # it is the key of the Archive's own host
    )
    target_store = ItemStore(store.connection, target.id, store.notices)
    upsert_item(target_store, record, store.get_contents(item_id), now, Event.COPY)


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
    """Transfer an Original. The caller must lock all Archives that have the item first."""
    item_id, state = find_item(store, ibi)
    event = Event.TRANSFER_KEEPING_COPY if keep_copy else Event.TRANSFER
    new_state = next_state(state, event, canonicalize(ibi))
    before = store.reader.read_record(item_id)
    if not before.transferable:
        raise StorageError(
            f"{canonicalize(ibi)} is not transferable; set its field transferable to true first"
        )
    translations = store.relations.translations.find_others(item_id)
    record = replace(before, translations=translations, key=None)
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
