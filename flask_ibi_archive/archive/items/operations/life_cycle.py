"""Delete items, and copy items between the Archives of one database.

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
)
from flask_ibi_archive.archive.items.operations.description import Identified, get_ibi, require_ibi
from flask_ibi_archive.archive.items.operations.updating import UpdateBatch, upsert_item
from flask_ibi_archive.core.protocol.states import Event, State, next_state
from flask_ibi_archive.core.records import fields
from flask_ibi_archive.core.records.record import Record, Tombstone
from flask_ibi_archive.errors import RuleBroken, StorageError, UnknownItem


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
    :raises StorageError: if the item was deleted already.
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
    :raises StorageError: if the state of the item does not allow the deletion. If the item was
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
    :raises StorageError: if the item is not an Original, or if the state of the item in the
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
