"""Reads the lists of items for crawlers: by year, newest first, and by id."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Connection, and_, func, literal, select, tuple_

from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.archive.items.visibility import is_public
from flask_ibi_archive.server.database.dialects import UTCDateTime


class CrawlLists:
    """The items of one Archive whose pages are public.

    :param connection: the connection for reading.
    """

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self._connection = connection
        self._is_listed = and_(Item.archive_id == archive_id, is_public())

    def list_years(self) -> list[int]:
        """Return the years in which items were changed last, the newest first.

        One statement for each year finds the newest item before the year, with an index.
        """
        years: list[int] = []
        newest = select(Item.timestamp).where(self._is_listed).order_by(Item.timestamp.desc())
        found = self._connection.scalar(newest.limit(1))
        while found is not None:
            years.append(found.year)
            before = newest.where(Item.timestamp < datetime(found.year, 1, 1, tzinfo=timezone.utc))
            found = self._connection.scalar(before.limit(1))
        return years

    def list_items(
        self, since: datetime, before: tuple[datetime, int], limit: int
    ) -> list[tuple[int, datetime]]:
        """Return the ids and the timestamps of items, the newest first.

        :param since: the earliest timestamp.
        :param before: the first position that is not listed any more.
        """
        time, item_id = before
        position = tuple_(Item.timestamp, Item.id)
        rows = self._connection.execute(
            select(Item.id, Item.timestamp)
            .where(
                self._is_listed,
                Item.timestamp >= since,
                position < tuple_(literal(time, UTCDateTime), literal(item_id)),
            )
            .order_by(Item.timestamp.desc(), Item.id.desc())
            .limit(limit)
        )
        return [(row.id, row.timestamp) for row in rows]

    def list_ranges(self, size: int) -> list[int]:
        """Return the numbers of the ranges of ids that contain items.

        The range with the number n contains the ids from n * size to (n + 1) * size - 1.
        """
        first = select(func.min(Item.id).label("id")).where(self._is_listed).cte(recursive=True)
        later = (
            select(func.min(Item.id))
            .where(self._is_listed, Item.id >= (first.c.id / size + 1) * size)
            .correlate(first)
            .scalar_subquery()
        )
        chain = first.union_all(select(later).where(first.c.id.is_not(None)))
        ids = self._connection.scalars(select(chain.c.id).where(chain.c.id.is_not(None)))
        return sorted(item_id // size for item_id in ids)

    def list_range(self, number: int, size: int) -> list[Any]:
        """Return the rep, the ibip and the timestamp of the items in a range of ids."""
        return list(
            self._connection.execute(
                select(Item.rep, Item.ibip, Item.timestamp)
                .where(self._is_listed, Item.id >= number * size, Item.id < (number + 1) * size)
                .order_by(Item.id)
            )
        )
