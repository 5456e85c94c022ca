"""Many small HTTP servers on loopback in one thread: Archives that work or fail."""

from __future__ import annotations

import heapq
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Semaphore, Thread
from time import monotonic
from typing import TypeAlias

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.asking import (
    Failure,
    FanOut,
    Reply,
    ReplyQueue,
    Target,
)
from support.loopback import PATIENCE

#: A function that returns the answer to a request with a target and a head. None means: wait for
#: :meth:`Servers.release`. The connection is closed after an answer that ends in :data:`THE_END`.
Answer: TypeAlias = Callable[[str, str], "bytes | None"]

THE_END = b"<the end>"
#: The end of an answer whose last bytes are repeated for ever.
AND_SO_ON = b"<and so on>"


def http(
    body: str | bytes = b"",
    status: str = "200 OK",
    content_type: str | None = "text/plain",
    **headers: str,
) -> bytes:
    """Return an HTTP response; "_" in the name of a header becomes "-"."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(data)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


def says(answer: bytes) -> Answer:
    """Return a function that always returns the same answer."""
    return lambda target, head: answer


def hangs(target: str, head: str) -> None:
    """Return no answer, so that the connection waits."""


@dataclass(eq=False)
class Server:
    """A server on a port.

    :param seconds: the delay before each answer.
    """

    answer: Answer
    seconds: float
    listener: socket.socket
    accepted: int = 0
    #: The targets and the heads of all requests.
    asked: deque[str] = field(default_factory=deque)
    heads: deque[str] = field(default_factory=deque)
    keeps_requests: bool = True
    #: Connections that wait for an answer.
    held: deque[_Connection] = field(default_factory=deque)
    came: Semaphore = field(default_factory=lambda: Semaphore(0))

    @property
    def address(self) -> str:
        return self._address

    def __post_init__(self) -> None:
        host, self.port = self.listener.getsockname()[:2]
        self._address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def wait(self, requests: int = 1) -> None:
        """Wait for a number of requests."""
        for _ in range(requests):
            assert self.came.acquire(timeout=PATIENCE)


class _Connection:
    __slots__ = ("closes", "more", "out", "peer", "read", "server")

    def __init__(self, peer: socket.socket, server: Server) -> None:
        self.peer = peer
        self.server = server
        self.read = b""
        self.out = b""
        self.more = b""
        self.closes = False


class Servers:
    """Any number of servers in one thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._late: list[tuple[float, int, _Connection, bytes]] = []
        self._new: deque[Server] = deque()
        self._releases: deque[tuple[Server, bytes]] = deque()
        self._all: list[Server] = []
        self._number = 0
        self._bell, self._ringer = socket.socketpair()
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._ends = False
        self._thread = Thread(target=self.run, daemon=True)

    def add(
        self,
        answer: Answer,
        seconds: float = 0.0,
        *,
        keeps_requests: bool = True,
        place: tuple[str, int] = ("127.0.0.1", 0),
    ) -> Server:
        """Start a server on a port, and return it."""
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        listener = socket.create_server(place, family=family, backlog=256)
        listener.setblocking(False)
        server = Server(answer, seconds, listener, keeps_requests=keeps_requests)
        self._all.append(server)
        self._new.append(server)
        self._ringer.send(b"\0")
        return server

    def release(self, server: Server, data: bytes) -> None:
        """Answer all requests that wait at a server."""
        self._releases.append((server, data))
        self._ringer.send(b"\0")

    def start(self) -> None:
        """Start to serve in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Close all ports and connections."""
        self._ends = True
        with suppress(OSError):  # the thread has ended
            self._ringer.send(b"\0")
        self._thread.join()
        self._ringer.close()

    def run(self) -> None:
        """Serve until :meth:`stop`."""
        while not self._ends:
            wait = max(self._late[0][0] - monotonic(), 0) if self._late else None
            for key, mask in self._selector.select(wait):
                if isinstance(key.data, _Connection):
                    self._serve(key.data, mask)
                elif isinstance(key.data, Server):
                    self._accept(key.data)
                else:
                    self._bell.recv(4096)
                    while self._new:
                        server = self._new.popleft()
                        self._selector.register(server.listener, selectors.EVENT_READ, server)
                    while self._releases:
                        server, data = self._releases.popleft()
                        while server.held:
                            self._say(server.held.popleft(), data)
            while self._late and self._late[0][0] <= monotonic():
                _, _, connection, data = heapq.heappop(self._late)
                self._say(connection, data)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _accept(self, server: Server) -> None:
        with suppress(BlockingIOError):
            while True:
                peer, _ = server.listener.accept()
                server.accepted += 1
                peer.setblocking(False)
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = _Connection(peer, server)
                self._selector.register(peer, selectors.EVENT_READ, connection)

    def _serve(self, connection: _Connection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._say(connection, b"")
        if not mask & selectors.EVENT_READ or connection.peer.fileno() < 0:
            return
        try:
            data = connection.peer.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(connection)
            return
        connection.read += data
        while b"\r\n\r\n" in connection.read:
            request, _, connection.read = connection.read.partition(b"\r\n\r\n")
            self._answer(connection, request.decode("latin-1"))

    def _answer(self, connection: _Connection, request: str) -> None:
        server = connection.server
        target = request.split(" ", 2)[1]
        if server.keeps_requests:
            # Before the answer, because a test may go on as soon as that has begun.
            server.asked.append(target)
            server.heads.append(request)
        answer = server.answer(target, request)
        if server.keeps_requests:
            server.came.release()
        if answer is None:
            server.held.append(connection)
            return
        if server.seconds:
            self._number += 1
            due = monotonic() + server.seconds
            heapq.heappush(self._late, (due, self._number, connection, answer))
        else:
            self._say(connection, answer)

    def _say(self, connection: _Connection, data: bytes) -> None:
        if connection.peer.fileno() < 0:
            return
        if data.endswith(THE_END):
            data = data.removesuffix(THE_END)
            connection.closes = True
        elif data.endswith(AND_SO_ON):
            data = data.removesuffix(AND_SO_ON)
            connection.more = data[-4:] * 4096
        data = connection.out + data
        try:
            sent = connection.peer.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        had, connection.out = connection.out, data[sent:] or connection.more
        if connection.out and not had:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self._selector.modify(connection.peer, both, connection)
        elif had and not connection.out:
            self._selector.modify(connection.peer, selectors.EVENT_READ, connection)
        if connection.closes and not connection.out:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.peer)
        connection.peer.close()


