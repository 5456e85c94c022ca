"""Looks whether an address on the web answers, without reading what is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock
from time import monotonic
from urllib.parse import urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError

from flask_ibi_archive.archive.guarded_http import sending
from flask_ibi_archive.protocol.hosts import InnerHosts

#: Seconds for an address, all its redirections included, the waiting between requests not.
DEADLINE = 30.0
#: Redirections that are followed.
MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
#: Signs of an address that are shown where it is another one's.
SHOWN = 200


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


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """What came of a look at an address.

    :param error: what is wrong, in one line; None: nothing.
    :param not_now: whether a host asked to be left alone, so that nothing is known.
    :param unreachable: the host that could not be connected to.
    """

    error: str | None = None
    not_now: bool = False
    unreachable: str | None = None


class _Failure(Exception):
    """An address does not answer as it should."""

    def __init__(self, error: str, *, unreachable: bool = False, cut_off: bool = False) -> None:
        self.error = error
        self.unreachable = unreachable
        self.cut_off = cut_off
        super().__init__(error)


@dataclass(slots=True)
class _Budget:
    """The seconds that are left for an address."""

    left: float


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    location: str | None

    @property
    def name(self) -> str:
        """What the status is called: by us, since a server may call it anything."""
        known = {status.value: status.phrase for status in HTTPStatus}
        return f"{self.status} ({known.get(self.status, 'unknown')})"


def clean_url(url: str) -> str | None:
    """Return the address to ask for: without a fragment, a user and a password; None: it is not of
    the web.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError:
        return None
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def host_of(url: str) -> str:
    """Return the host that an address of :func:`clean_url` names; its ports are all one."""
    return (urlsplit(url).hostname or "").rstrip(".")


class LinkClient:
    """Looks at addresses, for as long as it may, as a guest who says who it is. Threads may share
    it.

    robots.txt is not asked for: it speaks to those who follow links to find addresses ([RFC 9309]
    1), while these are addresses that the Archive itself gives its readers, asked for one by one.

    :param limits: says when a host may be asked.
    :param user_agent: who asks.
    :param inner_hosts: the internal hosts that may be asked.
    """

    def __init__(
        self,
        limits: HostLimits,
        user_agent: str,
        inner_hosts: InnerHosts,
        deadline: float = DEADLINE,
    ) -> None:
        self.limits = limits
        self.headers = {"User-Agent": user_agent, "Accept": "*/*"}
        self.inner_hosts = inner_hosts
        self.deadline = deadline

    def look(self, url: str) -> LinkStatus:
        """LinkStatus at an address (:func:`clean_url`): it is well where a 2xx answer comes in the
        end.
        """
        budget = _Budget(self.deadline)
        asked: str = url
        try:
            for _ in range(MAX_REDIRECTS + 1):
                answer = self._find(asked, budget)
                if 200 <= answer.status < 300:
                    return LinkStatus()
                if answer.status not in REDIRECTS:
                    return self._describe(url, asked, f"answers {answer.name}")
                if answer.location is None:
                    return self._describe(
                        url, asked, f"answers {answer.name} and does not say where to go"
                    )
                target = _join(asked, answer.location)
                cleaned = clean_url(target)
                if cleaned is None:
                    error = f"leads to {_shown(target)}, which is neither http nor https"
                    return self._describe(url, asked, error)
                asked = cleaned
        except NotNow:
            return LinkStatus(not_now=True)
        except _Failure as failure:
            host = host_of(asked) if failure.unreachable else None
            return self._describe(url, asked, failure.error, host)
        return LinkStatus(f"leads on more than {MAX_REDIRECTS} times")

    def _describe(
        self, url: str, asked: str, error: str, unreachable: str | None = None
    ) -> LinkStatus:
        where = "" if asked == url else f"leads to {_shown(asked)}, which "
        return LinkStatus(where + error, unreachable=unreachable)

    def _find(self, url: str, budget: _Budget) -> _Answer:
        """Return the answer at an address; where HEAD is refused, GET has the last word."""
        try:
            answer = self._ask("HEAD", url, budget)
            if answer.status < 400:
                return answer
        except _Failure as failure:
            if not failure.cut_off:
                raise
        return self._ask("GET", url, budget)

    def _ask(self, method: str, url: str, budget: _Budget) -> _Answer:
        host = host_of(url)
        with self.limits.turn(host):
            begun = monotonic()
            try:
                answer, retry_after = self._send(method, url, budget.left)
            finally:
                budget.left -= monotonic() - begun
            # too many requests, or too many just now
            if answer.status == 429 or (answer.status == 503 and retry_after):
                self.limits.leave_alone(host)
                raise NotNow
            return answer

    def _send(self, method: str, url: str, left: float) -> tuple[_Answer, bool]:
        late = _Failure(f"took longer than {self.deadline:g} s")
        if left <= 0:
            raise late
        try:
            with sending(
                method, url, headers=self.headers, seconds=left, inner_hosts=self.inner_hosts
            ) as answer:
                status, headers = answer.status_code, answer.headers
        except (requests.RequestException, HTTPError, UnicodeError, ValueError, OSError) as error:
            failure = _explain(error)
            slow = isinstance(error, requests.Timeout)
            if slow and not failure.unreachable:
                raise late from error
            raise failure from error
        location = headers.get("Location")
        found = None if location is None else _escape(location.encode("latin-1", "replace"))
        return _Answer(status, found), "Retry-After" in headers


def _escape(location: bytes) -> str:
    return "".join(chr(byte) if 0x20 < byte < 0x7F else f"%{byte:02X}" for byte in location)


def _join(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return location


def _shown(url: str) -> str:
    try:
        parts = urlsplit(url)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:
        shown = url.rpartition("@")[2]
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


#: What is said of what went wrong, by the name of its class: that of the innermost cause that has a
#: line here.
CAUSES = {
    "InternalAddress": "has an internal IP address, which IBI_INNER_HOSTS does not allow",
    "NameResolutionError": "has a host whose name is unknown",
    "gaierror": "has a host whose name is unknown",
    "ConnectionRefusedError": "has a host that refuses the connection",
    "ConnectTimeoutError": "has a host that can't be reached",
    "ConnectTimeout": "has a host that can't be reached",
    "NewConnectionError": "has a host that can't be reached",
}


def _explain(error: BaseException) -> _Failure:
    chain = _causes(error)
    for cause in chain:
        message = getattr(cause, "verify_message", None)
        if message:
            return _Failure(f"has a certificate that can't be trusted: {message}")
    names = [type(cause).__name__ for cause in chain]
    if "SSLError" in names:
        return _Failure("can't be asked over a secure connection")
    for name, text in CAUSES.items():
        if name in names:
            return _Failure(text, unreachable=True)
    if isinstance(error, ValueError | requests.exceptions.InvalidURL):
        return _Failure("is no address that can be asked for")
    return _Failure("answers in no right HTTP or is cut off", cut_off=True)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error with those behind it, in whatever way they are tied to it."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop()
        if isinstance(current, BaseException) and current not in found:
            found.append(current)
            waiting += [current.__cause__, current.__context__, *current.args]
            waiting.append(getattr(current, "reason", None))
    return found
