"""The methods of an Archive that show statistics of accesses, and purge old accesses."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from flask import Response
from sqlalchemy import func, select

from flask_ibi_archive.archive.accesses import rows as access_rows
from flask_ibi_archive.archive.accesses.rows import Access, get_utc_day, start_of_day
from flask_ibi_archive.archive.items import item_pages
from flask_ibi_archive.archive.items.access import select_readable_files
from flask_ibi_archive.archive.service.url_keys import CLOCK_LEEWAY
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.records.offer_messages import DailyCount
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import UnknownItem
from flask_ibi_archive.server.web.requests import current_archive, read_query
from flask_ibi_archive.server.web.responses import hide_from_search, set_headers
from flask_ibi_archive.server.web.texts import gettext

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


# --- statistics --------------------------------------------------------------------------------


#: For each kind of period: how many characters of an ISO date the label of the period has.
LABEL_LENGTHS = {"day": 10, "month": 7, "year": 4}
#: For each kind of period: a number of days after which the next period has begun.
DAYS_TO_NEXT = {"day": 1, "month": 31, "year": 366}
NUMBERS = ("views", "downloads", "double_clicks", "robots")


@dataclass(frozen=True, slots=True)
class Period:
    """The counts of a day, a month or a year.

    :param start: the first day of the period (UTC).
    :param label: the name of the period, such as ``2026-11-21``, ``2026-11`` or ``2026``.
    :param views: the number of accesses to metadata.
    :param downloads: the number of accesses to data.
    :param double_clicks: the number of accesses that the same user repeated within 30 seconds.
        Views and downloads include only the last of such accesses.
    :param robots: the number of accesses by robots. Views and downloads do not include accesses by
        robots.
    """

    start: date
    label: str
    views: int
    downloads: int
    double_clicks: int
    robots: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts of an item, or of the whole Archive.

    :param ibi: an identifier of the item, in canonical case; None for the whole Archive.
    :param by: the kind of the periods: day, month or year.
    :param periods: the counts of accesses by readers who requested the item, in ascending order and
        without gaps. Empty if there are no accesses.
    :param views: the number of accesses to metadata by readers who requested the item.
    :param downloads: the number of accesses to data by readers who requested the item.
    :param double_clicks: the number of double clicks.
    :param robots: the number of accesses by robots.
    """

    ibi: str | None
    by: str
    periods: tuple[Period, ...]
    views: int = 0
    downloads: int = 0
    double_clicks: int = 0
    robots: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the sums and the periods as a JSON object."""
        return {
            "ibi": self.ibi,
            "by": self.by,
            **{name: getattr(self, name) for name in NUMBERS},
            "periods": [{**asdict(one), "start": one.start.isoformat()} for one in self.periods],
        }

    def csv_rows(self) -> list[list[str]]:
        """Return the rows of a CSV table: first the header, then one row for each period."""
        rows = [[one.label, *(str(getattr(one, name)) for name in NUMBERS)] for one in self.periods]
        return [["period", *NUMBERS], *rows]

    def to_csv(self) -> str:
        """Return the CSV table."""
        stream = io.StringIO(newline="")
        csv.writer(stream).writerows(self.csv_rows())
        return stream.getvalue()

    def list_recent_months(self, today: date, count: int) -> Iterator[Period]:
        """Yield the last ``count`` months, including the current month and months without accesses.

        The earliest month comes first.
        """
        known = {period.label: period for period in self.periods}
        last = today.year * 12 + today.month - 1
        for number in range(last - count + 1, last + 1):
            start = date(number // 12, number % 12 + 1, 1)
            label = start.isoformat()[:7]
            yield known.get(label) or Period(start, label, 0, 0, 0, 0)


def sum_counts(ibi: str | None, by: str, counts: Sequence[DailyCount]) -> Statistics:
    """Return the statistics of an item or of the whole Archive from the daily counts.

    The parameters mean the same as in :class:`Statistics`.
    """
    length = LABEL_LENGTHS[by]

    def find_start(day: date) -> date:
        return date.fromisoformat(f"{day.isoformat()[:length]}-01-01"[:10])

    sums: dict[date, list[int]] = {}
    if counts:
        start, last = find_start(min(row.day for row in counts)), max(row.day for row in counts)
        while start <= last:
            sums[start] = [0, 0, 0, 0]
            start = find_start(start + timedelta(days=DAYS_TO_NEXT[by]))
    for day, content_type, accesses, double_clicks, robots in counts:
        numbers = sums[find_start(day)]
        numbers[0 if content_type == "Metadata" else 1] += accesses
        numbers[2] += double_clicks
        numbers[3] += robots
    periods = [Period(day, day.isoformat()[:length], *numbers) for day, numbers in sums.items()]
    return Statistics(ibi, by, tuple(periods), *_sum_numbers(periods))


#: The maximum number of periods on a page, by the length of a period. A narrow screen has enough
#: space for these numbers.
SHOWN = {"day": 31, "month": 24, "year": 20}


@partial(item_pages.with_item, needs_description=True)
def item_statistics(item: ItemView) -> Response:
    """Show the number of accesses to an item."""
    return _answer(select_readable_files(item))


@item_pages.answering
def archive_statistics() -> Response:
    """Show the number of accesses to all items of the Archive."""
    return _answer(None)


def _answer(item: ItemView | None) -> Response:
    """Return the statistics of an item in the format that the request asks for.

    :param item: the item; None for the statistics of the whole Archive.
    """
    query = read_query()
    by, form = query.get("by", "month"), query.get("format", "html")
    if form not in ("html", "csv", "json") or by not in SHOWN:
        return item_pages.message(
            400,
            gettext("The address of this statistics page is wrong"),
            gettext("Allowed parameters: by=day, month or year; format=html, csv or json."),
            item=item,
        )
    statistics = _read_statistics(current_archive(), by, item)
    if form == "html":
        return _show_page(statistics, item)
    if form == "csv":
        response = Response(statistics.to_csv(), content_type="text/csv; charset=utf-8")
    else:
        text = json.dumps(statistics.to_json(), indent=2)
        response = Response(text, content_type="application/json")
    name = f"statistics-{statistics.ibi or 'archive'}"
    item_pages.set_file_name(response, "attachment", name, f"-{by}.{form}")
    return hide_from_search(set_headers(response))


def _show_page(statistics: Statistics, item: ItemView | None) -> Response:
    shown = statistics.periods[-SHOWN[statistics.by] :]
    addresses = current_archive().addresses.relative
    base = addresses.archive_statistics() if item is None else addresses.statistics(item)
    response = item_pages.page(
        "statistics",
        item=item,
        base=base,
        by=statistics.by,
        lengths=tuple(SHOWN),
        periods=shown,
        sums=_sum_numbers(shown),
        all_sums=None if shown == statistics.periods else _sum_numbers(statistics.periods),
    )
    return hide_from_search(response)


def _sum_numbers(periods: Sequence[Period]) -> list[int]:
    """Return four sums over the periods: views, downloads, double clicks and robots."""
    return [sum(getattr(period, name) for period in periods) for name in NUMBERS]


# --- access operations -------------------------------------------------------------------------


#: Additional seconds for which accesses with expired URL keys are kept.
#: An acknowledgment may be delayed.
MARGIN = 3600


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The result of a purge or of a dry run.

    :param purged: the number of deleted accesses; in a dry run, of accesses that would be deleted.
    :param before: the first day (UTC) whose accesses are not deleted.
    """

    purged: int
    before: date


