"""Servers elsewhere, on loopback: they answer as they are told, and keep what they were asked."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    host: str
    path: str
    headers: dict[str, str]


@dataclass
class Reply:
    """What is answered: a status with headers, or bytes as they go over the wire."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes | None = None
    #: Whether a byte more comes every now and then, without an end.
    drips: bool = False


class Far:
    """A server: ``replies`` gives what it answers by method and path, or by the path alone."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.replies: dict[str, Reply | Callable[[], Reply]] = {}
        self.asked: list[Asked] = []
        self.done = Event()
        self._lock = Lock()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return the address of one of its things."""
        return f"http://{host}:{self.port}/{path}"

    def keep(self, asked: Asked) -> None:
        """Keep what was asked."""
        with self._lock:
            self.asked.append(asked)

    def find(self, method: str, path: str) -> Reply:
        """Return what is answered."""
        found = self.replies.get(f"{method} {path}") or self.replies.get(path) or Reply(404)
        return found() if callable(found) else found

    @property
    def lines(self) -> list[str]:
        """What was asked, as method and path."""
        return [f"{asked.method} {asked.path}" for asked in self.asked]


def _handler(far: Far) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            far.keep(Asked(self.command, host, self.path[1:], dict(self.headers)))
            reply = far.find(self.command, self.path[1:])
            self.close_connection = True
            with suppress(OSError):
                self._send(reply)

        def _send(self, reply: Reply) -> None:
            if reply.raw is not None:
                self.wfile.write(reply.raw)
                while reply.drips and not far.done.wait(0.02):
                    self.wfile.write(b"x")
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_HEAD = do_GET = _answer

        def log_message(self, *args: object) -> None:
            """Leave the log out."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone away is no error of the test."""


@contextmanager
def far_server(host: str = "") -> Iterator[Far]:
    """Serve on a free port of this machine, at all its names."""
    server = _Server((host, 0), BaseHTTPRequestHandler)
    far = Far(server.server_address[1])
    server.RequestHandlerClass = _handler(far)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield far
    finally:
        far.done.set()
        server.shutdown()
        thread.join()
        server.server_close()


def nobody() -> str:
    """Return the address of a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"
