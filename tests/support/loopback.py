"""Servers on loopback: of a WSGI app, or of any bytes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event, Thread
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from flask_ibi_archive.core.protocol.hosts import parse_inner_hosts

#: The timeout in seconds for events that must happen; a test fails after it.
PATIENCE = 300

#: The network of the servers, and the setting that allows this internal network.
HERE = ("127.0.0.0/8",)
LOOPBACK = parse_inner_hosts(HERE)

SUCCESSFUL = "status.archive included status.confirmation successful"
UNSUCCESSFUL = "status.archive included status.confirmation unsuccessful"
EXCLUDED = "status.archive excluded"


class QuietHandler(WSGIRequestHandler):
    """A request handler that writes no log."""

    def log(self, type: str, message: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def serving(app: Any, port: int = 0, *, joins: bool = False) -> Iterator[str]:
    """Serve a WSGI app, and yield its address.

    :param joins: whether to wait at the end until the threads of all requests have ended.
    """
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=QuietHandler)
    server.daemon_threads = not joins  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """Return a port on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def free_ports(number: int = 1) -> int:
    """Return the first of three consecutive free ports; each process searches another range.

    :param number: the number of the call in a test, so that each call returns other ports.
    """
    first = 20_000 + os.getpid() % 1_300 * 9 + 3 * number
    for port in range(first, 60_000, 3):
        with ExitStack() as stack:
            try:
                for number in range(3):
                    stack.enter_context(socket.create_server(("127.0.0.1", port + number)))
            except OSError:
                continue
            return port
    pytest.fail("no three consecutive ports are free")


@contextmanager
def raw(*conversations: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the address of a server that calls the next function for each connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def accept() -> None:
            for talk in conversations:
                peer = listener.accept()[0]
                with peer, suppress(OSError):
                    talk(peer)

        thread = Thread(target=accept)
        thread.start()
        address = listener.getsockname()
        try:
            yield f"127.0.0.1:{address[1]}"
        finally:
            while thread.is_alive():  # connections that no client opened
                with suppress(OSError):
                    socket.create_connection(address, timeout=1).close()
                thread.join(0.05)


def sends(data: bytes) -> Callable[[socket.socket], None]:
    """Return a function for :func:`raw` that reads a request, sends bytes and disconnects."""

    def talk(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass

    return talk


def drips(head: bytes, done: Event) -> Callable[[socket.socket], None]:
    """Return a function for :func:`raw` that sends a head, then single bytes until an event."""

    def talk(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(head)
        while not done.wait(0.02):
            peer.sendall(b"x")

    return talk


@contextmanager
def nobody() -> Iterator[str]:
    """Yield the address of a port where no server listens."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: no other process gets the port
        yield f"127.0.0.1:{taken.getsockname()[1]}"


class Later:
    """A WSGI app that calls another app, which is set later."""

    app: Any = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer a request."""
        return self.app(environ, start_response)
