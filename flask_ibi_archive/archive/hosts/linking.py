"""Writes which items are editions and translations of others, as rows describe it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from flask_ibi_archive.archive.hosts.describing import DescribedRow, naming
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.operations.context import canonicalize, find_item
from flask_ibi_archive.archive.items.operations.depositing import find_related
from flask_ibi_archive.archive.items.operations.description import ItemDescription
from flask_ibi_archive.archive.items.operations.noting import note_changed_item
from flask_ibi_archive.errors import StorageError, UnknownItem


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
