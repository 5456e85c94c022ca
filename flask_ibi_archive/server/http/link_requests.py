"""The requests of the link check, with a rate limit for each host.

The link check does not read robots.txt files. These files are meant for programs that follow links
to find new URLs ([RFC 9309] 1). The link check requests only URLs that the Archive shows to
readers, and requests each URL once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import PackageNotFoundError, version
from threading import Event, Lock
from time import monotonic
from urllib.parse import urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.server.http import transport
from flask_ibi_archive.server.http.guarded_http import sending

#: The timeout in seconds for a URL, including all redirects of the URL. The delays between requests
#: do not count.
TIMEOUT = 30.0
#: The number of hosts that are checked at the same time.
THREADS = 8
#: Seconds between two requests to one host.
DELAY = 1.0
#: After this many consecutive failures to reach a host, no more requests are sent to the host.
#: The other links to this host count as failed.
MAX_HOST_FAILURES = 3
#: The largest number of redirects that are followed.
MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
#: An error shows at most this number of characters of the URL of a redirect.
MAX_SHOWN = 200
#: If more than this number of hosts is in memory, the hosts whose delay is over are removed.
MAX_HOSTS = 1000

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def clean_url(url: str) -> str | None:
    """Return a URL without fragment, user and password.

    :returns: None if the URL is not a valid http or https URL.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        parts.port  # noqa: B018 - raises ValueError if the port is not a number
    except ValueError:
        return None
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def user_agent(address: str) -> str:
    """Return the value of the User-Agent header.

    The value contains the name and version of this program, and the URL of the Archive.
    """
    try:
        number = version("flask_ibi_archive")
    except PackageNotFoundError:
        number = "unknown"
    return f"flask_ibi_archive/{number} (+{address})"


def host_of(url: str) -> str:
    """Return the host of a cleaned URL, in lower case and without a port."""
    return (urlsplit(url).hostname or "").rstrip(".")


# --- the end of a check --------------------------------------------------------------------------


class Stopped(Exception):
    """Ends a thread of a check after another thread has failed, or the user has stopped it."""


class StopEvent(Event):
    """An event that is set when the threads of a check must end."""

    def pause(self, seconds: float) -> None:
        """Wait for a number of seconds.

        :raises Stopped: at once if the event is set, also during the wait.
        """
        if self.wait(seconds):
            raise Stopped


# --- rate limit ----------------------------------------------------------------------------------


class HostExcluded(Exception):
    """A host does not want more requests now: it answered 429, or 503 with Retry-After."""


@dataclass
class _Host:
    """The state of the requests to one host."""

    #: The thread that sends a request to the host holds this lock.
    lock: Lock = field(default_factory=Lock)
    #: The number of threads that send a request to the host, or wait for the host.
    users: int = 0
    #: The time of the clock from which the next request to the host is allowed.
    free_at: float = 0.0


class HostLimits:
    """Limits the requests of all threads to one request to a host at a time, with delays.

    :param delay: seconds from the end of a request to the next request to the same host.
    :param clock: returns the time in seconds.
    :param wait: waits for a number of seconds. The function may raise an exception to stop the
        check.
    """

    def __init__(
        self, delay: float, clock: Callable[[], float], wait: Callable[[float], object]
    ) -> None:
        self.delay = delay
        self._clock = clock
        self._wait = wait
        self._hosts: dict[str, _Host] = {}
        self._excluded: set[str] = set()
        self._lock = Lock()

    @contextmanager
    def turn(self, host: str) -> Iterator[None]:
        """Wait until a request to a host is allowed.

        Within the ``with`` block no other thread sends a request to this host.

        :raises HostExcluded: if the host has refused further requests.
        """
        with self._lock:
            entry = self._hosts.setdefault(host, _Host())
            entry.users += 1
        try:
            with entry.lock:
                if self.is_excluded(host):
                    raise HostExcluded
                delay = entry.free_at - self._clock()
                if delay > 0:
                    self._wait(delay)
                try:
                    yield
                finally:
                    entry.free_at = self._clock() + self.delay
        finally:
            with self._lock:
                entry.users -= 1
                if len(self._hosts) > MAX_HOSTS:
                    self._remove_free_hosts()

    def exclude(self, host: str) -> None:
        """Allow no more requests to a host."""
        with self._lock:
            self._excluded.add(host)

    def is_excluded(self, host: str) -> bool:
        """Return True if no more requests to a host are allowed."""
        with self._lock:
            return host in self._excluded

    def _remove_free_hosts(self) -> None:
        now = self._clock()
        self._hosts = {
            name: host for name, host in self._hosts.items() if host.users or host.free_at > now
        }


