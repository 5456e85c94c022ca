"""The thread in which a resolver follows logs (IBI_RESOLVER_FOLLOW)."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import partial
from threading import Event, Lock, Thread

from flask_ibi_archive.resolver.old_claims.follower import Follower


class FollowerThread:
    """Runs a follower in a thread of each process that calls :meth:`start`. Thread-safe.

    The lease in the database decides which of the processes follows. The others take over when it
    ends.

    :param make_follower: returns a new follower.
    """

    def __init__(self, make_follower: Callable[[], Follower]) -> None:
        self._make_follower = make_follower
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_reset_after_fork, weakref.ref(self)))

    def _reset(self) -> None:
        self._lock = Lock()
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = Thread(target=self._run, name="ibi-resolver-follow", daemon=True)
                    self._thread.start()

    def close(self, seconds: float = 2.0) -> None:
        """Stop the thread.

        :param seconds: the maximum time to wait for its end.
        """
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        follower = self._make_follower()
        try:
            follower.run(self._stop)
        finally:
            follower.close()


def _reset_after_fork(reference: weakref.ref[FollowerThread]) -> None:
    """Let a forked process start its own thread."""
    thread = reference()
    if thread is not None:
        thread._reset()
