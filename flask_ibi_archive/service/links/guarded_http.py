"""HTTP with a deadline for the whole of a request, however it comes.

The timeout of requests is for each read alone, and a server that sends a byte now and then never reaches it.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from threading import Lock, Timer, local
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class Guard:
    """Cuts the connections that its thread makes meanwhile off when their time is over; a context manager.

    :param seconds: how long that is.
    """

    def __init__(self, seconds: float) -> None:
        #: Whether it has cut them off.
        self.expired = False
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

    def watch(self, connection: socket.socket) -> None:
        """Take a connection. It is a double that is kept: TLS takes the connection itself over."""
        with self._lock:
            self._sockets.append(connection.dup())
        if self.expired:
            self._cut()

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
        connection = super()._new_conn()
        _guards.current.watch(connection)
        return connection


class _SecureConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        connection = super()._new_conn()
        _guards.current.watch(connection)
        return connection


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


_POOLS: dict[str, Any] = {"http": _HTTPPool, "https": _HTTPSPool}


class GuardedAdapter(HTTPAdapter):
    """Connects under the guard of the thread, which must have one."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Give the pools of connections that go through a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager
