"""A cache of the IP addresses of hosts; each host name is looked up in its own thread.

libcurl could look host names up itself, but has two disadvantages. Its few lookup threads are
shared by all requests: ten names whose DNS servers do not respond would block the requests to all
other names. And libcurl does not check whether an address is internal. For this check, a host that
is an IP address in any notation is looked up here too.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from time import monotonic

from flask_ibi_archive.archive.guarded_http import InternalAddress

#: Addresses older than FRESH seconds are looked up again. Until the lookup succeeds, old addresses
#: are used if they are not older than USABLE seconds.
FRESH, USABLE = 60.0, 3600.0

UNKNOWN_NAME = "can't be reached: the host name is unknown"
INTERNAL = "has an internal IP address, which IBI_RESOLVER_INNER_HOSTS does not allow"

#: Matches a URL that may be requested: printable ASCII without user, password and fragment.
_URL = re.compile(
    r"http://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?([/?][!-\"$-~]*)?"
)

Addresses = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result of looking a host name up.

    :param addresses: IP addresses, without brackets.
    :param reason: why there are no addresses.
    """

    addresses: Addresses = ()
    reason: str = UNKNOWN_NAME


def is_valid_url(url: str) -> bool:
    """Return whether a URL is an http URL without characters that could end the request line."""
    return _URL.fullmatch(url) is not None


def split_host(url: str) -> tuple[str, str]:
    """Return host and port of a valid URL; the host is in lower case and without brackets."""
    ip, name, port, _ = _URL.match(url).groups()  # type: ignore[union-attr]
    return (ip or name).lower(), port or "80"


class DnsCache:
    """Caches the IP addresses of hosts. Only one thread may call its methods.

    :param notify: called in another thread when a host was looked up.
    :param look_up: returns the allowed addresses of a host, as
        :func:`~flask_ibi_archive.archive.guarded_http.look_up`; a lookup may take any time.
    """

    def __init__(
        self,
        notify: Callable[[], None],
        look_up: Callable[[str], Addresses],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._notify = notify
        self._look_up = look_up
        self._clock = clock
        self._cache: dict[str, tuple[float, Addresses]] = {}
        self._running: set[str] = set()
        #: Results that :meth:`collect` has not returned yet.
        self.finished: deque[tuple[str, LookupResult]] = deque()

    def find(self, host: str) -> Addresses | None:
        """Return the cached addresses of a host or None; look up old or missing addresses."""
        at, addresses = self._cache.get(host, (None, ()))
        age = None if at is None else self._clock() - at
        if (age is None or age > FRESH) and host not in self._running:
            self._running.add(host)
            self._start(host)
        return addresses if age is not None and age <= USABLE else None

    def collect(self) -> dict[str, LookupResult]:
        """Cache the results of the lookups since the last call, and return them by host."""
        results = {}
        while self.finished:
            host, result = self.finished.popleft()
            self._running.discard(host)
            if result.addresses:
                self._cache[host] = self._clock(), result.addresses
            elif result.reason is INTERNAL:
                self._cache.pop(host, None)  # earlier addresses are no longer valid
            results[host] = result
        return results

    def _start(self, host: str) -> None:
        thread = Thread(target=self._run, args=(host,), name="ibi-resolver-dns", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # too many threads
            self._finish(host, LookupResult())

    def _run(self, host: str) -> None:
        result = LookupResult()
        try:
            result = LookupResult(self._look_up(host))
        except InternalAddress:
            result = LookupResult(reason=INTERNAL)
        except (OSError, UnicodeError):
            pass  # the name is unknown
        finally:
            self._finish(host, result)

    def _finish(self, host: str, result: LookupResult) -> None:
        self.finished.append((host, result))
        self._notify()
