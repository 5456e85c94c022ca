"""Exact dates, texts of dates, and the choice of the dates for new suffixes.

A date is a ``Fraction`` of POSIX seconds in UTC. A float cannot represent a tenth of a second
exactly. A small error in a date would change the identifier that contains the date.

Each suffix needs a different date. If no date is free, the caller must wait. The standard calls the
module that gives out these dates the temporal distributor. The functions compute the date and the
wait. The caller reads the clock, waits, and stores the last date. The granularity is the smallest
difference between two dates: 60, 1, 1/10, 1/100 ... seconds. One step is one granularity. The
functions calculate with whole numbers of steps, which is exact and fast.

The module ``grammar`` writes a date as a suffix: in base 27, or as year, month, day and time.

Source: [G] 6, set G and Algorithm 4 (CREATEDATETOMOUNTSUFFIXOFIBIOFANITEM).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import overload

from flask_ibi_archive.errors import RefusedText

FIRST_IBIP_SECOND = 807235200
"""1995-08-01T00:00:00Z in POSIX seconds; IBIp suffixes count from here ([G] 7, Algorithm 6)."""

_UNIX = datetime(1970, 1, 1)

# An identifier has at most 255 characters. This limit also keeps the integers small.
_MAX_DIGITS = 255

_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


def split_seconds(date: Fraction) -> tuple[int, str]:
    """Return the whole seconds of a date and the decimal digits of its fraction.

    :returns: ``(seconds, digits)``. ``seconds`` is the date rounded down. ``digits`` are the digits
        after the decimal point, without trailing zeros; "" if the date has no fraction.
    :raises RefusedText: if the fraction has more than 255 decimal digits.
    """
    seconds, rest = divmod(date, 1)
    for places in range(_MAX_DIGITS + 1):
        digits = rest * 10**places
        if digits.denominator == 1:
            return seconds, str(digits).zfill(places) if places else ""
    raise RefusedText("endless_fraction", limit=_MAX_DIGITS)


def join_seconds(seconds: int, digits: str) -> Fraction:
    """Return the date that consists of whole seconds and the decimal digits of a fraction."""
    if not digits:
        return Fraction(seconds)
    unit = 10 ** len(digits)
    return Fraction(seconds * unit + int(digits), unit)


def get_calendar_date(seconds: int) -> datetime:
    """Return the calendar date of POSIX seconds, in UTC.

    :returns: a ``datetime`` without ``tzinfo``.
    :raises RefusedText: if the year is not in 0001 to 9999.
    """
    try:
        return _UNIX + timedelta(seconds=seconds)
    except OverflowError:
        raise RefusedText("year_range", second=seconds) from None


def get_posix_seconds(calendar_date: datetime) -> int:
    """Return the POSIX seconds of a calendar date (UTC, without ``tzinfo``)."""
    return (calendar_date - _UNIX) // timedelta(seconds=1)


def format_date(date: Fraction) -> str:
    """Return the text of a date for people and other programs.

    :param date: POSIX seconds (UTC), exact.
    :returns: a text such as ``2009-02-16T17:46:00Z``, or ``2009-02-16T17:46:00.05Z``.
    :raises RefusedText: if the year is not in 0001 to 9999 or the fraction is too long.
    """
    seconds, digits = split_seconds(date)
    text = get_calendar_date(seconds).isoformat(timespec="seconds")
    return f"{text}.{digits}Z" if digits else f"{text}Z"


def format_decimal(date: Fraction) -> str:
    """Return the exact decimal text of a date.

    The database stores this text.

    :param date: POSIX seconds (UTC), exact.
    :returns: a text such as ``1287587646.4``, without an exponent and without trailing zeros.
    :raises RefusedText: if the fraction has more than 255 decimal digits.
    """
    if date < 0:
        return f"-{format_decimal(-date)}"
    seconds, digits = split_seconds(date)
    return f"{seconds}.{digits}" if digits else str(seconds)


def parse_decimal(text: str) -> Fraction:
    """Return the date of a decimal text that :func:`format_decimal` wrote.

    :returns: POSIX seconds, exact.
    :raises ValueError: if the text is not a decimal number.
    """
    if len(text) > 2 * _MAX_DIGITS or not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a decimal number such as 1287587646.4")
    return Fraction(text)


@overload
def format_timestamp(moment: datetime) -> str: ...


@overload
def format_timestamp(moment: None) -> None: ...


def format_timestamp(moment: datetime | None) -> str | None:
    """Return a time as ``YYYY-MM-DDThh:mm:ssZ``, without the fraction of the second.

    :param moment: the time. Without a time zone, it is in UTC.
    :returns: the text; None if the time is None.
    """
    if moment is None:
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc)
    # strftime would write the year 33 with two digits
    return moment.replace(tzinfo=None, microsecond=0).isoformat() + "Z"


_MAX_TEXT = 100
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def parse_granularity(text: str) -> Fraction:
    """Parse the text of a granularity.

    :param text: a decimal number of seconds, such as ``60``, ``1`` or ``0.001``.
    :returns: the granularity in seconds, exact.
    :raises ValueError: if the text is not one of 60, 1, 0.1, 0.01, ...

    Source: [G] 6, set G.
    """
    if len(text) <= _MAX_TEXT and _NUMBER.fullmatch(text):
        granularity = Fraction(text)
        is_power_of_ten = str(granularity.denominator).rstrip("0") == "1"
        if granularity == 60 or (granularity.numerator == 1 and is_power_of_ten):
            return granularity
    raise ValueError(
        f"granularity {text[:80]!r} is not one of 60, 1, 0.1, 0.01, 0.001 and so on (seconds)"
    )


def next_suffix_dates(
    now: Fraction, last: Fraction | None, granularity: Fraction, count: int
) -> tuple[list[Fraction], Fraction]:
    """Choose the dates for several new suffixes, and compute the wait until all may be used.

    The dates are those that ``count`` calls for one date each would return, if ``last`` is always
    the date that the previous call returned.

    Each suffix has a creation date: the earliest time when the suffix may be used, which may be
    later than ``now``. The date that becomes the suffix is the creation date itself, or an earlier
    date that is later than ``last`` and gives a shorter suffix.

    :param now: the date of the request in POSIX seconds (UTC), exact.
    :param last: the last date of the same prefix; None if the prefix has no date yet.
    :param granularity: 60, 1, 1/10, 1/100 ... seconds. Two calls may have different granularities.
    :param count: the number of dates, 0 or more.
    :returns: ``(dates, wait)``. The dates are in increasing order; the list is empty if ``count``
        is 0. The wait is in seconds, 0 or more.

    Source: [G] 6, Algorithm 4; example: Table 6.2. Erratum: a formula of [G] rounds to the nearest
    step, but Algorithm 4 and Table 6.2 round down.
    """
    coarser = _find_coarser_steps(granularity)
    rounded = now // granularity
    previous = rounded - 1 if last is None else last // granularity
    creation = rounded
    steps: list[int] = []
    while len(steps) < count:
        creation = max(previous + 1, rounded)
        if creation > rounded:
            # From here on, each date is one step after the previous date. No date with a shorter
            # suffix is free.
            steps.extend(range(creation, creation + count - len(steps)))
            creation = steps[-1]
            break
        previous = _find_shortest_step(creation, previous, coarser)
        steps.append(previous)
    # a creation date that is not later than now needs no wait
    wait = creation * granularity - now if creation > rounded else Fraction(0)
    return [step * granularity for step in steps], wait


def wait_until(
    moment: Fraction,
    max_wait: float,
    clock: Callable[[], Fraction],
    wait: Callable[[float], None],
) -> None:
    """Wait until a clock shows a time.

    After the wait, the clock may still show an earlier time. If at most a tenth of the wait is
    missing, the operating system has slowed its clock down, and the function waits again. If more
    is missing, somebody has set the clock back, and the function returns.

    :param moment: the time in POSIX seconds.
    :param max_wait: the maximum number of seconds to wait.
    :param clock: returns the current time in POSIX seconds.
    :param wait: waits for a number of seconds.
    """
    max_missing = math.inf
    while max_wait > 0 and 0 < (missing := float(moment - clock())) <= max_missing:
        seconds = min(missing, max_wait)
        wait(seconds)
        max_wait -= seconds
        max_missing = seconds / 10  # no system slows its clock down by more than a tenth


def find_granularity(count: int, wait: Fraction) -> Fraction:
    """Return the coarsest granularity that gives enough dates within a wait.

    :param count: the number of dates, 1 or more.
    :param wait: the longest allowed wait in seconds, more than 0. If the last issued date is in the
        future, subtract the time until this date from the wait before the call.
    :returns: 60, 1, 1/10, 1/100 ... seconds.

    Source: [G] 6, set G and Algorithm 4, line 5: each date takes one step at most.
    """
    if count * 60 <= wait:
        return Fraction(60)
    parts = 1
    while count > wait * parts:
        parts *= 10
    return Fraction(1, parts)


def _find_shortest_step(creation: int, last: int, coarser: Sequence[int]) -> int:
    """Return the step after the last date, up to the creation date, with the shortest suffix.

    :param coarser: the lengths of the coarser granularities in steps, in increasing order.

    :returns: the creation date rounded down to the coarsest granularity that is possible.
    """
    shortest = creation
    for step in coarser:
        rounded = creation - creation % step
        if rounded <= last:
            break
        shortest = rounded
    return shortest


def _find_coarser_steps(granularity: Fraction) -> list[int]:
    """Return how many steps of this granularity one step of each coarser granularity takes.

    The numbers are in increasing order: for 1/10, they are 10 (1 second) and 600 (60 seconds).
    """
    parts = granularity.denominator
    coarser = [10**power for power in range(1, len(str(parts)))]
    return coarser if granularity == 60 else [*coarser, 60 * parts]
