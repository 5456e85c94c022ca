"""A cache of the IP addresses of hosts. Each DNS lookup runs in its own thread.

libcurl can look up host names too, but this module does not use libcurl for lookups, for two
reasons. First, all requests share the few lookup threads of libcurl. If the DNS servers of ten host
names do not respond, the requests to all other hosts are blocked. Second, libcurl does not check
whether an IP address is internal. This module checks every host, including hosts that are IP
addresses.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from time import monotonic

from flask_ibi_archive.archive.guarded_http import InternalAddress

#: A host is looked up again if its cached addresses are older than FRESH seconds. The cache returns
#: the old addresses until the lookup succeeds, but never addresses older than USABLE seconds.
FRESH, USABLE = 60.0, 3600.0

UNKNOWN_NAME = "can't be reached: the host name is unknown"
INTERNAL = "has an internal IP address, which IBI_RESOLVER_INNER_HOSTS does not allow"

#: Matches the beginning of an allowed URL, up to the path: no user and no password.
_match_host = re.compile(
    r"http://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?(?![^/?])"
).match

Addresses = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result of a DNS lookup.

    :param addresses: the IP addresses of the host, without brackets.
    :param reason: the reason why no address was found. Only used if ``addresses`` is empty.
    """

    addresses: Addresses = ()
    reason: str = UNKNOWN_NAME


def is_valid_url(url: str) -> bool:
    """Return True if a URL is an http URL of printable ASCII, without spaces and fragment."""
    # the methods of str read a long query ten times as fast as a regular expression
    is_plain = url.isascii() and url.isprintable() and " " not in url and "#" not in url
    return is_plain and _match_host(url) is not None


def split_host(url: str) -> tuple[str, str]:
    """Return the host and the port of a valid URL. The host is in lower case, without brackets."""
    ip, name, port = _match_host(url).groups()  # type: ignore[union-attr]
    return (ip or name).lower(), port or "80"


class DnsCache:
    """Caches the IP addresses of hosts. Only one thread may call the methods.

    :param notify: a function without parameters. A lookup thread calls the function after each
        lookup.
    :param look_up: a function that returns the allowed addresses of a host, such as
        :func:`~flask_ibi_archive.archive.guarded_http.look_up`. The function may take any time.
    :param clock: returns the time in seconds.
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
        #: The results that :meth:`collect` has not returned yet.
        self.finished: deque[tuple[str, LookupResult]] = deque()

    def find(self, host: str) -> Addresses | None:
        """Return the cached addresses of a host.

        If the addresses are old or missing, this method starts a lookup and does not wait.

        :returns: None if the cache contains no usable addresses.
        """
        at, addresses = self._cache.get(host, (None, ()))
        age = None if at is None else self._clock() - at
        if (age is None or age > FRESH) and host not in self._running:
            self._running.add(host)
            self._start(host)
        return addresses if age is not None and age <= USABLE else None

    def collect_results(self) -> dict[str, LookupResult]:
        """Return the new lookup results by host, and store the addresses in the cache."""
        results = {}
        while self.finished:
            host, result = self.finished.popleft()
            self._running.discard(host)
            if result.addresses:
                self._cache[host] = self._clock(), result.addresses
            elif result.reason is INTERNAL:
                self._cache.pop(host, None)  # the cached addresses are no longer valid
            results[host] = result
        return results

    def _start(self, host: str) -> None:
        thread = Thread(target=self._run, args=(host,), name="ibi-resolver-dns", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process has too many threads
            self._finish(host, LookupResult())

    def _run(self, host: str) -> None:
        result = LookupResult()
        try:
            result = LookupResult(self._look_up(host))
        except InternalAddress:
            result = LookupResult(reason=INTERNAL)
        except (OSError, UnicodeError):
            pass  # the host name is unknown
        finally:
            self._finish(host, result)

    def _finish(self, host: str, result: LookupResult) -> None:
        self.finished.append((host, result))
        self._notify()
