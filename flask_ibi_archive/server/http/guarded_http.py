"""Send an HTTP request to an untrusted URL, with a deadline for the whole request.

The URL comes from an item or from another server. An attacker could choose the URL of an internal
server. Therefore these rules apply:

- The name of the host is looked up only once. The IP addresses of the host are checked. The request
  is sent to an IP address that passed the check. A second look-up could return other IP addresses
  (DNS rebinding).
- Redirects are not followed. Passwords from ``~/.netrc`` are not sent. Proxies from environment
  variables are not used.
- The deadline includes the look-up, the connection, TLS and the whole answer. The timeout of the
  library ``requests`` is not sufficient. It applies to each single read, so a server that slowly
  sends single bytes could keep the connection open for ever. Only a TLS handshake may exceed the
  deadline, by the time that the connection took.

To connect to the checked address instead of the name, only public attributes of urllib3 are used
(tested with 1.26 and 2.8): ``connect()``, ``host`` and ``server_hostname`` of a connection, and
``ConnectionCls`` of a pool.

A resolver asks many Archives at the same time with libcurl, and checks the IP addresses in the same
way (:mod:`~flask_ibi_archive.resolver.asking`).
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Lock, Thread, Timer, local
from time import monotonic
from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from flask_ibi_archive.core.protocol.hosts import InnerHosts

#: The shortest timeout in seconds. A socket does not accept the timeout 0.
MIN_TIMEOUT = 0.001

Result = TypeVar("Result")


class InternalAddress(ValueError):
    """Raised if all IP addresses of a host are internal and not allowed by a setting."""


class DeadlinePassed(requests.Timeout):
    """Raised if a request is not complete when its deadline passes."""


def run_within(seconds: float, work: Callable[[], Result]) -> Result | None:
    """Call a function and return the result, or None if the function takes too long.

    The function runs in a daemon thread, because some functions (such as the look-up of a name)
    cannot be stopped. After the timeout, the thread continues, but the result is not used.

    :param seconds: the timeout.
    :param work: the function. The function must not raise exceptions.
    """
    results: SimpleQueue[Result] = SimpleQueue()
    Thread(target=lambda: results.put(work()), daemon=True).start()
    try:
        return results.get(timeout=seconds)
    except Empty:
        return None


def look_up(host: str, inner_hosts: InnerHosts | None) -> tuple[str, ...]:
    """Return the allowed IP addresses of a host.

    :param host: the name or the IP address of the host, without brackets.
    :param inner_hosts: the internal hosts and networks that are allowed; None allows all hosts.
    :raises InternalAddress: if no IP address of the host is allowed.
    :raises OSError: if the name of the host is unknown.
    :raises UnicodeError: if the text is not a valid name of a host.
    """
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys(str(info[4][0]) for info in infos)
    allowed = tuple(
        address
        for address in addresses
        if inner_hosts is None or inner_hosts.allow(host, ip_address(address))
    )
    if not allowed:
        raise InternalAddress(host)
    return allowed


@contextmanager
def sending(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    seconds: float,
    inner_hosts: InnerHosts | None,
    body: bytes | None = None,
) -> Iterator[requests.Response]:
    """Send a request, and yield the response, whose body has not been read yet.

    :param url: a URL with the scheme http or https.
    :param seconds: the time until the deadline, which includes reading the body.
    :param inner_hosts: the internal hosts that are allowed. None: every host is allowed, and
        proxies from environment variables are used. This is only for URLs from the settings.
    :param body: the body of the request; None for a request without a body.
    :raises DeadlinePassed: if the deadline passes before the ``with`` block ends.
    :raises InternalAddress: if the host is internal and not allowed.
    :raises requests.RequestException: if there is no response. In this case an exception of urllib3
        may also be raised.
    """
    guard = _Guard(max(seconds, MIN_TIMEOUT), inner_hosts)
    try:
        with guard, requests.Session() as session:
            adapter = _GuardedAdapter()
            session.mount("http://", adapter)
            session.mount("https://", adapter)
            # environment variables may contain the path of trusted certificates
            options: Any = session.merge_environment_settings(url, {}, True, None, None)
            session.trust_env = False
            if inner_hosts is not None:
                options["proxies"] = {}
            request = session.prepare_request(
                requests.Request(method, url, headers=headers, data=body)
            )
            # session.send() would read the body of a redirect without a limit of its size
            response = session.get_adapter(url).send(request, timeout=guard.left, **options)
            with response:
                yield response
    except Exception as error:
        if guard.expired:
            raise DeadlinePassed from error
        raise
    if guard.expired:  # the connection was closed, but the response may look complete
        raise DeadlinePassed


class _Guard:
    """A context manager that checks IP addresses and closes all connections at the deadline.

    The guard applies to the connections of the thread that has entered the context.
    """

    def __init__(self, seconds: float, inner_hosts: InnerHosts | None) -> None:
        #: Whether the deadline has passed.
        self.expired = False
        self._inner_hosts = inner_hosts
        self._deadline = monotonic() + seconds
        self._sockets: list[socket.socket] = []
        self._lock = Lock()
        self._timer = Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> None:
        # adding the same filter again has no effect
        logging.getLogger("urllib3.connection").addFilter(_is_unguarded)
        _guards.current = self
        self._timer.start()

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        _guards.current = None
        with self._lock:
            for connection in self._sockets:
                connection.close()
            self._sockets.clear()

    @property
    def left(self) -> float:
        """The number of seconds until the deadline, but never less than MIN_TIMEOUT."""
        return max(self._deadline - monotonic(), MIN_TIMEOUT)

    def look_up(self, host: str) -> tuple[str, ...]:
        """Return the allowed IP addresses of a host, as the function :func:`look_up` does.

        :raises DeadlinePassed: if the look-up is not complete at the deadline.
        """

        def work() -> tuple[str, ...] | Exception:
            try:
                return look_up(host, self._inner_hosts)
            except Exception as error:  # noqa: BLE001 - the calling thread raises it
                return error

        result = run_within(self.left, work)
        if isinstance(result, Exception):
            raise result
        if result is None:
            self.expired = True
            raise DeadlinePassed
        return result

    def watch(self, connection: socket.socket) -> None:
        """Make sure that a connection is shut down at the deadline.

        A duplicate of the socket is stored for the timer. The timer runs in another thread, which
        must not change a TLS connection.
        """
        with self._lock:
            fd = connection.fileno()
            self._sockets.append(socket.fromfd(fd, socket.AF_INET, socket.SOCK_STREAM))
        if self.expired:
            self._expire()

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


_guards = local()


def _is_unguarded(record: logging.LogRecord) -> bool:
    """Return whether a log record comes from a thread without a guard.

    This function is a log filter: the records of threads with a guard are dropped, because they may
    contain headers.
    """
    return getattr(_guards, "current", None) is None


class _GuardedConnection(HTTPConnection):
    """A connection to an address that the guard has checked.

    While the connection is opened, ``host`` is the IP address, so that the name is not looked up
    again. Before and after that, ``host`` is the name, which becomes the Host header.
    """

    def connect(self) -> None:
        """Connect to the first allowed IP address that accepts a connection."""
        guard: _Guard = _guards.current
        name = self.host
        addresses = list(guard.look_up(name.strip("[]")))
        if self.proxy:  # a proxy is trusted, and TLS needs its name
            addresses = [name]
        while self.sock is None:
            self.host, self.timeout = addresses.pop(0), guard.left
            try:
                super().connect()
            except (NewConnectionError, ConnectTimeoutError):
                if guard.expired or not addresses:
                    raise
            finally:
                self.host = name
        guard.watch(self.sock)


class _SecureConnection(_GuardedConnection, HTTPSConnection):
    def connect(self) -> None:
        """Connect, and check that the certificate is for the name of the host (not the address)."""
        if not self.proxy:
            self.server_hostname = self.host.strip("[]")
        super().connect()


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _GuardedConnection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS: dict[str, Any] = {"http": _HTTPPool, "https": _HTTPSPool}


class _GuardedAdapter(HTTPAdapter):
    """An adapter that uses the guard of the current thread for all connections."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Create the connection pools."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Return the connection pools for a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager
