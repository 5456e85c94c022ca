"""Describes how rows change items that exist already: fields, relations, and deletion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from flask_ibi_archive.archive.hosts.identified_item import (
    DescribedRow,
    IdentifiedItem,
    build_tombstone,
    naming,
)
from flask_ibi_archive.archive.items.file_io import Content
from flask_ibi_archive.archive.items.file_store import Staging
from flask_ibi_archive.archive.items.items import Contents, ItemStore, find_unchanged
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
from flask_ibi_archive.archive.items.operations.updating import Edit, with_all_identifiers
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.record import FileRecord, Record
from flask_ibi_archive.errors import StorageError, UnknownItem

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

        :raises RowError: if a relation is not an identifier.
        """
        with naming(described.name, described.ibi), _explaining():
            texts = [
                None if text is None else canonicalize(text)
                for text in (description.edition_of, description.translation_of)
            ]
        return cls(described, item_id, *texts)

    @property
    def states_edition(self) -> bool:
        """Whether the row states a previous edition, or that there is none."""
        return "previous_edition" in self.described.given


def find_changed_links(
    store: ItemStore, links: Sequence[RowLink]
) -> tuple[list[RowLink], set[int]]:
    """Return the relations that are not stored yet, and the row IDs of the items that they concern.

    The number of statements does not depend on the number of rows.
    """
    # only an existing item can have a previous edition that its row does not state any more
    links = [
        one
        for one in links
        if one.edition_of or one.translation_of or (one.item_id and one.states_edition)
    ]
    if not links:
        return [], set()
    texts = {text for one in links for text in (one.edition_of, one.translation_of) if text}
    owners = {text: owner for text, (owner, _) in store.find_all_owners(texts).items()}
    items = {one.item_id for one in links if one.item_id}
    previous = store.relations.editions.find_all_previous(items)
    translated = any(one.translation_of for one in links)
    groups = (
        store.relations.translations.find_groups(items.union(owners.values())) if translated else {}
    )
    changed: list[RowLink] = []
    concerned: set[int] = set()
    for one in links:
        # an unknown item is 0, which differs from None
        edition_of = None if one.edition_of is None else owners.get(one.edition_of, 0)
        translation_of = None if one.translation_of is None else owners.get(one.translation_of, 0)
        before, group = previous.get(one.item_id), groups.get(one.item_id)
        if (one.states_edition and edition_of != before) or (
            translation_of is not None and (group is None or group != groups.get(translation_of))
        ):
            changed.append(one)
            concerned |= {one.item_id, edition_of or 0, translation_of or 0, before or 0}
    return changed, concerned - {0}


@dataclass
class RowLinks:
    """The relations of several rows, which the caller has locked.

    All their items are in the database.
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
        editions = self.store.relations.editions
        wanted = link.edition_of
        previous = editions.find_all_previous([link.item_id]).get(link.item_id)
        if wanted is not None and find_item(self.store, wanted)[0] == previous:
            return
        if previous is not None:
            editions.unlink_next(previous)
            self._note_previous(previous)
        if wanted is not None:
            other_id = find_related(self.store, wanted, None)
            editions.link(other_id, link.item_id, wanted)
            self._note_previous(other_id)

    def _note_previous(self, item_id: int) -> None:
        self.store.set_timestamp(item_id, self.now)
        note_changed_item(self.store, item_id, ["next_edition"])

    def _link_translation(self, link: RowLink, wanted: str) -> None:
        translations = self.store.relations.translations
        other_id = find_related(self.store, None, wanted)
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
        path = [waiting.pop(next(iter(waiting)))]
        while (wanted := path[-1].translation_of) is not None:
            owner = store.find_owners([wanted]).get(wanted)
            if owner is None or owner[0] not in waiting:
                break
            path.append(waiting.pop(owner[0]))
        yield from reversed(path)


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
