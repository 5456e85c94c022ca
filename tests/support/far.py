"""Servers on loopback that send prepared answers and store the requests."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread


@dataclass(frozen=True)
class Received:
    """A request that a server received."""

    method: str
    host: str
    path: str
    headers: dict[str, str]


@dataclass
class Reply:
    """An answer: a status with headers, or the bytes of the whole answer."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes | None = None
    #: Whether single bytes are sent for ever after the answer.
    drips: bool = False


class Far:
    """A server; ``replies`` contains its answers by method and path, or by path."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.replies: dict[str, Reply | Callable[[], Reply]] = {}
        self.requests: list[Received] = []
        self.done = Event()
        self._lock = Lock()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return a URL of the server."""
        return f"http://{host}:{self.port}/{path}"

    def store(self, request: Received) -> None:
        """Store a request."""
        with self._lock:
            self.requests.append(request)

    def find(self, method: str, path: str) -> Reply:
        """Return the answer to a request."""
        found = self.replies.get(f"{method} {path}") or self.replies.get(path) or Reply(404)
        return found() if callable(found) else found

    @property
    def lines(self) -> list[str]:
        """The requests as method and path."""
        return [f"{request.method} {request.path}" for request in self.requests]


def _handler(far: Far) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            host = self.headers.get("Host", "").rpartition(":")[0]
            far.store(Received(self.command, host, self.path[1:], dict(self.headers)))
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
            """Log nothing."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore the error: a client that closed its connection does not fail the test."""


@contextmanager
def far_server(host: str = "") -> Iterator[Far]:
    """Serve on a free port of this machine, on all its addresses."""
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


def unused_address() -> str:
    """Return the host and port of an address where no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"
