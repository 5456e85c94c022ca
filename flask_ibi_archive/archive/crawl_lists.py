"""Lists the items whose pages are public, for crawlers: by year, and for the sitemap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from heapq import nlargest

from sqlalchemy import Connection

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.host_catalogue import HostItems
from flask_ibi_archive.archive.public_works import describe_host_item, is_public, read_works
from flask_ibi_archive.records.record import Record
from flask_ibi_archive.records.work import Work
from flask_ibi_archive.storage.crawl_lists import CrawlLists

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


def list_years(archive: Archive) -> list[int]:
    """Return the years in which items were changed last, the newest first."""
    if archive.host_items is not None:
        years = {_find_time(record).year for record in _public_records(archive.host_items)}
        return sorted(years, reverse=True)
    archive_id = archive.served().id
    return archive.database.read(lambda connection: CrawlLists(connection, archive_id).list_years())


def list_year(archive: Archive, year: int, after: Place | None, limit: int) -> YearList:
    """Return a part of the list of a year.

    :param year: a year from 1 to 9999.
    :param after: the position after which the part begins; None: the beginning of the list.
    :param limit: the maximum number of items.
    """
    since = datetime(year, 1, 1, tzinfo=timezone.utc)
    # timestamps are whole seconds
    end = datetime(year, 12, 31, 23, 59, 59, 1, timezone.utc)
    time, last = after or (end, "")
    if archive.host_items is not None:
        return _list_host_year(archive, archive.host_items, since, (time, last), limit)
    before = time, int(last) if last.isdecimal() and len(last) < 19 else 0

    def read(connection: Connection) -> YearList:
        lists = CrawlLists(connection, archive.served().id)
        found = lists.list_items(since, before, limit + 1)
        works = read_works(archive, connection, [item_id for item_id, _ in found[:limit]])
        last_id, last_time = found[limit - 1] if len(found) > limit else (None, since)
        return YearList(
            [work for work in works.values() if work is not None],
            None if last_id is None else (last_time, str(last_id)),
        )

    return archive.database.read(read)


def _list_host_year(
    archive: Archive, items: HostItems, since: datetime, before: Place, limit: int
) -> YearList:
    def find_place(record: Record) -> tuple[datetime, str]:
        return _find_time(record), record.ibip or record.identifiers[0]

    wanted = (
        record
        for record in _public_records(items)
        if since <= _find_time(record) and find_place(record) < before
    )
    found = nlargest(limit + 1, wanted, key=find_place)
    works = [describe_host_item(archive, items, record) for record in found[:limit]]
    return YearList(works, find_place(found[limit - 1]) if len(found) > limit else None)


def _public_records(items: HostItems) -> Iterator[Record]:
    return (record for record in items.list() if is_public(record))


def _find_time(record: Record) -> datetime:
    assert record.timestamp is not None  # parse_catalogue_record() has checked this
    return record.timestamp.astimezone(timezone.utc)


def list_sitemaps(archive: Archive, size: int) -> list[int]:
    """Return the numbers of the sitemaps that contain items.

    :param size: the maximum number of items in a sitemap.
    """
    if archive.host_items is not None:
        count = sum(1 for _ in _public_records(archive.host_items))
        return list(range(-(-count // size)))
    archive_id = archive.served().id
    return archive.database.read(
        lambda connection: CrawlLists(connection, archive_id).list_ranges(size)
    )


def list_sitemap(archive: Archive, number: int, size: int) -> list[tuple[str, datetime]]:
    """Return the URLs of the landing pages in a sitemap, and the timestamps of the items."""
    if archive.host_items is not None:
        records = list(_public_records(archive.host_items))[number * size : (number + 1) * size]
        return [(archive.addresses.item(record), _find_time(record)) for record in records]
    archive_id = archive.served().id
    rows = archive.database.read(
        lambda connection: CrawlLists(connection, archive_id).list_range(number, size)
    )
    return [(archive.addresses.item(row), row.timestamp) for row in rows]
