"""Compare the identification server with minting in Python, in one run.

Two processes mint; then 16 clients send requests to a server with two processes. Both issue
identifiers for some seconds. Run it with ``python -m benchmarks.identification [--postgresql
URL]``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from flask import Flask
from support.archives import archive_of, make_app
from support.loopback import free_port

from flask_ibi_archive.archive.identification import views
from flask_ibi_archive.archive.identification.api_keys import create_key

from .gunicorn_servers import archive_environment, serving
from .ours import GRANULARITY

PROCESSES, THREADS = 2, 8
COUNTS = (1, 10, 100)


def make_server(uri: str, folder: Path) -> Flask:
    """Return the app with the identification server."""
    views.RATE = 10**9
    return make_app(uri, folder, IBI_IDENTIFICATION=True, IBI_GRANULARITY=GRANULARITY)


def create_identification() -> Flask:
    """Return the app that gunicorn runs."""
    return make_server(os.environ["BENCH_ARCHIVE_URI"], Path(os.environ["BENCH_FOLDER"]))


def repeat(work: Callable[[], object], seconds: float) -> int:
    """Call a function again and again, and return how often."""
    end, times = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        work()
        times += 1
    return times


def mint(uri: str, folder: Path, count: int, seconds: float) -> int:
    """Mint in Python, and return the number of identifiers."""
    archive = archive_of(make_server(uri, folder))
    archive.mint(count)
    return count * repeat(lambda: archive.mint(count), seconds)


def request(address: str, key: str, count: int, seconds: float) -> int:
    """Send requests in several threads, and return the number of issued identifiers."""
    body = json.dumps({"count": count})
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def send_requests(number: int) -> int:
        connection = http.client.HTTPConnection(address)

        def send() -> None:
            connection.request("POST", "/ibi/identifiers", body, headers)
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            answer.read()

        return repeat(send, seconds)

    with ThreadPoolExecutor(THREADS) as threads:
        return count * sum(threads.map(send_requests, range(THREADS)))


def run_processes(work: Callable[[], int], seconds: float) -> float:
    """Run a function in several processes, and return the identifiers per second."""
    with ProcessPoolExecutor(PROCESSES) as processes:
        running = [processes.submit(work) for _ in range(PROCESSES)]
        return sum(each.result() for each in running) / seconds


def measure(uri: str, folder: Path, seconds: float) -> None:
    """Print the rates for requests with different numbers of identifiers."""
    archive = archive_of(make_server(uri, folder))
    archive.init()
    place = archive.database, archive.served().id
    key = create_key(*place, "benchmark", ["mint"], archive.clock())
    archive.database.close()
    address = f"127.0.0.1:{free_port()}"
    environment = archive_environment(uri, folder, address)
    for count in COUNTS:
        minted = run_processes(partial(mint, uri, folder, count, seconds), seconds)
        port = int(address.rpartition(":")[2])
        with serving(
            "identification", port, PROCESSES, environment, module="identification"
        ) as server:
            work = partial(request, server.address, key, count, seconds)
            issued = run_processes(work, seconds)
        print(
            f"{count:4} at a time: {minted:8.0f} minted, {issued:8.0f} issued per second, "
            f"ratio {issued / minted:.2f}"
        )


def main() -> None:
    """Measure on SQLite, or on the database of ``--postgresql``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database")
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        uri = given.postgresql or f"sqlite:///{Path(name) / 'ibi.sqlite'}"
        measure(uri, Path(name), given.seconds)


if __name__ == "__main__":
    main()
