"""Delete items. A tombstone remains, which states when and why an item was deleted."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from flask_ibi_archive.archive.items.items import Contents
from flask_ibi_archive.archive.items.operations.context import HasContext, canonicalize, find_item
from flask_ibi_archive.archive.items.operations.description import Identified, get_ibi, require_ibi
from flask_ibi_archive.archive.items.operations.updating import UpdateBatch
from flask_ibi_archive.core.protocol.states import Event, State, next_state
from flask_ibi_archive.core.records import fields
from flask_ibi_archive.core.records.record import Record, Tombstone
from flask_ibi_archive.errors import StorageError


def delete(
    archive: HasContext,
    ibi: str | Identified,
    reason: str,
    *,
    citation: str | None = None,
    successor: str | Identified | None = None,
    discard_description: bool = False,
) -> None:
    """Delete an item. A tombstone with its metadata remains, and the links between editions.

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
    :raises ForbiddenMove: if the state of the item does not allow the deletion. The description of
        a removed item can still be deleted.
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
    """Return the record of a removed item.

    The embargo and the rows of the files are deleted. The contents of the files remain in the
    store. The metadata remain, with the access rule that may hide them, unless the tombstone says
    otherwise; pages make the citation from them. If the Original is in another Archive, the item
    remains in the group of translations, because a resolver finds the Original there. Otherwise the
    item is removed from the group.
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
    """Return the record of a removed item without its description. Its date remains.

    :param tombstone: the new reason, and the new citation and the new successor, if any.
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
