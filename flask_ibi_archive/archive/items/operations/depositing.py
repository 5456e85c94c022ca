"""Deposit new items, next editions and translations; reserve identifiers for drafts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from flask_ibi_archive.archive.items.identifiers import (
    RELEASED,
    USED,
    Reservation,
    add_reservation,
    read_reservations,
    settle_reservation,
)
from flask_ibi_archive.archive.items.items import Contents, ItemStore
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import (
    HasContext,
    OperationContext,
    canonicalize,
    find_item,
    note,
    note_changed_item,
    validate_note,
    validate_record,
)
from flask_ibi_archive.archive.items.operations.context import note as note_signal
from flask_ibi_archive.archive.items.operations.description import (
    Files,
    Identified,
    ItemDescription,
    ItemRecord,
    get_ibi,
    read_description,
    require_ibi,
)
from flask_ibi_archive.archive.items.operations.keyed import find_deposited, release_key
from flask_ibi_archive.archive.items.operations.staged_files import stage_files
from flask_ibi_archive.archive.items.operations.updating import insert_minted_item, upsert_item
from flask_ibi_archive.core.protocol.states import ELSEWHERE, Event, State, next_state
from flask_ibi_archive.core.records.fields import quoted
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.signals import item_minted

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: A function that inserts an item and returns its row ID.
InsertItem: TypeAlias = "Callable[[ItemStore, Record, Contents, datetime], int]"

#: Inserts an item. If other items already refer to its identifiers, the item replaces their stub.
upsert_deposit = partial(upsert_item, event=Event.DEPOSIT)


def deposit(
    archive: HasContext,
    record: ItemRecord | None = None,
    files: Files | None = None,
    /,
    *,
    reserved: str | Identified | None = None,
    **fields: Unpack[ItemRecord],
) -> Minted:
    """Store a new item with its files and give the item an IBI in both forms.

    ::

        minted = ibi.archive.deposit(
            title="Annual report",
            creators=["Silva, Ana", "Souza, Davi"],
            language="en",
            files=["report.pdf", request.files["data"]],
            metadata={"dc": {"date": "2026", "subject": ["hydrology"]}},
        )
        minted.ibi                            # 8JMKD3MGP8W/4GR7C9G
        ibi.archive.persistent_url(minted)    # http://urlib.net/8JMKD3MGP8W/4GR7C9G

    A host that may deposit the same thing twice, for example after an error, gives a key. If an
    item already has the key, nothing is stored, and the identifiers of that item are returned;
    call :meth:`edit` to change it. A deleted item is not returned: a new item gets its key::

        minted = ibi.archive.deposit(key="package:1a68", title="Rain gauges", files=["rain.csv"])
        ibi.archive.find_key("package:1a68").ibi == minted.ibi

    :param record: the description of the item. None: only ``fields`` describe the item.
    :param files: the files of the item. The same as the field ``files``.
    :param reserved: an identifier that was reserved for the item (:meth:`reserve`). None: a new
        identifier is minted.
    :param fields: further fields of the description. They are listed in the documentation of
        :class:`ItemRecord` (``help(flask_ibi_archive.ItemRecord)``). The most important fields
        are ``title``, ``creators``, ``language``, ``files``, ``metadata`` and ``access``.
    :returns: the identifiers of the item: ``rep``, ``ibip``, and ``ibi``, which is the short
        form. A new identifier is used up even if the item cannot be stored.
    :raises StorageError: if a field is wrong, if a file cannot be read, or if a rule does not
        allow the item. The message names the field and the expected value.
    :raises MintingError: if no identifier can be minted now.
    :raises NotReady: if the Archive is not set up. The message names the command to run.
    """
    return _deposit(
        archive.context, _join_fields(record, files, fields), get_ibi("reserved", reserved)
    )


def new_edition(
    archive: HasContext,
    ibi: str | Identified,
    record: ItemRecord | None = None,
    files: Files | None = None,
    /,
    *,
    reserved: str | Identified | None = None,
    **fields: Unpack[ItemRecord],
) -> Minted:
    """Deposit an item as the next edition of another item; see :meth:`deposit`.

    ::

        ibi.archive.new_edition(first.ibi, title="Annual report, corrected", files=["b.pdf"])

    :param ibi: an identifier of the earlier edition.
    :raises RuleBroken: rule 7, if the earlier edition already has a next edition. The message
        names the last edition.
    """
    described = {**_join_fields(record, files, fields), "previous_edition": require_ibi(ibi)}
    return _deposit(archive.context, described, get_ibi("reserved", reserved))


def add_translation(
    archive: HasContext,
    ibi: str | Identified,
    record: ItemRecord | None = None,
    files: Files | None = None,
    /,
    *,
    reserved: str | Identified | None = None,
    **fields: Unpack[ItemRecord],
) -> Minted:
    """Deposit an item as a translation of another item; see :meth:`deposit`.

    ::

        ibi.archive.add_translation(english.ibi, language="pt", files=["relatorio.pdf"])

    :param ibi: an identifier of the other item, or of any translation of that item.
    :param fields: the description of the new item. The field ``language`` is required.
    :raises RuleBroken: rule 8, if there is already an item or translation in that language.
    """
    described = {**_join_fields(record, files, fields), "translation_of": require_ibi(ibi)}
    return _deposit(archive.context, described, get_ibi("reserved", reserved))


def _join_fields(
    record: ItemRecord | None, files: Files | None, fields: ItemRecord
) -> dict[str, Any]:
    """Join the arguments that describe an item. If a field occurs twice, the last value counts."""
    if not isinstance(record, Mapping | None):
        raise StorageError(
            f"record: {quoted(record)} is not an ItemRecord, such as ItemRecord(language='en')"
        )
    listed = {} if files is None else {"files": files}
    return {**(record or {}), **listed, **fields}


def _deposit(
    context: OperationContext, fields: Mapping[str, Any], reserved: str | None = None
) -> Minted:
    """Deposit an item, an edition or a translation.

    :param fields: the fields of an :class:`~.description.ItemRecord`.
    :param reserved: the reserved identifier of the item; None: mint a new identifier.
    """
    description = read_description(fields)
    check_new(description)
    key = description.values.get("key")
    if key is None:
        return _store(context, description, reserved)
    known = find_deposited(context, key, reserved)
    if known is not None:
        return known
    try:
        return _store(context, description, reserved)
    except StorageError:
        # another process may have deposited the same key in the meantime
        known = find_deposited(context, key, None)
        if known is None:
            raise
        return known


def _store(context: OperationContext, description: ItemDescription, reserved: str | None) -> Minted:
    """Store a new item, and return its identifiers. The parameters are those of ``_deposit``."""
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
            """Store the item. ``minted`` is None if the item has a reserved identifier."""
            # The related item is read again after the lock, because another transaction may have
            # changed the item before.
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
            if record.key is not None:
                release_key(store, record.key)
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
    """Check that a description fits a new item. The values of the fields are validated later.

    :raises StorageError: if the language of a translation is missing, if the fields contradict each
        other, or if the state is not Original.
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
        where = " (not in this Archive)" if last_state == ELSEWHERE else ""
        raise RuleBroken(
            7,
            ibi,
            f"the item already has a next edition; the last edition is {last}{where}; add the new "
            "edition to the last edition",
        )
    return other_id


