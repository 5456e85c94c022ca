"""Work that needs several processes or threads: acknowledgments and resolutions."""

from __future__ import annotations

import atexit
import http.client
import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median

from sqlalchemy import create_engine, make_url, text
from support.accesses import item_id
from support.archives import SERVICE, archive_of, import_records, make_app
from support.loopback import free_port
from support.resolvers import acknowledge
from support.stores import rep_of

from . import ours
from .fan_out import item_of, serving_archives
from .gunicorn_servers import archive_environment, serving
from .resolutions import ARCHIVES, THREADS, resolve, resolver_app
from .worker import Work

BACKENDS = text(
    "SELECT pid FROM pg_stat_activity WHERE datname = :name AND pid <> pg_backend_pid()"
)
REP = "a.br/x/2001/01.01.00.00"
SENDERS, SERVERS, ROUNDS = 32, 3, 3
#: Threads of a worker wait for each other, because only one runs Python at a time: with two, two
#: cores count more accesses than with eight.
WORKER_THREADS = 2


def take_acknowledgments(uri: str, folder: Path, count: int) -> float:
    """Return how many acknowledgments are answered and stored per second.

    The median of several rounds is returned, after a round in which the workers become ready.

    :param count: the acknowledgments of a round.
    """
    archive = archive_of(make_app(uri, folder))
    archive.init()
    import_records(archive, [{"rep": REP}])
    item = item_id(archive, REP)
    keys = [archive.url_keys.issue(item) for _ in range((ROUNDS + 1) * count)]
    archive.database.close()
    environment = archive_environment(uri, folder, "127.0.0.1")
    rates = []
    with (
        serving("archive", free_port(), SERVERS, environment, WORKER_THREADS) as server,
        ThreadPoolExecutor(SENDERS) as pool,
    ):
        send = partial(acknowledge, server.address, REP)
        for number in range(0, len(keys), count):
            begun = time.perf_counter()
            answered = list(pool.map(send, keys[number : number + count]))
            rates.append(count / (time.perf_counter() - begun))
            assert all(answered)
    return median(rates[1:])


def busy_seconds(number: int) -> float:
    """Return the CPU seconds of a process."""
    # user and system time follow the name of the command, which ends with a bracket
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def database_processes(uri: str) -> list[int]:
    """Return the processes of a PostgreSQL server on this machine that serve a database."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        return []
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(BACKENDS, {"name": url.database})
        found = [number for (number,) in rows if Path(f"/proc/{number}/stat").exists()]
    engine.dispose()
    return found


def serve_requests(uri: str, folder: Path, count: int) -> dict[str, float]:
    """Return the CPU microseconds of a urlRequest to gunicorn, and those of the database."""
    ours.prepare(uri, str(folder))
    environment = archive_environment(uri, folder, "127.0.0.1")
    with serving("archive", free_port(), 1, environment) as server:
        [worker] = server.workers
        path = f"/{SERVICE}?{ours.URL_REQUEST}{rep_of(ours.GROUP * ours.MEASURED)}"
        ask_in_turn(server.address, path, count // 10)
        backends = database_processes(uri)
        begun = busy_seconds(worker), sum(map(busy_seconds, backends))
        ask_in_turn(server.address, path, count)
        spent = busy_seconds(worker) - begun[0], sum(map(busy_seconds, backends)) - begun[1]
    found = {"microseconds": spent[0] / count * 1e6}
    return found | ({"database_microseconds": spent[1] / count * 1e6} if backends else {})


def ask_in_turn(address: str, path: str, count: int) -> None:
    """Send requests one after the other."""
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        for _ in range(count):
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            assert response.status == 200, response.status


def resolutions(uri: str) -> Work:
    """Prepare resolutions of items that one of 32 Archives has; all of them are asked."""
    stack = ExitStack()
    atexit.register(stack.close)
    addresses = stack.enter_context(serving_archives(ARCHIVES, 0))
    app = stack.enter_context(resolver_app(addresses, uri))
    # a new item each time, so that the resolver has no hint where it is
    items = (item_of(turn % ARCHIVES, turn) for turn in itertools.count())

    def work(count: int) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(partial(resolve, app), itertools.islice(items, count)))

    return work
