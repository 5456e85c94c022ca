"""A server that does not belong to the Archive: it sends prepared answers."""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response


@dataclass
class Reply:
    """An answer: a status with headers, or the bytes of the whole answer."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    #: Whether single bytes are sent after the answer, until the client closes the connection.
    drips: bool = False


class Far:
    """A server; ``replies`` contains its answers by method and path, or by path."""

    def __init__(self, server: HTTPServer) -> None:
        self.server = server
        self.replies: dict[str, Reply | Callable[[], Reply]] = {}
        server.expect_request(re.compile("/.*")).respond_with_handler(self._answer)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Return a URL of the server."""
        return f"http://{host}:{self.server.port}/{path}"

    @property
    def requests(self) -> list[Request]:
        """The requests in their order."""
        return [request for request, _ in self.server.log]

    @property
    def lines(self) -> list[str]:
        """The requests as method and path."""
        return [f"{request.method} {request.environ['RAW_URI'][1:]}" for request in self.requests]

    def _answer(self, request: Request) -> Response:
        path = request.environ["RAW_URI"][1:]
        reply = self.replies.get(f"{request.method} {path}") or self.replies.get(path, Reply(404))
        if callable(reply):
            reply = reply()
        if reply.raw is not None:
            peer: socket.socket = request.environ["werkzeug.socket"]
            with suppress(OSError):
                peer.sendall(reply.raw)
                # Slowly: a client refuses a line of 65,536 characters before its deadline.
                while reply.drips and not select.select([peer], [], [], 0.01)[0]:
                    peer.sendall(b"x")
                peer.shutdown(socket.SHUT_RDWR)
        return Response(status=reply.status, headers=reply.headers)
