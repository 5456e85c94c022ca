"""Resolutions in one process, which asks many Archives for each, and a minimal client beside it.

The Archives are servers with prepared answers in another process. One of them knows the item, and
no item is asked for twice, so that nothing can be remembered.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import selectors
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from urllib.parse import urlencode

from flask import Flask

from flask_ibi_archive.resolver import IBIResolver

from .ours import URL_REQUEST, run
from .worker import Job, Work, get, repeated

RESOLVER_SERVICE, KEY, READER = "J8LNKB5R7W/3FUQHC5", "1234567890", "150.163.2.175"
KNOWN = (
    "archiveaddress archive.example.org\r\ncontenttype Data\r\n"
    "ibi {rep a.br/x/2001/01.01.00.00 ibip 8JMKD3MGP8W/35MME4E}\r\nstate Original\r\n"
    "timestamp 2009-02-16T17:46:00Z\r\n"
    "url http://archive.example.org/col/a.br/x/2001/01.01.00.00/doc/report.pdf\r\n"
    "urlkey 1234567890-1234567890"
)


class Connected(asyncio.Protocol):
    """A connection to an Archive that knows the items whose name contains its number."""

    def __init__(self, number: int) -> None:
        self._name = f"x{number}y".encode()
        self._data = b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Store the connection."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        *requests, self._data = (self._data + data).split(b"\r\n\r\n")
        for request in requests:
            body = KNOWN if self._name in request else ""
            if b"inclusionConfirmationRequest" in request:
                body = "confirmation yes"
            # the Archives publish no claims
            status = "404 Not Found" if b" /ibi/claims/" in request else "200 OK"
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}"
            self._transport.write(f"{head}\r\n\r\n{body}".encode())


def serve(archives: int, pipe: Connection) -> None:
    """Serve Archives in this process, and send their addresses."""

    async def serve_all() -> None:
        create_server = asyncio.get_running_loop().create_server
        numbers = range(archives)
        servers = [await create_server(partial(Connected, n), "127.0.0.1", 0) for n in numbers]
        pipe.send([f"127.0.0.1:{one.sockets[0].getsockname()[1]}" for one in servers])
        await asyncio.Event().wait()

    asyncio.run(serve_all())


def start_archives(archives: int) -> list[str]:
    """Serve Archives in a new process until this one ends, and return their addresses."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(archives, theirs), daemon=True).start()
    return ours.recv()


def name_items(archives: int) -> Iterator[str]:
    """Yield the IBIs of items, each of which one of the Archives knows; all have other prefixes."""
    for turn in itertools.count():
        yield f"a.br/x{turn % archives}y{turn}/2001/01.01.00.00"


# --- a minimal client -----------------------------------------------------------------------------


def sockets(uri: str, folder: str, archives: str) -> Work:
    """Prepare to ask all Archives through open sockets, and to read all answers."""
    selector = selectors.DefaultSelector()
    peers: list[socket.socket] = []
    for address in start_archives(int(archives)):
        host, _, port = address.partition(":")
        peer = socket.create_connection((host, int(port)))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(peer, selectors.EVENT_READ, peer)
        peers.append(peer)
    items = name_items(int(archives))

    def ask() -> None:
        request = f"GET /a?{URL_REQUEST}{next(items)} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        for peer in peers:
            peer.sendall(request)
        waiting = len(peers)
        while waiting:
            for key, _ in selector.select():
                # small answers on loopback arrive whole
                assert key.data.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
                waiting -= 1

    return repeated(ask)


# --- the resolver ---------------------------------------------------------------------------------


def create_resolver(uri: str, folder: str, archives: int) -> Flask:
    """Return the app of a resolver that has included so many Archives."""
    app = Flask("resolver", instance_path=folder)
    app.config.from_mapping(
        SECRET_KEY="a secret for benchmarks",
        IBI_RESOLVER_DATABASE_URI=uri,
        IBI_INNER_HOSTS="127.0.0.1",
    )
    IBIResolver(app)
    run(app, "ibi-resolver", "init")
    for number, address in enumerate(start_archives(archives)):
        service = f"a.br/service{number}/2000/01.01.00.00"
        run(app, "ibi-resolver", "register", service, "--key-file", "-", text=KEY)
        inclusion = {
            "servicesubject": "inclusionRequest",
            "archiveaddress": address,
            "archiveserviceibi": service,
            "archiveip": "150.163.2.166",
            "archiveprotocol": "HTTP",
            "archiveplatformversion": "2014:11.09.02.16.15",
            "archiveadmemailaddress": "admin@example.org",
            "registrationkey": KEY,
        }
        answer = get(app.wsgi_app, f"/{RESOLVER_SERVICE}", urlencode(inclusion))
        assert "successful" in answer, answer
    return app


def resolve(app: Flask, item: str) -> None:
    """Redirect a reader to an item."""
    get(app.wsgi_app, f"/{item}", status="302", HTTP_HOST="urlib.net", REMOTE_ADDR=READER)


def resolver(uri: str, folder: str, archives: str, threads: str) -> Work:
    """Prepare resolutions by a number of threads."""
    app = create_resolver(uri, folder, int(archives))
    items = name_items(int(archives))
    pool = ThreadPoolExecutor(int(threads))

    def work(count: int) -> Job:
        def job() -> None:
            list(pool.map(partial(resolve, app), itertools.islice(items, count)))

        return job

    return work
