"""Describes how rows change items that exist already: fields, relations, and deletion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy.orm import Session

from flask_ibi_archive.archive.hosts.identified_item import (
    DescribedRow,
    IdentifiedItem,
    build_tombstone,
    inspect_row,
    naming,
)
from flask_ibi_archive.archive.hosts.row_keys import ForeignIdentifier, is_carried_by_another
from flask_ibi_archive.archive.items.file_io import Content
from flask_ibi_archive.archive.items.file_store import Staging
from flask_ibi_archive.archive.items.identifiers import RELEASED, settle_reservation
from flask_ibi_archive.archive.items.items import Contents, ItemStore, find_unchanged
from flask_ibi_archive.archive.items.keys import KeyHolder
from flask_ibi_archive.archive.items.operations.context import (
    canonicalize,
    find_item,
    note_changed_item,
    validate_record,
)
from flask_ibi_archive.archive.items.operations.depositing import find_related
from flask_ibi_archive.archive.items.operations.description import ItemDescription, read_description
from flask_ibi_archive.archive.items.operations.life_cycle import remove, validate_tombstone
from flask_ibi_archive.archive.items.operations.staged_files import stage_files
from flask_ibi_archive.archive.items.operations.updating import (
    Edit,
    UpdateBatch,
    with_all_identifiers,
)
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.record import FileRecord, Record, Tombstone
from flask_ibi_archive.errors import StorageError, UnknownItem

#: The row IDs and the states of items, by their identifiers.
Owners: TypeAlias = Mapping[str, tuple[int, str]]
#: The owner of an identifier that no item has.
NO_ITEM = (0, ELSEWHERE)

WITHDRAW = (
    "the item is public, so that ibi_record() can't return None or the state Reserved any more; "
    "to withdraw the item, return state='Deleted' with tombstone=Tombstone(reason='...'); to close "
    "its files for a time, return an embargo or access"
)
REPUBLISH = (
    "a withdrawn item can't be published again, because its tombstone is permanent; keep "
    "state='Deleted', or add a new row"
)


@dataclass(slots=True)
class RowLink:
    """The relations that a row describes.

    :param item_id: the row ID of the item; 0 if the item is new.
    :param edition_of: the identifier of the previous edition, or None.
    :param translation_of: the identifier of an item that is translated, or None.
    """

    described: DescribedRow
    item_id: int
    edition_of: str | None
    translation_of: str | None

    @classmethod
    def read(cls, described: DescribedRow, description: ItemDescription, item_id: int) -> RowLink:
        """Return the relations of a description.

        :raises RowError: if the description does not name a related item by an identifier.
        """
        with naming(described.name, described.ibi), _explaining():
            texts = [
                None if text is None else canonicalize(text)
                for text in (description.edition_of, description.translation_of)
            ]
        return cls(described, item_id, *texts)

    @property
    def states_edition(self) -> bool:
        """Whether the description has the field ``previous_edition``, which may be None."""
        return "previous_edition" in self.described.given


def find_changed_links(
    store: ItemStore, links: Sequence[RowLink]
) -> tuple[list[RowLink], set[int]]:
    """Return the relations that differ from the stored relations, and the row IDs of their items.

    The number of statements does not depend on the number of rows.

    :param links: the relations that the rows describe.
    :returns: the changed relations, and the row IDs of all items between which relations change.
    """
    # only an existing item can have a previous edition that its row does not state any more
    links = [
        link
        for link in links
        if link.edition_of or link.translation_of or (link.item_id and link.states_edition)
    ]
    if not links:
        return [], set()
    texts = {text for link in links for text in (link.edition_of, link.translation_of) if text}
    owners = {text: owner for text, (owner, _) in store.find_all_owners(texts).items()}
    items = {link.item_id for link in links if link.item_id}
    previous = store.relations.editions.find_all_previous(items)
    translated = any(link.translation_of for link in links)
    groups = (
        store.relations.translations.find_groups(items.union(owners.values())) if translated else {}
    )
    changed: list[RowLink] = []
    concerned: set[int] = set()
    for link in links:
        # The ID of an unknown item is 0. None: the row states no such item.
        edition_of = None if link.edition_of is None else owners.get(link.edition_of, 0)
        translation_of = None if link.translation_of is None else owners.get(link.translation_of, 0)
        before, group = previous.get(link.item_id), groups.get(link.item_id)
        if (link.states_edition and edition_of != before) or (
            translation_of is not None and (group is None or group != groups.get(translation_of))
        ):
            changed.append(link)
            concerned |= {link.item_id, edition_of or 0, translation_of or 0, before or 0}
    return changed, concerned - {0}


@dataclass
class RowLinks:
    """Changed relations of several rows. The caller has locked the relations of the Archive.

    All items of the rows are in the database.
    """

    store: ItemStore
    links: Sequence[RowLink]
    now: datetime

    def write(self) -> None:
        """Store the relations."""
        for link in self.links:
            link.item_id, _ = find_item(self.store, link.described.ibi)
        for link in _order(self.store, self.links):
            with naming(link.described.name, link.described.ibi), _explaining():
                if link.states_edition:
                    self._link_edition(link)
                if link.translation_of is not None:
                    self._link_translation(link, link.translation_of)

    def _link_edition(self, link: RowLink) -> None:
        """Store the previous edition that a row states, or that there is none."""
        editions = self.store.relations.editions
        stated = link.edition_of
        previous = editions.find_all_previous([link.item_id]).get(link.item_id)
        if stated is not None and find_item(self.store, stated)[0] == previous:
            return
        if previous is not None:
            editions.unlink_next(previous)
            self._note_next_edition(previous)
        if stated is not None:
            other_id = find_related(self.store, stated, None)
            editions.link(other_id, link.item_id, stated)
            self._note_next_edition(other_id)

    def _note_next_edition(self, item_id: int) -> None:
        """Store and note that the next edition of an item has changed."""
        self.store.set_timestamp(item_id, self.now)
        note_changed_item(self.store, item_id, ["next_edition"])

    def _link_translation(self, link: RowLink, translation_of: str) -> None:
        """Put the item of a row into the group of the item that the row translates."""
        translations = self.store.relations.translations
        other_id = find_related(self.store, None, translation_of)
        members = [member.id for member in translations.find_members(link.item_id)]
        if other_id in members:
            return
        if members:
            translations.leave(link.item_id)
        language = self.store.reader.read_record(link.item_id).language
        if language is None:
            raise StorageError(
                "language: a translation needs a language, for example language='pt'"
            )
        translations.add_member(link.item_id, other_id, language, link.described.ibi)


@contextmanager
def _explaining() -> Iterator[None]:
    """Replace UnknownItem by an error that names the fields of the relations."""
    try:
        yield
    except UnknownItem as error:
        raise StorageError(
            f"previous_edition and translation_of must be public items of this Archive, and "
            f"{error.ibi} is not; publish that item first"
        ) from error


def _order(store: ItemStore, links: Sequence[RowLink]) -> Iterator[RowLink]:
    """Yield the links in an order in which a translated item precedes its translations."""
    waiting = {link.item_id: link for link in links}
    while waiting:
        # a translation, the item that it translates, and so on
        chain = [waiting.pop(next(iter(waiting)))]
        while (ibi := chain[-1].translation_of) is not None:
            owner = store.find_owners([ibi]).get(ibi)
            if owner is None or owner[0] not in waiting:
                break
            chain.append(waiting.pop(owner[0]))
        yield from reversed(chain)


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

    :param session: the session of the rows.
    :ivar links: the relations that the rows describe, by the row IDs of their items.
    :ivar staged: the contents of new files.
    :ivar sources: the contents of stored files whose sources have changed, by the row IDs of their
        items and by their names.
    :ivar new_keys: the keys that the items do not have yet, with the row IDs of the items.
    """

    session: Session
    store: ItemStore
    staging: Staging
    now: datetime
    links: dict[int, RowLink] = field(default_factory=dict)
    staged: list[Content] = field(default_factory=list)
    sources: dict[int, Contents] = field(default_factory=dict)
    new_keys: dict[str, int] = field(default_factory=dict)
    _files: dict[int, tuple[tuple[FileRecord, ...], Contents]] = field(default_factory=dict)
    _stored: dict[int, dict[str, Content]] = field(default_factory=dict)

    def find(
        self, described: Iterable[DescribedRow], removals: Sequence[Removal], owners: Owners
    ) -> dict[int, Edit]:
        """Return the functions that change the existing items of rows, by the row IDs of the items.

        :param described: the written rows.
        :param removals: the deleted rows.
        :param owners: the items with the identifiers of the rows.
        """
        edits: dict[int, Edit] = {}
        with_files = set()
        for row in described:
            item_id, state = owners.get(row.ibi, NO_ITEM)
            if state != ELSEWHERE:
                edits[item_id] = partial(self._edit, row, item_id)
                if "files" in row.given:
                    with_files.add(item_id)
        self._stored = self.store.get_contents_of(with_files) if with_files else {}
        for removal in removals:
            item_id, state = owners.get(removal.ibi, NO_ITEM)
            if state != ELSEWHERE:
                edits[item_id] = partial(self._remove, removal)
        return edits

    def _edit(
        self, row: DescribedRow, item_id: int, before: Record
    ) -> tuple[Record, Contents] | None:
        """Return the new record of the item of a written row; None if it does not change.

        This is an :data:`~.updating.Edit` of the item.
        """
        with naming(row.name, row.ibi):
            check_owner(self.session, row, before.key)
            if before.state == State.COPY.value or (
                before.tombstone and before.tombstone.original_archive
            ):
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
            description = read_description(row.given, before.metadata)
            self.links[item_id] = RowLink.read(row, description, item_id)
            record, contents = self._merge(row, item_id, before, description)
            if with_target(record) == with_target(before):
                return None
            rekeyed = self._change_key(row, item_id, before)
            if rekeyed is not None and with_target(rekeyed[0]) == with_target(record):
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

    def _merge(
        self, row: DescribedRow, item_id: int, before: Record, description: ItemDescription
    ) -> tuple[Record, Contents]:
        """Return the new record of an item, and the contents of its files."""
        values: dict[str, Any] = {**description.values, "key": row.key}
        contents: Contents = {}
        if "files" in row.given:
            values["files"], contents = self._stage(item_id, description)
            if before.target_file not in [file.path for file in values["files"]]:
                values.setdefault("target_file", None)
        record = with_all_identifiers(replace(before, **{"aliases": (), **values}), before)
        return validate_record(record, row.name), contents

    def _stage(
        self, item_id: int, description: ItemDescription
    ) -> tuple[tuple[FileRecord, ...], Contents]:
        """Stage the files of an item once, because streams can't be read twice."""
        if item_id not in self._files:
            stored = self._stored.get(item_id, {})
            files, contents = stage_files(self.staging, description.files, stored)
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


