"""Stores offered items as Copies, and says which items cannot be taken, and why.

The giver is not trusted. An offered item never replaces an item that belongs to this Archive, or
that is a Copy of an Original in a third Archive, and it does not change the relations of such
items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.files import Content
from flask_ibi_archive.archive.items.operations import note_change, upsert_item
from flask_ibi_archive.archive.items.read import (
    Owner,
    check_not_reserved,
    find_owners_and_originals,
)
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.archive.items.write import (
    Contents,
    ItemStore,
    explain_taken,
    find_same_as_holders,
    renew_plans,
)
from flask_ibi_archive.archive.moving.acceptances import find_accepted
from flask_ibi_archive.archive.moving.giving import show_item
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.protocol.states import Event, State
from flask_ibi_archive.core.records.offer_messages import OfferedRecord
from flask_ibi_archive.core.records.record import ItemView, Record, Tombstone
from flask_ibi_archive.errors import RuleBroken, StorageError

#: The reason in the tombstone of an item that was removed without a tombstone.
REMOVED = "removed"


@dataclass
class Page:
    """Items of an offer that are taken together.

    :param store: the items of this Archive.
    :param giver: the service IBI of the Archive that makes the offer.
    :ivar refusals: for the number of each item that cannot be taken, the reason.
    """

    store: ItemStore
    giver: str
    items: Sequence[OfferedRecord]
    refusals: dict[int, str] = field(default_factory=dict)
    #: The item that has each known identifier.
    owners: dict[str, Owner] = field(default_factory=dict)
    _views: Mapping[int, ItemView | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = [text for item in self.items for text in item.record.identifiers]
        connection, archive_id = self.store.connection, self.store.archive_id
        self.owners, elsewhere = find_owners_and_originals(connection, archive_id, texts)
        known = {owner.id for owner in self.owners.values()}
        self._views = self.store.reader.read_items(sorted(known)) if known else {}
        reserved = self._find_reserved(texts)
        seen: dict[str, int] = {}
        for item in self.items:
            reason = self._check(item, seen, elsewhere) or next(
                (reserved[text] for text in item.record.identifiers if text in reserved), None
            )
            if reason is None:
                seen.update(dict.fromkeys(item.record.identifiers, item.number))
            else:
                self.refusals[item.number] = reason
        self._check_aliases()
        self._check_relations()

    def _find_reserved(self, texts: Sequence[str]) -> dict[str, str]:
        """Return those of the identifiers that are reserved for drafts, with the reason."""
        try:
            check_not_reserved(self.store.connection, texts)
        except RuleBroken:
            return dict(self._try_reserved(texts))
        return {}

    def _try_reserved(self, texts: Iterable[str]) -> Iterable[tuple[str, str]]:
        for text in texts:
            try:
                check_not_reserved(self.store.connection, [text])
            except RuleBroken as error:
                yield text, str(error)

    def _check(
        self, item: OfferedRecord, seen: Mapping[str, int], elsewhere: set[str]
    ) -> str | None:
        """Return why an item cannot be taken; None if it can be taken."""
        texts = item.record.identifiers
        for text in texts:
            if text in seen:
                return f"{text} is already the item {seen[text]} of the offer"
            if text in elsewhere:
                return f"another Archive of this database has the Original of {text}"
        here = {self.owners[text].id for text in texts if text in self.owners} & self._views.keys()
        if len(here) > 1:
            return "its identifiers belong to several items of this Archive"
        missing = [
            file.path
            for file in item.record.files
            if file.sha256 is not None and file.url is None and file.path not in item.sizes
        ]
        if missing:
            return f"the giver states no size for the file {missing[0]}"
        return self._check_present(here.pop()) if here else None

    def _check_present(self, item_id: int) -> str | None:
        """Return why an item of this Archive cannot be replaced; None if it can be replaced."""
        view = self._views[item_id]
        if view is None:
            return f"the row {item_id} of the table ibi_item is malformed"
        record = view.record
        ibi = record.identifiers[0]
        if view.is_service:
            return f"{ibi} is the service of this Archive"
        if record.state == State.ORIGINAL.value:
            return f"this Archive has the Original of {ibi}"
        if record.state == State.COPY.value and record.original_archive != self.giver:
            return (
                f"this Archive has a Copy of {ibi}, whose Original is in {record.original_archive}"
            )
        if record.state == State.DELETED.value and not (
            record.tombstone and record.tombstone.original_archive
        ):
            return f"this Archive had the Original of {ibi}, and has removed it"
        return None

    def _check_aliases(self) -> None:
        """Refuse items with an alias that another item of this Archive has."""
        digests = {
            text: parse_foreign(text).digest for item in self.taken for text in item.record.same_as
        }
        connection, archive_id = self.store.connection, self.store.archive_id
        holders = find_same_as_holders(connection, archive_id, digests.values())
        for item in self.taken:
            here = {self.owners[text].id for text in item.record.identifiers if text in self.owners}
            for text in item.record.same_as:
                holder_id, holder = holders.get(digests[text], (0, ""))
                if holder and holder_id not in here:
                    self.refusals[item.number] = f"same_as: {explain_taken(text, holder)}"

    def _check_relations(self) -> None:
        """Refuse items that would change the relations of items that did not come from the giver.

        Those items may be related to an offered item only if they are related already.
        """
        related = {
            item.number: [
                text
                for text in (item.record.next_edition, *item.record.translations.values())
                if text is not None and text not in item.record.identifiers
            ]
            for item in self.items
            if item.number not in self.refusals and item.record.has_references
        }
        texts = {text for others in related.values() for text in others}
        owners = self.store.find_owners(sorted(texts))
        own = {
            owner.id
            for owner in owners.values()
            if owner.state in (State.ORIGINAL.value, State.COPY.value)
        }
        views = self.store.reader.read_items(sorted(own)) if own else {}
        protected = {
            item_id: view for item_id, view in views.items() if view and not self._is_given(view)
        }
        names = [view.record.identifiers[0] for view in protected.values()]
        connection, archive_id = self.store.connection, self.store.archive_id
        given = find_accepted(connection, archive_id, self.giver, names) if names else set()
        for item in self.items:
            for text in related.get(item.number, ()):
                view = protected.get(owners[text].id) if text in owners else None
                if view is None or view.record.identifiers[0] in given:
                    continue
                known = {
                    name for other in view.related for name in (other.ibi, other.rep, other.ibip)
                }
                if known.isdisjoint(item.record.identifiers):
                    self.refusals[item.number] = f"it would become related to {text}, which is ours"

    def _is_given(self, view: ItemView) -> bool:
        """Return whether an item is a Copy of an Original of the giver."""
        return view.record.original_archive == self.giver

    @property
    def taken(self) -> list[OfferedRecord]:
        """The items that are not refused."""
        return [item for item in self.items if item.number not in self.refusals]

    def find_present_contents(self) -> dict[int, dict[str, Content]]:
        """Return the files that this Archive has of items that it takes again, by their numbers.

        Only files of the same item count: a giver must not get at files whose checksum it knows.
        """
        items = {}
        for item in self.taken:
            for text in item.record.identifiers:
                if text in self.owners:
                    items[item.number] = self.owners[text].id
        contents = self.store.get_contents_of(set(items.values())) if items else {}
        return {number: contents.get(item_id, {}) for number, item_id in items.items()}

    # --- storing ---------------------------------------------------------------------------------

    def write(self, contents: Mapping[int, Contents], now: datetime) -> None:
        """Store the items that are not refused as Copies; add others to the refused items.

        :param contents: the contents of the stored files, by the numbers of the items.
        """
        renew_plans(self.store.connection)
        new = [
            item for item in self.taken if self.owners.keys().isdisjoint(item.record.identifiers)
        ]
        if not self._insert(new, contents, now):
            new = []
        inserted = {item.number for item in new}
        for item in self.taken:
            if item.number not in inserted and not self._is_current(item):
                self._upsert(item, contents[item.number], now)

    def _is_current(self, item: OfferedRecord) -> bool:
        """Return whether this Archive has a Copy of this version, as after a move to the giver."""
        names = [text for text in item.record.identifiers if text in self.owners]
        view = self._views.get(self.owners[names[0]].id) if names else None
        shown = None if view is None else show_item(item.number, view, self.giver)
        return shown is not None and shown.version == item.version

    def _insert(
        self, items: Sequence[OfferedRecord], contents: Mapping[int, Contents], now: datetime
    ) -> bool:
        """Insert new items together, and return whether the database has accepted them all."""
        store = self.store
        records = [copy_record(item.record, self.giver) for item in items]
        try:
            with store.connection.begin_nested():
                if records:
                    store.insert(records, [contents[item.number] for item in items], now)
        except (IntegrityError, StorageError):
            return False
        for record in records:
            note_change(store, None, record)
        return True

    def _upsert(self, item: OfferedRecord, contents: Contents, now: datetime) -> None:
        record = copy_record(item.record, self.giver)
        notices = len(self.store.notices)
        try:
            with self.store.connection.begin_nested():
                upsert_item(self.store, record, contents, now, Event.COPY)
        except IntegrityError as error:
            self._refuse(item, str(explain_refusal(error, record.identifiers[0])), notices)
        except StorageError as error:
            self._refuse(item, str(error), notices)

    def _refuse(self, item: OfferedRecord, reason: str, notices: int) -> None:
        self.refusals[item.number] = reason
        del self.store.notices[notices:]


def copy_record(record: Record, giver: str) -> Record:
    """Return the record of the Copy of an offered item, or the tombstone of a removed item."""
    if record.state == State.DELETED.value:
        tombstone = record.tombstone or Tombstone(REMOVED)
        return replace(record, tombstone=replace(tombstone, original_archive=giver))
    return replace(record, state=State.COPY.value, original_archive=giver)
