"""Serve thousands of simulated Archives in one process.

Two sockets listen on all loopback addresses, and the Host header tells which Archive is asked. One
loop with epoll serves all connections: this server must answer several thousand requests per second
on new connections, so that the resolver is measured, and not its Archives.

At first, all Archives are good, so that their logs can be read. Requests to the control address let
them fail as the federation says, add claims and count requests.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import parse_qs, unquote

from flask_ibi_archive.core.claims.checkpoint import Checkpoint
from flask_ibi_archive.core.claims.merkle import Frontier, hash_leaf
from flask_ibi_archive.core.claims.tiles import (
    WIDTH,
    Tile,
    encode_entries,
    find_width,
    parse_tile_path,
)
from flask_ibi_archive.core.protocol.messages import RECEIVED
from flask_ibi_archive.core.protocol.states import State

from .federation_items import (
    CLAIMED,
    DEAD,
    DENIES,
    FORGES,
    FORKS,
    HANGING,
    RIVAL,
    ROLES,
    Federation,
    Holding,
    Item,
)
from .processes import ROOT

#: The host to which the control requests are sent.
CONTROL = "127.0.0.1"
#: The age in seconds at which a checkpoint is signed again.
SIGNED_FOR = 60
BACKLOG = 4096
#: Larger than any response, so that a response is sent at once.
BUFFER = 1 << 20
CLAIMS = "/ibi/claims/"
NOT_FOUND, NOT_MODIFIED = "404 Not Found", "304 Not Modified"


def respond(
    body: bytes, status: str = "200 OK", content_type: str = "text/plain", headers: str = ""
) -> bytes:
    """Return an HTTP response."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{headers}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Logs:
    """The logs of the Archives. Only their frontiers are kept; the entries are computed again.

    :ivar forging: the Archives that sign with another key.
    :ivar forking: the Archives that show another tree of the same size.
    """

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.forging: set[int] = set()
        self.forking: set[int] = set()
        self._frontiers: dict[int, Frontier] = {}
        self._signed: dict[int, tuple[float, str]] = {}

    def add(self, archive: int, item: Item) -> None:
        """Let an Archive claim the Original of an item."""
        self.federation.claimed.setdefault(archive, []).append(item)
        if archive in self._frontiers:
            entry = self.federation.format_claim(Holding(item, State.ORIGINAL))
            self._frontiers[archive].add(hash_leaf(entry))
        self._signed.pop(archive, None)

    def lie(self, archive: int, kind: str) -> None:
        """Let an Archive begin to forge or to fork its log."""
        (self.forging if kind == FORGES else self.forking).add(archive)
        self._frontiers.pop(archive, None)
        self._signed.pop(archive, None)

    def entries(self, archive: int, start: int = 0, end: int | None = None) -> list[bytes]:
        """Return some entries of a log."""
        holdings = list(self.federation.list_holdings(archive))[start:end]
        if archive in self.forking and start == 0:
            holdings[:2] = reversed(holdings[:2])
        return [self.federation.format_claim(holding) for holding in holdings]

    def checkpoint(self, archive: int) -> str:
        """Return the signed checkpoint of a log."""
        now = time.time()
        signed_at, text = self._signed.get(archive, (0.0, ""))
        if now - signed_at < SIGNED_FOR:
            return text
        frontier = self._frontiers.get(archive)
        if frontier is None:
            frontier = self._frontiers[archive] = _grow(map(hash_leaf, self.entries(archive)))
        key = self.federation.signing_key(archive, forged=archive in self.forging)
        text = Checkpoint(key.name, frontier.size, frontier.root()).sign(key, int(now))
        self._signed[archive] = (now, text)
        return text

    def key(self, archive: int) -> str:
        """Return the public key of an Archive."""
        return self.federation.signing_key(archive).verifier.format()

    def read(self, archive: int, tile: Tile) -> bytes | None:
        """Return a tile or a bundle of entries; None if it does not exist."""
        span = WIDTH ** (tile.level or 0)
        start = tile.number * WIDTH * span
        entries = self.entries(archive, start, start + tile.width * span)
        if find_width(tile.level, 0, len(entries)) < tile.width:
            return None
        if tile.level is None:
            return encode_entries(entries)
        leaves = [hash_leaf(entry) for entry in entries]
        trees = [_grow(leaves[first : first + span]) for first in range(0, len(leaves), span)]
        return b"".join(tree.root() for tree in trees)


def _grow(leaves: Any) -> Frontier:
    frontier = Frontier()
    for leaf in leaves:
        frontier.add(leaf)
    return frontier


