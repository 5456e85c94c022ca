"""Stores the relations between items: next editions, translations and metadata items.

An item may refer to an item that the Archive does not know. In this case a stub is stored for the
unknown item. A stub is a row with the state Elsewhere. The module :mod:`.editions` stores chains of
editions. The module :mod:`.translations` stores groups of translations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, exists, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.bulk import insert_rows, insert_with_ids, update_rows
from flask_ibi_archive.archive.items.editions import EditionLinks, Editions
from flask_ibi_archive.archive.items.identifiers import find_owners
from flask_ibi_archive.archive.items.tables import (
    Access,
    AccessCount,
    ArchiveRow,
    Item,
    ItemIdentifier,
)
from flask_ibi_archive.archive.items.translations import TranslationJoins, Translations
from flask_ibi_archive.core.identifiers import Form, parse_identifier
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.core.records.record import Record, References
from flask_ibi_archive.errors import RuleBroken


class Relations:
    """The relations between the items of one Archive.

    The methods use the transaction of the caller.
    """

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.editions = Editions(connection, archive_id)
        self.translations = Translations(connection, archive_id)

    def add(self, item_id: int, record: Record, now: datetime) -> None:
        """Store the relations of a record. The item keeps its other relations.

        :param now: the timestamp of new stubs.
        :raises RuleBroken: rule 6, 7 or 8.
        """
        if record.has_references:
            references = record.references
            batch = RelationBatch(self.connection, self.archive_id, [(item_id, references)], now)
            batch.add(item_id, references)
            batch.write()

    def remove(self, item_id: int) -> None:
        """Remove the relations that the record of an item states."""
        self.set_metadata_item(item_id, None)
        self.editions.unlink_next(item_id)
        self.translations.dissolve(item_id)

    def set_metadata_item(self, item_id: int, metadata_id: int | None) -> None:
        """Store which item contains the metadata of an item.

        :param metadata_id: the id of the item with the metadata; None removes the relation.
        """
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(metadata_item_id=metadata_id)
        )

    def merge_stub(self, stub_id: int, item_id: int, ibi: str) -> None:
        """Delete a stub whose item is now stored, and give its relations to the item.

        :param ibi: the identifier of the item, for the error message.
        :raises RuleBroken: rule 7, if the item is already the next edition of another item.
        """
        previous = self.editions.remove(stub_id)
        self.connection.execute(
            update(Item).where(Item.metadata_item_id == stub_id).values(metadata_item_id=item_id)
        )
        state = self.connection.execute(select(Item.state).where(Item.id == item_id)).scalar_one()
        self.connection.execute(
            update(ItemIdentifier)
            .where(ItemIdentifier.item_id == stub_id)
            .values(item_id=item_id, state=state)
        )
        self.connection.execute(delete(Item).where(Item.id == stub_id))
        if previous is not None:
            self.editions.link(previous, item_id, ibi)

    def find_related_stubs(self, item_id: int) -> list[int]:
        """Return the ids of the stubs that are related to an item."""
        series, group, metadata = self.connection.execute(
            select(Item.edition_series_id, Item.translation_group_id, Item.metadata_item_id).where(
                Item.id == item_id
            )
        ).one()
        values = {
            Item.edition_series_id: series,
            Item.translation_group_id: group,
            Item.id: metadata,
        }
        is_related = [column == value for column, value in values.items() if value is not None]
        if not is_related:
            return []
        stubs = select(Item.id).where(Item.state == ELSEWHERE, or_(*is_related))
        return list(self.connection.scalars(stubs))

    def delete_unused_stubs(self, among: Collection[int] | None = None) -> None:
        """Delete the stubs to which no item and no access refers.

        :param among: the ids of the stubs to check; None: all stubs of the Archive.
        """
        if among is not None and not among:
            return
        referring = aliased(Item)
        unused = delete(Item).where(
            Item.archive_id == self.archive_id,
            Item.state == ELSEWHERE,
            Item.edition_series_id.is_(None),
            Item.translation_group_id.is_(None),
            ~exists().where(referring.metadata_item_id == Item.id),
            ~exists().where(Access.item_id == Item.id),
            ~exists().where(AccessCount.item_id == Item.id),
        )
        if among is not None:
            unused = unused.where(Item.id.in_(among))
        self.connection.execute(unused)


def create_stubs(
    connection: Connection, archive_id: int, identifiers: Sequence[str], now: datetime
) -> dict[str, int]:
    """Store a stub for each identifier, and return the ids of the stubs by identifier.

    :param identifiers: different identifiers that the Archive does not know.
    :param now: the timestamp of the stubs.
    """
    if not identifiers:
        return {}
    new = [(text, parse_identifier(text).form) for text in identifiers]
    ids = insert_with_ids(
        connection,
        Item,
        [
            {
                "archive_id": archive_id,
                "state": ELSEWHERE,
                "rep": text if form is Form.REP else None,
                # in answers, the word "ibip" precedes a legacy identifier of an item elsewhere
                "ibip": None if form is Form.REP else text,
                "timestamp": now,
            }
            for text, form in new
        ],
    )
    insert_rows(
        connection,
        ItemIdentifier,
        [
            {
                "text": text,
                "archive_id": archive_id,
                "item_id": item_id,
                "state": ELSEWHERE,
                "form": form.value,
            }
            for item_id, (text, form) in zip(ids, new, strict=True)
        ],
    )
    return dict(zip(identifiers, ids, strict=True))


def find_or_create_stub(connection: Connection, archive_id: int, ibi: str, now: datetime) -> int:
    """Return the id of the row that has an identifier. If there is none, store a stub.

    :param now: the timestamp of a new stub.
    """

    def find() -> int | None:
        return find_owners(connection, archive_id, [ibi]).get(ibi, (None, ""))[0]

    known = find()
    if known is not None:
        return known
    try:
        with connection.begin_nested():
            return create_stubs(connection, archive_id, [ibi], now)[ibi]
    except IntegrityError:  # another transaction has just stored a row with the identifier
        known = find()
        if known is None:
            raise
        return known


class RelationBatch:
    """The relations of several records, which are checked one by one and stored together.

    The constructor stores a stub for each item that the Archive does not know.

    :param items: the ids and the references of all items for which :meth:`add` will be called.
    :param now: the timestamp of new stubs.
    """

    def __init__(
        self,
        connection: Connection,
        archive_id: int,
        items: Sequence[tuple[int, References]],
        now: datetime,
    ) -> None:
        self._connection, self._archive_id = connection, archive_id
        #: The keys are all identifiers in the records. Each value contains the id and the state of
        #: the item.
        self.known = find_owners(
            connection,
            archive_id,
            {text for _, record in items for text in (*record.identifiers, *_others(record))},
        )
        others = dict.fromkeys(text for _, record in items for text in _others(record))
        unknown = [text for text in others if text not in self.known]
        stubs = create_stubs(connection, archive_id, unknown, now)
        self.known.update((text, (item_id, ELSEWHERE)) for text, item_id in stubs.items())
        self._service_id = connection.execute(
            select(ArchiveRow.service_item_id).where(ArchiveRow.id == archive_id)
        ).scalar()
        self._metadata: list[dict[str, int]] = []
        self._editions = EditionLinks(
            connection,
            archive_id,
            {
                row_id
                for item_id, record in items
                if record.next_edition is not None
                for row_id in (item_id, self.get_item_id(record.next_edition))
            },
        )
        self._translations = TranslationJoins(
            connection,
            archive_id,
            {
                row_id
                for item_id, record in items
                if record.translations
                for row_id in (item_id, *map(self.get_item_id, record.translations.values()))
            },
        )

    def get_item_id(self, ibi: str) -> int:
        """Return the id of the item that has an identifier.

        One of the records must contain the identifier.
        """
        return self.known[ibi][0]

    def add(self, item_id: int, references: References) -> None:
        """Check the relations of an item and add them to the batch, which :meth:`write` stores.

        :raises RuleBroken: rule 6, 7 or 8.
        """
        identifiers, next_edition, translations, metadata = references
        ibi = identifiers[0]
        others = [
            self.get_item_id(text)
            for text in (next_edition, *translations.values())
            if text is not None
        ]
        if self._service_id in others:
            raise RuleBroken(
                6, ibi, "the service of the Archive can't be an edition or a translation"
            )
        if metadata is not None:
            self._metadata.append({"id": item_id, "metadata_item_id": self.get_item_id(metadata)})
        if next_edition is not None:
            self._editions.add(item_id, self.get_item_id(next_edition), ibi)
        if translations:
            members = {
                language: self.get_item_id(other) for language, other in translations.items()
            }
            self._translations.add(item_id, members, ibi)

    def write(self) -> None:
        """Store the relations that :meth:`add` has checked."""
        update_rows(self._connection, Item, self._metadata)
        self._editions.write()
        self._translations.write()


def _others(references: References) -> Iterator[str]:
    """Yield the identifiers of the items that a record refers to."""
    if references.metadata is not None:
        yield references.metadata
    if references.next_edition is not None:
        yield references.next_edition
    yield from references.translations.values()
