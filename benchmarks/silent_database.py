"""Measure what a server answers while its PostgreSQL database does not respond.

Run it with
``python -m benchmarks.silent_database [--postgresql URL] [--seconds 30] [--rate 40]``.

A server with 8 threads uses an empty database through a relay. For some time the relay accepts
connections but never answers. All the time requests are sent at a fixed rate, in turn for URL
lists, acknowledgments, pages and persistent URLs, and for two addresses that need no database.
The time of a request is counted from the moment when it is due, so that it includes the time until
a thread of the server is free. The benchmark also measures how soon the service is normal again.
"""

from __future__ import annotations

import argparse
import logging
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import requests
from support.archives import SERVICE, archive_of, close, import_records, make_app
from support.database_servers import relaying
from support.databases import new_database
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler

THREADS = 8
ITEM = "sid.inpe.br/mtc-m18@80/2009/07.21.13.01"
MESSAGE = f"/{SERVICE}?servicesubject="
LIVE, STATIC = "/ibi/health/live", "/static/style.css"
#: The address of each kind of request.
PATHS = {
    "live": LIVE,
    "static": STATIC,
    "ready": "/ibi/health/ready",
    "urlRequest": f"{MESSAGE}urlRequest&parsedibiurl.ibi={ITEM}"
    "&clientinformation.ipaddress=192.0.2.1",
    "page": f"/col/{ITEM}/",
    "persistent URL": f"/{ITEM}",
    "statistics": "/ibi/statistics",
}


class Server(BaseWSGIServer):
    """Answers requests in a limited number of threads."""

    def __init__(self, app: Any) -> None:
        super().__init__("127.0.0.1", 0, app, handler=QuietHandler)
        self.pool = ThreadPoolExecutor(THREADS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request as soon as a thread is free."""
        self.pool.submit(self.answer, request, client_address)

    def answer(self, request: socket.socket, client_address: Any) -> None:
        """Answer a request."""
        try:
            self.finish_request(request, client_address)
        finally:
            self.shutdown_request(request)


class QuietHandler(WSGIRequestHandler):
    """Writes no log."""

    def log(self, type: str, message: str, *args: object) -> None:
        """Log nothing."""


def ask(base: str, path: str, due: float) -> tuple[int, float]:
    """Return status and seconds, counted from when the request was due."""
    try:
        status = requests.get(base + path, timeout=120, allow_redirects=False).status_code
    except requests.RequestException:
        status = 0
    return status, time.monotonic() - due


class Load:
    """Sends requests at a fixed rate until it is stopped."""

    def __init__(self, base: str, rate: float) -> None:
        self.base, self.rate, self.stops = base, rate, False
        self.results: list[tuple[str, float, int, float]] = []
        self.thread = Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        """Send the requests; none waits for the previous one."""
        kinds = list(PATHS)
        with ThreadPoolExecutor(400) as pool:
            due = time.monotonic()
            number = 0
            while not self.stops:
                kind = kinds[number % len(kinds)]
                pool.submit(self.one, kind, due)
                number += 1
                due += 1 / self.rate
                time.sleep(max(0.0, due - time.monotonic()))

    def one(self, kind: str, due: float) -> None:
        """Send a request and store its result."""
        self.results.append((kind, due, *ask(self.base, PATHS[kind], due)))


def report(title: str, results: list[tuple[str, float, int, float]]) -> None:
    """Print status codes and the longest wait of each kind of request."""
    print(title)
    for kind in PATHS:
        found = [one for one in results if one[0] == kind]
        codes = ", ".join(
            f"{code}: {n}" for code, n in sorted(Counter(f[2] for f in found).items())
        )
        waits = sorted(one[3] for one in found)
        if waits:
            print(
                f"  {kind:15} {codes:24} "
                f"longest {waits[-1]:6.2f} s, median {waits[len(waits) // 2]:.3f} s"
            )


def measure(through: str, relay: Any, folder: Path, seconds: float, rate: float) -> None:
    """Print the figures."""
    app = make_app(through, folder)
    static = folder / "static"
    static.mkdir()
    (static / "style.css").write_text("p {}")
    app.static_folder = str(static)
    archive_of(app).init()
    import_records(archive_of(app), [{"rep": ITEM}])
    server = Server(app)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    load = Load(f"http://127.0.0.1:{server.port}", rate)
    try:
        time.sleep(5)
        hung_at = time.monotonic()
        relay.hangs = True
        time.sleep(seconds)
        relay.hangs = False
        back_at = time.monotonic()
        time.sleep(10)
    finally:
        load.stops = True
        load.thread.join()
        server.shutdown()
    slack = 0.5  # requests that were due just before also meet the silence
    report("before", [one for one in load.results if one[1] < hung_at - slack])
    during = [one for one in load.results if hung_at - slack <= one[1] < back_at]
    report(f"during {seconds:g} s of silence", during)
    report("  of these, due after its first 5 s", [one for one in during if one[1] > hung_at + 5])
    after = [one for one in load.results if one[1] >= back_at]
    bad = [one for one in after if one[2] not in (200, 302)]
    report("after", after)
    last = max((one[1] + one[3] - back_at for one in bad), default=0.0)
    print(
        f"normal service {last:.2f} s after the database came back "
        f"({len(bad)} requests failed until then)"
    )
    close(app)


def run_with_database(work: Callable[[str], None], given: str | None, folder: Path) -> None:
    """Use the given database, or create one."""
    if given is not None:
        work(given)
        return
    with new_database("postgresql", folder) as uri:
        work(uri)


def main() -> None:
    """Measure on the database of ``--postgresql``, or on a new one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database to measure on")
    parser.add_argument("--seconds", type=float, default=30, help="how long it is silent")
    parser.add_argument("--rate", type=float, default=40, help="requests per second")
    given = parser.parse_args()
    logging.disable()
    with tempfile.TemporaryDirectory() as name:

        def work(uri: str) -> None:
            with relaying(uri) as (relay, through):
                measure(through, relay, Path(name), given.seconds, given.rate)

        run_with_database(work, given.postgresql, Path(name))


if __name__ == "__main__":
    main()
