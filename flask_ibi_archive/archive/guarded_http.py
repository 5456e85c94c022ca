"""Send one HTTP request to an address that somebody else chose, with one deadline.

The address comes from an item or from another server, and could be that of an internal server.

- The name of the host is looked up once. Its IP addresses are checked, and the request is sent to
  an address that passed the check. A second look-up could return other addresses (DNS rebinding).
- Redirects are not followed, passwords of ``~/.netrc`` are not sent, and proxies of the environment
  are not used.
- The deadline includes the look-up, the connection, TLS and the whole answer. The timeout of the
  library ``requests`` applies to each read, so a server that sends single bytes never exceeds it.

A resolver sends its many concurrent requests with libcurl
(:mod:`~flask_ibi_archive.resolver.http_transfer`); it checks addresses with :func:`look_up` too.
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

from flask_ibi_archive.protocol.hosts import InnerHosts

#: The shortest timeout in seconds: a socket does not accept 0.
MIN_TIMEOUT = 0.001

Result = TypeVar("Result")


class InternalAddress(ValueError):
    """Raised if a host has only internal IP addresses that no setting allows."""


class DeadlinePassed(requests.Timeout):
    """Raised if a request was not complete at its deadline."""


def run_within(seconds: float, work: Callable[[], Result]) -> Result | None:
    """Run a callable that never raises and return its result, or None if it takes too long.

    The callable runs in a daemon thread, because the look-up of a name, for example, cannot be
    stopped. After a timeout the thread continues, but nothing uses its result.
    """
    results: SimpleQueue[Result] = SimpleQueue()
    Thread(target=lambda: results.put(work()), daemon=True).start()
    try:
        return results.get(timeout=seconds)
    except Empty:
        return None


def look_up(host: str, inner_hosts: InnerHosts | None) -> tuple[str, ...]:
    """Return the allowed IP addresses of a host.

    :param host: a name or an IP address in any form that the system accepts, without brackets.
    :param inner_hosts: the internal hosts and networks that are allowed; None allows all.
    :raises InternalAddress: if none of the host's addresses is allowed.
    :raises OSError: if the name is unknown.
    :raises UnicodeError: if the text cannot be a name.
    """
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found = dict.fromkeys(str(info[4][0]) for info in infos)
    allowed = tuple(
        address
        for address in found
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
) -> Iterator[requests.Response]:
    """Send a request and yield the response, whose body has not been read yet.

    :param url: a URL with the scheme http or https.
    :param seconds: the time until the deadline, which includes reading the body.
    :param inner_hosts: the internal hosts that are allowed. None for an address of our own
        settings: every host is allowed, and proxies of the environment are used.
    :raises DeadlinePassed: if the deadline passes.
    :raises InternalAddress: if the host is internal and not allowed.
    :raises requests.RequestException: or an exception of urllib3, if there is no response.
    """
    guard = _Guard(max(seconds, MIN_TIMEOUT), inner_hosts)
    try:
        with guard, requests.Session() as session:
            adapter = _GuardedAdapter()
            session.mount("http://", adapter)
            session.mount("https://", adapter)
            # variables of the environment may name trusted certificates
            options: Any = session.merge_environment_settings(url, {}, True, None, None)
            session.trust_env = False
            if inner_hosts is not None:
                options["proxies"] = {}
            request = session.prepare_request(requests.Request(method, url, headers=headers))
            # session.send would read the body of a redirect, however long it is
            response = session.get_adapter(url).send(request, timeout=guard.left, **options)
            with response:
                yield response
    except Exception as error:
        if guard.expired:
            raise DeadlinePassed from error
        raise
    if guard.expired:  # a response that was cut off may look complete
        raise DeadlinePassed


class _Guard:
    """A context manager that checks addresses and ends all connections at the deadline.

    It applies to the connections of the thread that has entered it.
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
        """The seconds until the deadline, but at least the shortest timeout of a socket."""
        return max(self._deadline - monotonic(), MIN_TIMEOUT)

    def look_up(self, host: str) -> tuple[str, ...]:
        """Return the result of the function :func:`look_up`, or raise an error at the deadline."""

        def work() -> tuple[str, ...] | Exception:
            try:
                return look_up(host, self._inner_hosts)
            except Exception as error:  # noqa: BLE001 - the calling thread raises it
                return error

        found = run_within(self.left, work)
        if isinstance(found, Exception):
            raise found
        if found is None:
            self.expired = True
            raise DeadlinePassed
        return found

    def watch(self, connection: socket.socket) -> socket.socket:
        """Shut a connection down at the deadline.

        A duplicate of the socket is stored, because TLS replaces the socket object.
        """
        with self._lock:
            self._sockets.append(connection.dup())
        if self.expired:
            self._expire()
        return connection

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


_guards = local()


def _is_unguarded(record: logging.LogRecord) -> bool:
    """Return False for log records of threads with a guard: they may contain headers."""
    return getattr(_guards, "current", None) is None


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        """Return a connection to the first allowed IP address that accepts one."""
        guard: _Guard = _guards.current
        host = self._dns_host
        failure: Exception | None = None
        try:
            for self._dns_host in guard.look_up(host.strip("[]")):
                self.timeout = guard.left
                try:
                    return guard.watch(super()._new_conn())
                except (NewConnectionError, ConnectTimeoutError) as error:
                    failure = error
                if guard.expired:
                    break
            assert failure is not None
            raise failure
        finally:
            self._dns_host = host  # TLS compares the host name with the certificate


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS: dict[str, Any] = {"http": _HTTPPool, "https": _HTTPSPool}


class _GuardedAdapter(HTTPAdapter):
    """An adapter whose connections are checked by the guard of the current thread."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Create the pools of connections."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Return the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager
