"""Writes which items are editions and translations of others, as rows describe it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from flask_ibi_archive.archive.host_rows.describing import DescribedRow, naming
from flask_ibi_archive.archive.operations.context import canonicalize, find_item
from flask_ibi_archive.archive.operations.depositing import find_related
from flask_ibi_archive.archive.operations.description import ItemDescription
from flask_ibi_archive.archive.operations.noting import note_changed_item
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.storage.items import ItemStore


@dataclass(slots=True)
class RowLink:
    """The relations that a row describes.

    :param item_id: the row ID of the item; 0 if the item is new.
    """

    described: DescribedRow
    description: ItemDescription
    item_id: int

    @property
    def is_empty(self) -> bool:
        """Whether the row describes no relation."""
        given = self.description
        if given.edition_of or given.translation_of:
            return False
        # Only an existing item can have a previous edition that the row does not state any more.
        return not self.item_id or "previous_edition" not in self.described.given


@dataclass
class RowLinks:
    """The relations of several rows. All their items are in the database."""

    store: ItemStore
    links: Sequence[RowLink]
    now: datetime

    def write(self) -> None:
        """Store the relations that are not stored yet."""
        links = [link for link in self.links if not link.is_empty]
        if not links:
            return
        self.store.lock_relations()
        for link in links:
            link.item_id, _ = find_item(self.store, link.described.ibi)
        for link in _order(self.store, links):
            with naming(link.described.name, link.described.ibi), _explaining():
                if "previous_edition" in link.described.given:
                    self._link_edition(link)
                if link.description.translation_of is not None:
                    self._link_translation(link, link.description.translation_of)

    def _link_edition(self, link: RowLink) -> None:
        editions = self.store.relations.editions
        wanted = link.description.edition_of
        previous = editions.find_previous(link.item_id)
        if wanted is not None and find_item(self.store, wanted)[0] == previous:
            return
        if previous is not None:
            editions.unlink_next(previous)
            self._note_previous(previous)
        if wanted is not None:
            other_id = find_related(self.store, wanted, None)
            editions.link(other_id, link.item_id, canonicalize(wanted))
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
        while (wanted := path[-1].description.translation_of) is not None:
            owner = store.find_owners([canonicalize(wanted)]).get(canonicalize(wanted))
            if owner is None or owner[0] not in waiting:
                break
            path.append(waiting.pop(owner[0]))
        yield from reversed(path)
