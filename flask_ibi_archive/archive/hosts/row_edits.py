"""Describes how rows change items that exist already: fields, relations, and deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from msgspec.structs import asdict, replace

from flask_ibi_archive.archive.hosts.current_archive import get_session
from flask_ibi_archive.archive.hosts.identified_item import (
    DescribedRow,
    IdentifiedItem,
    build_tombstone,
    inspect_row,
    naming,
)
from flask_ibi_archive.archive.hosts.row_keys import ForeignIdentifier, is_carried_by_another
from flask_ibi_archive.archive.hosts.row_links import RowLink
from flask_ibi_archive.archive.items.files import Content, Staging
from flask_ibi_archive.archive.items.operations import (
    Edit,
    Files,
    OperationContext,
    read_description,
    remove,
    stage_files,
    validate_record,
    validate_tombstone,
    with_all_identifiers,
)
from flask_ibi_archive.archive.items.read import Owner
from flask_ibi_archive.archive.items.write import Contents, ItemStore, find_unchanged
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import FileRecord, Record
from flask_ibi_archive.errors import StorageError

WITHDRAW = (
    "the item is public, so that ibi_record() can't return None or the state Reserved any more; "
    "to withdraw the item, return state='Deleted' with tombstone=Tombstone(reason='...'); to close "
    "its files for a time, return an embargo or access"
)
REPUBLISH = (
    "a withdrawn item can't be published again, because its tombstone is permanent; keep "
    "state='Deleted', or add a new row"
)


@dataclass(frozen=True, slots=True)
class Removal:
    """A deleted row, and the tombstone that its item gets.

    :param row: the row; None if a bulk statement has deleted it.
    :param name: the class and the primary key of the row, for messages.
    :param ibi: an identifier of the item.
    """

    row: IdentifiedItem | None
    name: str
    ibi: str
    tombstone: Any


@dataclass
class RowEdits:
    """The changes of items that exist already.

    :param context: the result of :func:`.current_archive.bind` for the session of the rows.
    :ivar now: the timestamp of the changes.
    :ivar links: the relations that the rows describe, by the row IDs of their items.
    :ivar staged: the contents of new files.
    :ivar sources: the contents of stored files whose sources have changed, by the row IDs of their
        items and by their names.
    :ivar new_keys: the keys that the items do not have yet, with the row IDs of the items.
    """

    context: OperationContext
    store: ItemStore
    staging: Staging
    now: datetime = field(init=False)
    links: dict[int, RowLink] = field(default_factory=dict)
    staged: list[Content] = field(default_factory=list)
    sources: dict[int, Contents] = field(default_factory=dict)
    new_keys: dict[str, int] = field(default_factory=dict)
    _files: dict[int, tuple[tuple[FileRecord, ...], Contents]] = field(default_factory=dict)
    _stored: dict[int, dict[str, Content]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now = self.context.now()

    def find(
        self,
        described: Iterable[DescribedRow],
        removals: Iterable[Removal],
        items: Mapping[str, int],
    ) -> dict[int, Edit]:
        """Return the functions that change the existing items of rows, by the row IDs of the items.

        :param described: the written rows.
        :param removals: the deleted rows.
        :param items: the row IDs of the items, by the identifiers of the rows.
        """
        edits: dict[int, Edit] = {}
        with_files = set()
        for row in described:
            item_id = items.get(row.ibi)
            if item_id is not None:
                edits[item_id] = partial(self._edit, row, item_id)
                if "files" in row.given:
                    with_files.add(item_id)
        self._stored = self.store.get_contents_of(with_files) if with_files else {}
        for removal in removals:
            item_id = items.get(removal.ibi)
            if item_id is not None:
                edits[item_id] = partial(self._remove, removal)
        return edits

    def _edit(
        self, row: DescribedRow, item_id: int, before: Record
    ) -> tuple[Record, Contents] | None:
        """Return the new record of the item of a written row; None if it does not change.

        This is an :data:`~.updating.Edit` of the item.
        """
        with naming(row.name, row.ibi):
            check_owner(self.context, row, before.key)
            if before.original_elsewhere:
                # the Original is in another Archive, which may edit it
                return self._change_key(row, item_id, before)
            if before.state == State.DELETED.value:
                if row.state != State.DELETED:
                    raise StorageError(f"state: {REPUBLISH}")
                return self._change_key(row, item_id, before)
            if row.state == "Reserved":
                raise StorageError(f"state: {WITHDRAW}")
            if row.state == State.DELETED:
                return self.withdraw(row, before)
            record, contents = self._merge(row, item_id, before)
            self.links[item_id] = RowLink.read(row, item_id)
            if _with_target(record) == _with_target(before):
                return None
            rekeyed = self._change_key(row, item_id, before)
            if rekeyed is not None and _with_target(rekeyed[0]) == _with_target(record):
                return rekeyed  # the timestamp does not change, because the key is not public
            return replace(record, timestamp=self.now), contents

    def _change_key(
        self, row: DescribedRow, item_id: int, before: Record
    ) -> tuple[Record, Contents] | None:
        """Return the record of an item with the key of its row; None if the key is the same."""
        if row.key is None or row.key == before.key:
            return None
        self.new_keys[row.key] = item_id
        return replace(before, key=row.key), {}

    def _merge(self, row: DescribedRow, item_id: int, before: Record) -> tuple[Record, Contents]:
        """Return the new record of an item, and the contents of its files."""
        values = {**read_description(row.given, before.metadata), "key": row.key}
        contents: Contents = {}
        if "files" in row.given:
            values["files"], contents = self._stage(item_id, row.given["files"])
            if before.target_file not in [file.path for file in values["files"]]:
                values.setdefault("target_file", None)
        record = with_all_identifiers(replace(before, **{"aliases": (), **values}), before)
        return validate_record(asdict(record), row.name), contents

    def _stage(self, item_id: int, given: Files) -> tuple[tuple[FileRecord, ...], Contents]:
        """Stage the files of an item once, because streams can't be read twice."""
        if item_id not in self._files:
            stored = self._stored.get(item_id, {})
            files, contents = stage_files(self.staging, given, stored)
            same = {path: new for path, new in contents.items() if new == stored.get(path)}
            if moved := {
                path: new
                for path, new in same.items()
                if new.source not in (None, stored[path].source)
            }:
                self.sources[item_id] = moved
            self.staged += [new for path, new in contents.items() if path not in same]
            self._files[item_id] = files, {**find_unchanged(stored, files), **contents}
        return self._files[item_id]

    def withdraw(self, row: DescribedRow, before: Record) -> tuple[Record, Contents]:
        """Return the record of an item with the state Deleted, whose row remains."""
        with naming(row.name, row.ibi):
            tombstone = validate_tombstone(build_tombstone(row.tombstone), row.name)
            return remove(before, row.ibi, tombstone, self.now)

    def _remove(self, removal: Removal, before: Record) -> tuple[Record, Contents] | None:
        """Return the new record of the item of a deleted row; None if it does not change."""
        with naming(removal.name, removal.ibi):
            tombstone = validate_tombstone(build_tombstone(removal.tombstone), removal.ibi)
            if before.state != State.DELETED.value or tombstone.discard_description:
                record, contents = remove(before, removal.ibi, tombstone, self.now)
                # a new row may get the primary key of the deleted row
                return replace(record, key=None), contents
            return None if before.key is None else (replace(before, key=None), {})


def select_items(owners: Mapping[str, Owner]) -> dict[str, int]:
    """Return the row IDs of the owners of identifiers."""
    return {text: owner.id for text, owner in owners.items()}


def check_owner(context: OperationContext, row: DescribedRow, key: str | None) -> None:
    """Check that the item with the identifier of a row is not the item of another row.

    :param key: the key of the item. If it is not the key of the row, the primary key of the row or
        the name of its table has changed, unless another row has the identifier.
    :raises ForeignIdentifier: if another row has the identifier.
    """
    mapper = inspect_row(row.row).mapper
    if key not in (None, row.key) and is_carried_by_another(
        get_session(context), mapper, key, row.identifiers
    ):
        raise ForeignIdentifier(row.name, row.row.ibi, key)


def _with_target(record: Record) -> Record:
    """Return a record that states its target file, for comparisons."""
    return replace(record, target_file=record.target_path)
