"""Originals and Copies of the same item in several Archives of one database.

The module :mod:`.rules` lists the rules of the storage model. This module checks rules 3 and 4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, and_, func, select
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.identifiers import find_owners_and_originals
from flask_ibi_archive.archive.items.tables import ArchiveRow, Item, ItemIdentifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.server.database.dialects import is_one_of


class Copies:
    """Finds Originals and Copies of an Archive's items in other Archives of the same database."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def find_originals_elsewhere(self, identifiers: Sequence[str]) -> set[str]:
        """Return those of the given identifiers whose Original is in another Archive (rule 3)."""
        return find_owners_and_originals(self.connection, self.archive_id, identifiers)[1]

    def check_original_of(self, record: Record) -> None:
        """Check that the Original of a Copy exists.

        A Copy names the Archive of the Original. If this Archive is in another database, the
        Original is not checked.

        :raises RuleBroken: rule 4, if the Archive is in this database and does not have the
            Original, or if the Copy and the Original are in the same Archive.
        """
        if record.original_archive is None:
            return
        service = aliased(ItemIdentifier)
        archive_id = self.connection.execute(
            select(ArchiveRow.id)
            .join(service, service.item_id == ArchiveRow.service_item_id)
            .where(service.text == record.original_archive)
        ).scalar()
        if archive_id is None:
            return
        ibi = record.identifiers[0]
        if archive_id == self.archive_id:
            raise RuleBroken(4, ibi, "a Copy and its Original can't be in the same Archive")
        forms = [text for text in (record.rep, record.ibip) if text is not None]
        found = self.connection.execute(
            select(ItemIdentifier.item_id).where(
                ItemIdentifier.archive_id == archive_id,
                ItemIdentifier.text.in_(forms),
                ItemIdentifier.state == State.ORIGINAL.value,
            )
        ).first()
        if found is None:
            raise RuleBroken(
                4,
                ibi,
                f"the Archive {record.original_archive} does not have the Original of this Copy",
            )

    def find_archive_of_original(self, ibi: str) -> int | None:
        """Return the id of the Archive that has the Original of an IBI.

        :returns: None if no Archive in this database has the Original.
        """
        return self.connection.execute(
            select(ItemIdentifier.archive_id).where(
                ItemIdentifier.text == ibi, ItemIdentifier.state == State.ORIGINAL.value
            )
        ).scalar()

    def find_copied(self, items: Collection[int]) -> set[int]:
        """Return those of the items of this Archive that have Copies; see :meth:`find_copies`."""
        rows = self.connection.execute(self._select_copies(items))
        return {row.original_id for row in rows}

    def find_copies(self, item_id: int) -> list[tuple[int, int]]:
        """Return the Copies of an item of this Archive. Only Copies that name this Archive count.

        :returns: the id of each Copy, with the id of the Archive that has the Copy.
        """
        rows = self.connection.execute(self._select_copies([item_id]))
        return [(row.id, row.archive_id) for row in rows]

    def _select_copies(self, items: Collection[int]) -> Any:
        mine, theirs, service = (aliased(ItemIdentifier) for _ in range(3))
        return (
            select(Item.id, Item.archive_id, mine.item_id.label("original_id"))
            .join(theirs, theirs.item_id == Item.id)
            .join(mine, mine.text == theirs.text)
            .join(service, service.text == Item.original_archive)
            .join(
                ArchiveRow,
                and_(
                    ArchiveRow.service_item_id == service.item_id, ArchiveRow.id == self.archive_id
                ),
            )
            .where(
                is_one_of(self.connection, mine.item_id, items), theirs.state == State.COPY.value
            )
            .distinct()
            .order_by(Item.id)
        )

    def check_no_copies(self, item_id: int, record: Record) -> None:
        """Check that an item has no Copies in this database if the item is no longer an Original.

        :param record: the new values of the item.
        :raises RuleBroken: rule 4. The error names the Archives that have the Copies.
        """
        if record.state == State.ORIGINAL.value:
            return
        archives = {archive_id for _, archive_id in self.find_copies(item_id)}
        if not archives:
            return
        holders = self.connection.scalars(
            select(func.coalesce(Item.rep, Item.ibip)).where(
                Item.archive_id.in_(archives), Item.is_service
            )
        ).all()
        raise RuleBroken(
            4,
            record.identifiers[0],
            f"this item is the Original of Copies in {', '.join(sorted(map(str, holders)))}; "
            "delete these Copies first",
        )
