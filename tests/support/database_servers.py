"""Between clients and PostgreSQL: a relay that can stop passing bytes."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from sqlalchemy import make_url

BLOCK = 65536


class Relay:
    """Passes bytes between clients and a server.

    While the relay hangs, it passes no bytes. Clients that connect meanwhile are accepted, but
    never answered. Other clients get their answers when the relay does not hang any more.
    """

    def __init__(self, host: str, port: int) -> None:
        self.server = host, port
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.hangs = False
        self.ends = False
        #: Sockets that are not read while the relay hangs, each with the opposite socket.
        self.waiting: dict[socket.socket, socket.socket] = {}
        #: Clients that are never answered.
        self.unanswered: list[socket.socket] = []
        self.thread = Thread(target=self.run)
        self.thread.start()

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return int(self.listener.getsockname()[1])

    def run(self) -> None:
        """Pass bytes until the relay ends."""
        while not self.ends:
            if not self.hangs:
                self.wake_up()
            for key, _ in self.selector.select(0.02):
                if key.data is None:
                    self.accept()
                elif key.fileobj.fileno() < 0:  # type: ignore[union-attr]
                    continue  # the socket was just closed together with the opposite socket
                elif self.hangs:
                    self.leave(key.fileobj, key.data)  # type: ignore[arg-type]
                else:
                    self.pass_on(key.fileobj, key.data)  # type: ignore[arg-type]
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        for one in (*self.waiting, *self.unanswered):
            one.close()
        self.selector.close()

    def accept(self) -> None:
        """Accept a client and connect to the server, which takes no time on loopback."""
        client = self.listener.accept()[0]
        if self.hangs:
            self.unanswered.append(client)
            return
        try:
            server = socket.create_connection(self.server)
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self.selector.register(one, selectors.EVENT_READ, other)

    def leave(self, one: socket.socket, other: socket.socket) -> None:
        """Stop reading from a socket."""
        self.selector.unregister(one)
        self.waiting[one] = other

    def wake_up(self) -> None:
        """Continue to read from all sockets."""
        waiting, self.waiting = self.waiting, {}
        for one, other in waiting.items():
            self.selector.register(one, selectors.EVENT_READ, other)

    def pass_on(self, one: socket.socket, other: socket.socket) -> None:
        """Pass the bytes of a socket to the opposite socket; close both if one is closed."""
        data = b""
        with suppress(OSError):
            data = one.recv(BLOCK)
            if data:
                other.sendall(data)
        if data:
            return
        for each in (one, other):
            self.waiting.pop(each, None)
            with suppress(KeyError, ValueError):
                self.selector.unregister(each)
            each.close()


@contextmanager
def relaying(uri: str) -> Iterator[tuple[Relay, str]]:
    """Run a relay to a PostgreSQL server; yield the relay and a database URL with its port."""
    url = make_url(uri)
    relay = Relay(url.host or "127.0.0.1", url.port or 5432)
    try:
        through = url.set(host="127.0.0.1", port=relay.port)
        yield relay, through.render_as_string(hide_password=False)
    finally:
        relay.ends = True
        relay.thread.join()
