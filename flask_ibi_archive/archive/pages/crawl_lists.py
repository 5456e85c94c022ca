"""The lists of items whose pages are public, for crawlers: by year, and the sitemap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import wraps
from heapq import nlargest
from typing import TYPE_CHECKING

from flask import Response, abort
from sqlalchemy import Connection, and_, func, literal, select, tuple_

from flask_ibi_archive.archive.items.conditions import is_public
from flask_ibi_archive.archive.items.pages import page, unavailable_page
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.archive.items.viewing import describe_host_item, is_public_record, read_works
from flask_ibi_archive.archive.service.item_catalogue import CannotList, RecordSource
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.records.formats.xml_text import DECLARATION, element
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.server.database.dialects import UTCDateTime
from flask_ibi_archive.server.pages.requests import current_archive, read_query
from flask_ibi_archive.server.pages.responses import find_items_path, set_headers

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The position of an item in the list of a year: its timestamp, and its row ID or its identifier.
Place = tuple[datetime, str]
#: The number of items on a page.
SHOWN = 100
#: The maximum number of URLs in a sitemap (sitemaps.org).
SITEMAP_SIZE = 50_000
#: The years that a date may have.
YEARS = range(1, 10_000)
#: The largest number of a sitemap. The ids in the sitemap are integers of the database.
MAX_SITEMAP = 2**63 // SITEMAP_SIZE - 1
#: Matches the position at the beginning of a page: the last item on the page before.
_PLACE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z_(.+)", re.ASCII)
_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


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
        self._is_listed = and_(Item.archive_id == archive.served().id, is_public())

    def list_years(self) -> list[int]:
        """Return the years in which items were changed last, the newest first."""
        return self._database.read(self._read_years)

    def _read_years(self, connection: Connection) -> list[int]:
        """Return the years: one statement for each finds the next item, with an index."""
        years: list[int] = []
        newest = select(Item.timestamp).where(self._is_listed).order_by(Item.timestamp.desc())
        time = connection.scalar(newest.limit(1))
        while time is not None:
            years.append(time.year)
            before = newest.where(Item.timestamp < datetime(time.year, 1, 1, tzinfo=timezone.utc))
            time = connection.scalar(before.limit(1))
        return years

    def list_year(self, year: int, after: Place | None, limit: int) -> YearList:
        """Return a part of the list of a year.

        :param year: a year from 1 to 9999.
        :param after: the position after which the part begins; None: the beginning of the list.
        :param limit: the maximum number of items.
        """
        since, (time, last) = _find_bounds(year, after)
        last_id = int(last) if last.isdecimal() and len(last) < 19 else 0
        statement = (
            select(Item.id, Item.timestamp)
            .where(
                self._is_listed,
                Item.timestamp >= since,
                tuple_(Item.timestamp, Item.id)
                < tuple_(literal(time, UTCDateTime), literal(last_id)),
            )
            .order_by(Item.timestamp.desc(), Item.id.desc())
            .limit(limit + 1)
        )

        def read(connection: Connection) -> YearList:
            rows = connection.execute(statement).all()
            ids = [row.id for row in rows[:limit]]
            works = read_works(self._archive, connection, ids).values()
            shown = rows[limit - 1] if len(rows) > limit else None
            following = None if shown is None else (shown.timestamp, str(shown.id))
            return YearList([work for work in works if work is not None], following)

        return self._database.read(read)

    def list_sitemaps(self, size: int) -> list[int]:
        """Return the numbers of the sitemaps that contain items.

        The sitemap with the number n contains the ids from n * size to (n + 1) * size - 1. A
        recursive statement finds the smallest id of each sitemap with an index.

        :param size: the maximum number of items in a sitemap.
        """
        first = select(func.min(Item.id).label("id")).where(self._is_listed).cte(recursive=True)
        later = (
            select(func.min(Item.id))
            .where(self._is_listed, Item.id >= (first.c.id / size + 1) * size)
            .correlate(first)
            .scalar_subquery()
        )
        chain = first.union_all(select(later).where(first.c.id.is_not(None)))
        statement = select(chain.c.id).where(chain.c.id.is_not(None))
        ids = self._database.read(lambda connection: connection.scalars(statement).all())
        return sorted(item_id // size for item_id in ids)

    def list_sitemap(self, number: int, size: int) -> list[tuple[str, datetime]]:
        """Return the URLs of the landing pages in a sitemap, and the timestamps of the items."""
        statement = (
            select(Item.rep, Item.ibip, Item.timestamp)
            .where(self._is_listed, Item.id >= number * size, Item.id < (number + 1) * size)
            .order_by(Item.id)
        )
        rows = self._database.read_rows(statement)
        return [(self._archive.addresses.item(row), row.timestamp) for row in rows]


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
        works = [describe_host_item(self._archive, find_record, item) for item in items[:limit]]
        return YearList(works, find_place(items[limit - 1]) if len(items) > limit else None)

    def list_sitemaps(self, size: int) -> list[int]:
        """Return the numbers of the sitemaps that contain items."""
        return list(range(-(-sum(1 for _ in self._public()) // size)))

    def list_sitemap(self, number: int, size: int) -> list[tuple[str, datetime]]:
        """Return the URLs of the landing pages in a sitemap, and the timestamps of the items."""
        records = list(self._public())[number * size : (number + 1) * size]
        return [(self._archive.addresses.item(record), _find_time(record)) for record in records]

    def _public(self) -> Iterator[Record]:
        return (record for record in self._records.list() if is_public_record(record))


def open_lists(archive: Archive) -> StoredLists | HostLists:
    """Return the lists of the items of an Archive."""
    records = archive.items.records
    return StoredLists(archive) if records is None else HostLists(archive, records)


def _find_bounds(year: int, after: Place | None) -> tuple[datetime, Place]:
    """Return the bounds of a part of the list of a year.

    :param after: the position after which the part begins; None: the beginning of the list.
    :returns: the earliest timestamp, and the position before which all items of the part are.
    """
    # timestamps are whole seconds
    end = datetime(year, 12, 31, 23, 59, 59, 1, timezone.utc)
    return datetime(year, 1, 1, tzinfo=timezone.utc), after or (end, "")


def _find_time(record: Record) -> datetime:
    assert record.timestamp is not None  # parse_catalogue_record() has checked this
    return record.timestamp.astimezone(timezone.utc)


def _answering(view: Callable[..., Response]) -> Callable[..., Response]:
    """Decorate a view. If its list does not exist, or cannot be read now, show an error page."""

    @wraps(view)
    def answer(**parameters: int) -> Response:
        try:
            return view(**parameters)
        except CannotList:
            abort(404)
        except (NotReady, ConfigError) as error:
            return unavailable_page(error)

    return answer


@_answering
def show_years() -> Response:
    """Show the years in which items were changed last."""
    return _list_page(years=open_lists(current_archive()).list_years(), year=None)


@_answering
def show_year(year: int) -> Response:
    """Show the items that were changed last in a year, the newest first.

    The parameter ``page`` is the position of the last item on the page before.
    """
    if year not in YEARS:
        abort(404)
    archive, after = current_archive(), _read_place(year)
    part = open_lists(archive).list_year(year, after, SHOWN)
    if not part.works:
        abort(404)
    following = None if part.next is None else f"{format_timestamp(part.next[0])}_{part.next[1]}"
    return _list_page(works=part.works, year=year, after=after, next=following)


@_answering
def send_sitemap() -> Response:
    """Send the sitemap; if there are many items, an index of sitemaps."""
    archive = current_archive()
    numbers = open_lists(archive).list_sitemaps(SITEMAP_SIZE)
    if not numbers:  # a sitemap must not be empty
        return _send_xml("urlset", "url", [(_base(), None)])
    if len(numbers) == 1:
        return send_sitemap_part(number=numbers[0])
    base = archive.addresses.base
    entries = [(f"{base}/ibi/sitemap/{number}", None) for number in numbers]
    return _send_xml("sitemapindex", "sitemap", entries)


@_answering
def send_sitemap_part(number: int) -> Response:
    """Send one of several sitemaps."""
    if number > MAX_SITEMAP:
        abort(404)
    entries = open_lists(current_archive()).list_sitemap(number, SITEMAP_SIZE)
    if not entries:
        abort(404)
    return _send_xml("urlset", "url", entries)


def _send_xml(root: str, name: str, entries: Iterable[tuple[str, datetime | None]]) -> Response:
    lines = [f"{DECLARATION}<{root} {_NAMESPACE}>"]
    for url, changed in entries:
        time = "" if changed is None else element("lastmod", format_timestamp(changed))
        lines.append(f"<{name}>{element('loc', url)}{time}</{name}>")
    text = "\n".join([*lines, f"</{root}>", ""])
    return set_headers(Response(text, content_type="text/xml; charset=utf-8"), private=False)


def _list_page(**values: object) -> Response:
    return page("items", 200, base=_base(), items_path=find_items_path(), **values)


def _base() -> str:
    return f"{current_archive().addresses.base}/ibi/items"


def _read_place(year: int) -> Place | None:
    """Return the position in the query; None at the beginning of the list.

    If the position is wrong or not in the year, the page does not exist (404).
    """
    text = read_query().get("page")
    if text is None:
        return None
    found = _PLACE.fullmatch(text)
    try:
        time = datetime.fromisoformat(found[1]) if found else None
    except ValueError:
        time = None
    if found is None or time is None or time.year != year:
        abort(404)
    return time.replace(tzinfo=timezone.utc), found[2]