def check_owner(session: Session, row: DescribedRow, key: str | None) -> None:
    """Check that the item with the identifier of a row is not the item of another row.

    :param key: the key of the item. If it is not the key of the row, the primary key of the row or
        the name of its table has changed, unless another row has the identifier.
    :raises ForeignIdentifier: if another row has the identifier.
    """
    mapper = inspect_row(row.row).mapper
    if key not in (None, row.key) and is_carried_by_another(session, mapper, key, row.identifiers):
        raise ForeignIdentifier(row.name, row.row.ibi, key)


def remove_orphans(
    session: Session,
    store: ItemStore,
    staging: Staging,
    orphans: Sequence[KeyHolder],
    tombstone: Tombstone,
    now: datetime,
) -> None:
    """Delete the items, and release the reservations, whose rows a bulk statement has deleted."""
    edits = RowEdits(session, store, staging, now)
    owners = {one.ibi: (one.item_id, "") for one in orphans if one.item_id is not None}
    removals = [Removal(None, one.key, one.ibi, tombstone) for one in orphans]
    batch = UpdateBatch(store, edits.find((), removals, owners))
    batch.lock()
    batch.write(now)
    for one in orphans:
        if one.item_id is None:
            settle_reservation(store.connection, store.archive_id, one.ibi, RELEASED, now)


def with_target(record: Record) -> Record:
    """Return a record that states its target file, for comparisons."""
    return replace(record, target_file=record.target_path)
