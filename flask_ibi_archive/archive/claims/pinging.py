"""Tells the resolver after a commit that there may be new claims, so that it reads them at once.

A resolver that gets no such message reads the claims within a minute anyway. Therefore a message
may get lost, and nothing waits for it. Only a command waits a short time, because it ends the
process that sends the message. Source: federation CL-7.
"""

from __future__ import annotations

import logging
import os
import weakref
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sqlalchemy import select

from flask_ibi_archive.archive.items.operations.context import transaction_committed
from flask_ibi_archive.archive.items.tables import Registration
from flask_ibi_archive.errors import IBIError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The time in seconds from a commit to the message. The log is read at most once a second, and
#: caches keep the checkpoint for a second: after two seconds, the resolver sees the new claims.
PAUSE = 2.0
#: The longest time in seconds that a command waits for its message at its end.
FINISH = 2.0
#: The timeout in seconds for the answer of the resolver, and the number of bytes that are read.
TIMEOUT, MAX_ANSWER = 10, 4096

_logger = logging.getLogger(__name__)


class Pinger:
    """Sends a message to the resolver after commits of the app: one for all commits of a while.

    A commit that has not changed any claim sends no message.

    :param sender: the app. The commits of its Archive are announced by a signal.
    """

    def __init__(self, archive: Archive, sender: object, pause: float = PAUSE) -> None:
        self._archive = archive
        self._pause = pause
        self._reset()
        # the signal must not keep the Archive alive
        transaction_committed.connect(self.note_commit, sender)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_reset_after_fork, weakref.ref(self)))

    def _reset(self) -> None:
        self._is_running = Lock()
        self._is_due = False
        self._is_finishing = Event()
        self._thread: Thread | None = None
        self._size = (0, 0)

    def note_commit(self, sender: object, **values: object) -> None:
        """Let a thread send a message soon. This method does not wait."""
        self._is_due = True
        if self._is_running.acquire(blocking=False):
            thread = Thread(target=self._run, name="ibi-claims-ping", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the process ends, or has too many threads
                self._is_running.release()
            else:
                self._thread = thread

    def finish(self) -> None:
        """Send a message that is due at once, and wait for it for at most :data:`FINISH` seconds.

        Nobody has probably read the log in the last two seconds, so that the resolver sees the new
        claims. If somebody has, it sees them within a minute.
        """
        if self._thread is not None:
            self._is_finishing.set()
            self._thread.join(FINISH)
            self._is_finishing.clear()

    def _run(self) -> None:
        while True:
            while self._is_due:
                self._is_finishing.wait(self._pause)
                self._is_due = False
                self._send()
            self._is_running.release()
            # a commit since the last look has found this thread running
            if not self._is_due or not self._is_running.acquire(blocking=False):
                return

    def _send(self) -> None:
        """Send a message, if a resolver has included the Archive. Errors are only logged."""
        try:
            if self._archive.claims.is_enabled and self._has_news() and self._is_included():
                # imported here, because a server must start fast
                from flask_ibi_archive.server.http.transport import fetch

                url = f"{self._archive.config.resolver_base}/ibi/claims/ping"
                form = urlencode({"service": self._archive.served().service_ibi})
                fetch(url, form=form, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None)
        except IBIError as error:
            _logger.info("the resolver was not told of new claims: %s", error)
        except Exception:
            # the thread must release its lock, and no other thread would log the error
            _logger.exception("the resolver was not told of new claims")

    def _has_news(self) -> bool:
        """Return whether the log has grown since the last call, or will grow."""
        status = self._archive.claims.status()
        before, self._size = self._size, (status.number, status.size)
        return status.pending > 0 or self._size != before

    def _is_included(self) -> bool:
        statement = select(Registration.included_at).where(
            Registration.archive_id == self._archive.served().id
        )
        [row] = self._archive.database.read_rows(statement) or [(None,)]
        return row[0] is not None


def _reset_after_fork(reference: weakref.ref[Pinger]) -> None:
    """Forget the thread of the parent process in a forked process."""
    pinger = reference()
    if pinger is not None:
        pinger._reset()
