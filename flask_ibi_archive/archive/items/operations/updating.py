"""Replace the records of items, and insert items.

Relations are the links of an item to other items: next edition, translations, metadata. A stub is
a row for an item that this Archive does not have, but that a relation refers to. The order of the
steps is important: each step needs the rows of the previous step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from flask_ibi_archive.archive.items.items import Contents, ItemStore
from flask_ibi_archive.archive.items.locks import lock_items
from flask_ibi_archive.archive.items.operations.context import note, note_change
from flask_ibi_archive.archive.items.rules import RULES
from flask_ibi_archive.core.protocol.states import ELSEWHERE, Event, State, next_state
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.server.database.dialects import batched
from flask_ibi_archive.signals import item_deposited

#: The number of items that are read or written with the same statements.
BATCH = 500


def with_all_identifiers(record: Record, before: Record) -> Record:
    """Return a record with all identifiers of the item. (Identifiers are permanent.)

    :param before: the present record of the item.
    :raises RuleBroken: rule 1, if the record and the item have different reps or different ibips.
    Source: [G] 4 and 5 (an item keeps its label).
    """
    ibi = before.identifiers[0]
    for form, now in (("rep", record.rep), ("ibip", record.ibip)):
        old = getattr(before, form)
        if None not in (old, now) and old != now:
            raise RuleBroken(
                1, ibi, f"the {form} of the item is {old}, and identifiers are permanent"
            )
    rep, ibip = record.rep or before.rep, record.ibip or before.ibip
    old_aliases = [text for text in before.aliases if text not in (rep, ibip, *record.aliases)]
    aliases = [text for text in record.aliases if text not in (rep, ibip)]
    return replace(record, rep=rep, ibip=ibip, aliases=(*aliases, *old_aliases))


#: Returns the new record of an item, and the contents of its new files, from its present record.
#: None: the item does not change. If another transaction changes the item in the meantime, the
#: function is called again.
Edit: TypeAlias = "Callable[[Record], tuple[Record, Contents] | None]"


@dataclass(frozen=True, slots=True)
class Update:
    """The present and the new record of an item, and the contents of its new files."""

    item_id: int
    before: Record
    record: Record
    contents: Contents


class UpdateBatch:
    """New records for items of the Archive, which are stored together.

    The constructor reads the items without locks. Then the caller calls :meth:`lock`, and
    :meth:`write`. The lock on relations is only taken if relations change.

    :param edits: for each item, by its row ID, the function that returns its new record.
    """

    def __init__(self, store: ItemStore, edits: Mapping[int, Edit]) -> None:
        self._store = store
        self._edits = edits
        self._updates: dict[int, Update] = {}
        self._read(edits)

    def _read(self, items: Collection[int]) -> None:
        """Read items. Call the edits of items whose records have changed since the last call."""
        for part in batched(items, BATCH):
            for item_id, item in self._store.reader.read_items(part).items():
                before, known = item.record, self._updates.get(item_id)
                if known is None or known.before != before:
                    edited = self._edits[item_id](before)
                    self._updates.pop(item_id, None)
                    if edited is not None:
                        self._updates[item_id] = Update(item_id, before, *edited)
        self._related = self._find_related()

    @property
    def updates(self) -> Mapping[int, Update]:
        """The items whose records change, by their row IDs."""
        return self._updates

    def _find_related(self) -> set[int]:
        """Return the items whose changes also affect other items.

        These are items whose references, identifiers or languages change, and items that are
        removed and are in a group of translations or have Copies.
        """
        updates = self._updates.values()
        removed = [
            change.item_id for change in updates if change.record.state != change.before.state
        ]
        related = {
            change.item_id
            for change in updates
            if change.before.references != change.record.references
            or change.before.language != change.record.language
        }
        if removed:
            related |= self._store.relations.translations.find_groups(removed).keys()
            related |= self._store.copies.find_copied(removed)
        return related

    def lock(self, others: Collection[int] = (), relations: bool = False) -> None:
        """Lock the items that change until the end of the transaction.

        :param others: the row IDs of further items to lock.
        :param relations: whether the caller changes relations. In this case, and if the new records
            change relations, the relations of the Archive are locked, too.
        """
        if self._store.connection.dialect.name == "sqlite":
            return  # the transaction was the only writer when the items were read
        items = {*self._updates, *others}
        if relations or self._related:
            self._store.lock_relations(items)
        else:
            lock_items(self._store.connection, items)
        was_related = bool(self._related)
        self._read(list(self._updates))
        if self._related and not (relations or was_related):
            # another transaction has related one of the items before it was locked
            self._store.lock_relations()

    def write(self, now: datetime) -> None:
        """Store the new records."""
        simple = [new for item_id, new in self._updates.items() if item_id not in self._related]
        for part in batched(simple, BATCH):
            items = [(update.item_id, update.record, update.contents) for update in part]
            self._store.replace_records(items, now)
        for update in self._updates.values():
            if update.item_id in self._related:
                update_item(self._store, update, now)
            else:
                note_change(self._store, update.before, update.record)


def update_item(store: ItemStore, update: Update, now: datetime) -> None:
    """Replace the record of an item of the Archive. Unchanged relations are not written.

    Stubs to which no relation refers any more are deleted. If the translations in the new record
    differ from those in the old record, the new translations define the whole group. A removed item
    leaves its group, unless its Original is in another Archive: then the group leads a resolver to
    the Original.

    :param update: the new record has all identifiers of the item (:func:`with_all_identifiers`).
    :raises RuleBroken: if a rule does not allow the change.
    """
    relations, item_id = store.relations, update.item_id
    before, record = update.before, update.record
    store.copies.check_no_copies(item_id, record)
    old_stubs = relations.find_related_stubs(item_id)
    translations = record.translations if record.translations != before.translations else None
    if record.tombstone is not None and record.tombstone.original_archive is None:
        relations.translations.leave(item_id)
    elif translations is not None:
        relations.translations.dissolve(item_id)
        relations.translations.leave(item_id)
    elif (
        record.language is None
        and not before.translations
        and relations.translations.find_members(item_id)
    ):
        raise RuleBroken(
            8,
            record.identifiers[0],
            f"the item is in a group of translations with the language {before.language}; "
            "the record must state a language",
        )
    _replace(store, item_id, record, update.contents, now)
    next_edition = record.next_edition
    if next_edition != before.next_edition:
        relations.editions.unlink_next(item_id)
    else:
        next_edition = None
    changed = replace(record, next_edition=next_edition, translations=translations or {})
    relations.add(item_id, changed, now)
    relations.delete_unused_stubs(old_stubs)
    note_change(store, before, record)


def upsert_item(
    store: ItemStore, record: Record, contents: Contents, now: datetime, event: Event
) -> int:
    """Insert an item, or replace the item or stub that already has the identifiers.

    :param record: the record. It lists the whole group of translations.
    :param event: the operation. The state of an existing item must allow the operation.
    :returns: the row ID of the item.
    :raises StorageError: if the state of the item does not allow the operation.
    :raises RuleBroken: if a rule does not allow the operation.
    """
    ibi = record.identifiers[0]
    owners = store.find_owners(record.identifiers)
    existing = {item_id: State(state) for item_id, state in owners.values() if state != ELSEWHERE}
    if len(existing) > 1:
        raise RuleBroken(
            1, ibi, "the identifiers in the record belong to several items of the Archive"
        )
    if not existing:
        next_state(None, event, ibi)
    if not owners:
        [item_id] = store.insert_items([record], [contents], now)
        if record.has_references:
            store.relations.add(item_id, record, now)
        _note(store, event, None, record)
        return item_id
    old_stubs: list[int] = []
    before = None
    lock_items(store.connection, existing)
    for item_id, state in existing.items():
        next_state(state, event, ibi)
        if store.is_service(item_id):
            raise RuleBroken(6, ibi, RULES[6])
        before = store.reader.read_record(item_id)
        record = with_all_identifiers(record, before)
        record = replace(record, key=record.key or before.key)
        old_stubs = store.relations.find_related_stubs(item_id)
        record = _leave_translations(store, item_id, record)
    item_id = min(existing or {owner for owner, _ in owners.values()})
    _replace(store, item_id, record, contents, now)
    if existing or record.next_edition is not None:
        store.relations.editions.unlink_next(item_id)
    store.relations.add(item_id, record, now)
    store.relations.delete_unused_stubs(old_stubs)
    _note(store, event, before, record)
    return item_id


def insert_minted_item(store: ItemStore, record: Record, contents: Contents, now: datetime) -> int:
    """Insert an item whose identifiers were just minted, and return its row ID.

    The minter has checked that no item, stub or reservation has the identifiers.

    :raises RuleBroken: if a rule does not allow a relation of the record.
    :raises IntegrityError: if another process has stored the identifiers since they were minted.
    """
    [item_id] = store.insert_items([record], [contents], now, is_minted=True)
    store.relations.add(item_id, record, now)
    _note(store, Event.DEPOSIT, None, record)
    return item_id


def _note(store: ItemStore, event: Event, before: Record | None, record: Record) -> None:
    if event is Event.DEPOSIT:
        note(store, item_deposited, record)
    elif event is Event.COPY:  # a transfer notes its changes itself
        note_change(store, before, record)


def _replace(
    store: ItemStore, item_id: int, record: Record, contents: Contents, now: datetime
) -> None:
    """Replace the record of an item.

    If stubs have identifiers of the record, the item takes the place of the stubs, also in their
    groups of translations.
    """
    translations = store.relations.translations
    assigned = [
        translations.leave_for_update(stub_id)
        for stub_id in sorted(_find_stubs(store, record, item_id))
    ]
    store.relations.set_metadata_item(item_id, None)
    store.replace_item(item_id, record, contents, now)
    for language in assigned:
        if language is not None:
            translations.rejoin(item_id, language, record.identifiers[0])


def _find_stubs(store: ItemStore, record: Record, item_id: int) -> set[int]:
    """Return the row IDs of the stubs that have an identifier of a record.

    :raises RuleBroken: rule 1, if another item has one of the identifiers.
    """
    stubs = set()
    for text, (owner, state) in store.find_owners(record.identifiers).items():
        if state == ELSEWHERE:
            stubs.add(owner)
        elif owner != item_id:
            raise RuleBroken(1, text, RULES[1])
    return stubs


def _leave_translations(store: ItemStore, item_id: int, record: Record) -> Record:
    """Remove an item, and all members that are not Originals, from its group of translations.

    :returns: the record, to whose translations the Originals of the group are added. Therefore
        translations that were added in this Archive remain.
    """
    translations = store.relations.translations
    added = {}
    for member in translations.find_members(item_id):
        if member.id == item_id:
            continue
        if member.state != State.ORIGINAL.value:
            translations.leave(member.id)
        elif member.language is not None and member.ibi not in record.translations.values():
            added[member.language] = member.ibi
    translations.leave(item_id)
    added.pop(record.language, None)
    return replace(record, translations={**added, **record.translations})
