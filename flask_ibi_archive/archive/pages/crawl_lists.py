"""Lists the items whose pages are public, for crawlers: by year, and for the sitemap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from heapq import nlargest
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from flask_ibi_archive.archive.pages.crawl_list_rows import CrawlLists
from flask_ibi_archive.archive.service.item_catalogue import RecordSource
from flask_ibi_archive.archive.service.public_works import describe_host_item, is_public, read_works
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The position of an item in the list of a year.
Place = tuple[datetime, str]


@dataclass(frozen=True, slots=True)
class YearList:
    """A part of the list of a year.

    :param works: the items, the newest first.
    :param next: the position after which the list continues; None at the end of the list.
    """

    works: list[Work]
    next: Place | None


class StoredLists:
    """The lists of the items in the tables of this package."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._database = archive.database
        self._archive_id = archive.served().id

    def list_years(self) -> list[int]:
        """Return the years in which items were changed last, the newest first."""
        return self._database.read(lambda one: self._lists(one).list_years())

    def list_year(self, year: int, after: Place | None, limit: int) -> YearList:
        """Return a part of the list of a year.

        :param year: a year from 1 to 9999.
        :param after: the position after which the part begins; None: the beginning of the list.
        :param limit: the maximum number of items.
        """
        since, (time, last) = _find_bounds(year, after)
        before = time, int(last) if last.isdecimal() and len(last) < 19 else 0

        def read(connection: Connection) -> YearList:
            items = self._lists(connection).list_items(since, before, limit + 1)
            ids = [item_id for item_id, _ in items[:limit]]
            works = read_works(self._archive, connection, ids).values()
            last_id, last_time = items[limit - 1] if len(items) > limit else (None, since)
            following = None if last_id is None else (last_time, str(last_id))
            return YearList([work for work in works if work is not None], following)

        return self._database.read(read)

    def list_sitemaps(self, size: int) -> list[int]:
        """Return the numbers of the sitemaps that contain items.

        :param size: the maximum number of items in a sitemap.
        """
        return self._database.read(lambda one: self._lists(one).list_ranges(size))

    def list_sitemap(self, number: int, size: int) -> list[tuple[str, datetime]]:
        """Return the URLs of the landing pages in a sitemap, and the timestamps of the items."""
        rows = self._database.read(lambda one: self._lists(one).list_range(number, size))
        return [(self._archive.addresses.item(row), row.timestamp) for row in rows]

    def _lists(self, connection: Connection) -> CrawlLists:
        return CrawlLists(connection, self._archive_id)


class HostLists:
    """The lists of the items in the catalogue of a host."""

    def __init__(self, archive: Archive, records: RecordSource) -> None:
        self._archive = archive
        self._records = records

    def list_years(self) -> list[int]:
        """Return the years in which items were changed last, the newest first."""
        return sorted({_find_time(record).year for record in self._public()}, reverse=True)

    def list_year(self, year: int, after: Place | None, limit: int) -> YearList:
        """Return a part of the list of a year; see :meth:`StoredLists.list_year`."""
        since, before = _find_bounds(year, after)

        def find_place(record: Record) -> Place:
            return _find_time(record), record.ibip or record.identifiers[0]

        of_year = (
            record
            for record in self._public()
            if since <= _find_time(record) and find_place(record) < before
        )
        items = nlargest(limit + 1, of_year, key=find_place)
        find_record = self._records.find_record
        works = [describe_host_item(self._archive, find_record, one) for one in items[:limit]]
        return YearList(works, find_place(items[limit - 1]) if len(items) > limit else None)

    def list_sitemaps(self, size: int) -> list[int]:
        """Return the numbers of the sitemaps that contain items."""
        return list(range(-(-sum(1 for _ in self._public()) // size)))

    def list_sitemap(self, number: int, size: int) -> list[tuple[str, datetime]]:
        """Return the URLs of the landing pages in a sitemap, and the timestamps of the items."""
        records = list(self._public())[number * size : (number + 1) * size]
        return [(self._archive.addresses.item(record), _find_time(record)) for record in records]

    def _public(self) -> Iterator[Record]:
        return (record for record in self._records.list() if is_public(record))


def open_lists(archive: Archive) -> StoredLists | HostLists:
    """Return the lists of the items of an Archive."""
    records = archive.items.records
    return StoredLists(archive) if records is None else HostLists(archive, records)


def _find_bounds(year: int, after: Place | None) -> tuple[datetime, Place]:
    """Return the earliest timestamp of the list of a year, and the position before which it is."""
    # timestamps are whole seconds
    end = datetime(year, 12, 31, 23, 59, 59, 1, timezone.utc)
    return datetime(year, 1, 1, tzinfo=timezone.utc), after or (end, "")


def _find_time(record: Record) -> datetime:
    assert record.timestamp is not None  # parse_catalogue_record() has checked this
    return record.timestamp.astimezone(timezone.utc)
