"""Sending of acknowledgments in the background, with one retry ([R] 6.2, Table 6.11).

With an acknowledgment, the resolver tells an Archive that a user was redirected to a URL of the
Archive. The Archive counts this redirect as an access.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from threading import Condition
from time import monotonic

from flask_ibi_archive.resolver.engine import Request
from flask_ibi_archive.resolver.http_transfer import TransferResult

#: Maximum number of pending acknowledgments. Further acknowledgments are discarded.
MAX_WAITING = 1000
#: Maximum number of times that one acknowledgment is sent. The acknowledgment contains a URL key,
#: which the Archive accepts only once. Therefore, a retry does not count an access twice.
MAX_TRIES = 2
#: Minimum number of seconds between two log messages about failures.
LOG_PAUSE = 60.0

_logger = logging.getLogger(__name__)


class Acknowledgments:
    """The acknowledgments that are not delivered yet. Failures are logged once a minute.

    Thread-safe.

    :param clock: a function that returns the time in seconds.
    :ivar waiting: the requests that must be sent (concurrent_requests.py).
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self.waiting: deque[Request] = deque()
        self._pending = 0
        self._failed = 0
        self._next_log = clock()
        self._changed = Condition()

    def add(self, url: str, milliseconds: int, headers: Mapping[str, str]) -> bool:
        """Add an acknowledgment.

        :param milliseconds: the time limit for the transfer.
        :returns: False if too many acknowledgments are pending.
        """
        with self._changed:
            if self._pending >= MAX_WAITING:
                self._count_failure("too many acknowledgments are pending")
                return False
            self._pending += 1
        self._add(url, milliseconds, headers, 1)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait until no acknowledgment is pending.

        :returns: False if acknowledgments are still pending after this time.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, seconds)

    def _add(self, url: str, milliseconds: int, headers: Mapping[str, str], tries: int) -> None:
        again = partial(self._add, url, milliseconds, headers, tries + 1)
        finish = partial(self._finish, again if tries < MAX_TRIES else None)
        self.waiting.append(Request(url, milliseconds, finish, headers))

    def _finish(
        self, send_again: Callable[[], None] | None, transfer: TransferResult, seconds: float
    ) -> None:
        """Send the acknowledgment again if the connection failed; otherwise count the result."""
        reason = transfer.reason
        if reason is None and transfer.status != 200:
            reason = f"the Archive answered with status {transfer.status}"
        if transfer.is_retryable and send_again is not None:
            send_again()
            return
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
