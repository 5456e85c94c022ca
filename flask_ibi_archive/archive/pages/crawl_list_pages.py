"""Shows the lists of items by year, and sends the sitemap (https://www.sitemaps.org)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from functools import wraps

from flask import Response, abort

from flask_ibi_archive.archive.items.pages import page, unavailable_page
from flask_ibi_archive.archive.pages import crawl_lists
from flask_ibi_archive.archive.service.item_catalogue import CannotList
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.records.formats.oai_dc import DECLARATION, element
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.server.pages.requests import current_archive, read_query
from flask_ibi_archive.server.pages.responses import find_items_path, set_headers

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


def _answering(view: Callable[..., Response]) -> Callable[..., Response]:
    """Decorate a view: lists that do not exist, or that cannot be read now, are error pages."""

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
    return _list_page(years=crawl_lists.open_lists(current_archive()).list_years(), year=None)


@_answering
def show_year(year: int) -> Response:
    """Show the items that were changed last in a year, the newest first.

    The parameter ``page`` is the position of the last item on the page before.
    """
    if year not in YEARS:
        abort(404)
    archive, after = current_archive(), _read_place(year)
    found = crawl_lists.open_lists(archive).list_year(year, after, SHOWN)
    if not found.works:
        abort(404)
    following = None if found.next is None else f"{format_timestamp(found.next[0])}_{found.next[1]}"
    return _list_page(works=found.works, year=year, after=after, next=following)


@_answering
def send_sitemap() -> Response:
    """Send the sitemap; if there are many items, an index of sitemaps."""
    archive = current_archive()
    numbers = crawl_lists.open_lists(archive).list_sitemaps(SITEMAP_SIZE)
    if not numbers:  # a sitemap must not be empty
        return _send_xml("urlset", "url", [(_base(), None)])
    if len(numbers) == 1:
        return send_sitemap_part(number=numbers[0])
    base = archive.addresses.base
    return _send_xml(
        "sitemapindex", "sitemap", ((f"{base}/ibi/sitemap/{n}", None) for n in numbers)
    )


@_answering
def send_sitemap_part(number: int) -> Response:
    """Send one of several sitemaps."""
    if number > MAX_SITEMAP:
        abort(404)
    found = crawl_lists.open_lists(current_archive()).list_sitemap(number, SITEMAP_SIZE)
    if not found:
        abort(404)
    return _send_xml("urlset", "url", found)


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


def _read_place(year: int) -> crawl_lists.Place | None:
    """Return the position in the query; None at the beginning of the list.

    A position that is wrong, or not in the year, is a page that does not exist.
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
