"""Between clients and PostgreSQL: a relay that can stop passing bytes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from time import sleep

from sqlalchemy import make_url


class Relay:
    """Passes bytes between clients and a server.

    While the relay hangs, it passes no bytes. Clients that connect meanwhile are accepted, but
    never answered. Other clients get their answers when the relay does not hang any more.
    """

    def __init__(self, host: str, port: int) -> None:
        self.server = host, port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.hangs = False
        self.sockets: list[socket.socket] = []
        self.threads = [Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self) -> None:
        """Accept clients until the listener is closed, and connect each to the server."""
        with suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                self.sockets.append(client)
                if self.hangs:
                    continue
                server = socket.create_connection(self.server)
                self.sockets.append(server)
                for pair in ((client, server), (server, client)):
                    self.threads.append(Thread(target=self.pass_on, args=pair))
                    self.threads[-1].start()

    def pass_on(self, one: socket.socket, other: socket.socket) -> None:
        """Pass the bytes of a socket to the opposite socket, until one of them is closed."""
        with suppress(OSError):
            while data := one.recv(65536):
                self.wait()
                other.sendall(data)
            self.wait()
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def wait(self) -> None:
        """Wait until the relay does not hang."""
        while self.hangs:
            sleep(0.01)

    def end(self) -> None:
        """Close all connections."""
        self.hangs = False
        for each in (self.listener, *self.sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        for each in (self.listener, *self.sockets):
            each.close()


@contextmanager
def relaying(uri: str) -> Iterator[tuple[Relay, str]]:
    """Run a relay to a PostgreSQL server; yield the relay and a database URL with its port."""
    url = make_url(uri)
    relay = Relay(url.host or "127.0.0.1", url.port or 5432)
    try:
        through = url.set(host="127.0.0.1", port=relay.listener.getsockname()[1])
        yield relay, through.render_as_string(hide_password=False)
    finally:
        relay.end()
