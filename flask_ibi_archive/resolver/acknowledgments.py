"""Sending of acknowledgments in the background, with one retry ([R] 6.2, Table 6.11).

With an acknowledgment, the resolver tells an Archive that a user was redirected to a URL of the
Archive. The Archive counts this redirect as an access.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Condition
from time import monotonic

from flask_ibi_archive.resolver.http_transfer import TransferResult

#: Maximum number of pending acknowledgments. Further acknowledgments are discarded.
MAX_WAITING = 1000
#: Maximum number of times that one acknowledgment is sent. The acknowledgment contains a URL key,
#: which the Archive accepts only once. Therefore, a retry does not count an access twice.
MAX_TRIES = 2
#: Minimum number of seconds between two log messages about failures.
LOG_PAUSE = 60.0

_logger = logging.getLogger(__name__)


class AcknowledgmentSender:
    """Sends acknowledgments, counts pending acknowledgments, and logs failures once a minute.

    :param send: a function that starts to send an acknowledgment in the background.
    :param clock: a function that returns the time in seconds.
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
        """Start to send an acknowledgment.

        :param milliseconds: the time limit for the transfer.
        :returns: False if too many acknowledgments are pending.
        """
        with self._changed:
            if self._pending >= MAX_WAITING:
                self._count_failure("too many acknowledgments are pending")
                return False
            self._pending += 1
        self._send(PendingAcknowledgment(self, url, milliseconds, headers))
        return True

    def wait(self, seconds: float) -> bool:
        """Wait until no acknowledgment is pending.

        :returns: False if acknowledgments are still pending after this time.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def retry(self, acknowledgment: PendingAcknowledgment) -> None:
        """Send an acknowledgment again."""
        self._send(acknowledgment)

    def finish(self, reason: str | None) -> None:
        """Record that an acknowledgment is no longer pending.

        :param reason: why the acknowledgment failed, or None if the Archive received it.
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
            # the address and the query are not logged, because they reveal what a user reads
            _logger.warning(
                "%d acknowledgments were not delivered; the last failure: %s", self._failed, reason
            )
            self._failed, self._next_log = 0, now + LOG_PAUSE


class PendingAcknowledgment:
    """An acknowledgment that is not delivered yet, as a job of the event loop (event_loop.py)."""

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
        """Send the acknowledgment again if the connection failed; otherwise report the result."""
        if transfer.is_retryable and self._tries < MAX_TRIES:
            self._tries += 1
            self._sender.retry(self)
        elif transfer.reason is None and transfer.status != 200:
            self._sender.finish(f"the Archive answered with status {transfer.status}")
        else:
            self._sender.finish(transfer.reason)

    def flush(self) -> None:
        """Do nothing, because no caller waits for the result."""
