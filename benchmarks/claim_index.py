"""Build the index of claims of many items, and measure its size, memory, time and lookups.

Run it with::

    python -m benchmarks.claim_index [ITEMS] [FOLDER] [--postgresql] [--rebuild]

Each item has two names. The benchmark stores them as a resolver does that reads logs, looks names
up, merges all files into one, looks names up again, and derives the figures of 10^8 items: the size
grows with the number of items; the time to move and merge the bindings also grows with the number
of levels of files. With ``--rebuild``, the index is built from logs that are kept on the disk, as
``flask ibi-resolver rebuild-index`` does. The seconds are CPU seconds of this process, so that
other processes hardly change them.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timezone
from hashlib import sha256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import func, insert, select
from support.databases import new_database
from support.registries import a_registry, included
from support.stores import ibip_of, rep_of

from flask_ibi_archive.core.claims.claim import Claim, format_claim
from flask_ibi_archive.core.claims.tiles import WIDTH
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.claims.index import FILE_ROWS, FOLD_LIMIT, ClaimIndex, Holding
from flask_ibi_archive.resolver.claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.claims.rebuilding import rebuild_index
from flask_ibi_archive.resolver.claims.tables import FollowedLog, IndexRun
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER

ITEMS, WANTED = 10**6, 10**8
#: The names of an item, the items of a transaction, and the Archives.
NAMES, BATCH, ARCHIVES = 2, 5000, 10_000
LOOKUPS = 100_000
#: The items of a log, and the time in each claim.
LOG, TIME = 100_000, "2009-07-21T13:23:45Z"
#: The seconds in which a merge writes a name; measured as "merge all".
MERGING = 1e-6
#: The limits of 10^8 items: bytes, bytes, seconds.
DISK, MEMORY, REBUILDING = 4e9, 200e6, 7200


def make_key(number: int) -> bytes:
    """Return the key of a name; the names are numbered."""
    return sha256(b"%d" % number).digest()[:16]


def make_holdings(first: int, items: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the names of some items; each Archive has items with numbers that follow each other."""
    for number in range(NAMES * first, NAMES * (first + items)):
        yield make_key(number), number // (NAMES * BATCH) % ARCHIVES + 1, 1