def reserve(archive: HasContext, note: str | None = None) -> Minted:
    """Mint an identifier, and reserve the identifier for a draft.

    ::

        draft = ibi.archive.reserve(note="thesis of Ana Silva")
        ibi.archive.deposit(title="...", files=["thesis.pdf"], reserved=draft.ibi)

    No other item can get a reserved identifier.

    :param note: the purpose of the reservation.
    :raises MintingError: if no identifier can be minted now.
    """
    text = validate_note(note)
    context = archive.own_context
    with context.new_item(context.get_minter()) as (store, minted):
        add_reservation(
            store.connection, store.archive_id, minted.rep, minted.ibip, text, context.now()
        )
        note_signal(store, item_minted, minted)
    return minted


def release(archive: HasContext, ibi: str | Identified) -> None:
    """End the reservation of an identifier. The identifier is never issued again.

    ::

        ibi.archive.release(draft.ibi)

    :raises StorageError: if the identifier is not reserved for a draft of this Archive.
    """
    text = canonicalize(require_ibi(ibi))
    context = archive.own_context
    with context.transaction(text) as store:
        settle_reservation(store.connection, store.archive_id, text, RELEASED, context.now())


def reservations(archive: HasContext) -> list[Reservation]:
    """Return the reservations of the Archive. The oldest reservation is the first."""
    with archive.own_context.reading() as store:
        return read_reservations(store.connection, store.archive_id)