# --- requests ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The result of the check of a URL.

    :param error: the reason why the URL does not work, in one line. None if the URL works, or if
        the check was postponed.
    :param postponed: True if the host does not want requests now. The URL was not checked.
    :param failed_host: the host that could not be reached, else None.
    """

    error: str | None = None
    postponed: bool = False
    failed_host: str | None = None


@dataclass(slots=True)
class _Budget:
    """The number of seconds that remain for a URL and all redirects of the URL."""

    left: float


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    location: str | None

    @property
    def text(self) -> str:
        # The phrase that the server sends is not used, because a server can send any text.
        return f"answers {self.status} ({_PHRASES.get(self.status, 'unknown')})"


class LinkClient:
    """Checks URLs with HEAD or GET requests, without reading the body of the answer.

    Several threads may use the same client.

    :param limits: the rate limit for each host.
    :param user_agent: the value of the User-Agent header.
    :param inner_hosts: the internal hosts to which the client may send requests.
    :param timeout: the timeout in seconds for a URL, including all redirects of the URL.
    :param inner_setting: the name of the setting that contains ``inner_hosts``.
    """

    def __init__(
        self,
        limits: HostLimits,
        user_agent: str,
        inner_hosts: InnerHosts,
        timeout: float = TIMEOUT,
        inner_setting: str = "IBI_INNER_HOSTS",
    ) -> None:
        self.limits = limits
        self.headers = {"User-Agent": user_agent, "Accept": "*/*"}
        self.inner_hosts = inner_hosts
        self.timeout = timeout
        self.inner_setting = inner_setting

    def check(self, url: str) -> LinkStatus:
        """Check a cleaned URL.

        The URL works if the last answer, after all redirects, has a status from 200 to 299.
        """
        budget = _Budget(self.timeout)
        current = url
        for _ in range(MAX_REDIRECTS + 1):
            prefix = "" if current == url else f"redirects to {_shown(current)}, which "
            try:
                answer = self._request(current, budget)
            except HostExcluded:
                return LinkStatus(postponed=True)
            except TransportError as error:
                failed_host = host_of(current) if error.kind in transport.HOST_ERRORS else None
                return LinkStatus(prefix + self._reason(error), failed_host=failed_host)
            if 200 <= answer.status < 300:
                return LinkStatus()
            if answer.status not in REDIRECTS:
                return LinkStatus(prefix + answer.text)
            if answer.location is None:
                return LinkStatus(f"{prefix}{answer.text} without a Location")
            target = _join(current, answer.location)
            cleaned = clean_url(target)
            if cleaned is None:
                not_web = f"redirects to {_shown(target)}, which is neither http nor https"
                return LinkStatus(prefix + not_web)
            current = cleaned
        return LinkStatus(f"has more than {MAX_REDIRECTS} redirects")

    def _reason(self, error: TransportError) -> str:
        if error.kind == "timeout":
            return f"took longer than {self.timeout:g} s"
        if error.kind == transport.INTERNAL:
            return f"{error.reason}, and the host is not listed in {self.inner_setting}"
        return error.reason

    def _request(self, url: str, budget: _Budget) -> _Answer:
        """Return the answer to a HEAD request, or to a GET request if the HEAD request fails."""
        try:
            answer = self._send("HEAD", url, budget)
            if answer.status < 400:
                return answer
        except TransportError as error:
            if error.kind not in transport.BAD_ANSWERS:
                raise
        return self._send("GET", url, budget)

    def _send(self, method: str, url: str, budget: _Budget) -> _Answer:
        """Send one request when the host allows it, and return the answer.

        :raises HostExcluded: if the host refuses further requests.
        :raises TransportError: if there is no answer in time.
        """
        host = host_of(url)
        with self.limits.turn(host):
            if budget.left <= 0:
                raise TransportError(url, "timeout", "took too long", True)
            begin = monotonic()
            try:
                with sending(
                    method,
                    url,
                    headers=self.headers,
                    seconds=budget.left,
                    inner_hosts=self.inner_hosts,
                ) as response:
                    status, headers = response.status_code, response.headers
            except (requests.RequestException, HTTPError, ValueError, OSError) as error:
                raise transport.explain(transport.without_password(url), error) from error
            finally:
                budget.left -= monotonic() - begin
            # The status says that there are too many requests, or that the server is overloaded.
            if status == 429 or (status == 503 and "Retry-After" in headers):
                self.limits.exclude(host)
                raise HostExcluded
        location = headers.get("Location")
        target = None if location is None else _escape(location.encode("latin-1", "replace"))
        return _Answer(status, target)


def _escape(location: bytes) -> str:
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in location)


def _join(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location


def _shown(url: str) -> str:
    """Return a short form of a URL for a message, without user and password."""
    try:
        parts = urlsplit(url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:
        shown = url.rpartition("@")[2]
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."
