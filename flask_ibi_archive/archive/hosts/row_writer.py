"""Writes the items of rows: inserts those of new rows, and edits those of other rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.hosts.assigning import (
    Mint,
    assign_stored,
    check_issued,
    mint,
    was_assigned,
)
from flask_ibi_archive.archive.hosts.identified_item import (
    DescribedRow,
    IdentifiedItem,
    describe,
    find_references,
    inspect_row,
    name_row,
    naming,
)
from flask_ibi_archive.archive.hosts.row_edits import (
    Removal,
    RowEdits,
    check_owner,
    select_items,
)
from flask_ibi_archive.archive.hosts.row_links import RowLink, RowLinks, find_changed_links
from flask_ibi_archive.archive.items.files import Content, Staging
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations import (
    OperationContext,
    UpdateBatch,
    check_new,
    find_item,
    note_signal,
    read_description,
    stage_files,
    upsert_item,
    validate_record,
)
from flask_ibi_archive.archive.items.read import (
    RELEASED,
    USED,
    Owner,
    add_reservation,
    find_held,
    renew_reservation,
    set_reservation_key,
    settle_reservation,
)
from flask_ibi_archive.archive.items.write import ItemStore, free_keys, list_holders
from flask_ibi_archive.core.protocol.states import Event, State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import RowError, StorageError
from flask_ibi_archive.signals import item_deposited, item_minted

#: The fields of a description that a tombstone does not have.
FILE_FIELDS = ("files", "target_file", "list_files")


@dataclass(frozen=True, slots=True)
class NewItem:
    """A row whose item is stored for the first time.

    :param is_simple: whether no other item can have an identifier of the item.
    """

    described: DescribedRow
    record: Record
    contents: Mapping[str, Content]
    is_simple: bool


@dataclass
class RowWriter:
    """Writes the items of rows. If one row causes an error, no item is changed.

    :param context: the result of :func:`.current_archive.bind` for the session of the rows.
    :param mint: mints identifiers for stored rows that have none, but to which other rows refer.
    :param reconnect: whether those rows get back identifiers that they have lost.
    :ivar reconnected: the number of those rows that had lost their identifiers.
    """

    context: OperationContext
    staging: Staging
    mint: Mint = mint
    reconnect: bool = False
    reconnected: int = 0
    _contents: list[Content] = field(default_factory=list)

    def write(self, rows: Sequence[IdentifiedItem], removals: Sequence[Removal] = ()) -> None:
        """Deposit, edit, withdraw and delete the items of rows.

        All items of new rows are stored before the relations between items. Therefore rows may
        refer to each other in any order.

        :raises RowError: if the item of a row cannot be stored.
        """
        with self.context.transaction() as store:
            described = self._describe(rows)
            texts = [text for one in described for text in one.identifiers]
            owners = store.find_owners([*texts, *(one.ibi for one in removals)])
            new = self._prepare_all(store, described, removals, owners)
            edits = RowEdits(self.context, store, self.staging)
            batch = UpdateBatch(store, edits.find(described, removals, select_items(owners)))
            new_links = [RowLink.read(one.described, 0) for one in new]
            links, linked = find_changed_links(store, [*new_links, *edits.links.values()])
            has_related = any(not one.is_simple or one.record.has_references for one in new)
            batch.lock(linked.union(edits.sources), relations=bool(links) or has_related)
            self._insert(store, new, edits.now)
            _free_keys(store, edits.new_keys)
            batch.write(edits.now)
            store.set_sources(edits.sources)
            RowLinks(store, links, edits.now).write()
            self._withdraw(store, new, edits)
            for content in (*self._contents, *edits.staged):
                self.staging.move_to_store(content)

    def _describe(self, rows: Sequence[IdentifiedItem]) -> list[DescribedRow]:
        """Return the descriptions of rows, and of rows without identifiers to which they refer.

        The latter rows are older than the identifiers. They get identifiers now.
        """
        found: dict[int, DescribedRow] = {}
        waiting = deque(rows)
        while waiting:
            row = waiting.popleft()
            if id(row) in found:
                continue
            found[id(row)] = one = describe(row)
            for name, other in find_references(one.given):
                if other.ibi is None:
                    if not inspect_row(other).persistent:
                        reason = "the row is not in the session; add it to the session first"
                        raise RowError(one.name, name, f"{name_row(other)}: {reason}")
                    self.reconnected += assign_stored(
                        self.context, [other], self.mint, reconnect=self.reconnect
                    )
                    waiting.append(other)
        return list(found.values())

    def _prepare_all(
        self,
        store: ItemStore,
        described: Iterable[DescribedRow],
        removals: Iterable[Removal],
        owners: Mapping[str, Owner],
    ) -> list[NewItem]:
        """Return the items to insert. Reserve and release the identifiers of other rows."""
        items = select_items(owners)
        without = [one for one in described if one.ibi not in items]
        deleted = [one.ibi for one in removals if one.ibi not in owners]
        texts = [text for one in without for text in one.identifiers if text not in owners]
        held = find_held(store.connection, store.archive_id, [*texts, *deleted])
        for ibi in held.keys() & set(deleted):
            settle_reservation(
                store.connection, store.archive_id, ibi, RELEASED, self.context.now()
            )
        new = []
        for one in without:
            with naming(one.name, one.ibi):
                if one.ibi in held:
                    check_owner(self.context, one, held[one.ibi])
                if self._use_identifier(store, one, one.ibi in held):
                    new.append(self._prepare(one, owners.keys().isdisjoint(one.identifiers)))
                elif one.ibi in held and one.key not in (None, held[one.ibi]):
                    _free_keys_for(store, [one])  # the primary key of the draft has changed
                    set_reservation_key(store.connection, store.archive_id, one.ibi, one.key)
        return new

    def _use_identifier(self, store: ItemStore, one: DescribedRow, is_held: bool) -> bool:
        """Use the identifier of a row that has no item yet.

        :param is_held: whether the identifier is reserved.
        :returns: whether the row is public. Otherwise the identifier is reserved now.
        """
        now = self.context.now()
        if was_assigned(self.context, one.row):
            if not is_held:
                note_signal(store, item_minted, Minted(*one.identifiers))
        elif not is_held:
            check_issued(self.context, store.connection, one)
        if one.state != "Reserved":
            if is_held:
                settle_reservation(store.connection, store.archive_id, one.ibi, USED, now)
            return True
        if not is_held:
            rep, ibip = one.row.ibi_rep, one.row.ibi_ibip
            if rep is None or ibip is None:
                raise StorageError("a row that is not public needs both forms of its identifier")
            _free_keys_for(store, [one])
            draft = one.name, now, one.key
            if was_assigned(self.context, one.row) or not renew_reservation(
                store.connection, store.archive_id, ibip, *draft
            ):
                add_reservation(store.connection, store.archive_id, rep, ibip, *draft)
        return False

    def _prepare(self, one: DescribedRow, is_unknown: bool) -> NewItem:
        given = dict(one.given)
        if one.state == State.DELETED:  # a tombstone has no files
            given = {key: value for key, value in given.items() if key not in FILE_FIELDS}
        values = {
            **read_description(given),
            "rep": one.row.ibi_rep,
            "ibip": one.row.ibi_ibip,
            "key": one.key,
        }
        check_new(given)
        files, contents = stage_files(self.staging, given.get("files", ()))
        self._contents += contents.values()
        record = validate_record(values, one.name, Record(files=files))
        return NewItem(one, record, contents, is_unknown and not record.aliases)

    def _insert(self, store: ItemStore, new: Sequence[NewItem], now: datetime) -> None:
        """Insert items. Items without relations to known identifiers are inserted together."""
        self._insert_together(store, [item for item in new if item.is_simple], now)
        for item in new:
            with naming(item.described.name, item.described.ibi):
                if not item.is_simple:
                    _free_keys_for(store, [item.described])
                    upsert_item(store, item.record, item.contents, now, Event.DEPOSIT)

    def _insert_together(self, store: ItemStore, new: Sequence[NewItem], now: datetime) -> None:
        """Insert items.

        Most keys are free. Therefore the keys are only freed after the database has refused one.
        """
        if not new:
            return
        try:
            with store.connection.begin_nested():
                store.insert([item.record for item in new], [item.contents for item in new], now)
        except (IntegrityError, StorageError):
            _free_keys_for(store, [item.described for item in new])
            # one by one, to find the row whose item is refused
            for item in new:
                with naming(item.described.name, item.described.ibi):
                    store.insert([item.record], [item.contents], now)
        for item in new:
            note_signal(store, item_deposited, item.record)

    def _withdraw(self, store: ItemStore, new: Iterable[NewItem], edits: RowEdits) -> None:
        """Withdraw the items of new rows with the state Deleted."""
        withdrawn = [one.described for one in new if one.described.state == State.DELETED]
        if withdrawn:
            items = {find_item(store, one.ibi).id: one for one in withdrawn}
            batch = UpdateBatch(
                store, {item_id: partial(edits.withdraw, one) for item_id, one in items.items()}
            )
            batch.lock()
            batch.write(edits.now)


def _free_keys_for(store: ItemStore, rows: Iterable[DescribedRow]) -> None:
    """Free the keys of rows that have no items yet, which other items have."""
    _free_keys(store, {row.key: 0 for row in rows if row.key is not None})


def _free_keys(store: ItemStore, keys: Mapping[str, int]) -> None:
    """Free keys that other items have, because rows have these keys now.

    A bulk statement has deleted the rows of these items, or has changed their primary keys. Apart
    from their keys, the items stay as they are.

    :param keys: the keys, with the row IDs of the items that get them; 0 for new items.
    """
    holders = list_holders(store.connection, store.archive_id, keys)
    others = [holder for holder in holders if holder.item_id != keys[holder.key]]
    free_keys(store.connection, store.archive_id, others)
