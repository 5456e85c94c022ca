"""Check that servers use no more memory, files and connections after many requests.

Run it with ``python -m benchmarks.soak [--minutes 10] [--postgresql URL]``. An Archive and a
resolver run with gunicorn on loopback. Half of the requests are urlRequests to the Archive, half
are persistent URLs that the resolver resolves, so that it asks the Archive and acknowledges the
access. First, requests are sent as fast as possible, so that the servers start all their threads,
open all their connections and fill their caches, which have a limit. At the fixed rate, this would
take longer than the measurement. After the first quarter of the time, lines are fitted to the
memory of each process. The numbers of open files and of connections depend on how many requests are
answered at the moment, so that the smallest number in each half counts. The exit status is 1 if one
of them still grows in the second half.
"""

from __future__ import annotations

import argparse
import http.client
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import linear_regression
from typing import Any

from sqlalchemy import create_engine, make_url, text
from support.archives import SERVICE
from support.loopback import free_port
from support.registries import KEY, a_registry, a_request, resolver_database
from support.stores import rep_of

from . import ours
from .gunicorn_servers import Server, archive_environment, serving
from .measurements import QUICK, Bench

#: Kilobytes per 1,000 requests; what is measured over a few minutes varies by less.
MEMORY_LIMIT = 20.0
#: How many more files or connections may be open in the second half than in the first.
OPEN_LIMIT = 3.0
#: The threads that send requests at the fixed rate, and before, when all threads of the servers
#: should be busy.
THREADS, BUSY_THREADS = 8, 24
#: The requests that are sent before the measurement.
WARM_UP = 5000
QUERIES = ("", "&parsedibiurl.verblist=GetTranslation", ours.LAST_METADATA)


class Load:
    """Sends requests at a fixed rate from some threads.

    :param rate: requests per second. If the servers are slower, each thread waits for its answer.
    """

    def __init__(self, archive: str, resolver: str, rate: float, threads: int = THREADS) -> None:
        self.addresses = (archive, resolver)
        self.rate = rate
        self.statuses: Counter[str] = Counter()
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self._send, args=(n,)) for n in range(threads)]
        for thread in self.threads:
            thread.start()

    def _send(self, number: int) -> None:
        dice = random.Random(number)
        due = time.monotonic() + number / self.rate
        while not self.ends.wait(max(0.0, due - time.monotonic())):
            due += len(self.threads) / self.rate
            first = dice.randrange(0, ours.ITEMS, ours.GROUP)
            if dice.random() < 0.5:
                path = f"/{SERVICE}?{ours.URL_REQUEST}{rep_of(first)}{dice.choice(QUERIES)}"
                self._ask("archive", 0, path)
            else:
                self._ask("resolver", 1, f"/{rep_of(first)}")

    def _ask(self, name: str, place: int, path: str) -> None:
        connection = http.client.HTTPConnection(self.addresses[place], timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            self.statuses[f"{name} {response.status}"] += 1
        except OSError as error:
            self.statuses[f"{name} {type(error).__name__}"] += 1
        finally:
            connection.close()

    @property
    def sent(self) -> int:
        """How many requests were answered."""
        return self.statuses.total()

    def stop(self) -> None:
        """Send no further request."""
        self.ends.set()
        for thread in self.threads:
            thread.join()


def warm_up(archive: str, resolver: str) -> None:
    """Send requests as fast as the servers answer."""
    load = Load(archive, resolver, 1e6, BUSY_THREADS)
    while load.sent < WARM_UP:
        time.sleep(0.1)
    load.stop()


def sample(servers: Sequence[Server], backend: str, connections: Any) -> dict[str, float]:
    """Return the memory and the open files of each worker, and the connections to the database."""
    found: dict[str, float] = {}
    for server in servers:
        for place, number in enumerate(server.workers, 1):
            name = f"{server.name} {place}"
            status = Path(f"/proc/{number}/status").read_text()
            memory = status.partition("VmRSS:")[2].split()[0]
            opened = list(Path(f"/proc/{number}/fd").iterdir())
            found[f"{name}: memory, KB"] = float(memory)
            found[f"{name}: open files"] = len(opened)
    if backend == "postgresql":
        found["connections to PostgreSQL"] = connections()
    return found


def report(samples: Sequence[tuple[int, dict[str, float]]]) -> bool:
    """Print how each quantity changed, and return whether none grows in the second half."""
    halves = samples[: len(samples) // 2], samples[len(samples) // 2 :]
    right = True
    for name in samples[0][1]:
        points = [[(count, found[name]) for count, found in half] for half in halves]
        if name.endswith("KB"):
            first, second = map(fit, points)
            good = second <= MEMORY_LIMIT
            change = f"per 1,000 requests {first:7.2f}, then {second:7.2f}"
        else:
            first, second = (min(value for _, value in half) for half in points)
            good = second - first <= OPEN_LIMIT
            change = f"at least {first:.0f}, then {second:.0f}"
        right = right and good
        begin, end = samples[0][1][name], samples[-1][1][name]
        print(
            f"{name:26} {begin:7.0f} to {end:7.0f}; {change}{'' if good else '  GROWS'}", flush=True
        )
    return right


def fit(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of a line through points, per 1,000 requests."""
    counts, values = zip(*points, strict=True)
    return 1000 * linear_regression(counts, values).slope


def soak(bench: Bench, minutes: float, rate: float) -> bool:
    """Run the servers and the load, and return whether nothing grows."""
    with ExitStack() as stack:
        uris = [stack.enter_context(bench.database()) for _ in range(2)]
        ports = free_port(), free_port()
        address = f"127.0.0.1:{ports[0]}"
        environment = archive_environment(uris[0], bench.folder, address)
        environment["BENCH_RESOLVER_URI"] = uris[1]
        # as in the documented service: the areas of memory of many threads take long to fill
        environment["MALLOC_ARENA_MAX"] = "1"
        ours.prepare(uris[0], str(bench.folder))
        with resolver_database(uris[1]) as database:
            registry = a_registry(database)
            registry.register(SERVICE, KEY)
            registry.process(a_request(service_ibi=SERVICE, address=address))
        archive = stack.enter_context(serving("archive", ports[0], 2, environment))
        resolver = stack.enter_context(serving("resolver", ports[1], 1, environment))
        engine = create_engine(bench.server or "sqlite://")
        names = [make_url(uri).database for uri in uris]
        statement = text("SELECT count(*) FROM pg_stat_activity WHERE datname = ANY (:names)")

        def connections() -> float:
            with engine.connect() as connection:
                return float(connection.scalar(statement, {"names": names}) or 0)

        stack.callback(engine.dispose)
        warm_up(archive.address, resolver.address)
        load = Load(archive.address, resolver.address, rate)
        stack.callback(load.stop)
        samples = []
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < minutes * 60:
            if passed > minutes * 15:
                found = sample([archive, resolver], bench.backend, connections)
                samples.append((load.sent, found))
            time.sleep(2)
        load.stop()
        print(f"{bench.backend}: {dict(load.statuses)}, {load.sent / passed:.1f} per second")
        right = {"archive 200", "resolver 302"} >= set(load.statuses)
        return report(samples) and right


def main() -> None:
    """Run on SQLite, or on a PostgreSQL server."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=50, help="requests per second (default: 50)")
    parser.add_argument("--postgresql", metavar="URL", help="a server to create databases on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.postgresql, QUICK, {}, sys.executable, print)
        sys.exit(0 if soak(bench, options.minutes, options.rate) else 1)


if __name__ == "__main__":
    main()
