"""Removes items; their tombstones remain."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from flask_ibi_archive.archive.operations.context import OperationContext, canonical, find_item, now
from flask_ibi_archive.archive.operations.updating import write_over
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.records import fields
from flask_ibi_archive.records.citation import format_citation
from flask_ibi_archive.records.record import DublinCoreMetadata, ItemRecord, Tombstone
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.states import Event, State, next_state


def delete(
    place: OperationContext,
    ibi: str,
    reason: str,
    citation: str | None = None,
    successor: str | None = None,
) -> None:
    """Remove an item: its tombstone, and its place in the chain of editions, remain.

    :param reason: why it goes, for whoever asks for it.
    :param citation: how it is cited; None: as its Dublin Core tells, where it has any.
    :param successor: the IBI of the item that takes its place.
    :raises RuleBroken: rule 4, if it is an Original that has Copies, naming the Archives that hold
        them; rule 6, if it is the service.
    :raises ForbiddenMove: if it is removed already.
    """
    tombstone = _checked(Tombstone(reason, citation, successor), ibi)
    with place.transaction(canonical(ibi)) as store:
        store.lock_ties()
        item_id, state = find_item(store, ibi)
        next_state(state, Event.DELETE, canonical(ibi))
        if tombstone.successor is not None:
            known = store.owners([tombstone.successor]).get(tombstone.successor)
            if known is not None and known[0] == item_id:
                raise StorageError(f"{canonical(ibi)} can't be its own successor")
        bury(store, item_id, tombstone, now())


def bury(store: ItemStore, item_id: int, tombstone: Tombstone, moment: datetime) -> None:
    """Write a tombstone in place of an item, where its state allows it.

    Its files' rows go, their contents stay on the disk; so do its metadata and its access rule. It
    leaves its group of translations, unless its Original is in another Archive: others are led
    there.

    :param tombstone: its citation, if none is given, is made from what is known of the item.
    :raises RuleBroken: rule 4, see :func:`delete`.
    """
    near = store.mentions_near(item_id)
    before = store.read_record(item_id)
    original_archive = tombstone.original_archive or before.original_archive
    if original_archive is None:
        store.leave_group(item_id)
    record = replace(
        before,
        state=State.DELETED.value,
        original_archive=None,
        timestamp=moment,
        translations={} if original_archive is None else before.translations,
        metadata=None,
        formats={},
        files=(),
        target_file=None,
        list_files=True,
        access=None,
        tombstone=replace(
            tombstone,
            citation=tombstone.citation or cite(before),
            original_archive=original_archive,
        ),
    )
    write_over(store, item_id, record, {}, moment)
    store.forget_mentions(near)


def cite(record: ItemRecord) -> str | None:
    """Return how an item is cited, as its Dublin Core tells; None where it has none, or not for
    everybody.
    """
    metadata = record.metadata
    secret = record.access is not None and record.access.others == "none"
    if secret or not isinstance(metadata, DublinCoreMetadata):
        return None
    return format_citation(metadata.elements, record.identifiers[0])


def _checked(tombstone: Tombstone, ibi: str) -> Tombstone:
    try:
        return Tombstone(
            fields.parse_text("reason", tombstone.reason),
            None
            if tombstone.citation is None
            else fields.parse_text("citation", tombstone.citation),
            None
            if tombstone.successor is None
            else fields.parse_ibi("successor", tombstone.successor),
        )
    except fields.FieldError as error:
        raise StorageError(f"{ibi}: {error}") from error
