"""Measure how many resolutions per second one process of a resolver answers, with N Archives.

Each resolution is a request to the resolver's WSGI app for an item that has no hint, so that the
resolver asks all N Archives; it ends when the acknowledgment is sent. The Archives are prepared
answers in other processes. Three things are measured in turn, in rounds, and their medians are
compared:

* sockets: the same N requests to the same servers through open sockets, and nothing else;
* curl: the same requests through bare libcurl (``pycurl.CurlMulti``), and nothing else;
* resolutions, by several threads of one process.

Run it with ``python -m benchmarks.resolutions [--postgresql URL]``.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Any

import pycurl
from flask import Flask
from support.loopback import HERE
from support.registries import KEY, a_registry, a_request, resolver_database

from benchmarks.fan_out import ADDRESS, Bare, item_of, service_of, serving_archives
from benchmarks.worker import requests_to
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest, format_request
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.server.http.transport import HEADERS

ARCHIVES = 32
#: The threads of the process that resolves, as a server has them.
THREADS = 8
#: Resolutions in a round, and rounds.
RESOLUTIONS, ROUNDS = 300, 7


class BareCurl:
    """A minimal client on libcurl: one handle for each Archive."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._multi = pycurl.CurlMulti()
        self._handles = [(pycurl.Curl(), address) for address in addresses]
        for curl, _ in self._handles:
            curl.setopt(pycurl.HTTPHEADER, [f"{name}: {text}" for name, text in HEADERS.items()])

    def ask(self, query: str) -> None:
        """Ask all Archives, and read all answers."""
        for curl, address in self._handles:
            curl.setopt(pycurl.URL, f"http://{address}/a?{query}")
            curl.body = []
            curl.setopt(pycurl.WRITEFUNCTION, curl.body.append)
            self._multi.add_handle(curl)
        running = 1
        while running:
            running = self._multi.perform()[1]
            if running:
                self._multi.select(1.0)
        for curl, _ in self._handles:
            self._multi.remove_handle(curl)


@contextmanager
def resolver_app(addresses: Sequence[str], uri: str) -> Iterator[Flask]:
    """Yield the app of a resolver that has included Archives at some addresses."""
    with resolver_database(uri) as database:
        registry = a_registry(database)
        for number, address in enumerate(addresses):
            registry.register(service_of(number), KEY)
            registry.process(a_request(service_ibi=service_of(number), address=address))
    app = Flask("resolver")
    app.config.update(IBI_RESOLVER_DATABASE_URI=uri, IBI_RESOLVER_INNER_HOSTS=HERE)
    app.config["SECRET_KEY"] = "secret"
    IBIResolver(app)
    try:
        yield app
    finally:
        app.extensions["ibi_resolver"].resolver.close()


def resolve(app: Flask, item: str) -> None:
    """Resolve a persistent URL."""
    requests_to(app.wsgi_app, f"/{item}", "", "302", HTTP_HOST="urlib.net", REMOTE_ADDR=ADDRESS)(1)


def wait_until_idle(app: Flask) -> None:
    """Wait until all answers have arrived and all acknowledgments are sent."""
    while app.extensions["ibi_resolver"].resolver.fan_out.has_work():
        sleep(0.001)


def measure(work: Callable[[], None], number: int) -> tuple[float, float]:
    """Return seconds and CPU seconds for each of a number of resolutions."""
    start, cpu = perf_counter(), process_time()
    work()
    return (perf_counter() - start) / number, (process_time() - cpu) / number


def main() -> None:
    """Print the rates, the CPU times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archives", type=int, default=ARCHIVES)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--resolutions", type=int, default=RESOLUTIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--milliseconds", type=float, default=0.0, help="that an Archive takes")
    parser.add_argument("--postgresql", metavar="URL", help="an empty database")
    given = parser.parse_args()
    turns = count()
    number = given.resolutions
    results: dict[str, list[tuple[float, float]]] = {}
    with (
        serving_archives(given.archives, given.milliseconds) as addresses,
        TemporaryDirectory() as folder,
        resolver_app(addresses, given.postgresql or f"sqlite:///{folder}/db.sqlite") as app,
        ThreadPoolExecutor(given.threads) as pool,
    ):
        sockets, curl = Bare(addresses), BareCurl(addresses)

        def items() -> list[str]:
            return [
                item_of(turn % given.archives, turn)
                for turn in (next(turns) for _ in range(number))
            ]

        def ask(client: Callable[[str], Any]) -> None:
            for item in items():
                client(format_request(UrlRequest(parse_identifier(item), (ADDRESS,), "", NO_VERBS)))

        def resolve_all() -> None:
            list(pool.map(lambda item: resolve(app, item), items()))
            wait_until_idle(app)

        works = {
            "sockets": lambda: ask(sockets.slowest),
            "curl": lambda: ask(curl.ask),
            "resolutions": resolve_all,
        }
        for turn in range(given.rounds + 1):
            for name, work in works.items():
                found = measure(work, number)
                if turn:
                    results.setdefault(name, []).append(found)
    base = 0.0
    for name, found in results.items():
        seconds, cpu = (statistics.median(column) for column in zip(*found, strict=True))
        base = base or cpu
        print(
            f"{name:12} {1 / seconds:7.0f} per second, {cpu * 1000:6.2f} ms of CPU time, "
            f"{cpu / base:5.2f} times the sockets"
        )


if __name__ == "__main__":
    main()
