"""Deposits new items: alone, as the next edition of another item, or as its translation."""

from __future__ import annotations

from dataclasses import replace

from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations.context import (
    Files,
    OperationContext,
    canonicalize,
    find_item,
    stage_files,
    utc_now,
    validate_record,
)
from flask_ibi_archive.archive.operations.updating import upsert_item
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.records.fields import quoted
from flask_ibi_archive.records.record import FileRecord, ItemRecord
from flask_ibi_archive.storage.file_io import Content
from flask_ibi_archive.storage.identifiers import USED, settle_reservation
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.states import ELSEWHERE, Event, next_state

#: Takes the place of the identifier while the record is validated, before one is minted.
NOT_YET = "not-yet.invalid/x/1970/01.01.00.00"


def deposit(
    context: OperationContext,
    record: ItemRecord,
    files: Files = (),
    reserved: str | None = None,
    edition_of: str | None = None,
    translation_of: str | None = None,
) -> Minted:
    """Deposit an item, an edition or a translation; see :meth:`ArchiveService.deposit`."""
    _check_new(record, is_translation=translation_of is not None)
    related_to = edition_of or translation_of
    if reserved is None:
        context.get_minter()  # reports wrong settings before anything is written
    with context.folder.staging() as staging:
        contents = stage_files(staging, files)
        record = validate_record(_complete(record, NOT_YET, None, contents), None)
        if related_to is not None:
            with context.reading() as store:  # an error uses up no identifier
                _find_related(store, edition_of, translation_of)
        minted = context.mint() if reserved is None else None
        with context.transaction(minted.rep if minted else reserved) as store:
            if record.has_references or related_to is not None or reserved is not None:
                store.lock_relations()
            now = utc_now()
            other_id = _find_related(store, edition_of, translation_of)
            if minted is None:
                ibi = canonicalize(str(reserved))
                forms = settle_reservation(store.connection, store.archive_id, ibi, USED, now)
                minted = Minted(*forms)
            record = _complete(record, minted.rep, minted.ibip, contents)
            item_id = upsert_item(store, record, contents, now, Event.DEPOSIT)
            if edition_of is not None:
                store.relations.editions.link(other_id, item_id, canonicalize(edition_of))
                store.set_timestamp(other_id, now)
            elif translation_of is not None:
                translations, language = store.relations.translations, str(record.language)
                translations.add_member(item_id, other_id, language, minted.rep)
            for content in contents.values():
                staging.move_to_store(content)
    return minted


def _check_new(record: ItemRecord, is_translation: bool) -> None:
    """Check what a record for a deposit must not have, or must have.

    :raises StorageError: saying what is wrong.
    """
    if not isinstance(record, ItemRecord):
        raise StorageError(
            f"record: {quoted(record)} is not an ItemRecord, such as ItemRecord(language='en')"
        )
    if is_translation and record.language is None:
        raise StorageError("a translation states its language, for example language='pt'")
    if record.files:
        raise StorageError(
            "the new item: files: pass the files separately, as in deposit(record, ['report.pdf'])"
        )
    if record.rep or record.ibip or record.state != "Original":
        raise StorageError(
            "an item is deposited without identifiers, as an Original; import it instead"
        )


def _complete(
    record: ItemRecord, rep: str, ibip: str | None, contents: dict[str, Content]
) -> ItemRecord:
    """Return a record with its identifiers and its files."""
    files = tuple([FileRecord(path, sha256=content.sha256) for path, content in contents.items()])
    return replace(record, rep=rep, ibip=ibip, files=files)


def _find_related(store: ItemStore, edition_of: str | None, translation_of: str | None) -> int:
    """Return the row of the item that a new item is an edition or a translation of, 0 for none.

    :raises RuleBroken: rule 7, if it has a next edition, naming the last one.
    """
    if translation_of is not None:
        other_id, state = find_item(store, translation_of)
        next_state(state, Event.TRANSLATION, canonicalize(translation_of))
        return other_id
    if edition_of is None:
        return 0
    other_id, state = find_item(store, edition_of)
    next_state(state, Event.EDITION, canonicalize(edition_of))
    last_id = store.relations.editions.find_last(other_id)
    if last_id != other_id:
        last, last_state = store.get_name_and_state(last_id)
        place = ", which is not in this Archive" if last_state == ELSEWHERE else ""
        raise RuleBroken(
            7,
            canonicalize(edition_of),
            f"it has a next edition already; add the new one after the last edition, {last}{place}",
        )
    return other_id