class ArchiveServer:
    """All Archives of a federation.

    :ivar federation: the federation with the ports of this server.
    """

    def __init__(self, federation: Federation) -> None:
        self._epoll = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        self._connections: dict[int, socket.socket] = {}
        self._parts: dict[int, bytes] = {}
        self._mortal: set[int] = set()
        self._mortal_listener = self._listen()
        listener = self._listen()
        self.federation = replace(
            federation,
            port=listener.getsockname()[1],
            mortal_port=self._mortal_listener.getsockname()[1],
        )
        self._logs = Logs(self.federation)
        self._faults: dict[int, str] = {}
        self._counts: Counter[str] = Counter()

    def _listen(self, port: int = 0) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        return listener

    def run(self) -> None:
        """Serve until the process that reads the ports has ended, which closes the pipe."""
        pipe = sys.stdin.fileno()
        self._epoll.register(pipe, select.EPOLLIN)
        while True:
            for number, _ in self._epoll.poll():
                if number == pipe:
                    return
                listener = self._listeners.get(number)
                if listener is not None:
                    self._accept(listener)
                elif number in self._connections:  # an event before may have closed it
                    self._receive(number)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                peer, _ = listener.accept()
                peer.setblocking(False)
                number = peer.fileno()
                self._counts["connections"] += 1
                self._connections[number] = peer
                if listener is self._mortal_listener:
                    self._mortal.add(number)
                self._epoll.register(number, select.EPOLLIN)

    def _receive(self, number: int) -> None:
        try:
            data = self._connections[number].recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self._close(number)
            return
        data = self._parts.pop(number, b"") + data
        if not data.endswith(b"\r\n\r\n"):
            self._parts[number] = data
            return
        response = self._answer(data.decode("latin-1"))
        if response is not None:
            with suppress(ConnectionError):
                self._connections[number].send(response)

    def _close(self, number: int) -> None:
        self._parts.pop(number, None)
        self._mortal.discard(number)
        self._connections.pop(number).close()

    def _answer(self, head: str) -> bytes | None:
        """Return the response to a request without a body; None if there is none."""
        target = head.split(" ", 2)[1]
        path, _, query = target.partition("?")
        start = head.index("\r\nHost: ") + 8
        host = head[start : head.index("\r\n", start)].partition(":")[0]
        if host == CONTROL:
            return self._control(path, parse_qs(query))
        _, high, middle, low = map(int, host.split("."))
        archive = (high - 1) * 65536 + middle * 256 + low
        fault = self._faults.get(archive)
        if fault == HANGING:
            self._counts["hanging"] += 1
            return None
        if path.startswith(CLAIMS):
            return self._answer_claims(archive, path[len(CLAIMS) :], head)
        if "subject=acknowledgment" in query:
            self._counts["acknowledgments"] += 1
            return respond(RECEIVED.encode())
        self._counts["questions"] += 1
        if fault == DENIES:
            return respond(b"")
        start = query.index("parsedibiurl.ibi=") + 17
        ibi = unquote(query[start:].partition("&")[0])
        return respond(self.federation.answer(archive, ibi, query).encode())

    def _answer_claims(self, archive: int, path: str, head: str) -> bytes:
        self._counts["claims"] += 1
        if path == "checkpoint":
            text = self._logs.checkpoint(archive)
            tag = f'"{hash(text) & 0xFFFFFFFF:08x}"'
            headers = f"ETag: {tag}\r\n"
            if f"If-None-Match: {tag}" in head:
                return respond(b"", NOT_MODIFIED, headers=headers)
            return respond(text.encode(), headers=headers)
        if path == "key":
            return respond(self._logs.key(archive).encode() + b"\n")
        tile = parse_tile_path(path)
        content = None if tile is None else self._logs.read(archive, tile)
        if content is None:
            return respond(b"", NOT_FOUND)
        return respond(content, content_type="application/octet-stream")

    # --- control ---------------------------------------------------------------------------------

    def _control(self, path: str, values: dict[str, list[str]]) -> bytes:
        if path == "/fail":
            self._fail()
        elif path == "/claim":
            (archive,), item = map(int, values["archive"]), Item(*map(int, values["item"]))
            self._logs.add(archive, item)
        counts = dict(self._counts)
        self._counts.clear()
        return respond(json.dumps(counts).encode(), content_type="application/json")

    def _fail(self) -> None:
        """Let Archives fail from now on."""
        self._faults = self.federation.faults
        for archive, fault in self._faults.items():
            if fault == RIVAL:
                victim = self.federation.shift(archive, 1)
                for number in range(CLAIMED, self.federation.items, ROLES):
                    self._logs.add(archive, Item(victim, number))
            elif fault in (FORGES, FORKS):
                self._logs.lie(archive, fault)
        if DEAD in self._faults.values():
            port = self._mortal_listener.getsockname()[1]
            del self._listeners[self._mortal_listener.fileno()]
            self._mortal_listener.close()
            for number in list(self._mortal):
                self._close(number)
            # bound and not listening: the port refuses connections, and nobody else gets it
            self._mortal_listener = socket.socket()
            self._mortal_listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._mortal_listener.bind(("0.0.0.0", port))


def raise_file_limit() -> None:
    """Allow as many open files as the system does: there may be a connection to each Archive."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Control:
    """The control of a server in another process."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation

    def _call(self, target: str) -> dict[str, int]:
        url = f"http://{CONTROL}:{self.federation.port}/{target}"
        with urllib.request.urlopen(url) as response:
            counts: dict[str, int] = json.load(response)
        return counts

    def fail(self) -> None:
        """Let Archives fail, as the federation says."""
        self._call("fail")

    def claim(self, archive: int, item: Item) -> None:
        """Let an Archive claim the Original of an item."""
        self._call(f"claim?archive={archive}&item={item.archive}&item={item.number}")

    def count(self) -> dict[str, int]:
        """Return what happened since the last call of any of these methods."""
        return self._call("count")


@contextmanager
def serving_federation(federation: Federation) -> Iterator[Control]:
    """Serve a federation in another process."""
    raise_file_limit()
    options = {name: value for name, value in asdict(federation).items() if name != "claimed"}
    command = [sys.executable, "-m", "benchmarks.federation_server", json.dumps(options)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        assert process.stdout is not None
        try:
            yield Control(replace(federation, **json.loads(process.stdout.readline())))
        finally:
            process.kill()


def main(options: str) -> None:
    """Serve the Archives, and print their ports."""
    raise_file_limit()
    server = ArchiveServer(Federation(**json.loads(options)))
    ports = {name: getattr(server.federation, name) for name in ("port", "mortal_port")}
    print(json.dumps(ports), flush=True)
    server.run()


if __name__ == "__main__":
    main(sys.argv[1])
