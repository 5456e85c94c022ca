"""Pollers wait until at least one of many sockets is ready. The event loop uses a poller.

The poller uses epoll on Linux, and the standard library's module ``selectors`` on other systems.
For each answer, libcurl starts and stops watching a socket. With ``selectors`` these two steps take
three times as long as with epoll. This difference was measured with 128 Archives: with epoll, the
fan-out takes 1.6 to 1.8 times as long as the slowest answer. With ``selectors``, the fan-out takes
2.3 to 2.9 times as long as the slowest answer (tests/benchmarks/fan_out.py).
"""

from __future__ import annotations

import select
import selectors
from collections.abc import Sequence

import pycurl

READ = pycurl.CSELECT_IN
WRITE = pycurl.CSELECT_OUT

#: The maximum number of sockets that one call of epoll returns.
_MAX_EVENTS = 256


class EpollPoller:
    """Waits with epoll until sockets are ready to read or to write."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: set[int] = set()
        self._wait = self._epoll.poll

    def watch(self, fd: int, events: int) -> None:
        """Watch a socket for READ, WRITE or both. Earlier events of the socket are replaced."""
        if fd in self._watched:
            self._epoll.modify(fd, _TO_EPOLL[events])
        else:
            self._epoll.register(fd, _TO_EPOLL[events])
            self._watched.add(fd)

    def unwatch(self, fd: int) -> None:
        """Stop watching a socket."""
        if fd in self._watched:
            self._watched.remove(fd)
            self._epoll.unregister(fd)

    def wait(self, seconds: float | None) -> Sequence[tuple[int, int]]:
        """Return the ready sockets and the events of each socket.

        :param seconds: the maximum time to wait. None means no time limit.
        """
        return [
            (fd, _FROM_EPOLL.get(events, READ | WRITE))
            for fd, events in self._wait(seconds, _MAX_EVENTS)
        ]

    def close(self) -> None:
        """Close the poller."""
        self._epoll.close()


class SelectorPoller:
    """Waits with the standard library's default selector until sockets are ready."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def watch(self, fd: int, events: int) -> None:
        """Watch a socket for READ, WRITE or both. Earlier events of the socket are replaced."""
        if fd in self._selector.get_map():
            self._selector.modify(fd, _TO_SELECTOR[events])
        else:
            self._selector.register(fd, _TO_SELECTOR[events])

    def unwatch(self, fd: int) -> None:
        """Stop watching a socket."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def wait(self, seconds: float | None) -> Sequence[tuple[int, int]]:
        """Return the ready sockets and the events of each socket.

        :param seconds: the maximum time to wait. None means no time limit.
        """
        return [
            (
                key.fd,
                (READ if events & selectors.EVENT_READ else 0)
                | (WRITE if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in self._selector.select(seconds)
        ]

    def close(self) -> None:
        """Close the poller."""
        self._selector.close()


def create_poller() -> EpollPoller | SelectorPoller:
    """Return the fastest poller that the system supports."""
    return EpollPoller() if hasattr(select, "epoll") else SelectorPoller()


_TO_SELECTOR = {
    READ: selectors.EVENT_READ,
    WRITE: selectors.EVENT_WRITE,
    READ | WRITE: selectors.EVENT_READ | selectors.EVENT_WRITE,
}
if hasattr(select, "epoll"):
    _TO_EPOLL = {
        READ: select.EPOLLIN,
        WRITE: select.EPOLLOUT,
        READ | WRITE: select.EPOLLIN | select.EPOLLOUT,
    }
    #: All other events, such as errors and closed connections, count as READ and WRITE.
    _FROM_EPOLL = {select.EPOLLIN: READ, select.EPOLLOUT: WRITE}
