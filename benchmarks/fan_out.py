"""Measure how long a user waits for N Archives, compared with the slowest single answer.

Three times are measured in turn, and their medians are compared:

* the minimal client, which uses the standard library's selectors and connections that are already
  open: until the last of the N answers has arrived;
* ``FanOut.ask``: until the reply of the only Archive that knows the item has arrived;
* a complete resolution.

The load of the machine changes these times, but hardly their ratios. Run this benchmark by hand:
``python -m benchmarks.fan_out``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import selectors
import socket
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from support.archive_servers import Servers, http
from support.loopback import LOOPBACK
from support.registries import KEY, a_config, a_registry, a_request, resolver_database

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.outcome import Redirect
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_url
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.concurrent_requests import FanOut, Reply, Target
from flask_ibi_archive.resolver.resolution_context import ResolutionRequest
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.server.http.transport import HEADERS

LIMIT = 2.0
COUNTS = (1, 8, 32, 128)
PROCESSES = 2
#: The response time of a fast Archive. With no response time at all, only the time to wake a thread
#: would be measured.
MILLISECONDS = 1.0
ROUNDS = 200
#: Rounds that are not counted, in which connections are opened.
WARMING = 10

KNOWN = (
    "archiveaddress archive.example.org\r\ncontenttype Data\r\n"
    "ibi {rep a.br/x/2001/01.01.00.00 ibip 8JMKD3MGP8W/35MME4E}\r\nstate Original\r\n"
    "timestamp 2009-02-16T17:46:00Z\r\n"
    "url http://archive.example.org/col/a.br/x/2001/01.01.00.00/doc/report.pdf\r\n"
    "urlkey 1234567890-1234567890"
)
ADDRESS = "150.163.2.175"


def item_of(number: int, turn: int) -> str:
    """Return the IBI of an item that one Archive knows; no two turns have the same item."""
    return f"a.br/x{number}/2001/01.{1 + turn // 1440:02}.{turn // 60 % 24:02}.{turn % 60:02}"


def service_of(number: int) -> str:
    """Return the IBI of an Archive's service."""
    return f"a.br/service{number}/2000/01.01.00.00"


def answer(known: bytes, unknown: bytes, number: int, target: str, head: str) -> bytes:
    """Return the answer of one of the Archives."""
    return known if f"a.br/x{number}/" in target else unknown


def serve(numbers: Sequence[int], seconds: float, pipe: Connection) -> None:
    """Serve some Archives and send their addresses."""
    servers = Servers()
    known, unknown = http(KNOWN), http()
    pipe.send(
        [
            servers.add(
                partial(answer, known, unknown, number), seconds, keeps_requests=False
            ).address
            for number in numbers
        ]
    )
    servers.run()


@contextmanager
def serving_archives(count: int, milliseconds: float) -> Iterator[list[str]]:
    """Serve Archives in other processes, and yield their addresses."""
    context = multiprocessing.get_context("spawn")
    addresses = [""] * count
    processes = []
    for first in range(PROCESSES):
        numbers = range(first, count, PROCESSES)
        ours, theirs = context.Pipe()
        processes.append(
            context.Process(target=serve, args=(numbers, milliseconds / 1000, theirs), daemon=True)
        )
        processes[-1].start()
        addresses[first::PROCESSES] = ours.recv()
    try:
        yield addresses
    finally:
        for process in processes:
            process.kill()
            process.join()


