"""The IP addresses of the hosts of Archives. Each DNS lookup runs in its own thread.

libcurl can look up names too, but its lookups are not used, for two reasons. libcurl has few
threads for all lookups. Therefore a DNS server that does not respond would delay the requests to
other hosts, and pycurl has no option to change this. And each address must be checked before a
connection is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from ipaddress import ip_address
from threading import Lock, Thread
from time import monotonic
from typing import TypeAlias, cast

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.server.http.guarded_http import InternalAddress, look_up

#: A host is looked up again if its addresses are older than FRESH seconds. The old addresses are
#: used until the lookup succeeds, but never longer than USABLE seconds.
FRESH, USABLE = 60.0, 3600.0

UNKNOWN_NAME = "can't be reached: the host name is unknown"
INTERNAL = "has an internal IP address, which IBI_RESOLVER_INNER_HOSTS does not allow"

#: Matches the beginning of an allowed URL, up to the path: no user and no password.
_match_host = re.compile(
    r"http://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?(?![^/?])"
).match

#: The result of a lookup: the addresses without brackets, or the reason why there are none.
Addresses: TypeAlias = "tuple[str, ...] | str"


def is_valid_url(url: str) -> bool:
    """Return True if a URL is an http URL of printable ASCII, without spaces and fragment."""
    # the methods of str read a long query ten times as fast as a regular expression
    is_plain = url.isascii() and url.isprintable() and " " not in url and "#" not in url
    return is_plain and _match_host(url) is not None


def split_host(url: str) -> tuple[str, str]:
    """Return the host and the port of a valid URL. The host is in lower case, without brackets."""
    ip, name, port = _match_host(url).groups()  # type: ignore[union-attr]
    return (ip or name).lower(), port or "80"


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class HostNames:
    """A cache of the IP addresses of hosts. Thread-safe.

    :param inner_hosts: the internal hosts to which connections are allowed.
    :param clock: returns the time in seconds.
    """

    def __init__(self, inner_hosts: InnerHosts, clock: Callable[[], float] = monotonic) -> None:
        self._inner_hosts = inner_hosts
        self._clock = clock
        #: The last successful lookup of each host, and its time.
        self._known: dict[str, tuple[float, Future[Addresses]]] = {}
        self._running: dict[str, Future[Addresses]] = {}
        self._lock = Lock()

    def find(self, host: str) -> Future[Addresses]:
        """Return a lookup of the IP addresses of a host, which may still be running.

        If the addresses are missing or older than :data:`FRESH`, this method starts a lookup and
        does not wait. An IP address is checked at once, without a thread. Until the addresses are
        older than :data:`USABLE`, the result is the last successful lookup; after this, the result
        is the running lookup.
        """
        with self._lock:
            now = self._clock()
            at, known = self._known.get(host, (now - USABLE - 1, None))
            running = self._running.get(host)
            starts = now - at > FRESH and running is None
            if starts:
                running = self._running[host] = Future()
            usable = known if now - at <= USABLE else None
        lookup = cast("Future[Addresses]", running)
        if starts and _is_ip(host):
            self._run(host, lookup)
            return lookup
        if starts:
            try:
                Thread(target=self._run, args=(host, lookup), daemon=True).start()
            except RuntimeError:  # the process has too many threads
                with self._lock:
                    self._running.pop(host).set_result(UNKNOWN_NAME)
        return usable or lookup

    def _run(self, host: str, lookup: Future[Addresses]) -> None:
        result: Addresses = UNKNOWN_NAME
        try:
            result = look_up(host, self._inner_hosts)
        except InternalAddress:
            result = INTERNAL
        except (OSError, UnicodeError):
            pass  # the host name is unknown
        finally:
            with self._lock:
                del self._running[host]
                if not isinstance(result, str):
                    self._known[host] = self._clock(), lookup
                elif result is INTERNAL:
                    self._known.pop(host, None)  # the cached addresses are no longer valid
            lookup.set_result(result)
