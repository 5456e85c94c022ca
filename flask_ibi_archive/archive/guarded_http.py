"""One HTTP request, as it is sent to an address that somebody else named.

A name is looked up, its IP addresses are judged, and only those that passed are connected to: no
second look-up may give others. No redirect is followed, no password of ``~/.netrc`` is sent, no
proxy of the environment is used, and there is a deadline for the whole request: the timeout of
requests is for each read alone, and a server that sends a byte now and then never reaches it.

What a resolver asks many Archives at once goes through libcurl
(:mod:`~flask_ibi_archive.resolver.http_transfer`), with addresses of :func:`look_up` too.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from threading import Lock, Timer, local
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from flask_ibi_archive.protocol.hosts import InnerHosts


class InternalAddress(ValueError):
    """A host has internal IP addresses alone, and no setting allows them."""


class DeadlinePassed(requests.Timeout):
    """A request took longer than it may."""


def look_up(host: str, inner_hosts: InnerHosts) -> tuple[str, ...]:
    """Return the IP addresses of a host that may be connected to.

    :param host: a name or an IP address in any form that the system reads, without brackets.
    :param inner_hosts: the internal hosts and networks that are allowed.
    :raises InternalAddress: if none of its addresses is allowed.
    :raises OSError: if its name is unknown.
    :raises UnicodeError: if it can't be a name.
    """
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found = dict.fromkeys(str(info[4][0]) for info in infos)
    allowed = tuple(one for one in found if inner_hosts.allow(host, ip_address(one)))
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
    """Send a request, and provide the answer, whose body is not read yet.

    :param url: http or https.
    :param seconds: for the whole request, the reading of the body included. The look-up of a name
        is not cut off.
    :param inner_hosts: the internal hosts that may be asked. None: the address is one of our own
        settings; it may be anywhere, and the proxies of the environment are used.
    :raises DeadlinePassed: if it takes longer.
    :raises InternalAddress: if the host is an internal one that may not be asked.
    :raises requests.RequestException: or another of requests and urllib3, if there is no answer.
    """
    guard = _Guard(seconds, inner_hosts)
    try:
        with guard, requests.Session() as session:
            adapter = _GuardedAdapter()
            session.mount("http://", adapter)
            session.mount("https://", adapter)
            # the certificates that are trusted may be set in the environment
            options: Any = session.merge_environment_settings(url, {}, True, None, None)
            session.trust_env = False
            if inner_hosts is not None:
                options["proxies"] = {}
            request = session.prepare_request(requests.Request(method, url, headers=headers))
            # not session.send, which reads the body of a redirect, however long it is
            with session.get_adapter(url).send(request, timeout=seconds, **options) as answer:
                yield answer
    except Exception as error:
        if guard.expired:
            raise DeadlinePassed from error
        raise
    if guard.expired:  # a head or a body that is cut off may look like its end
        raise DeadlinePassed


class _Guard:
    """Judges whom its thread connects to, and cuts the connections off at the deadline; a context
    manager.
    """

    def __init__(self, seconds: float, inner_hosts: InnerHosts | None) -> None:
        #: Whether it has cut them off.
        self.expired = False
        self.inner_hosts = inner_hosts
        self._sockets: list[socket.socket] = []
        self._lock = Lock()
        self._timer = Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        # a filter that is there already is not added again
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

    def watch(self, connection: socket.socket) -> socket.socket:
        """Cut a connection off at the deadline. A duplicate is kept: TLS takes the connection
        itself over.
        """
        with self._lock:
            self._sockets.append(connection.dup())
        if self.expired:
            self._cut()
        return connection

    def _cut(self) -> None:
        with self._lock:
            self.expired = True
            for connection in self._sockets:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


_guards = local()


def _is_unguarded(record: logging.LogRecord) -> bool:
    """Keep out of the log what urllib3 thinks of the headers of the servers that are asked here."""
    return getattr(_guards, "current", None) is None


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        """Connect to the first allowed IP address that answers."""
        guard: _Guard = _guards.current
        if guard.inner_hosts is None:
            return guard.watch(super()._new_conn())
        host = self._dns_host
        failure: Exception | None = None
        try:
            for self._dns_host in look_up(host.strip("[]"), guard.inner_hosts):
                try:
                    return guard.watch(super()._new_conn())
                except (NewConnectionError, ConnectTimeoutError) as error:
                    failure = error
                if guard.expired:
                    break
            assert failure is not None
            raise failure
        finally:
            self._dns_host = host  # certificates are for the name


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS: dict[str, Any] = {"http": _HTTPPool, "https": _HTTPSPool}


class _GuardedAdapter(HTTPAdapter):
    """Connects under the guard of the thread, which must have one."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Return the pools of connections that go through a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager
