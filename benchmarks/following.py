"""How long a resolver takes to read the claims of Archives.

Usage: python benchmarks/following.py [sqlite | postgresql] [ARCHIVES] [ITEMS]

The stand-in Archives are in another process, on loopback. The figures include their time: seconds
for the first reading, bytes of the database for a name, and seconds of CPU time for a pass without
news. ``sqlite 1 1000000`` reads one Archive with a million names.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from threading import Event
from time import monotonic, process_time

from sqlalchemy import func, select, text, update

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.archive_servers import Servers
from support.claiming import ClaimingArchive, a_claim, an_ibi, follow_row, utc_now
from support.databases import new_database
from support.registries import a_config, resolver_database

from flask_ibi_archive.resolver import claims
from flask_ibi_archive.resolver.claims import Follower
from flask_ibi_archive.resolver.tables import ClaimedName, FollowedArchive
from flask_ibi_archive.server.database.migrate import RESOLVER


def make_archive(number: int, items: int) -> ClaimingArchive:
    """Return an Archive with different identifiers."""
    place = f"a{number}.br/items"
    archive = ClaimingArchive(f"{place}/2001/01.01.00.00", utc_now, seed=number % 251 + 1)
    return archive.set(*(a_claim(item, rep=an_ibi(item, place)) for item in range(items)))


def serve(count: int, items: int, pipe: multiprocessing.connection.Connection) -> None:
    """Serve Archives, and send their addresses."""
    servers = Servers()
    archives = [make_archive(number, items) for number in range(count)]
    pipe.send([servers.add(archive.answer).address for archive in archives])
    Event().wait()


def measure(backend: str, count: int, items: int) -> None:
    """Print the figures."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    pipe, other = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(count, items, other), daemon=True)
    process.start()
    addresses = pipe.recv()
    with (
        tempfile.TemporaryDirectory() as folder,
        new_database(backend, Path(folder), ready=True, history=RESOLVER) as uri,
        resolver_database(uri) as database,
    ):
        config = a_config()
        for number, address in enumerate(addresses):
            follow_row(database, make_archive(number, 0), address)
        follower = Follower(config, database)
        started, cpu = monotonic(), process_time()
        follower.run_once()
        seconds, cpu = monotonic() - started, process_time() - cpu
        [(names,)] = database.read_rows(select(func.count()).select_from(ClaimedName))
        assert names == count * items, names
        print(f"{backend}: {count} Archives, {names} names: {seconds:.1f} s, {cpu:.1f} s of CPU")
        if backend == "sqlite":
            with database.reading() as connection:
                pages = connection.scalar(text("PRAGMA page_count")) or 0
                size = pages * (connection.scalar(text("PRAGMA page_size")) or 0)
        else:
            sizes = text("SELECT pg_total_relation_size('ibi_resolver_claim')")
            [(size,)] = database.read_rows(sizes)
        print(f"{size / names:.0f} bytes for a name")
        with database.writing() as connection:
            connection.execute(update(FollowedArchive).values(due_at=None))
        cpu, started = process_time(), monotonic()
        follower.run_once()
        cpu, seconds = process_time() - cpu, monotonic() - started
        [(read,)] = database.read_rows(
            select(func.count()).where(
                FollowedArchive.read_at > utc_now() - timedelta(seconds=seconds + 1)
            )
        )
        assert read == count, read
        print(f"a pass without news: {seconds:.1f} s, {cpu:.2f} s of CPU")
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{memory / 1024:.0f} MiB of memory at most; pages of {claims.LIMIT} claims at most")
        follower.close()
    process.kill()


if __name__ == "__main__":
    arguments = sys.argv[1:] + ["sqlite", "100", "1000"][len(sys.argv) - 1 :]
    measure(arguments[0], int(arguments[1]), int(arguments[2]))
