"""Stores the editions and translations that rows describe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from flask_ibi_archive.archive.hosts.identified_item import DescribedRow, naming
from flask_ibi_archive.archive.items.operations import (
    RELATED,
    canonicalize,
    find_item,
    find_related,
    find_relations,
    note_changed_item,
)
from flask_ibi_archive.archive.items.write import ItemStore
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
    def read(cls, described: DescribedRow, item_id: int) -> RowLink:
        """Return the relations of a description.

        :raises RowError: if the description does not name a related item by an identifier.
        """
        with naming(described.name, described.ibi), _explaining():
            related = find_relations(described.given)
            names = {name: canonicalize(ibi) for name, ibi in related.items()}
        return cls(described, item_id, *map(names.get, RELATED))

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
    own = [link.described.ibi for link in links if link.item_id]
    owners = store.find_owners({*texts, *own})
    names = {owner.ibi: owner for owner in owners.values()}
    previous = store.relations.find_previous(names)
    translated = any(link.translation_of for link in links)
    groups = store.relations.find_heads(names) if translated else {}
    owners.update(store.find_owners(previous.values()))
    changed: list[RowLink] = []
    concerned: set[int] = set()
    for link in links:
        item = owners.get(link.described.ibi) if link.item_id else None
        edition_of, translation_of = (
            owners.get(text) if text else None for text in (link.edition_of, link.translation_of)
        )
        before = owners.get(previous.get(item.ibi, "")) if item else None
        group = groups.get(item.ibi) if item else None
        is_edition = edition_of == before if edition_of or not link.edition_of else False
        is_translation = link.translation_of is None or (
            translation_of is not None
            and group is not None
            and group == groups.get(translation_of.ibi)
        )
        if (link.states_edition and not is_edition) or not is_translation:
            changed.append(link)
            concerned |= {
                one.id for one in (item, edition_of, translation_of, before) if one is not None
            }
    return changed, concerned


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
            link.item_id = find_item(self.store, link.described.ibi).id
        for link in _order(self.store, self.links):
            with naming(link.described.name, link.described.ibi), _explaining():
                if link.states_edition:
                    self._link_edition(link)
                if link.translation_of is not None:
                    self._link_translation(link, link.translation_of)

    def _link_edition(self, link: RowLink) -> None:
        """Store the previous edition that a row states, or that there is none."""
        relations, stated = self.store.relations, link.edition_of
        ibi = find_item(self.store, link.described.ibi).ibi
        previous = relations.find_previous([ibi]).get(ibi)
        if stated is not None and find_item(self.store, stated).ibi == previous:
            return
        if previous is not None:
            other = find_item(self.store, previous)
            relations.set_next_edition(other.id, None)
            self._note_next_edition(other.id)
        if stated is not None:
            other = find_related(self.store, stated, None)
            relations.set_next_edition(other.id, ibi)
            self._note_next_edition(other.id)

    def _note_next_edition(self, item_id: int) -> None:
        """Store and note that the next edition of an item has changed."""
        self.store.set_timestamp(item_id, self.now)
        note_changed_item(self.store, item_id, ["next_edition"])

    def _link_translation(self, link: RowLink, translation_of: str) -> None:
        """Put the item of a row into the group of the item that the row translates."""
        relations = self.store.relations
        item = find_item(self.store, link.described.ibi)
        other = find_related(self.store, None, translation_of)
        members = [member.ibi for member in relations.find_members(item.ibi)]
        if other.ibi in members:
            return
        if members:
            relations.leave(item.ibi)
        language = item.language
        if language is None:
            raise StorageError(
                "language: a translation needs a language, for example language='pt'"
            )
        relations.add_translation(item.ibi, other.ibi, language)


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
            if owner is None or owner.id not in waiting:
                break
            chain.append(waiting.pop(owner.id))
        yield from reversed(chain)
