"""The addresses of hosts: each name is looked up in a thread of its own, so that none waits for
another.

libcurl looks names up in a few threads that all transfers share: ten servers of names that do not
answer would keep every Archive away that has a name. And libcurl would not let us judge the
addresses: a host that is an address already, in whatever form, is looked up here as well.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from time import monotonic

from flask_ibi_archive.archive.guarded_http import InternalAddress

#: Seconds after which addresses are looked up again, while they are used on; then that they are
#: used at most.
FRESH, USABLE = 60.0, 3600.0

NO_NAME = "can't be reached: its name is not known"
INTERNAL = "has an internal IP address, which IBI_RESOLVER_INNER_HOSTS does not allow"

#: What a URL looks like that is asked for: a host without user and password, no fragment, no
#: control character, no space, nothing that is not ASCII.
_URL = re.compile(
    r"http://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?([/?][!-\"$-~]*)?"
)

Addresses = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a look-up.

    :param addresses: IP addresses, without brackets.
    :param reason: why there are none.
    """

    addresses: Addresses = ()
    reason: str = NO_NAME


def is_askable(url: str) -> bool:
    """Return whether a URL can be asked for as it is: http, and no sign that would end the
    request's line.
    """
    return _URL.fullmatch(url) is not None


def split_host(url: str) -> tuple[str, str]:
    """Return the host of a URL (:func:`is_askable`) in lower case, without brackets, and its port."""
    ip, name, port, _ = _URL.match(url).groups()  # type: ignore[union-attr]
    return (ip or name).lower(), port or "80"


class Names:
    """Remembers addresses. One thread asks; it hears that more is known.

    :param tell: is called, in another thread, when a host was looked up.
    :param search: returns the addresses of a host that may be used, as
        :func:`~flask_ibi_archive.archive.guarded_http.look_up` does; it may take any time.
    """

    def __init__(
        self,
        tell: Callable[[], None],
        search: Callable[[str], Addresses],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._tell = tell
        self._search = search
        self._clock = clock
        self._known: dict[str, tuple[float, Addresses]] = {}
        self._under_way: set[str] = set()
        #: What is to be taken.
        self.found: deque[tuple[str, Found]] = deque()

    def find(self, host: str) -> Addresses | None:
        """Return the addresses of a host, None where they must be looked up first, which begins by
        that.
        """
        at, addresses = self._known.get(host, (None, ()))
        age = None if at is None else self._clock() - at
        if (age is None or age > FRESH) and host not in self._under_way:
            self._under_way.add(host)
            self._begin(host)
        return addresses if age is not None and age <= USABLE else None

    def take(self) -> dict[str, Found]:
        """Return what the look-ups that ended since found, by host."""
        looked_up = {}
        while self.found:
            host, found = self.found.popleft()
            self._under_way.discard(host)
            if found.addresses:
                self._known[host] = self._clock(), found.addresses
            elif found.reason is INTERNAL:
                self._known.pop(host, None)  # what it was before does not count any more
            looked_up[host] = found
        return looked_up

    def _begin(self, host: str) -> None:
        thread = Thread(target=self._run, args=(host,), name="ibi-resolver-name", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are no more threads now
            self._end(host, Found())

    def _run(self, host: str) -> None:
        found = Found()
        try:
            found = Found(self._search(host))
        except InternalAddress:
            found = Found(reason=INTERNAL)
        except (OSError, UnicodeError):
            pass  # its name is not known
        finally:
            self._end(host, found)

    def _end(self, host: str, found: Found) -> None:
        self.found.append((host, found))
        self._tell()
