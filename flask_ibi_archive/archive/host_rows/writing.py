"""Writes the items of rows, in the transaction of the session that contains the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.host_rows.describing import (
    DescribedRow,
    build_tombstone,
    describe,
    find_references,
    inspect_row,
    name_row,
    naming,
)
from flask_ibi_archive.archive.host_rows.identified_item import IdentifiedItem
from flask_ibi_archive.archive.host_rows.linking import RowLink, RowLinks
from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations.context import (
    OperationContext,
    find_item,
    validate_record,
)
from flask_ibi_archive.archive.operations.depositing import check_new
from flask_ibi_archive.archive.operations.description import ItemDescription, read_description
from flask_ibi_archive.archive.operations.given_files import stage_files
from flask_ibi_archive.archive.operations.noting import note
from flask_ibi_archive.archive.operations.removing import delete_item, validate_tombstone
from flask_ibi_archive.archive.operations.updating import (
    update_item,
    upsert_item,
    with_all_identifiers,
)
from flask_ibi_archive.errors import RowError, StorageError
from flask_ibi_archive.records.record import Record
from flask_ibi_archive.signals import item_deposited, item_minted
from flask_ibi_archive.storage.dialects import batched
from flask_ibi_archive.storage.file_io import Content
from flask_ibi_archive.storage.file_store import Staging
from flask_ibi_archive.storage.identifiers import (
    RELEASED,
    USED,
    add_reservation,
    find_held,
    settle_reservation,
)
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.states import ELSEWHERE, Event, State

FILE_FIELDS = ("files", "target_file", "list_files")
WITHDRAW = (
    "a public item can't become Reserved again; to withdraw the item, use state='Deleted' with "
    "tombstone=Tombstone(reason='...')"
)
REPUBLISH = (
    "a withdrawn item can't be published again, because its tombstone is permanent; keep "
    "state='Deleted', or add a new row"
)


@dataclass(frozen=True, slots=True)
class Removal:
    """A deleted row, an identifier of its item, and the tombstone that the item gets."""

    row: IdentifiedItem
    name: str
    ibi: str
    tombstone: Any


@dataclass(frozen=True, slots=True)
class NewItem:
    """A row whose item is stored for the first time.

    :param is_simple: whether no stub and no other item can have an identifier of the item.
    """

    described: DescribedRow
    description: ItemDescription
    record: Record
    contents: Mapping[str, Content]
    is_simple: bool


@dataclass
class RowWriter:
    """Writes the items of rows. An error changes nothing.

    :param context: the result of :func:`bind` for the session of the rows.
    :param assign: gives identifiers to rows that are older than the identifiers.
    :param was_minted: returns whether the identifier of a row was minted in this transaction.
    """

    context: OperationContext
    staging: Staging
    assign: Callable[[list[IdentifiedItem]], object]
    was_minted: Callable[[IdentifiedItem], bool]
    _contents: list[Content] = field(default_factory=list)

    def write(self, rows: Sequence[IdentifiedItem], removals: Sequence[Removal] = ()) -> None:
        """Deposit, edit, withdraw and delete the items of rows.

        All items of new rows are stored before the relations between items. Therefore rows may
        refer to each other in any order.

        :raises RowError: if the item of a row cannot be stored.
        """
        with self.context.transaction() as store:
            described = self._describe(rows)
            new, links = self._sort(store, described)
            self._insert(store, new)
            RowLinks(store, links, self.context.now()).write()
            for item in new:
                if item.described.state == "Deleted":
                    self._withdraw(store, item.described)
            for removal in removals:
                with naming(removal.name, removal.ibi):
                    self._remove(store, removal)
            for content in self._contents:
                self.staging.move_to_store(content)

    def _describe(self, rows: Sequence[IdentifiedItem]) -> list[DescribedRow]:
        """Return the descriptions of rows, and of the rows without identifiers they refer to.

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
                    self.assign([other])
                    waiting.append(other)
        return list(found.values())

    def _sort(
        self, store: ItemStore, described: Sequence[DescribedRow]
    ) -> tuple[list[NewItem], list[RowLink]]:
        """Change existing items, and reserve identifiers.

        :returns: the items to insert, and the relations of all items.
        """
        texts = [text for one in described for text in one.identifiers]
        owners = {}
        for part in batched(texts):
            owners.update(store.find_owners(part))
        held = find_held(
            store.connection, store.archive_id, [text for text in texts if text not in owners]
        )
        new: list[NewItem] = []
        links: list[RowLink] = []
        for one in described:
            item_id, state = owners.get(one.ibi, (0, ELSEWHERE))
            with naming(one.name, one.ibi):
                if state != ELSEWHERE:
                    description = self._update(store, one, item_id, State(state))
                elif not self._begin(store, one, one.ibi in held):
                    continue
                else:
                    new.append(self._prepare(one, owners.keys().isdisjoint(one.identifiers)))
                    description = new[-1].description
            if description is not None:
                links.append(RowLink(one, description, item_id))
        return new, links

    def _begin(self, store: ItemStore, one: DescribedRow, is_held: bool) -> bool:
        """Use the identifier of a row that has no item yet.

        :param is_held: whether the identifier is reserved.
        :returns: whether the row is public. Otherwise the identifier is reserved now.
        """
        now = self.context.now()
        if not is_held and self.was_minted(one.row):
            note(store, item_minted, Minted(*one.identifiers))
        if one.state != "Reserved":
            if is_held:
                settle_reservation(store.connection, store.archive_id, one.ibi, USED, now)
            return True
        if not is_held:
            rep, ibip = one.row.ibi_rep, one.row.ibi_ibip
            if rep is None or ibip is None:
                raise StorageError("a row that is not public needs both forms of its identifier")
            add_reservation(store.connection, store.archive_id, rep, ibip, one.name, now)
        return False

    def _prepare(self, one: DescribedRow, is_unknown: bool) -> NewItem:
        given = dict(one.given)
        if one.state == "Deleted":  # a tombstone has no files
            given = {key: value for key, value in given.items() if key not in FILE_FIELDS}
        description = read_description(given)
        check_new(description)
        files, contents = stage_files(self.staging, description.files)
        self._contents += contents.values()
        record = Record(
            **{
                **description.values,
                "rep": one.row.ibi_rep,
                "ibip": one.row.ibi_ibip,
                "files": files,
            }
        )
        record = validate_record(record, one.name)
        return NewItem(one, description, record, contents, is_unknown and not record.aliases)

    def _insert(self, store: ItemStore, new: Sequence[NewItem]) -> None:
        """Insert items. Items without relations to known identifiers are inserted together."""
        now = self.context.now()
        batch = [item for item in new if item.is_simple]
        try:
            with store.connection.begin_nested():
                store.insert_items(
                    [item.record for item in batch], [item.contents for item in batch], now
                )
        except (IntegrityError, StorageError):
            # one by one, to find the row whose item is refused
            for item in batch:
                with naming(item.described.name, item.described.ibi):
                    store.insert_items([item.record], [item.contents], now)
        for item in batch:
            note(store, item_deposited, item.record)
        for item in new:
            if not item.is_simple or item.record.has_references:
                with naming(item.described.name, item.described.ibi):
                    store.lock_relations()
                    if item.is_simple:
                        item_id, _ = find_item(store, item.described.ibi)
                        store.relations.add(item_id, item.record, now)
                    else:
                        upsert_item(store, item.record, item.contents, now, Event.DEPOSIT)

    def _update(
        self, store: ItemStore, one: DescribedRow, item_id: int, state: State
    ) -> ItemDescription | None:
        """Edit or withdraw an existing item.

        :returns: the description of the item; None if its relations do not change.
        """
        before = store.reader.read_record(item_id)
        tombstone = before.tombstone
        if state is State.COPY or (tombstone and tombstone.original_archive):
            return None  # the Original is in another Archive, which may edit it
        if state is State.DELETED:
            if one.state != "Deleted":
                raise StorageError(f"state: {REPUBLISH}")
            return None
        if one.state == "Reserved":
            raise StorageError(f"state: {WITHDRAW}")
        if one.state == "Deleted":
            self._withdraw(store, one)
            return None
        description = read_description(one.given, before.metadata)
        record, contents = self._merge(store, item_id, before, one, description)
        if with_target(record) != with_target(before):
            store.lock_relations()
            before = store.reader.read_record(item_id)
            record, contents = self._merge(store, item_id, before, one, description)
            now = self.context.now()
            update_item(store, item_id, replace(record, timestamp=now), contents, now)
            self._contents += contents.values()
        return description

    def _merge(
        self,
        store: ItemStore,
        item_id: int,
        before: Record,
        one: DescribedRow,
        description: ItemDescription,
    ) -> tuple[Record, Mapping[str, Content]]:
        """Return the new record of an item, and the contents of its new files."""
        values: dict[str, Any] = dict(description.values)
        contents: Mapping[str, Content] = {}
        if "files" in one.given:
            stored = store.get_contents(item_id)
            values["files"], contents = stage_files(self.staging, description.files, stored)
            if before.target_file not in [file.path for file in values["files"]]:
                values.setdefault("target_file", None)
        record = with_all_identifiers(replace(before, **{"aliases": (), **values}), before)
        return validate_record(record, one.name), contents

    def _withdraw(self, store: ItemStore, one: DescribedRow) -> None:
        with naming(one.name, one.ibi):
            store.lock_relations()
            tombstone = validate_tombstone(build_tombstone(one.tombstone), one.name)
            delete_item(store, one.ibi, tombstone, self.context.now())

    def _remove(self, store: ItemStore, removal: Removal) -> None:
        """Delete the item of a deleted row, or release the reserved identifier."""
        state = store.find_owners([removal.ibi]).get(removal.ibi, (0, ELSEWHERE))[1]
        if state in (State.ORIGINAL, State.COPY):
            store.lock_relations()
            tombstone = validate_tombstone(build_tombstone(removal.tombstone), removal.ibi)
            delete_item(store, removal.ibi, tombstone, self.context.now())
        elif state == ELSEWHERE and find_held(store.connection, store.archive_id, [removal.ibi]):
            settle_reservation(
                store.connection, store.archive_id, removal.ibi, RELEASED, self.context.now()
            )


def with_target(record: Record) -> Record:
    """Return a record that states its target file, for comparisons."""
    return replace(record, target_file=record.target_path)