@contextmanager
def servers() -> Iterator[Servers]:
    """Yield servers, and stop them at the end."""
    found = Servers()
    found.start()
    try:
        yield found
    finally:
        found.stop()


MakeFanOut: TypeAlias = Callable[..., FanOut]

#: Maximum size of an answer in bytes.
LIMIT = 1000
#: Seconds until a hanging Archive times out in a test.
SHORT = 0.1
#: A part of each request, which must not appear in messages.
SECRET = "clientinformation.ipaddress=150.163.2.175"
KNOWN = "state Original\r\nurl http://a.br/b"


#: A question whose content does not matter.
QUESTION = Question(parse_identifier("a.br/x/2001/01.01.00.00"), NO_VERBS)


def at(address: str, target: str = f"/a/b?{SECRET}", number: int = 1) -> Target:
    """Return a request to the Archive at an address.

    :param number: the id of the Archive.
    """
    return Target(Archive(number, "a/b", address), f"http://{address}{target}", QUESTION)


def all_of(replies: ReplyQueue) -> list[Reply | Failure]:
    """Return all results."""
    found = []
    while (result := replies.get(PATIENCE)) is not None:
        found.append(result)
    assert not replies.pending
    return found


def one_of(replies: ReplyQueue) -> Reply | Failure:
    """Return the only result."""
    (found,) = all_of(replies)
    return found


def reason_of(replies: ReplyQueue) -> str:
    """Return the reason of the only result, a failure."""
    found = one_of(replies)
    assert isinstance(found, Failure)
    assert SECRET not in found.reason
    assert "\n" not in found.reason
    return found.reason


def ask_and_hear(asks: FanOut, *hosts: Server) -> None:
    """Send a request to some servers and check that each answers."""
    for result in all_of(asks.ask([at(one.address) for one in hosts], PATIENCE)):
        assert isinstance(result, Reply), result
