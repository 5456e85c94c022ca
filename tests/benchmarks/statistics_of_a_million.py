"""What statistics and a purge of a million accesses cost, and how the database goes about it.

Run by hand: ``python tests/benchmarks/statistics_of_a_million.py [--postgresql URL] [--accesses N]``.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from sqlalchemy import insert, text

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.archives import archive_of, close, import_records, make_app

from flask_ibi_archive.service.archive import ArchiveService
from flask_ibi_archive.storage.accesses import _live_counts, second_of
from flask_ibi_archive.storage.models import Access

ITEMS = 1000
DAYS = 90
BLOCK = 10_000


def rep(number: int) -> str:
    """Give the repository name of an item."""
    return f"a.br/x/{1000 + number}/01.01.00.00"


def fill(archive: ArchiveService, accesses: int) -> None:
    """Put accesses of 90 days in."""
    import_records(archive, [{"rep": rep(number)} for number in range(ITEMS)])
    dice = random.Random(5)
    served = archive.served().id
    with archive.database.reading() as connection:
        ids = list(
            connection.execute(
                text("SELECT id FROM ibi_item WHERE archive_id = :id AND NOT is_service"),
                {"id": served},
            ).scalars()
        )
    begin = second_of(date(2026, 1, 1))
    for block in range(0, accesses, BLOCK):
        rows = []
        for number in range(block, min(block + BLOCK, accesses)):
            item = dice.choice(ids)
            rows.append(
                {
                    "archive_id": served,
                    "url_key": f"{number}",
                    "item_id": item,
                    "delivered_item_id": dice.choice(
                        [None, None, None, *(ids[:1] if ids[0] != item else [])]
                    ),
                    "second": begin + number * DAYS * 86400 // accesses,
                    "visitor": f"{dice.randrange(5000):016x}",
                    "address": "150.163.2.0",
                    "robot": dice.random() < 0.1,
                    "content_type": dice.choice(["Data", "Metadata"]),
                    "state": "Original",
                    "relation": "",
                    "persistent_url": "http://urlib.net/8JMKD3MGP8W/35MME4E",
                    "url": "http://mtc-m16c.sid.inpe.br/col/8JMKD3MGP8W/35MME4E/doc/report.pdf",
                }
            )
        with archive.database.writing() as connection:
            connection.execute(insert(Access), rows)


def main() -> None:
    """Measure on SQLite, or on the database that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database to measure on")
    parser.add_argument("--accesses", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = make_app(given.postgresql or f"sqlite:///{folder / 'ibi.sqlite'}", folder)
        archive = archive_of(app)
        archive.init()
        start = time.perf_counter()
        fill(archive, given.accesses)
        print(f"{time.perf_counter() - start:8.2f} s  put in", flush=True)
        prefix = "EXPLAIN" if given.postgresql else "EXPLAIN QUERY PLAN"
        with archive.database.reading() as connection:
            for item in (None, 2):
                statement = _live_counts(archive.served().id, "asked", item).compile(
                    connection.engine, compile_kwargs={"literal_binds": True}
                )
                for row in connection.exec_driver_sql(f"{prefix} {statement}"):
                    print("   ", row[-1])
        for ibi in (None, rep(0), rep(1)):
            start = time.perf_counter()
            found = archive.statistics(ibi, "day")
            print(f"{time.perf_counter() - start:8.2f} s  statistics of {ibi or 'all'}", flush=True)
            assert found.asked
        before = archive.statistics(rep(0), "day"), archive.statistics(None, "month")
        start = time.perf_counter()
        done = archive.purge(0)
        took = time.perf_counter() - start
        print(f"{took:8.2f} s  purged {done.purged}, {took / DAYS:.3f} s a day")
        start = time.perf_counter()
        assert (archive.statistics(rep(0), "day"), archive.statistics(None, "month")) == before
        print(f"{time.perf_counter() - start:8.2f} s  statistics afterwards, the same")
        close(app)


if __name__ == "__main__":
    main()
