"""Deposit new items, next editions of items, and translations of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations.context import (
    OperationContext,
    canonicalize,
    find_item,
    validate_record,
)
from flask_ibi_archive.archive.operations.description import ItemDescription, read_description
from flask_ibi_archive.archive.operations.given_files import stage_files
from flask_ibi_archive.archive.operations.noting import note, note_changed_item
from flask_ibi_archive.archive.operations.updating import insert_minted_item, upsert_item
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.protocol.states import ELSEWHERE, Event, State, next_state
from flask_ibi_archive.records.fields import quoted
from flask_ibi_archive.records.record import Record
from flask_ibi_archive.signals import item_minted
from flask_ibi_archive.storage.identifiers import USED, settle_reservation
from flask_ibi_archive.storage.items import Contents, ItemStore

#: A function that inserts an item and returns its row ID.
InsertItem: TypeAlias = "Callable[[ItemStore, Record, Contents, datetime], int]"

#: Inserts an item. Other items may already refer to its identifiers: then it replaces a stub.
upsert_deposit = partial(upsert_item, event=Event.DEPOSIT)


def deposit(
    context: OperationContext, fields: Mapping[str, Any], reserved: str | None = None
) -> Minted:
    """Deposit an item, an edition or a translation; see :meth:`Archive.deposit`.

    :param fields: the fields of an :class:`~.description.ItemRecord`.
    """
    description = read_description(fields)
    check_new(description)
    edition_of, translation_of = description.edition_of, description.translation_of
    related_to = edition_of or translation_of
    # Wrong settings are reported here, before anything is written.
    minter = context.get_minter() if reserved is None else None
    with context.staging() as staging:
        files, contents = stage_files(staging, description.files)
        record = validate_record(Record(**{**description.values, "files": files}), None)
        if related_to is not None:
            # Errors are reported here, before an identifier is used up.
            with context.reading() as store:
                find_related(store, edition_of, translation_of)

        def add(store: ItemStore, minted: Minted | None, insert: InsertItem) -> Minted:
            if related_to is not None:
                store.lock_relations([find_related(store, edition_of, translation_of)])
            elif record.has_references or minted is None:
                store.lock_relations()
            now = context.now()
            other_id = 0
            if related_to is not None:
                other_id = find_related(store, edition_of, translation_of)
            if minted is None:
                ibi = canonicalize(str(reserved))
                forms = settle_reservation(store.connection, store.archive_id, ibi, USED, now)
                minted = Minted(*forms)
            else:
                note(store, item_minted, minted)
            named = replace(record, rep=minted.rep, ibip=minted.ibip)
            item_id = insert(store, named, contents, now)
            if edition_of is not None:
                store.relations.editions.link(other_id, item_id, canonicalize(edition_of))
                store.set_timestamp(other_id, now)
                note_changed_item(store, other_id, ["next_edition"])
            elif translation_of is not None:
                translations, language = store.relations.translations, str(named.language)
                translations.add_member(item_id, other_id, language, minted.rep)
            for content in contents.values():
                staging.move_to_store(content)
            return minted

        if minter is None:
            with context.transaction(reserved) as store:
                return add(store, None, upsert_deposit)
        minted: Minted | None = None
        try:
            with context.new_item(minter) as (store, minted):
                return add(store, minted, insert_minted_item)
        except RuleBroken as broken:
            if broken.rule != 1 or minted is None or not is_mentioned(context, minted):
                raise
        # Since the identifier was minted, another process has stored an item that refers to it. The
        # new item replaces the stub.
        with context.transaction(minted.rep) as store:
            return add(store, minted, upsert_deposit)


def is_mentioned(context: OperationContext, minted: Minted) -> bool:
    """Return whether a stub of the Archive has one of the two identifiers."""
    with context.reading() as store:
        owners = store.find_owners((minted.rep, minted.ibip))
    return any(state == ELSEWHERE for _, state in owners.values())


def check_new(description: ItemDescription) -> None:
    """Check that an item can be deposited. The values of the fields are validated later.

    :raises StorageError: if a field is missing, or if a new item must not have a field.
    """
    if description.translation_of is not None and description.values.get("language") is None:
        raise StorageError("a translation needs a language, for example language='pt'")
    if None not in (description.translation_of, description.edition_of):
        raise StorageError(
            "previous_edition can't be used with translation_of; deposit the new edition first, "
            "and then its translation"
        )
    if description.state != State.ORIGINAL:
        raise StorageError(
            f"state: {quoted(description.state)} is not Original, the state of a new item; to "
            "reserve an identifier, use reserve()"
        )


def find_related(store: ItemStore, edition_of: str | None, translation_of: str | None) -> int:
    """Return the row ID of the earlier edition, or of the translated item.

    :raises RuleBroken: rule 7, if the earlier edition already has a next edition. The message
        names the last edition.
    """
    if translation_of is not None:
        other_id, state = find_item(store, translation_of)
        next_state(state, Event.TRANSLATION, canonicalize(translation_of))
        return other_id
    ibi = canonicalize(str(edition_of))
    other_id, state = find_item(store, ibi)
    next_state(state, Event.EDITION, ibi)
    last_id = store.relations.editions.find_last_edition(other_id)
    if last_id != other_id:
        last, last_state = store.get_name_and_state(last_id)
        place = " (not in this Archive)" if last_state == ELSEWHERE else ""
        raise RuleBroken(
            7,
            ibi,
            f"the item already has a next edition; the last edition is {last}{place}; add the new "
            "edition to the last edition",
        )
    return other_id
