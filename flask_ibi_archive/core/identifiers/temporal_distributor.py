"""The temporal distributor: computes the dates for new suffixes.

Each suffix needs another date. If no date is free, the caller must wait. The functions compute the
date and the wait. The caller reads the clock, waits, and stores the last date.

The granularity is the smallest difference between two dates: 60, 1, 1/10, 1/100 ... seconds. One
step is one granularity. The functions calculate with whole numbers of steps, because such
calculations are exact and fast.

Source: [G] 6, set G and Algorithm 4 (CREATEDATETOMOUNTSUFFIXOFIBIOFANITEM).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

_MAX_TEXT = 100
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_GRANULARITIES = "60, 1, 0.1, 0.01, 0.001 and so on"


def parse_granularity(text: str) -> Fraction:
    """Parse the text of a granularity.

    :param text: a decimal number of seconds, such as ``60``, ``1`` or ``0.001``.
    :returns: the granularity in seconds, exact.
    :raises ValueError: if the text is not one of 60, 1, 0.1, 0.01, ...

    Source: [G] 6, set G.
    """
    if len(text) <= _MAX_TEXT and _NUMBER.fullmatch(text):
        granularity = Fraction(text)
        if _count_decimal_places(granularity) is not None:
            return granularity
    raise ValueError(f"granularity {text[:80]!r} is not one of {_GRANULARITIES} (seconds)")


def find_creation_date(now: Fraction, last: Fraction | None, granularity: Fraction) -> Fraction:
    """Return the creation date: the earliest time when the next suffix may be used.

    :param now: the date of the request in POSIX seconds (UTC), exact.
    :param last: the last date of the same prefix; None if the prefix has no date yet.
    :param granularity: 60, 1, 1/10, 1/100 ... seconds.
    :returns: POSIX seconds, a multiple of the granularity. The date may be later than ``now``.
    :raises ValueError: if the granularity is not in the set G.

    Source: [G] 6, Algorithm 4, lines 1 to 5; example: Table 6.2.
    """
    _find_coarser_steps(granularity)  # raises ValueError if the granularity is wrong
    rounded, floored = _count_steps(now, last, granularity)
    return Fraction(max(floored + 1, rounded) * granularity)


def next_suffix_date(
    now: Fraction, last: Fraction | None, granularity: Fraction
) -> tuple[Fraction, Fraction]:
    """Return the date for the next suffix, and the wait before the suffix may be used.

    :param now: the date of the request in POSIX seconds (UTC), exact.
    :param last: the last date of the same prefix; None if the prefix has no date yet.
    :param granularity: 60, 1, 1/10, 1/100 ... seconds. Two calls may have different granularities.
    :returns: ``(date, wait)``. ``date`` is later than ``last``, and the suffix of ``date`` is as
        short as possible. ``wait`` is in seconds, 0 or more.
    :raises ValueError: if the granularity is not in the set G.

    Source: [G] 6, Algorithm 4; example: Table 6.2.
    """
    dates, wait = next_suffix_dates(now, last, granularity, 1)
    return dates[0], wait


def next_suffix_dates(
    now: Fraction, last: Fraction | None, granularity: Fraction, count: int
) -> tuple[list[Fraction], Fraction]:
    """Return the dates for several suffixes, and the wait before all suffixes may be used.

    Repeated calls of :func:`next_suffix_date` with the same ``now`` would return the same dates, if
    each call got the date of the call before it as ``last``.

    :param now: the date of the request in POSIX seconds (UTC), exact.
    :param last: the last date of the same prefix; None if the prefix has no date yet.
    :param granularity: 60, 1, 1/10, 1/100 ... seconds. Two calls may have different granularities.
    :param count: the number of dates, 0 or more.
    :returns: ``(dates, wait)``. The dates are in increasing order. The wait is in seconds, 0 or
        more.
    :raises ValueError: if the granularity is not in the set G, or if the count is negative.

    Source: [G] 6, Algorithm 4.
    """
    if count < 0:
        raise ValueError(f"the number of dates is {count}; this number must be 0 or more")
    coarser = _find_coarser_steps(granularity)
    rounded, previous = _count_steps(now, last, granularity)
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
    numerator, denominator = granularity.numerator, granularity.denominator
    dates = [Fraction(step * numerator, denominator) for step in steps]
    # a creation date that is not later than now needs no wait
    wait = creation * granularity - now if steps and creation > rounded else Fraction(0)
    return dates, Fraction(wait)


def wait_until(
    moment: Fraction,
    max_wait: float,
    clock: Callable[[], Fraction],
    wait: Callable[[float], None],
) -> None:
    """Wait until a clock shows a time.

    The clock may show an earlier time after the wait. If at most a tenth of the wait is missing,
    the system has slowed the clock down to correct it, and the function waits again. If more is
    missing, the clock was set back, and the function returns.

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
    :raises ValueError: if the count or the wait is not positive.

    Source: [G] 6, set G and Algorithm 4, line 5: each date takes one step at most.
    """
    if count < 1:
        raise ValueError(f"the number of dates is {count}; this number must be 1 or more")
    if wait <= 0:
        raise ValueError("the wait must be more than 0 seconds")
    if count * 60 <= wait:
        return Fraction(60)
    parts = 1
    while count > wait * parts:
        parts *= 10
    return Fraction(1, parts)


def _find_shortest_step(creation: int, last: int, coarser: tuple[int, ...]) -> int:
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


def _count_steps(now: Fraction, last: Fraction | None, granularity: Fraction) -> tuple[int, int]:
    """Return ``now`` and ``last`` in steps, both rounded down.

    If ``last`` is None, the step before ``now`` is the last step.

    Erratum: a formula of [G] rounds to the nearest step, but Algorithm 4 and Table 6.2 round down.
    """
    for date in (now, last):
        if date is not None and not isinstance(date, (Fraction, int)):
            raise TypeError(f"a date is a Fraction of POSIX seconds, not {date!r}")
    rounded = _divide(now, granularity)
    return rounded, rounded - 1 if last is None else _divide(last, granularity)


def _divide(date: Fraction, granularity: Fraction) -> int:
    """Return ``date // granularity``; the operator of fractions takes three times as long."""
    return (date.numerator * granularity.denominator) // (date.denominator * granularity.numerator)


@lru_cache
def _find_coarser_steps(granularity: Fraction) -> tuple[int, ...]:
    """Return the lengths of all coarser granularities, in steps of this granularity."""
    places = _count_decimal_places(granularity)
    if places is None:
        raise ValueError(f"granularity {granularity} is not one of {_GRANULARITIES} (seconds)")
    if granularity == 60:
        return ()
    return (*(10**power for power in range(1, places + 1)), 60 * 10**places)


def _count_decimal_places(granularity: Fraction) -> int | None:
    """Return the number of decimal places of a granularity.

    :returns: the number; None if the set G does not contain the granularity.
    """
    if granularity == 60:
        return 0
    digits = str(granularity.denominator)
    if granularity.numerator != 1 or digits.rstrip("0") != "1":
        return None
    return len(digits) - 1
