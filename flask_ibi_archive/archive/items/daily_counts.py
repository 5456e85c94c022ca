"""Reads, removes and adds the daily counts of accesses to items, for exports and moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select

from flask_ibi_archive.archive.items.locks import STORING
from flask_ibi_archive.archive.items.tables import AccessCount, ArchiveAccessCount
from flask_ibi_archive.core.records.switches import DailyCount
from flask_ibi_archive.server.database.dialects import (
    batched,
    insert_or_update,
    is_one_of,
    run_on_postgresql,
)

NUMBERS = ("accesses", "double_clicks", "robots")
COLUMNS = (AccessCount.item_id, *(getattr(AccessCount, name) for name in DailyCount._fields))
#: The number of counts that are stored with one statement.
BATCH = 500

#: The counts of items, by the row IDs of the items.
CountsByItem = Mapping[int, Sequence[DailyCount]]


def read_counts(connection: Connection, items: Sequence[int]) -> dict[int, tuple[DailyCount, ...]]:
    """Return the counts of items that have any."""
    return _group(
        connection.execute(
            select(*COLUMNS).where(is_one_of(connection, AccessCount.item_id, items))
        )
    )


def take_counts(connection: Connection, items: Sequence[int]) -> dict[int, tuple[DailyCount, ...]]:
    """Remove the counts of items, and return them."""
    return _group(
        connection.execute(
            delete(AccessCount)
            .where(is_one_of(connection, AccessCount.item_id, items))
            .returning(*COLUMNS)
        )
    )


def _group(rows: Iterable[Any]) -> dict[int, tuple[DailyCount, ...]]:
    counts: dict[int, list[DailyCount]] = {}
    for item_id, *values in rows:
        counts.setdefault(item_id, []).append(DailyCount(*values))
    return {item_id: tuple(sorted(of_item)) for item_id, of_item in counts.items()}


def add_counts(connection: Connection, archive_id: int, counts: CountsByItem) -> None:
    """Add counts to those of items."""
    _add(
        connection,
        AccessCount,
        [
            {"item_id": item_id, "archive_id": archive_id, **count._asdict()}
            for item_id, of_item in counts.items()
            for count in of_item
        ],
    )


def replace_counts(connection: Connection, archive_id: int, counts: CountsByItem) -> None:
    """Replace the counts of items, and correct the sums of the Archive."""
    run_on_postgresql(connection, STORING)  # no access is counted meanwhile
    before = take_counts(connection, list(counts))
    add_counts(connection, archive_id, counts)
    sums: Counter[tuple[Any, ...]] = Counter()
    for sign, some in ((-1, before), (1, counts)):
        for count in (count for of_item in some.values() for count in of_item):
            for name in NUMBERS:
                sums[count.day, count.content_type, name] += sign * getattr(count, name)
    days = sorted({key[:2] for key in sums})
    _add(
        connection,
        ArchiveAccessCount,
        [
            {"archive_id": archive_id, "day": day, "content_type": content_type}
            | {name: sums[day, content_type, name] for name in NUMBERS}
            for day, content_type in days
        ],
    )


def _add(connection: Connection, model: Any, rows: Sequence[dict[str, Any]]) -> None:
    table = model.__table__
    statement = insert_or_update(connection, table)
    statement = statement.on_conflict_do_update(
        index_elements=[*table.primary_key.columns],
        set_={name: table.c[name] + statement.excluded[name] for name in NUMBERS},
    )
    for part in batched(rows, BATCH):
        connection.execute(statement, part)
