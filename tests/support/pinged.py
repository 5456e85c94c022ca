"""A server that counts the messages of an Archive to its resolver."""

from __future__ import annotations

from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

from support.loopback import PATIENCE


class PingedResolver:
    """A WSGI app that replaces a resolver. The body of each POST request is put into a queue."""

    def __init__(self, status: str = "204 No Content") -> None:
        self.status = status
        self.asked: SimpleQueue[tuple[str, str]] = SimpleQueue()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(self.status, [("Content-Type", "text/plain")])
        self.asked.put((environ["PATH_INFO"], body.decode()))
        return [b""]

    def wait(self) -> tuple[str, str]:
        """Wait for a request, and return its path and its body."""
        return self.asked.get(timeout=PATIENCE)
