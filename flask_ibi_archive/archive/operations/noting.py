"""Note what happens to items, so that signals can be sent after the commit.

The notes of a transaction are in ``ItemStore.notices``. :meth:`.OperationContext.transaction` sends
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Protocol

from blinker import NamedSignal

from flask_ibi_archive.records.record import Record
from flask_ibi_archive.signals import Notice, item_changed, item_state_changed
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.states import State


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
        note(store, item_changed, after, state=after.state, fields=tuple(names))


def note_changed_item(store: ItemStore, item_id: int, changed: Sequence[str]) -> None:
    """Note the change of fields of an item that is in the database.

    :param item_id: the row ID of the item.
    """
    if item_changed.receivers:
        record = store.reader.read_record(item_id)
        note(store, item_changed, record, state=record.state, fields=tuple(changed))
