"""Originals and their Copies in the Archives of one database (rules 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, func, select
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.models import Archive, Item, ItemIdentifier
from flask_ibi_archive.storage.reading import ItemReader
from flask_ibi_archive.storage.states import State


class Copies(ItemReader):
    """What an Archive's items have to do with those of the other Archives."""

    def originals_elsewhere(self, identifiers: Sequence[str]) -> set[str]:
        """Return those identifiers whose Original another Archive of the database holds (rule 3)."""
        return set(
            self.connection.scalars(
                select(ItemIdentifier.text).where(
                    ItemIdentifier.text.in_(identifiers),
                    ItemIdentifier.state == State.ORIGINAL.value,
                    ItemIdentifier.archive_id != self.archive_id,
                )
            )
        )

    def check_copy(self, record: ItemRecord) -> None:
        """Check that the Archive a Copy names holds its Original, if it lives in this database.

        :raises RuleBroken: rule 4.
        """
        if record.original_archive is None:
            return
        service = aliased(ItemIdentifier)
        archive_id = self.connection.execute(
            select(Archive.id)
            .join(service, service.item_id == Archive.service_item_id)
            .where(service.text == record.original_archive)
        ).scalar()
        if archive_id is None:
            return
        ibi = record.identifiers[0]
        if archive_id == self.archive_id:
            raise RuleBroken(4, ibi, "a Copy can't name its own Archive as that of its Original")
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
                4, ibi, f"the Archive {record.original_archive} holds no Original of this Copy"
            )

    def archive_of_original(self, ibi: str) -> int | None:
        """Return the Archive of the database that holds the Original of an identifier, if any does."""
        return self.connection.execute(
            select(ItemIdentifier.archive_id).where(
                ItemIdentifier.text == ibi, ItemIdentifier.state == State.ORIGINAL.value
            )
        ).scalar()

    def copies_of(self, item_id: int) -> list[tuple[int, int]]:
        """Return row and Archive of each Copy in the database that names this Archive and is of an
        item.
        """
        mine, theirs, service = (aliased(ItemIdentifier) for _ in range(3))
        rows = self.connection.execute(
            select(Item.id, Item.archive_id)
            .join(theirs, theirs.item_id == Item.id)
            .join(mine, mine.text == theirs.text)
            .join(service, service.text == Item.original_archive)
            .join(
                Archive,
                and_(Archive.service_item_id == service.item_id, Archive.id == self.archive_id),
            )
            .where(mine.item_id == item_id, theirs.state == State.COPY.value)
            .distinct()
            .order_by(Item.id)
        )
        return [(copy_id, archive_id) for copy_id, archive_id in rows]

    def check_copies(self, item_id: int, record: ItemRecord) -> None:
        """Check that an Original that Archives of this database hold Copies of stays one.

        :raises RuleBroken: rule 4, naming those Archives.
        """
        if record.state == State.ORIGINAL.value:
            return
        archives = {archive_id for _, archive_id in self.copies_of(item_id)}
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
            f"it is the Original of Copies in {', '.join(sorted(map(str, holders)))}; they go first",
        )
