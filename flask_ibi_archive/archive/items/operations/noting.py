"""Note what happens to items, so that signals can be sent after the commit.

The notes of a transaction are in ``ItemStore.notices``. :meth:`.OperationContext.transaction` and
:class:`.Importer` send them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

from blinker import NamedSignal

from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import MetadataItem, Record
from flask_ibi_archive.signals import Notice, item_changed, item_deposited, item_state_changed


class Labelled(Protocol):
    """A record or new identifiers."""

    @property
    def rep(self) -> str | None:
        """The rep form."""

    @property
    def ibip(self) -> str | None:
        """The ibip form."""


def note(store: ItemStore, signal: NamedSignal, item: Labelled, **values: Any) -> None:
    """Note a signal about an item of a store. Without receivers, this costs nothing."""
    if signal.receivers:
        names = {"ibi": item.ibip or item.rep, "rep": item.rep, "ibip": item.ibip}
        store.notices.append(Notice(signal, {**names, "archive": store.archive_id, **values}))


def note_change(store: ItemStore, before: Record | None, after: Record) -> None:
    """Note the change of an item: of its state, or of its record in the same state.

    A change of the timestamp alone is not noted.

    :param before: the record before the change; None if the Archive did not have the item.
    """
    if before is None or before.state != after.state:
        old_state = None if before is None else before.state
        note(store, item_state_changed, after, old_state=old_state, new_state=after.state)
    elif item_changed.receivers and before.state != State.DELETED.value:
        names = [
            one.name
            for one in fields(Record)
            if one.name != "timestamp" and getattr(before, one.name) != getattr(after, one.name)
        ]
        if names:
            note(store, item_changed, after, state=after.state, fields=tuple(names))


def note_import(store: ItemStore, item_id: int, before: Record | None, record: Record) -> None:
    """Note that an item was imported. Its relations are stored later.

    Changes of translations are not noted, because the import of another item of the group may have
    made them.

    :param before: the record before the import; None if the Archive did not have the item.
    """
    if before is None:
        if record.state == State.ORIGINAL.value:
            note(store, item_deposited, record)
        else:
            note_change(store, None, record)
    elif item_changed.receivers or item_state_changed.receivers:
        # Checksums, the target file and so on are compared as they are stored.
        stored = store.reader.read_record(item_id)
        is_item = isinstance(record.metadata, MetadataItem)
        after = replace(
            stored,
            next_edition=record.next_edition,
            translations=before.translations,
            metadata=record.metadata if is_item else stored.metadata,
        )
        note_change(store, before, after)


def note_changed_item(store: ItemStore, item_id: int, changed: Sequence[str]) -> None:
    """Note the change of fields of an item that is in the database.

    :param item_id: the row ID of the item.
    """
    if item_changed.receivers:
        record = store.reader.read_record(item_id)
        note(store, item_changed, record, state=record.state, fields=tuple(changed))


def name_archives(store: ItemStore, known: Mapping[int, str]) -> list[Notice]:
    """Return the noted signals of a transaction, with service IBIs instead of row IDs.

    :param known: the service IBIs of some Archives by their row IDs.
    """
    names = known
    if any(notice.values["archive"] not in names for notice in store.notices):
        names = {one.id: one.service_ibi for one in find_archives(store.connection)}
    return [
        replace(one, values={**one.values, "archive": names[one.values["archive"]]})
        for one in store.notices
    ]
