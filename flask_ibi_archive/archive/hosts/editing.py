"""Describes how rows change items that exist already, and how deleted rows remove items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from flask_ibi_archive.archive.hosts.describing import DescribedRow, build_tombstone, naming
from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem
from flask_ibi_archive.archive.hosts.linking import RowLink
from flask_ibi_archive.archive.items.file_io import Content
from flask_ibi_archive.archive.items.file_store import Staging
from flask_ibi_archive.archive.items.items import Contents, ItemStore, find_unchanged
from flask_ibi_archive.archive.items.operations.context import validate_record
from flask_ibi_archive.archive.items.operations.description import ItemDescription, read_description
from flask_ibi_archive.archive.items.operations.given_files import stage_files
from flask_ibi_archive.archive.items.operations.removing import remove, validate_tombstone
from flask_ibi_archive.archive.items.operations.updating import Edit, with_all_identifiers
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.record import FileRecord, Record
from flask_ibi_archive.errors import StorageError

#: The row IDs and the states of items, by their identifiers.
Owners: TypeAlias = Mapping[str, tuple[int, str]]
#: The owner of an identifier that no item has.
NO_ITEM = (0, ELSEWHERE)

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


@dataclass
class RowEdits:
    """The changes of items that exist already.

    :ivar links: the relations that the rows describe, by the row IDs of their items.
    :ivar staged: the contents of new files.
    """

    store: ItemStore
    staging: Staging
    now: datetime
    links: dict[int, RowLink] = field(default_factory=dict)
    staged: list[Content] = field(default_factory=list)
    _files: dict[int, tuple[tuple[FileRecord, ...], Contents]] = field(default_factory=dict)
    _stored: dict[int, dict[str, Content]] = field(default_factory=dict)

    def find(
        self, described: Iterable[DescribedRow], removals: Sequence[Removal], owners: Owners
    ) -> dict[int, Edit]:
        """Return how the items of rows change."""
        edits: dict[int, Edit] = {}
        with_files = set()
        for one in described:
            item_id, state = owners.get(one.ibi, NO_ITEM)
            if state != ELSEWHERE:
                edits[item_id] = partial(self._edit, one, item_id)
                if "files" in one.given:
                    with_files.add(item_id)
        self._stored = self.store.get_contents_of(with_files) if with_files else {}
        for removal in removals:
            item_id, state = owners.get(removal.ibi, NO_ITEM)
            if state != ELSEWHERE:
                edits[item_id] = partial(self._remove, removal)
        return edits

    def _edit(
        self, one: DescribedRow, item_id: int, before: Record
    ) -> tuple[Record, Contents] | None:
        """Edit or withdraw an item."""
        with naming(one.name, one.ibi):
            if before.state == State.COPY.value or (
                before.tombstone and before.tombstone.original_archive
            ):
                return None  # the Original is in another Archive, which may edit it
            if before.state == State.DELETED.value:
                if one.state != State.DELETED:
                    raise StorageError(f"state: {REPUBLISH}")
                return None
            if one.state == "Reserved":
                raise StorageError(f"state: {WITHDRAW}")
            if one.state == State.DELETED:
                return self.withdraw(one, before)
            description = read_description(one.given, before.metadata)
            self.links[item_id] = RowLink.read(one, description, item_id)
            record, contents = self._merge(one, item_id, before, description)
            if with_target(record) == with_target(before):
                return None
            return replace(record, timestamp=self.now), contents

    def _merge(
        self, one: DescribedRow, item_id: int, before: Record, description: ItemDescription
    ) -> tuple[Record, Contents]:
        """Return the new record of an item, and the contents of its files."""
        values: dict[str, Any] = dict(description.values)
        contents: Contents = {}
        if "files" in one.given:
            values["files"], contents = self._stage(item_id, description)
            if before.target_file not in [file.path for file in values["files"]]:
                values.setdefault("target_file", None)
        record = with_all_identifiers(replace(before, **{"aliases": (), **values}), before)
        return validate_record(record, one.name), contents

    def _stage(
        self, item_id: int, description: ItemDescription
    ) -> tuple[tuple[FileRecord, ...], Contents]:
        """Stage the files of an item once, because streams can't be read twice."""
        if item_id not in self._files:
            stored = self._stored.get(item_id, {})
            files, contents = stage_files(self.staging, description.files, stored)
            self.staged += contents.values()
            self._files[item_id] = files, {**find_unchanged(stored, files), **contents}
        return self._files[item_id]

    def withdraw(self, one: DescribedRow, before: Record) -> tuple[Record, Contents]:
        """Withdraw the item of a row that remains."""
        with naming(one.name, one.ibi):
            tombstone = validate_tombstone(build_tombstone(one.tombstone), one.name)
            return remove(before, one.ibi, tombstone, self.now)

    def _remove(self, removal: Removal, before: Record) -> tuple[Record, Contents] | None:
        """Delete the item of a deleted row."""
        with naming(removal.name, removal.ibi):
            tombstone = validate_tombstone(build_tombstone(removal.tombstone), removal.ibi)
            if before.state == State.DELETED.value and not tombstone.discard_description:
                return None
            return remove(before, removal.ibi, tombstone, self.now)


def with_target(record: Record) -> Record:
    """Return a record that states its target file, for comparisons."""
    return replace(record, target_file=record.target_path)
