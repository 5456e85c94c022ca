"""Statistics: the numbers of accesses to an item or to the whole Archive per day, month or year.

Views are accesses to metadata. Downloads are accesses to data. Double clicks and accesses by robots
are counted separately (COUNTER Code of Practice 5.1, 7.2 and 7.8). A double click is the earlier
of two accesses by one user to one item within 30 seconds, so the later one counts. Days are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any

from flask_ibi_archive.archive.accesses.access_rows import DayCounts

#: For each kind of period: how many characters of an ISO date the label of the period has.
LABEL_LENGTHS = {"day": 10, "month": 7, "year": 4}
NUMBERS = ("views", "downloads", "double_clicks", "robots")


@dataclass(frozen=True, slots=True)
class Period:
    """The counts of a day, a month or a year.

    :param start: the first day of the period (UTC).
    :param label: the name of the period, such as ``2026-11-21``, ``2026-11`` or ``2026``.
    :param views: the number of accesses to metadata.
    :param downloads: the number of accesses to data.
    :param double_clicks: the number of double clicks. Views and downloads do not include double
        clicks.
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

    ``asked`` and ``delivered`` contain the same periods in ascending order and without gaps. Both
    are empty if there are no accesses.

    :param ibi: an identifier of the item, in canonical case; None for the whole Archive.
    :param by: the kind of the periods: day, month or year.
    :param asked: the counts of accesses by readers who requested the item.
    :param delivered: the counts of accesses by readers who requested another item and received this
        item. For the whole Archive the value is None, because ``asked`` already contains these
        accesses.
    """

    ibi: str | None
    by: str
    asked: tuple[Period, ...]
    delivered: tuple[Period, ...] | None

    @property
    def views(self) -> int:
        """The number of accesses to metadata that requested the item."""
        return sum(period.views for period in self.asked)

    @property
    def downloads(self) -> int:
        """The number of accesses to data that requested the item."""
        return sum(period.downloads for period in self.asked)

    @property
    def double_clicks(self) -> int:
        """The number of double clicks."""
        return sum(period.double_clicks for period in self.asked)

    @property
    def robots(self) -> int:
        """The number of accesses by robots."""
        return sum(period.robots for period in self.asked)

    def to_json(self) -> dict[str, Any]:
        """Return the sums and the periods as a JSON object."""
        return {
            "ibi": self.ibi,
            "by": self.by,
            "asked": _periods_to_json(self.asked),
            "delivered": None if self.delivered is None else _periods_to_json(self.delivered),
        }

    def csv_rows(self) -> Iterator[list[str]]:
        """Yield the rows of a CSV table: first the header, then one row for each period."""
        header = ["period", *NUMBERS]
        if self.delivered is None:
            yield header
            for period in self.asked:
                yield [period.label, *_format_counts(period)]
            return
        yield header + [f"delivered_{name}" for name in NUMBERS]
        for asked, delivered in zip(self.asked, self.delivered, strict=True):
            yield [asked.label, *_format_counts(asked), *_format_counts(delivered)]

    def list_recent_months(self, today: date, count: int) -> Iterator[Period]:
        """Yield the last months, from the earliest to the current one, also without accesses."""
        known = {period.label: period for period in self.asked}
        last = today.year * 12 + today.month - 1
        for number in range(last - count + 1, last + 1):
            start = date(number // 12, number % 12 + 1, 1)
            label = start.isoformat()[:7]
            yield known.get(label) or Period(start, label, 0, 0, 0, 0)


def _format_counts(period: Period) -> list[str]:
    return [str(getattr(period, name)) for name in NUMBERS]


def _periods_to_json(periods: tuple[Period, ...]) -> dict[str, Any]:
    sums = {name: sum(getattr(period, name) for period in periods) for name in NUMBERS}
    rows = [asdict(period) for period in periods]
    return {**sums, "periods": [{**row, "start": row["start"].isoformat()} for row in rows]}


def sum_counts(
    ibi: str | None, by: str, asked: Sequence[DayCounts], delivered: Sequence[DayCounts] | None
) -> Statistics:
    """Return the statistics with the daily counts; the parameters are those of Statistics."""
    days = [row.day for row in (*asked, *(delivered or ()))]
    starts = list(_period_starts(min(days), max(days), by)) if days else []
    return Statistics(
        ibi,
        by,
        _sum_by_period(starts, asked, by),
        None if delivered is None else _sum_by_period(starts, delivered, by),
    )


def _period_starts(first: date, last: date, by: str) -> Iterator[date]:
    """Yield the first day of each period from the day ``first`` to the day ``last``."""
    start = _find_start(first, by)
    while start <= last:
        yield start
        start = _find_start(start + timedelta(days=DAYS_TO_NEXT[by]), by)


#: For each kind of period: a number of days after which the next period has begun.
DAYS_TO_NEXT = {"day": 1, "month": 31, "year": 366}
_STARTS: dict[str, Callable[[date], date]] = {
    "day": lambda day: day,
    "month": lambda day: day.replace(day=1),
    "year": lambda day: day.replace(month=1, day=1),
}


def _find_start(day: date, by: str) -> date:
    """Return the first day of the period that contains a day."""
    return _STARTS[by](day)


def _sum_by_period(
    starts: Iterable[date], counts: Iterable[DayCounts], by: str
) -> tuple[Period, ...]:
    """Return the periods with their counts.

    :param starts: the first day of each period.
    :param counts: the daily counts.
    :param by: the kind of the periods: day, month or year.
    """
    sums = {start: [0, 0, 0, 0] for start in starts}
    for day, content_type, accesses, double_clicks, robots in counts:
        numbers = sums[_find_start(day, by)]
        numbers[0 if content_type == "Metadata" else 1] += accesses
        numbers[2] += double_clicks
        numbers[3] += robots
    length = LABEL_LENGTHS[by]
    return tuple(
        Period(start, start.isoformat()[:length], *numbers) for start, numbers in sums.items()
    )
