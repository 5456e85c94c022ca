"""Takes new items into an Archive: alone, as the next edition of another, or as its translation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations.context import (
    Files,
    OperationContext,
    canonical,
    checked,
    find_item,
    keep,
    now,
    take_files,
)
from flask_ibi_archive.archive.operations.updating import add_to_group, take_in
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.records.fields import quoted
from flask_ibi_archive.records.record import FileRecord, ItemRecord
from flask_ibi_archive.storage.items import Content, ItemStore
from flask_ibi_archive.storage.reservations import USED, settle
from flask_ibi_archive.storage.states import ELSEWHERE, Event, next_state

#: Stands for the identifier that an item has not got yet, while the rest of its record is checked.
NOT_YET = "not-yet.invalid/x/1970/01.01.00.00"


@dataclass(frozen=True, slots=True)
class Companion(ABC):
    """The item that a new one is tied to when it is deposited; alone, there is none."""

    ibi: str

    @abstractmethod
    def find(self, store: ItemStore, record: ItemRecord) -> int:
        """Return its row.

        :raises StorageError: if the new one can't be tied to it.
        """

    @abstractmethod
    def tie(self, store: ItemStore, other_id: int, item_id: int, record: ItemRecord) -> None:
        """Tie the new item to it."""


class EarlierEdition(Companion):
    """The item whose next edition the new one is."""

    def find(self, store: ItemStore, record: ItemRecord) -> int:
        """Return its row.

        :raises RuleBroken: rule 7, if it has a next edition, naming the last one.
        """
        other_id, state = find_item(store, self.ibi)
        next_state(state, Event.EDITION, canonical(self.ibi))
        last_id = store.last_edition(other_id)
        if last_id != other_id:
            last, where = store.name_of(last_id)
            place = ", which lives elsewhere" if where == ELSEWHERE else ""
            raise RuleBroken(
                7,
                canonical(self.ibi),
                f"it has a next edition already; the new one follows the last, {last}{place}",
            )
        return other_id

    def tie(self, store: ItemStore, other_id: int, item_id: int, record: ItemRecord) -> None:
        """Make the new item its next edition; that changes what is known of it."""
        store.link_editions(other_id, item_id, canonical(self.ibi))
        store.touch(other_id, now())


class OtherLanguage(Companion):
    """An item whose translation the new one is, or any other of its group."""

    def find(self, store: ItemStore, record: ItemRecord) -> int:
        """Return its row."""
        other_id, state = find_item(store, self.ibi)
        next_state(state, Event.TRANSLATION, canonical(self.ibi))
        return other_id

    def tie(self, store: ItemStore, other_id: int, item_id: int, record: ItemRecord) -> None:
        """Put the new item into its group."""
        add_to_group(store, record, item_id, other_id)


def deposit(
    place: OperationContext,
    record: ItemRecord,
    files: Files = (),
    reserved: str | None = None,
    companion: Companion | None = None,
) -> Minted:
    """Deposit an item: take its files in, give it an IBI in both forms, write it down.

    :param record: what is known of it, without identifiers.
    :param files: its files, each under its own name; the first is the target file unless it says
        otherwise.
    :param reserved: the identifier that it was promised; None: it gets a new one.
    :param companion: the item that it is tied to.
    :returns: its identifiers. New ones are used up even if writing the item fails.
    :raises StorageError: if a file can't be taken in, or a rule refuses it; nothing is written
        then.
    :raises MintingError: if there is no identifier now.
    """
    if not isinstance(record, ItemRecord):
        raise StorageError(
            f"record: {quoted(record)} is no ItemRecord, such as ItemRecord(language='en')"
        )
    if record.files:
        raise StorageError(
            "the new item: files: a deposit is given its files beside the record, as in "
            "deposit(record, ['report.pdf'])"
        )
    if record.rep or record.ibip or record.state != "Original":
        raise StorageError("an item is deposited without identifiers, as an Original; or import it")
    if reserved is None:
        place.minter()  # settings that don't allow it are told before anything is written
    with place.folder.staging() as staging:
        contents = take_files(staging, files)
        record = checked(_with(record, NOT_YET, None, contents), None)
        if companion is not None:
            with place.reading() as store:
                companion.find(store, record)
        minted = place.mint() if reserved is None else None
        with place.transaction(minted.rep if minted else reserved) as store:
            if record.has_references or companion is not None or reserved is not None:
                store.lock_ties()
            moment = now()
            other_id = companion.find(store, record) if companion else 0
            if minted is None:
                name = canonical(str(reserved))
                forms = settle(store.connection, place.archive.id, name, USED, moment)
                minted = Minted(*forms)
            record = _with(record, minted.rep, minted.ibip, contents)
            item_id = take_in(store, record, contents, moment, Event.DEPOSIT)
            if companion is not None:
                companion.tie(store, other_id, item_id, record)
            keep(staging, contents)
    return minted


def _with(
    record: ItemRecord, rep: str, ibip: str | None, contents: dict[str, Content]
) -> ItemRecord:
    files = tuple(FileRecord(path, sha256=content.sha256) for path, content in contents.items())
    return replace(record, rep=rep, ibip=ibip, files=files)


def add_edition(
    place: OperationContext, ibi: str, record: ItemRecord, files: Files, reserved: str | None
) -> Minted:
    """Deposit an item as the next edition of another; see :func:`deposit`.

    :raises RuleBroken: rule 7, if that has one already, naming the last edition.
    """
    return deposit(place, record, files, reserved, EarlierEdition(ibi))


def add_translation(
    place: OperationContext, ibi: str, record: ItemRecord, files: Files, reserved: str | None
) -> Minted:
    """Deposit an item as the translation of another; see :func:`deposit`.

    :raises RuleBroken: rule 8, if its group has that language already.
    """
    if isinstance(record, ItemRecord) and record.language is None:
        raise StorageError("a translation states its language, for example language='pt'")
    return deposit(place, record, files, reserved, OtherLanguage(ibi))
