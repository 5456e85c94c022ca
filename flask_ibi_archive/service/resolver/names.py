"""The addresses of hosts: each name is looked up in a thread of its own, so that none waits for another.

libcurl looks names up in a few threads that all transfers share: ten servers of names that do not answer would
keep every Archive away that has a name.
"""

from __future__ import annotations

import re
import socket
from collections import deque
from collections.abc import Callable
from threading import Thread
from time import monotonic

#: Seconds after which addresses are looked up again, while they are used on; then that they are used at most.
FRESH, USABLE = 60.0, 3600.0

_NAME = re.compile(r"http://(?!\[|[0-9.]+(?:[:/?]|$))([^:/?]+):?([0-9]*)")

Addresses = tuple[str, ...]


def split_name(url: str) -> tuple[str, str] | None:
    """Give the name and the port of a URL's host, None where it has an address instead."""
    found = _NAME.match(url)
    return None if found is None else (found[1].lower(), found[2] or "80")


def resolve_entry(name: tuple[str, str], addresses: Addresses) -> str:
    """Give a name, its port and its addresses as libcurl takes them."""
    return f"{name[0]}:{name[1]}:{','.join(addresses)}"


def look_up(host: str) -> Addresses:
    """Give the addresses of a host, those of IPv6 in brackets; none: its name is not known now."""
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    found = dict.fromkeys(str(info[4][0]) for info in infos)
    # an address with a zone is of this machine's network
    return tuple(f"[{one}]" if ":" in one else one for one in found if "%" not in one)


class Names:
    """Remembers addresses. One thread asks; it hears that more is known.

    :param tell: is called, in another thread, when a host was looked up.
    :param search: gives the addresses of a host; it may take any time.
    """

    def __init__(
        self,
        tell: Callable[[], None],
        search: Callable[[str], Addresses] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._tell = tell
        self._search = search or look_up
        self._clock = clock
        self._known: dict[str, tuple[float, Addresses]] = {}
        self._under_way: set[str] = set()
        #: What is to be taken.
        self.found: deque[tuple[str, Addresses]] = deque()

    def find(self, host: str) -> Addresses | None:
        """Give the addresses of a host, None where they must be looked up first, which begins by that."""
        at, addresses = self._known.get(host, (None, ()))
        age = None if at is None else self._clock() - at
        if (age is None or age > FRESH) and host not in self._under_way:
            self._under_way.add(host)
            self._begin(host)
        return addresses if age is not None and age <= USABLE else None

    def take(self) -> list[tuple[str, Addresses]]:
        """Give the hosts that were looked up since, with their addresses: none, it was in vain."""
        looked_up = []
        while self.found:
            host, addresses = self.found.popleft()
            self._under_way.discard(host)
            if addresses:
                self._known[host] = self._clock(), addresses
            looked_up.append((host, addresses))
        return looked_up

    def _begin(self, host: str) -> None:
        thread = Thread(target=self._run, args=(host,), name="ibi-resolver-name", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are no more threads now
            self._end(host, ())

    def _run(self, host: str) -> None:
        addresses: Addresses = ()
        try:
            addresses = self._search(host)
        finally:
            self._end(host, addresses)

    def _end(self, host: str, addresses: Addresses) -> None:
        self.found.append((host, addresses))
        self._tell()
