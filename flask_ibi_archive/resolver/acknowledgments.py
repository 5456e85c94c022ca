"""Acknowledgments, sent in the background with one retry ([R] 6.2, Table 6.11).

An acknowledgment is a message to an Archive: the resolver has redirected a user to a URL that the
Archive returned. The Archive counts this as an access.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Condition
from time import monotonic

from flask_ibi_archive.resolver.http_transfer import TransferResult

#: Maximum number of pending acknowledgments; further ones are discarded.
MAX_WAITING = 1000
#: How often an acknowledgment is sent at most. An Archive accepts the URL key in it only once, so a
#: retry does not count an access twice.
TRIES = 2
#: Minimum number of seconds between two log messages about failures.
LOG_PAUSE = 60.0

_logger = logging.getLogger(__name__)


class AcknowledgmentSender:
    """Sends acknowledgments, counts those that are pending, and logs failures once a minute.

    :param send: starts to send an acknowledgment in the background.
    :param clock: returns the time in seconds.
    """

    def __init__(
        self, send: Callable[[PendingAcknowledgment], None], clock: Callable[[], float] = monotonic
    ) -> None:
        self._send = send
        self._clock = clock
        self._pending = 0
        self._failed = 0
        self._next_log = clock()
        self._changed = Condition()

    def send(self, url: str, milliseconds: int, headers: Mapping[str, str]) -> bool:
        """Start to send an acknowledgment; return False if too many are pending."""
        with self._changed:
            if self._pending >= MAX_WAITING:
                self._count_failure("too many are waiting")
                return False
            self._pending += 1
        self._send(PendingAcknowledgment(self, url, milliseconds, headers))
        return True

    def wait(self, seconds: float) -> bool:
        """Wait until no acknowledgment is pending; return False if the time runs out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def retry(self, acknowledgment: PendingAcknowledgment) -> None:
        """Send an acknowledgment again."""
        self._send(acknowledgment)

    def finish(self, reason: str | None) -> None:
        """Record that an acknowledgment is no longer pending.

        :param reason: why the acknowledgment failed, None if it was delivered.
        """
        with self._changed:
            self._pending -= 1
            if reason is not None:
                self._count_failure(reason)
            if not self._pending:
                self._changed.notify_all()

    def _count_failure(self, reason: str) -> None:
        self._failed += 1
        now = self._clock()
        if now >= self._next_log:
            # the address and the query are not logged: they reveal what a user reads
            _logger.warning(
                "%d acknowledgments were not delivered; the last: %s", self._failed, reason
            )
            self._failed, self._next_log = 0, now + LOG_PAUSE


class PendingAcknowledgment:
    """An acknowledgment that is being sent: a job of the event loop (event_loop.py)."""

    __slots__ = ("_sender", "_tries", "headers", "milliseconds", "url")

    def __init__(
        self,
        sender: AcknowledgmentSender,
        url: str,
        milliseconds: int,
        headers: Mapping[str, str],
    ) -> None:
        self._sender = sender
        self._tries = 1
        self.url = url
        self.milliseconds = milliseconds
        self.headers = headers

    def finish(self, transfer: TransferResult, seconds: float) -> None:
        """Retry if the connection failed, otherwise report the result."""
        if transfer.is_retryable and self._tries < TRIES:
            self._tries += 1
            self._sender.retry(self)
        elif transfer.reason is None and transfer.status != 200:
            self._sender.finish(f"answered with status {transfer.status}")
        else:
            self._sender.finish(transfer.reason)

    def flush(self) -> None:
        """Do nothing, because no caller waits for the result."""
