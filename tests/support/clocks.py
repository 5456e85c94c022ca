"""A clock for all tests of times, and timeouts that suit machines of any speed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from fractions import Fraction
from queue import Empty
from threading import Lock
from typing import Any


class Clock:
    """A clock that only advances if a test or a wait advances it.

    :param now: the time that the clock shows: a datetime, or seconds as a float or a fraction.
    :param step: the seconds by which the clock advances each time that it is read.
    """

    def __init__(self, now: Any = 0.0, step: float = 0) -> None:
        self.now = now
        self.step = step
        #: the seconds of each wait
        self.waits: list[float] = []
        self._lock = Lock()

    def __call__(self) -> Any:
        """Return the time that the clock shows."""
        now = self.now
        self._advance(self.step)
        return now

    def wait(self, seconds: float = 1) -> None:
        """Advance the clock; negative seconds set it back."""
        with self._lock:
            self.waits.append(seconds)
            self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        if isinstance(self.now, datetime):
            self.now += timedelta(seconds=seconds)
        else:
            # a short fraction, because exact times stay exact
            self.now += Fraction(seconds).limit_denominator(10**9)


def pass_in_time(check: Callable[[float], None], *timeouts: float) -> None:
    """Run a check with a timeout, and with longer ones until it passes.

    What waits too long does so with each timeout; a slow machine needs a longer one.

    :param timeouts: in seconds; 3, 12 and 48 if none are given.
    """
    *shorter, longest = timeouts or (3.0, 12.0, 48.0)
    for timeout in shorter:
        with suppress(AssertionError, Empty):
            return check(timeout)
    return check(longest)
