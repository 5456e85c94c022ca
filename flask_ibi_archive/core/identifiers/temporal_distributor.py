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
from collections.abc import Callable, Sequence
from fractions import Fraction

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
    """Return the dates for several suffixes, and the wait before all suffixes may be used.

    Repeated calls for one date, with the same ``now``, would return the same dates, if each call
    got the date of the call before it as ``last``.

    The creation date, the earliest time when a suffix may be used, may be later than ``now``. The
    date of the suffix is the creation date, or a date before it that has a shorter suffix and is
    later than ``last``.

    :param now: the date of the request in POSIX seconds (UTC), exact.
    :param last: the last date of the same prefix; None if the prefix has no date yet.
    :param granularity: 60, 1, 1/10, 1/100 ... seconds. Two calls may have different granularities.
    :param count: the number of dates, 0 or more.
    :returns: ``(dates, wait)``. The dates are in increasing order. The wait is in seconds, 0 or
        more.

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
    """Return the lengths of all coarser granularities, in steps of this granularity."""
    parts = granularity.denominator
    coarser = [10**power for power in range(1, len(str(parts)))]
    return coarser if granularity == 60 else [*coarser, 60 * parts]