def read_statistics(
    archive: Archive, ibi: str | ItemView | None = None, by: str = "month"
) -> Statistics:
    """Return the counts of the accesses to an item or to the whole Archive.

    ::

        statistics = ibi.archive.statistics(item)
        statistics.views, statistics.downloads

    :param ibi: an identifier of the item, or the item; None for the whole Archive.
    :param by: the kind of the periods: day, month or year.
    :raises IdentifierError: if ``ibi`` is not an identifier.
    :raises UnknownItem: if no item of this Archive has the identifier.
    :raises ValueError: if ``by`` is not day, month or year.
    """
    if by not in LABEL_LENGTHS:
        raise ValueError(f"the parameter by must be one of {', '.join(LABEL_LENGTHS)}, not {by!r}")
    if not isinstance(ibi, str):
        return _read_statistics(archive, by, ibi)
    item, name = archive.get(ibi), parse_identifier(ibi).text
    if item is None:
        raise UnknownItem(name)
    return replace(_read_statistics(archive, by, item), ibi=name)


def _read_statistics(archive: Archive, by: str, item: ItemView | None) -> Statistics:
    identifiers = None if item is None else item.record.identifiers
    counts = archive.database.read(
        lambda connection: access_rows.read_counts(connection, archive.served().id, identifiers)
    )
    return sum_counts(identifiers[0] if identifiers else None, by, counts)


def purge(archive: Archive, days: int | None = None, dry_run: bool = False) -> PurgeResult:
    """Delete old accesses, but keep the daily counts.

    The accesses of each day (UTC) are deleted in a separate transaction. If the process is killed,
    each day is either deleted completely or not at all.

    :param days: the number of days after which accesses are deleted; None means the value of
        the setting IBI_KEEP_ACCESSES.
    :param dry_run: if true, accesses are only counted and not deleted.
    :raises NotReady: if the database does not respond.
    """
    config, database, archive_id = archive.config, archive.database, archive.served().id
    now = archive.clock().timestamp()
    days = config.keep_accesses if days is None else days
    # Do not delete accesses whose URL keys are still valid: the stored access prevents that the
    # key is used again.
    keys_expired = math.floor(now - config.url_key_max_age - 2 * CLOCK_LEEWAY - MARGIN)
    before = min(get_utc_day(int(now)) - timedelta(days=days), get_utc_day(keys_expired))
    of_archive = Access.archive_id == archive_id
    if dry_run:
        old = select(func.count()).where(of_archive, Access.second < start_of_day(before))
        return PurgeResult(database.read_rows(old)[0][0], before)
    purged = 0
    while True:
        with database.writing(table_lock=access_rows.PURGING) as connection:
            second = connection.scalar(select(func.min(Access.second)).where(of_archive))
            if second is None or second >= start_of_day(before):
                access_rows.delete_old_salts(connection, get_utc_day(int(now)))
                return PurgeResult(purged, before)
            purged += access_rows.delete_day(connection, archive_id, get_utc_day(second))
