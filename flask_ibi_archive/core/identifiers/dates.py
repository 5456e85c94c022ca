"""Exact dates and the texts of dates.

A date is a ``Fraction`` of POSIX seconds in UTC. A float cannot represent a tenth of a second
exactly. A small error in a date would change the identifier that contains the date.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from functools import lru_cache
from typing import overload

from flask_ibi_archive.errors import RefusedText

FIRST_IBIP_SECOND = 807235200
"""1995-08-01T00:00:00Z in POSIX seconds; IBIp suffixes count from here ([G] 7, Algorithm 6)."""

_UNIX = datetime(1970, 1, 1)
_FIRST_SECOND = int((datetime.min - _UNIX).total_seconds())
_END_SECOND = int((datetime(9999, 12, 31) - _UNIX).total_seconds()) + 86400

# An identifier has at most 255 characters. This limit also keeps the integers small.
_MAX_DIGITS = 255
_MAX_DENOMINATOR = 10**_MAX_DIGITS

_DECIMAL = re.compile(r"(-?[0-9]+)(?:\.([0-9]+))?")


def split_seconds(date: Fraction) -> tuple[int, str]:
    """Return the whole seconds of a date and the decimal digits of its fraction.

    :returns: ``(seconds, digits)``. ``seconds`` is the date rounded down. ``digits`` are the digits
        after the decimal point, without trailing zeros; "" if the date has no fraction.
    :raises TypeError: if the date is not an exact number.
    :raises RefusedText: if the fraction has more than 255 decimal digits.
    """
    if not isinstance(date, (Fraction, int)):
        raise TypeError(f"a date is a Fraction of POSIX seconds, not {date!r}")
    seconds, rest = divmod(date.numerator, date.denominator)
    if not rest:
        return seconds, ""
    places = _count_places(date.denominator)
    if not places:
        raise RefusedText("endless_fraction", limit=_MAX_DIGITS)
    return seconds, str(rest * 10**places // date.denominator).zfill(places)


def join_seconds(seconds: int, digits: str) -> Fraction:
    """Return the date that consists of whole seconds and the decimal digits of a fraction."""
    if not digits:
        return Fraction(seconds)
    unit = 10 ** len(digits)
    return Fraction(seconds * unit + int(digits), unit)


@lru_cache(maxsize=16)  # identifiers of the same second follow each other
def get_calendar_date(seconds: int) -> datetime:
    """Return the calendar date of POSIX seconds, in UTC.

    :returns: a ``datetime`` without ``tzinfo``.
    :raises RefusedText: if the year is not in 0001 to 9999.
    """
    if not _FIRST_SECOND <= seconds < _END_SECOND:
        raise RefusedText("year_range", second=_shorten(seconds))
    return _UNIX + timedelta(seconds=seconds)


def get_posix_seconds(calendar_date: datetime) -> int:
    """Return the POSIX seconds of a calendar date (UTC, without ``tzinfo``)."""
    since = calendar_date - _UNIX
    return since.days * 86400 + since.seconds


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
    is_negative = date < 0
    seconds, digits = split_seconds(-date if is_negative else date)
    sign = "-" if is_negative else ""
    return f"{sign}{seconds}.{digits}" if digits else f"{sign}{seconds}"


def parse_decimal(text: str) -> Fraction:
    """Return the date of a decimal text that :func:`format_decimal` wrote.

    :returns: POSIX seconds, exact.
    :raises ValueError: if the text is not a decimal number.
    """
    found = _DECIMAL.fullmatch(text) if len(text) <= 2 * _MAX_DIGITS else None
    if found is None:
        raise ValueError(f"{text[:80]!r} is not a decimal number such as 1287587646.4")
    whole, digits = found.groups()
    date = join_seconds(abs(int(whole)), digits or "")
    return -date if whole.startswith("-") else date


@lru_cache(maxsize=16)
def _count_places(denominator: int) -> int | None:
    """Return how many decimal places the fractions with this denominator need.

    :returns: the number of places; None if 255 places are not enough.
    """
    if denominator.bit_length() > 4 * _MAX_DIGITS or _MAX_DENOMINATOR % denominator:
        return None
    # the denominator is 2**twos * 5**fives; each place is one factor 10, that is 2 * 5
    twos = (denominator & -denominator).bit_length() - 1
    odd = denominator >> twos
    fives = 0
    while odd > 1:
        odd //= 5
        fives += 1
    return max(twos, fives)


def _shorten(seconds: int) -> str:
    """Return the text of a number for a message.

    A very long number becomes a power of ten.
    """
    digits = round(seconds.bit_length() * 0.30103)  # a bit is log10(2) digits
    return str(seconds) if digits <= 60 else f"{'-' * (seconds < 0)}10^{digits}"


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
