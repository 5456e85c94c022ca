"""Exact dates and the texts of dates.

A date is a ``Fraction`` of POSIX seconds in UTC. A float cannot represent a tenth of a second
exactly. A small error in a date would change the identifier that contains the date.
"""

from __future__ import annotations

import re
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
