"""Small HTTP servers on loopback, which send any bytes, hang, and record the requests."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import TypeAlias

from flask_ibi_archive.resolver.asking import FanOut
from support.loopback import PATIENCE

#: A function that returns the answer to a request with a target and a head. None means: wait for
#: :meth:`Server.release`. The connection is closed after an answer that ends in :data:`THE_END`.
Answer: TypeAlias = Callable[[str, str], "bytes | None"]

THE_END = b"<the end>"


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


class Server:
    """A server on a port. A thread serves each connection.

    :ivar asked: the targets of all requests.
    :ivar heads: the heads of all requests.
    :ivar accepted: the number of connections.
    """

    def __init__(self, answer: Answer, place: tuple[str, int]) -> None:
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self.listener = socket.create_server(place, family=family, backlog=256)
        self.answer = answer
        self.asked: deque[str] = deque()
        self.heads: deque[str] = deque()
        self.accepted = 0
        host, self.port = self.listener.getsockname()[:2]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._came = Semaphore(0)
        self._held: deque[SimpleQueue[bytes]] = deque()
        Thread(target=self._accept, daemon=True).start()

    def wait(self, requests: int = 1) -> None:
        """Wait for a number of requests."""
        for _ in range(requests):
            assert self._came.acquire(timeout=PATIENCE)

    def release(self, data: bytes) -> None:
        """Answer all requests that wait."""
        while self._held:
            self._held.popleft().put(data)

    def close(self) -> None:
        """Accept no more connections."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.release(THE_END)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                self.accepted += 1
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        data = b""
        with suppress(OSError), peer:
            while piece := peer.recv(65536):
                data += piece
                while b"\r\n\r\n" in data:
                    head, _, data = data.partition(b"\r\n\r\n")
                    sent = self._find_answer(head.decode("latin-1"))
                    peer.sendall(sent.removesuffix(THE_END))
                    if sent.endswith(THE_END):
                        return

    def _find_answer(self, head: str) -> bytes:
        target = head.split(" ", 2)[1]
        # before the answer, because a test may go on as soon as that has begun
        self.asked.append(target)
        self.heads.append(head)
        answer, held = self.answer(target, head), SimpleQueue[bytes]()
        if answer is None:
            self._held.append(held)
        self._came.release()
        return held.get() if answer is None else answer


class Servers:
    """Any number of servers."""

    def __init__(self) -> None:
        self._all: list[Server] = []

    def add(self, answer: Answer, place: tuple[str, int] = ("127.0.0.1", 0)) -> Server:
        """Start a server on a port, and return it."""
        self._all.append(Server(answer, place))
        return self._all[-1]

    def stop(self) -> None:
        """Stop all servers."""
        for server in self._all:
            server.close()


@contextmanager
def servers() -> Iterator[Servers]:
    """Yield servers, and stop them at the end."""
    found = Servers()
    try:
        yield found
    finally:
        found.stop()


MakeFanOut: TypeAlias = Callable[..., FanOut]

#: Maximum size of an answer in bytes.
LIMIT = 1000
