"""The errands of the resolver: acknowledgments, which nobody waits for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Condition
from time import monotonic

from flask_ibi_archive.resolver.http_transfer import Ended

#: Acknowledgments that wait or are under way at most; further ones are not sent.
MAX_WAITING = 1000
#: How often one is tried: a URL key works once, so that a repetition counts nothing twice.
TRIES = 2
#: Seconds between two lines of the log about those that failed.
QUIET = 60.0

_logger = logging.getLogger(__name__)


class Acknowledgments:
    """Counts the acknowledgments that are under way, and tells the log once in a while of those
    that failed.

    :param send: begins an errand.
    """

    def __init__(
        self, send: Callable[[PendingAcknowledgment], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._send = send
        self._clock = clock
        self._waiting = 0
        self._failed = 0
        self._quiet_till = clock()
        self._changed = Condition()

    def take(self, url: str, milliseconds: int, headers: Mapping[str, str]) -> bool:
        """Begin one; False: too many wait already."""
        with self._changed:
            if self._waiting >= MAX_WAITING:
                self._count_failure("too many wait to be sent")
                return False
            self._waiting += 1
        self._send(PendingAcknowledgment(self, url, milliseconds, headers))
        return True

    def wait(self, seconds: float) -> bool:
        """Wait until none is under way any more; False: there still are some."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, seconds)

    def again(self, errand: PendingAcknowledgment) -> None:
        """Try one once more."""
        self._send(errand)

    def done(self, reason: str | None) -> None:
        """Note that one has ended."""
        with self._changed:
            self._waiting -= 1
            if reason is not None:
                self._count_failure(reason)
            if not self._waiting:
                self._changed.notify_all()

    def _count_failure(self, reason: str) -> None:
        self._failed += 1
        now = self._clock()
        if now >= self._quiet_till:
            # without address and query: they tell what somebody reads
            _logger.warning(
                "acknowledgments that were not delivered: %d, the last: %s", self._failed, reason
            )
            self._failed, self._quiet_till = 0, now + QUIET


class PendingAcknowledgment:
    """An acknowledgment on its way."""

    __slots__ = ("_acknowledgments", "_tries", "headers", "milliseconds", "url")

    def __init__(
        self,
        acknowledgments: Acknowledgments,
        url: str,
        milliseconds: int,
        headers: Mapping[str, str],
    ) -> None:
        self._acknowledgments = acknowledgments
        self._tries = 1
        self.url = url
        self.milliseconds = milliseconds
        self.headers = headers

    def ended(self, ended: Ended, seconds: float) -> None:
        """Try once more where the connection failed."""
        if ended.again and self._tries < TRIES:
            self._tries += 1
            self._acknowledgments.again(self)
            return
        if ended.reason is None and ended.status != 200:
            self._acknowledgments.done(f"answered with status {ended.status}")
        else:
            self._acknowledgments.done(ended.reason)

    def after_turn(self) -> None:
        """Nobody waits for it."""
