"""Asks each host for one thing at a time, and leaves it a while in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

#: Hosts that are remembered before those whose while is over are forgotten.
REMEMBERED = 1000


class NotNow(Exception):
    """A host has asked to be left alone."""


@dataclass
class _Host:
    lock: Lock = field(default_factory=Lock)
    #: How many ask or wait to ask.
    users: int = 0
    free_at: float = 0.0


class HostLimits:
    """When a host may be asked. Threads share it.

    :param delay: seconds from the end of a request to the next one to the same host.
    :param clock: gives the time, in seconds.
    :param wait: waits some seconds; it may raise, to end everything.
    """

    def __init__(
        self, delay: float, clock: Callable[[], float], wait: Callable[[float], None]
    ) -> None:
        self.delay = delay
        self._clock = clock
        self._wait = wait
        self._hosts: dict[str, _Host] = {}
        self._left_alone: set[str] = set()
        self._lock = Lock()

    @contextmanager
    def turn(self, host: str) -> Iterator[None]:
        """Wait until a host may be asked; nobody else asks it meanwhile.

        :raises NotNow: if it has asked to be left alone.
        """
        with self._lock:
            entry = self._hosts.setdefault(host, _Host())
            entry.users += 1
        try:
            with entry.lock:
                if self.leaves_alone(host):
                    raise NotNow
                rest = entry.free_at - self._clock()
                if rest > 0:
                    self._wait(rest)
                try:
                    yield
                finally:
                    entry.free_at = self._clock() + self.delay
        finally:
            with self._lock:
                entry.users -= 1
                if len(self._hosts) > REMEMBERED:
                    self._forget()

    def leave_alone(self, host: str) -> None:
        """Ask a host for nothing any more."""
        with self._lock:
            self._left_alone.add(host)

    def leaves_alone(self, host: str) -> bool:
        """Tell whether a host is asked for nothing any more."""
        with self._lock:
            return host in self._left_alone

    def _forget(self) -> None:
        now = self._clock()
        self._hosts = {
            name: host for name, host in self._hosts.items() if host.users or host.free_at > now
        }