class Bare:
    """A minimal client for comparison: one open socket for each Archive."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets: list[tuple[socket.socket, str]] = []
        for address in addresses:
            host, _, port = address.partition(":")
            peer = socket.create_connection((host, int(port)))
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setblocking(False)
            self._selector.register(peer, selectors.EVENT_READ)
            self._sockets.append((peer, address))

    def slowest(self, query: str) -> float:
        """Return the seconds until the last answer has arrived."""
        headers = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
        begun = perf_counter()
        for peer, address in self._sockets:
            peer.send(f"GET /a?{query} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n".encode())
        read: dict[int, bytes] = {}
        left = len(self._sockets)
        while left:
            for key, _ in self._selector.select():
                data = read.get(key.fd, b"") + key.fileobj.recv(65536)  # type: ignore[union-attr]
                read[key.fd] = data
                head, found, body = data.partition(b"\r\n\r\n")
                if found:
                    length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
                    left -= len(body) >= length
        return perf_counter() - begun


def wait(fan_out: FanOut, targets: Sequence[Target]) -> float:
    """Return the seconds until the answer of the Archive that knows the item has arrived."""
    begun = perf_counter()
    replies = fan_out.ask(targets, 10)
    while True:
        result = replies.get(10)
        if not isinstance(result, Reply):
            raise SystemExit(f"an Archive fails: {result}")
        if result.pairs:
            waited = perf_counter() - begun
            break
    # the other results must not be counted in the next round
    while replies.get(10) is not None:
        pass
    replies.abandon()
    return waited


@contextmanager
def resolver_of(archives: Sequence[IncludedArchive], folder: str) -> Iterator[ResolverService]:
    """Yield a resolver that has included some Archives."""
    uri = f"sqlite:///{folder}/{len(archives)}.sqlite"
    with resolver_database(uri) as database:
        registry = a_registry(database)
        for one in archives:
            registry.register(one.service_ibi, KEY)
            registry.process(a_request(service_ibi=one.service_ibi, address=one.address))
        resolver = ResolverService(a_config(IBI_RESOLVER_DATABASE_URI=uri), database)
        yield resolver
        resolver.close()


def resolve(resolver: ResolverService, item: str) -> float:
    """Return the seconds of a complete resolution."""
    url = f"http://urlib.net:80/{item}"
    request = ResolutionRequest(parse_persistent_url(url), url, (ADDRESS,), (), "Mozilla/5.0")
    begun = perf_counter()
    outcome = resolver.resolve(request)
    waited = perf_counter() - begun
    if not isinstance(outcome, Redirect):
        raise SystemExit(f"it leads nowhere: {outcome}")
    while resolver.fan_out.has_work():
        sleep(0.001)
    return waited


def main() -> None:
    """Print the ratios; exit with status 1 if one exceeds the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--milliseconds",
        type=float,
        default=MILLISECONDS,
        help="that an Archive takes to answer: whole ones",
    )
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="numbers of Archives")
    given = parser.parse_args()
    chance = random.Random(4)
    worst = 0.0
    print(f"each Archive takes {given.milliseconds} ms; medians of {given.rounds} rounds")
    with serving_archives(max(given.counts), given.milliseconds) as addresses:
        for count in given.counts:
            with TemporaryDirectory() as folder:
                medians = measure(addresses[:count], given.rounds, chance, folder)
            base, *waits = (median * 1000 for median in medians)
            worst = max(worst, *(one / base for one in waits))
            named = zip(("FanOut", "resolution"), waits, strict=True)
            print(
                f"N = {count:3}: bare client {base:5.2f} ms, "
                + ", ".join(f"{name} {one:5.2f} ms (ratio {one / base:.2f})" for name, one in named)
            )
    print(f"the worst ratio is {worst:.2f}, the limit {LIMIT}")
    sys.exit(worst > LIMIT)


def measure(
    addresses: Sequence[str], rounds: int, chance: random.Random, folder: str
) -> list[float]:
    """Return the median times of the minimal client, FanOut and a resolution."""
    bare = Bare(addresses)
    archives = [IncludedArchive(n, service_of(n), one) for n, one in enumerate(addresses)]
    fan_out = FanOut(10, 65536, inner_hosts=LOOPBACK)
    found: list[tuple[float, float, float]] = []
    with resolver_of(archives, folder) as resolver:
        for turn in range(rounds + WARMING):
            item = item_of(chance.randrange(len(archives)), turn)
            question = Question(parse_identifier(item), NO_VERBS)
            query = format_request(question.create_request((ADDRESS,)))
            targets = [Target(one, f"{one.service_url}?{query}", question) for one in archives]
            found.append((bare.slowest(query), wait(fan_out, targets), resolve(resolver, item)))
    fan_out.close()
    return [statistics.median(column) for column in zip(*found[WARMING:], strict=True)]


if __name__ == "__main__":
    main()
