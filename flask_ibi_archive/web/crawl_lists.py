"""Shows the lists of items by year, and sends the sitemap (https://www.sitemaps.org)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from flask import Response, abort, request

from flask_ibi_archive.archive.crawl_lists import (
    Place,
    list_sitemap,
    list_sitemaps,
    list_year,
    list_years,
)
from flask_ibi_archive.archive.record_catalogue import CannotList
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.records.formats.xml_text import DECLARATION, element
from flask_ibi_archive.records.oai_pmh.responses import format_time
from flask_ibi_archive.web.pages import page, unavailable_page
from flask_ibi_archive.web.requests import current_archive
from flask_ibi_archive.web.responses import find_items_path, set_headers

#: The number of items on a page.
SHOWN = 100
#: The maximum number of URLs in a sitemap (sitemaps.org).
SITEMAP_SIZE = 50_000
#: The years that a date of Python may have, and the year after it too.
YEARS = range(1, 9999)
_NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def show_years() -> Response:
    """Show the years in which items were published or changed last."""
    try:
        return _list_page(years=list_years(current_archive()), year=None)
    except CannotList:
        abort(404)
    except (NotReady, ConfigError) as error:
        return unavailable_page(error)


def show_year(year: int) -> Response:
    """Show the items of a year, the newest first."""
    archive, after = current_archive(), _read_place()
    if year not in YEARS:
        abort(404)
    try:
        found = list_year(archive, year, after, SHOWN)
    except CannotList:
        abort(404)
    except (NotReady, ConfigError) as error:
        return unavailable_page(error)
    if not found.works and after is None:
        abort(404)
    following = None if found.next is None else f"{found.next[0].isoformat()}_{found.next[1]}"
    return _list_page(works=found.works, year=year, after=after, next=following)


def send_sitemap() -> Response:
    """Send the sitemap; if there are many items, an index of sitemaps."""
    archive = current_archive()
    try:
        numbers = list_sitemaps(archive, SITEMAP_SIZE)
        if len(numbers) <= 1:
            return send_sitemap_part(*numbers or [0])
    except CannotList:
        abort(404)
    except (NotReady, ConfigError) as error:
        return unavailable_page(error)
    base = archive.addresses.base
    return _send_xml(
        "sitemapindex", "sitemap", ((f"{base}/ibi/sitemap/{n}", None) for n in numbers)
    )


def send_sitemap_part(number: int) -> Response:
    """Send one of several sitemaps."""
    archive = current_archive()
    try:
        found = list_sitemap(archive, number, SITEMAP_SIZE)
    except CannotList:
        abort(404)
    except (NotReady, ConfigError) as error:
        return unavailable_page(error)
    # a sitemap must not be empty; a whole range has no place for a further URL
    entries: list[tuple[str, datetime | None]] = [*found] or [(_base(), None)]
    return _send_xml("urlset", "url", entries)


def _send_xml(root: str, name: str, entries: Iterable[tuple[str, datetime | None]]) -> Response:
    lines = [f"{DECLARATION}<{root} {_NAMESPACE}>"]
    for url, changed in entries:
        time = "" if changed is None else element("lastmod", format_time(changed))
        lines.append(f"<{name}>{element('loc', url)}{time}</{name}>")
    text = "\n".join([*lines, f"</{root}>", ""])
    return set_headers(Response(text, content_type="text/xml; charset=utf-8"), private=False)


def _list_page(**values: object) -> Response:
    return page("items", 200, base=_base(), items_path=find_items_path(), **values)


def _base() -> str:
    return f"{current_archive().addresses.base}/ibi/items"


def _read_place() -> Place | None:
    """Return the position in the query; a wrong one is the beginning of the list."""
    text = dict(decode_query_string(request.query_string)).get("after", "")
    moment, _, last = text.partition("_")
    try:
        time = datetime.fromisoformat(moment)
        if time.tzinfo is None or "\0" in last:
            return None
        return time, int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else last
    except ValueError:
        return None
