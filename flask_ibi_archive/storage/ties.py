"""Ties many items at a time to those that their records speak of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, insert, update

from flask_ibi_archive.identifiers import Form, parse_identifier
from flask_ibi_archive.records.record import ItemRecord, MetadataItem
from flask_ibi_archive.storage.batches import batched
from flask_ibi_archive.storage.editions import EditionChains
from flask_ibi_archive.storage.links import Links, check_service_apart
from flask_ibi_archive.storage.models import Item, ItemIdentifier
from flask_ibi_archive.storage.states import ELSEWHERE
from flask_ibi_archive.storage.translations import TranslationGroups


def owners_of(links: Links, identifiers: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Give, for each identifier that is known here, its item's row and state, however many they
    are.
    """
    found: dict[str, tuple[int, str]] = {}
    for piece in batched(list(dict.fromkeys(identifiers))):
        found.update(links.owners(piece))
    return found


def references(record: ItemRecord) -> Iterator[str]:
    """Return the identifiers of the items that a record speaks of."""
    if isinstance(record.metadata, MetadataItem):
        yield record.metadata.ibi
    if record.next_edition is not None:
        yield record.next_edition
    yield from record.translations.values()


class Ties:
    """What some items are to be tied to, inside the caller's transaction: read, checked, written.

    :param lines: all items to be tied, with their records.
    :param now: the moment of those that are noted down, being unknown here.
    """

    def __init__(
        self, links: Links, lines: Sequence[tuple[int, ItemRecord]], now: datetime
    ) -> None:
        self._links = links
        #: The rows of all items that bear an identifier of the records, or are spoken of.
        self.known = owners_of(
            links,
            (text for _, record in lines for text in (*record.identifiers, *references(record))),
        )
        self._note([text for _, record in lines for text in references(record)], now)
        self._service_id = links.service_row()
        connection, archive_id = links.connection, links.archive_id
        self._chains = EditionChains(
            connection,
            archive_id,
            _together(
                (item, self._row(one.next_edition)) for item, one in lines if one.next_edition
            ),
        )
        self._groups = TranslationGroups(
            connection,
            archive_id,
            _together(
                (item, *map(self._row, one.translations.values()))
                for item, one in lines
                if one.translations
            ),
        )
        self._metadata: list[dict[str, int]] = []

    def _row(self, ibi: str) -> int:
        return self.known[ibi][0]

    def _note(self, identifiers: Iterable[str], now: datetime) -> None:
        """Note down the items that are unknown here."""
        new = [
            (text, parse_identifier(text).form)
            for text in dict.fromkeys(identifiers)
            if text not in self.known
        ]
        if not new:
            return
        connection, archive_id = self._links.connection, self._links.archive_id
        ids = connection.scalars(
            insert(Item).returning(Item.id, sort_by_parameter_order=True),
            [
                {
                    "archive_id": archive_id,
                    "state": ELSEWHERE,
                    "rep": text if form is Form.REP else None,
                    # an answer names a remote item by a legacy identifier behind ibip
                    "ibip": None if form is Form.REP else text,
                    "timestamp": now,
                }
                for text, form in new
            ],
        ).all()
        connection.execute(
            insert(ItemIdentifier),
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
        self.known.update(
            (text, (item_id, ELSEWHERE)) for item_id, (text, _) in zip(ids, new, strict=True)
        )

    def tie(self, item_id: int, record: ItemRecord) -> None:
        """Tie one of the items: next edition, translations, metadata.

        :raises RuleBroken: rule 6, 7 or 8.
        """
        ibi = record.identifiers[0]
        others = [self._row(one) for one in references(replace(record, metadata=None))]
        check_service_apart(self._service_id, others, ibi)
        if isinstance(record.metadata, MetadataItem):
            self._metadata.append({"item": item_id, "metadata": self._row(record.metadata.ibi)})
        if record.next_edition is not None:
            self._chains.link(item_id, self._row(record.next_edition), ibi)
        if record.translations:
            members = {
                language: self._row(other) for language, other in record.translations.items()
            }
            self._groups.join(item_id, members, ibi)

    def write(self) -> None:
        """Write down what was tied."""
        if self._metadata:
            table: Any = Item.__table__
            self._links.connection.execute(
                update(table)
                .where(table.c.id == bindparam("item"))
                .values(metadata_item_id=bindparam("metadata")),
                self._metadata,
            )
        self._chains.write()
        self._groups.write()


def _together(rows: Iterable[tuple[int, ...]]) -> list[int]:
    return list({item_id for row in rows for item_id in row})