def write_logs(database: Database, kept: KeptLogs, items: int) -> None:
    """Store the logs of Archives with up to 100,000 items, as if a follower had read them."""
    registry = a_registry(database)
    numbers = iter(range(items))
    for archive_id in included(registry, math.ceil(items / LOG)):
        claims = list(map(make_claim, islice(numbers, LOG)))
        for start in range(0, len(claims), WIDTH):
            kept.write_bundle(archive_id, 1, start // WIDTH, claims[start : start + WIDTH])
        row = {
            "archive_id": archive_id,
            "origin": f"a.br/a{archive_id}/2001/01.01.00.00",
            "key": "",
            "pinned_at": datetime.now(timezone.utc),
            "size": len(claims),
            "frontier": b"",
            "checkpoint": "",
        }
        with database.writing() as connection:
            connection.execute(insert(FollowedLog), row)


def make_claim(number: int) -> bytes:
    """Return the claim of an item with two identifiers and a checksum, as most claims are."""
    digest = sha256(b"%d" % number).hexdigest()
    return format_claim(
        Claim(rep_of(number % (28 * 86400)), ibip_of(number), State.ORIGINAL, TIME, sha256=digest)
    )


def peak_memory() -> int:
    """Return the maximum memory of this process so far in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Bench:
    """Builds an index in a database and a folder."""

    def __init__(self, database: Database, folder: Path, items: int) -> None:
        self.database = database
        self.folder = folder
        self.items = items
        self.index = ClaimIndex(database, folder)

    def run(self) -> None:
        """Measure, and print the figures."""
        start, begun = peak_memory(), time.monotonic()
        storing = moving = 0.0
        for first in range(0, self.items, BATCH):
            storing += self._time(lambda first=first: self._store(first))  # type: ignore[misc]
            moving += self._time(self.index.fold)
        self._look_up("before all files are merged")
        merging = self._time(self.index.compact)
        self._look_up("after all files were merged")
        disk = sum(path.stat().st_size for path in self.folder.iterdir())
        elapsed = time.monotonic() - begun
        print(f"{self.items} items, {NAMES} names each: {elapsed:.0f} s with waits for the disk")
        print(f"  store      {storing:8.0f} s  {storing / self.items / NAMES * 1e6:.2f} us a name")
        print(f"  move       {moving:8.0f} s  {moving / self.items / NAMES * 1e6:.2f} us a name")
        print(f"  merge all  {merging:8.0f} s  {merging / self.items / NAMES * 1e6:.2f} us a name")
        print(f"  disk       {disk / 1e6:8.0f} MB, twice as much while all files are merged")
        print(f"  memory     {peak_memory() / 1e6:8.0f} MB, {start / 1e6:.0f} MB of them before")
        factor = WANTED / self.items
        levels = [max(math.log2(NAMES * items / FOLD_LIMIT), 1) for items in (WANTED, self.items)]
        seconds = factor * (storing + moving * levels[0] / levels[1] + merging)
        print(
            f"derived for {WANTED} items: disk {disk * factor / 1e9:.2f} GB (limit"
            f" {DISK / 1e9:.0f}), memory {peak_memory() / 1e6:.0f} MB (limit {MEMORY / 1e6:.0f}),"
            f" {seconds:.0f} s without parsing (limit {REBUILDING} with parsing)"
        )

    def rebuild(self) -> None:
        """Measure how long the index is built from logs, and print the figures."""
        kept = KeptLogs(self.folder.parent / "logs")
        write_logs(self.database, kept, self.items)
        start = peak_memory()
        seconds = self._time(lambda: rebuild_index(self.database, self.index, kept))
        per_item = seconds / self.items
        [row] = self.database.read_rows(select(IndexRun.records))
        disk = sum(path.stat().st_size for path in kept.folder.rglob("*.gz"))
        print(
            f"{self.items} claims of {row.records} names: {1 / per_item:.0f} claims/s of one core"
        )
        print(f"  memory     {peak_memory() / 1e6:8.0f} MB, {start / 1e6:.0f} MB of them before")
        print(f"  kept logs  {disk / self.items:8.0f} bytes a claim")
        parts = NAMES * WANTED / FILE_ROWS, max(NAMES * self.items / FILE_ROWS, 1)
        levels = [math.log2(number) / 2 for number in parts]
        merging = (levels[0] - levels[1]) * NAMES * WANTED * MERGING
        total = WANTED * per_item + merging
        print(
            f"derived for {WANTED} items: {total:.0f} s (limit {REBUILDING}), of which"
            f" {merging:.0f} s are for {levels[0] - levels[1]:.1f} more merges of each name"
        )

    def _store(self, first: int) -> None:
        with self.database.writing() as connection:
            self.index.store(connection, make_holdings(first, min(BATCH, self.items - first)))

    def _look_up(self, when: str) -> None:
        """Look names up that are claimed, and as many that are not."""
        self.index.fold(force=True)
        [(version,)] = self.database.read_rows(select(func.max(IndexRun.id)))
        dice = random.Random(7)
        claimed = [dice.randrange(NAMES * self.items) for _ in range(LOOKUPS)]
        for names, kind in ((claimed, "claimed"), (range(-LOOKUPS, 0), "unknown")):
            keys = [make_key(number) for number in names]
            found: list[list[Holding]] = []

            def look_up(keys: list[bytes] = keys, found: list[list[Holding]] = found) -> None:
                found += [self.index.find_in_files(key, [], version) for key in keys]

            seconds = self._time(look_up)
            if not all(bool(holdings) == (kind == "claimed") for holdings in found):
                raise SystemExit(f"a lookup of a name that is {kind} was wrong")
            files = len(list(self.folder.iterdir()))
            print(f"{LOOKUPS / seconds:8.0f} lookups/s, {kind} names, {files} files, {when}")

    @staticmethod
    def _time(work: Callable[[], object]) -> float:
        """Return the CPU seconds of a function."""
        begun = time.process_time()
        work()
        return time.process_time() - begun


def main() -> None:
    """Measure with a database that is removed afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("items", type=int, nargs="?", default=ITEMS)
    parser.add_argument("folder", type=Path, nargs="?", help="a folder on a disk; default: /tmp")
    parser.add_argument("--postgresql", action="store_true", help="use the server of the tests")
    parser.add_argument("--rebuild", action="store_true", help="build the index from logs")
    given = parser.parse_args()
    with TemporaryDirectory(dir=given.folder) as place, ExitStack() as stack:
        uri = f"sqlite:///{place}/resolver.sqlite"
        if given.postgresql:
            uri = stack.enter_context(new_database("postgresql", Path(place)))
        database = Database.at(uri, RESOLVER)
        stack.callback(database.close)
        database.create()
        with database.writing() as connection:
            migrate.upgrade(connection, history=RESOLVER)
        bench = Bench(database, Path(place) / "index", given.items)
        if given.rebuild:
            bench.rebuild()
        else:
            bench.run()


if __name__ == "__main__":
    main()
