"""The lists of public items: by year of publication, the newest, and the sitemap.

:class:`StoredLists` reads them from the tables of this package, :class:`HostLists` from the
    catalogue of a host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from heapq import nlargest
from typing import TYPE_CHECKING, Any, TypeAlias

from flask import Response, abort
from sqlalchemy import ColumnElement, Connection, Select, and_, func, select, union_all
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.item_pages import answering, page
from flask_ibi_archive.archive.items.read import (
    describe_host_item,
    describes,
    is_public,
    read_works,
    select_items,
)
from flask_ibi_archive.archive.items.tables import Item, primary_form
from flask_ibi_archive.archive.pages import labels
from flask_ibi_archive.archive.service.catalogue import RecordSource
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.records.formats.common import DECLARATION, element
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.values import clean
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import one_line
from flask_ibi_archive.server.web.requests import current_archive, read_query
from flask_ibi_archive.server.web.responses import find_items_path, hide_from_search, set_headers

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


#: The number of items on a page, and on the page of the years.
SHOWN, NEWEST = 100, 10
#: The maximum number of characters of a search.
MAX_SEARCH = 200
#: The maximum number of URLs in a sitemap (sitemaps.org).
SITEMAP_SIZE = 50_000
#: The years that a date may have.
YEARS = range(1, 10_000)
_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


#: A part of a list: the items, the newest first, and the position after which the list continues;
#: None at the end of the list.
Part: TypeAlias = tuple[list[Work], int | None]


class StoredLists:
    """Lists the items in the tables of this package. The newest item has the highest row ID."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._database = archive.database
        self._is_listed = and_(Item.archive_id == archive.served().id, is_public())

    def list_years(self) -> list[int]:
        """Return the years of publication, the newest first.

        A recursive statement finds the next year with an index. If the description of an item is in
        a metadata item, the year is that of the metadata item.
        """
        dated = and_(Item.archive_id == self._archive.served().id, describes(Item))
        first = select(func.max(Item.issued_year).label("value")).where(dated)
        return self._read_steps(
            first,
            lambda year: select(func.max(Item.issued_year)).where(dated, Item.issued_year < year),
        )

    def _read_steps(
        self, first: Select[Any], find_next: Callable[[ColumnElement[int]], Select[Any]]
    ) -> list[int]:
        """Run a recursive statement that goes from one value to the next; return all values.

        :param first: the statement that selects the first value.
        :param find_next: returns the statement that selects the value after another value.
        """
        chain = first.cte(recursive=True)
        value = chain.c.value
        following = find_next(value).correlate(chain).scalar_subquery()
        chain = chain.union_all(select(following).where(value.is_not(None)))
        statement = select(chain.c.value).where(chain.c.value.is_not(None))
        return self._database.read(lambda connection: list(connection.scalars(statement)))

    def list_part(self, year: int | None, after: int | None, limit: int, search: str = "") -> Part:
        """Return a part of the list of a year, or of all items, the newest item first.

        :param year: the year of publication; None for the list of all items.
        :param after: the position after which the part begins; None: the beginning of the list.
        :param limit: the maximum number of items.
        :param search: words that each listed item must contain; "": all items. Only for the list of
            all items.
        :returns: the descriptions of the items, and the position after which the list continues;
            None at the end of the list.
        """
        is_after = [] if after is None else [Item.id < after]
        if year is None:
            is_found = select_items(self._archive.served().id, search=search)
            statement = self._select(limit + 1, self._is_listed, *is_found, *is_after)
        else:
            statement = self._select_year(year, limit + 1, is_after)

        def read(connection: Connection) -> Part:
            ids = list(connection.scalars(statement))
            works = read_works(self._archive, connection, ids[:limit])
            return [*works.values()], ids[limit - 1] if len(ids) > limit else None

        return self._database.read(read)

    def _select_year(
        self, year: int, limit: int, is_after: list[ColumnElement[bool]]
    ) -> Select[Any]:
        metadata, archive_id = aliased(Item), self._archive.served().id
        own = self._select(limit, self._is_listed, Item.issued_year == year, *is_after).subquery()
        of_year = select(primary_form(metadata)).where(
            metadata.archive_id == archive_id, metadata.issued_year == year, describes(metadata)
        )
        is_described = self._is_listed, Item.metadata_ibi.in_(of_year), *is_after
        # "+ 0" keeps databases from reading all items in the order of their ids
        other = self._select(limit, *is_described, order=Item.id + 0).subquery()
        # each part of the union has its own index
        both = union_all(select(own.c.id), select(other.c.id)).subquery()
        return select(both.c.id).order_by(both.c.id.desc()).limit(limit)

    @staticmethod
    def _select(
        limit: int, *where: ColumnElement[bool], order: ColumnElement[int] | None = None
    ) -> Select[Any]:
        order = Item.id.expression if order is None else order
        return select(Item.id).where(*where).order_by(order.desc()).limit(limit)

    def list_sitemaps(self, size: int) -> list[int]:
        """Return the numbers of the sitemaps that contain items, in ascending order.

        The sitemap with the number n contains the row IDs from n * size to (n + 1) * size - 1. A
        recursive statement finds the smallest ID of each sitemap with an index.

        :param size: the maximum number of items in a sitemap.
        """
        first = select(func.min(Item.id).label("value")).where(self._is_listed)
        ids = self._read_steps(
            first,
            lambda item_id: select(func.min(Item.id)).where(
                self._is_listed, Item.id >= (item_id / size + 1) * size
            ),
        )
        return [item_id // size for item_id in ids]

    def list_sitemap(self, number: int, size: int) -> list[tuple[str, datetime]]:
        """Return (URL of the landing page, timestamp) for each item in a sitemap."""
        statement = (
            select(Item.rep, Item.ibip, Item.timestamp)
            .where(self._is_listed, Item.id >= number * size, Item.id < (number + 1) * size)
            .order_by(Item.id)
        )
        rows = self._database.read_rows(statement)
        return [(self._archive.addresses.item(row), row.timestamp) for row in rows]


class HostLists:
    """Lists the items in the catalogue of a host."""

    def __init__(self, archive: Archive, records: RecordSource) -> None:
        self._archive = archive
        self._records = records

    def list_years(self) -> list[int]:
        """Return the years of publication; see :meth:`StoredLists.list_years`."""
        years = {self._describe(record).year for record in self._public()}
        return sorted((year for year in years if year is not None), reverse=True)

    def list_part(self, year: int | None, after: int | None, limit: int, search: str = "") -> Part:
        """Return a part of the list of a year; see :meth:`StoredLists.list_part`.

        Here a position in the list is the number of items before it.
        """
        chosen = (
            record
            for record in self._public(search)
            if year is None or self._describe(record).year == year
        )
        first = after or 0
        end = first + limit
        items = nlargest(
            end + 1, chosen, key=lambda one: (_find_time(one), one.ibip or one.identifiers[0])
        )
        works = [self._describe(item) for item in items[first:end]]
        return works, end if len(items) > end else None

    def _describe(self, record: Record) -> Work:
        return describe_host_item(self._archive, self._records.find_record, record)

    def list_sitemaps(self, size: int) -> list[int]:
        """Return the numbers of the sitemaps that contain items, in ascending order."""
        return list(range(-(-sum(1 for _ in self._public()) // size)))

    def list_sitemap(self, number: int, size: int) -> list[tuple[str, datetime]]:
        """Return (URL of the landing page, timestamp) for each item in a sitemap."""
        records = list(self._public())[number * size : (number + 1) * size]
        return [(self._archive.addresses.item(record), _find_time(record)) for record in records]

    def _public(self, search: str = "") -> Iterator[Record]:
        return (record for record in self._records.list(search) if is_public(record))


def open_lists(archive: Archive) -> StoredLists | HostLists:
    """Return the object that lists the items of an Archive.

    If the host's catalogue has no list, abort with status 404.
    """
    records = archive.items.records
    if records is None:
        return StoredLists(archive)
    if not records.can_list:
        abort(404)
    return HostLists(archive, records)


def _find_time(record: Record) -> datetime:
    assert record.timestamp is not None  # parse_catalogue_record() has checked this
    return record.timestamp.astimezone(timezone.utc)


@answering
def show_years() -> Response:
    """Show the years of publication and the newest items, or the items that a search finds."""
    search = one_line(clean(read_query().get("q", "")))[:MAX_SEARCH]
    if search:
        return _show_part("found", "items", None, search)
    lists = open_lists(current_archive())
    works, _ = lists.list_part(None, None, NEWEST)
    return _list_page(name="years", years=lists.list_years(), works=works)


@answering
def show_year(year: int) -> Response:
    """Show the items that were published in a year, the newest first."""
    if year not in YEARS:
        abort(404)
    return _show_part("year", f"items/{year}", year)


@answering
def show_newest() -> Response:
    """Show all items, the newest first."""
    return _show_part("newest", "newest", None)


def _show_part(name: str, path: str, year: int | None, search: str = "") -> Response:
    """Show a part of a list. It begins after the position in the parameter ``page``.

    :param name: the name of the list in the template.
    :param path: the path of the list, after ``/ibi/``.
    """
    lists, place = open_lists(current_archive()), read_query().get("page")
    if place is not None and not (place.isascii() and place.isdecimal() and len(place) < 19):
        abort(404)
    after = None if place is None else int(place)
    works, following = lists.list_part(year, after, SHOWN, search)
    if not works and after is None and not search:
        abort(404)
    values = {"path": path, "search": search, "after": after, "next": following}
    response = _list_page(name=name, works=works, year=year, **values)
    return hide_from_search(response) if search or after is not None else response


@answering
def send_sitemap() -> Response:
    """Send the sitemap; if there are many items, an index of sitemaps."""
    archive = current_archive()
    base = archive.addresses.base
    numbers = open_lists(archive).list_sitemaps(SITEMAP_SIZE)
    if not numbers:  # a sitemap must not be empty
        return _send_xml("urlset", "url", [(f"{base}/ibi/items", None)])
    if len(numbers) == 1:
        return send_sitemap_part(number=numbers[0])
    entries = [(f"{base}/ibi/sitemap/{number}", None) for number in numbers]
    return _send_xml("sitemapindex", "sitemap", entries)


@answering
def send_sitemap_part(number: int) -> Response:
    """Send the sitemap with a number."""
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
    root = current_archive().addresses.relative.base
    return page(
        "items",
        200,
        root=root,
        base=f"{root}/ibi/items",
        labels=labels,
        items_path=find_items_path(),
        **values,
    )
