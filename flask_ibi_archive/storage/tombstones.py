"""What is kept of removed items beside their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from flask_ibi_archive.records.record import ItemRecord, Tombstone
from flask_ibi_archive.storage import models
from flask_ibi_archive.storage.states import State


def write_tombstones(
    connection: Connection, archive_id: int, items: Iterable[tuple[int, ItemRecord]]
) -> None:
    """Write the tombstones of items of an Archive, which are Deleted; each with its row."""
    rows: list[dict[str, Any]] = [
        {
            "item_id": item_id,
            "archive_id": archive_id,
            "state": State.DELETED.value,
            "reason": record.tombstone.reason,
            "citation": record.tombstone.citation,
            "successor": record.tombstone.successor,
            "original_archive": record.tombstone.original_archive,
        }
        for item_id, record in items
        if record.tombstone is not None
    ]
    if rows:
        connection.execute(insert(models.TombstoneRow), rows)


def take_tombstone_away(connection: Connection, item_id: int) -> None:
    """Take out the tombstone of an item, which holds it in its state."""
    connection.execute(delete(models.TombstoneRow).where(models.TombstoneRow.item_id == item_id))


def read_tombstones(connection: Connection, items: Collection[int]) -> dict[int, Tombstone]:
    """Return the tombstones that some items have, by their rows."""
    if not items:
        return {}
    rows = connection.execute(
        select(
            models.TombstoneRow.item_id,
            models.TombstoneRow.reason,
            models.TombstoneRow.citation,
            models.TombstoneRow.successor,
            models.TombstoneRow.original_archive,
        ).where(models.TombstoneRow.item_id.in_(items))
    )
    return {
        row.item_id: Tombstone(row.reason, row.citation, row.successor, row.original_archive)
        for row in rows
    }
