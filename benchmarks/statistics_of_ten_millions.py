"""Measure the statistics pages of an Archive with ten million accesses.

The accesses are stored and counted by SQL. Then pages are requested.
Run it with ``python -m benchmarks.statistics_of_ten_millions [--postgresql URL]
[--accesses N] [--items N]``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from sqlalchemy import event, text
from support.archives import archive_of, close, import_records, make_app

from flask_ibi_archive.archive.accesses.access_rows import start_of_day
from flask_ibi_archive.archive.archive import Archive

DAYS = 3650
FIRST = date(2016, 11, 21)
BLOCK = 500_000
#: A visitor clicks four times, 8, 24 and 40 seconds apart. One in ten accesses is a robot's.
FILL = """
    INSERT INTO ibi_access (archive_id, url_key, item_id, second, visitor,
                            address, robot, content_type, state, relation, persistent_url, url)
    SELECT :archive, {key}, :first + n / 4 * 7919 % :items,
           :begin + n / 4 * 4 * :seconds / :total + n % 4 * (n % 4) * 8, {visitor}, '150.163.2.0',
           n / 4 % 10 = 3, CASE WHEN n / 4 % 3 = 0 THEN 'Metadata' ELSE 'Data' END, 'Original', '',
           'http://urlib.net/8JMKD3MGP8W/35MME4E',
           'http://mtc-m16c.sid.inpe.br/col/8JMKD3MGP8W/35MME4E/doc/report.pdf'
      FROM {numbers}
"""
#: Counts the accesses of items.
COUNT = """
    INSERT INTO ibi_access_count
           (item_id, day, content_type, archive_id, accesses, double_clicks, robots)
    SELECT item_id, day, content_type, archive_id,
           SUM(CASE WHEN robot OR gap <= 30 THEN 0 ELSE 1 END),
           SUM(CASE WHEN NOT robot AND gap <= 30 THEN 1 ELSE 0 END),
           SUM(CASE WHEN robot THEN 1 ELSE 0 END)
      FROM (SELECT item_id, archive_id, {day} AS day, content_type, robot,
                   COALESCE(LEAD(second) OVER (PARTITION BY item_id, content_type, robot, visitor
                                               ORDER BY second, id) - second, 99) AS gap
              FROM ibi_access) told
     GROUP BY item_id, day, content_type, archive_id
"""
SUM = """
    INSERT INTO ibi_archive_access_count
           (archive_id, day, content_type, accesses, double_clicks, robots)
    SELECT archive_id, day, content_type, SUM(accesses), SUM(double_clicks), SUM(robots)
      FROM ibi_access_count
     GROUP BY archive_id, day, content_type
"""
DIALECTS = {
    "sqlite": {
        "day": "date(second, 'unixepoch')",
        "key": "printf('%010d', n)",
        "visitor": "printf('%016x', n / 2000 % 50)",
        "numbers": (
            "(WITH RECURSIVE c(n) AS (SELECT :start UNION ALL SELECT n + 1 FROM c WHERE n < :end)"
            " SELECT n FROM c)"
        ),
    },
    "postgresql": {
        "day": "DATE '1970-01-01' + CAST(second / 86400 AS integer)",
        "key": "lpad(n::text, 10, '0')",
        "visitor": "lpad(to_hex(n / 2000 % 50), 16, '0')",
        "numbers": "generate_series(CAST(:start AS bigint), CAST(:end AS bigint)) AS n",
    },
}


def rep(number: int) -> str:
    """Return the repository name of an item."""
    return f"a.br/x/{1000 + number}/01.01.00.00"


def fill(archive: Archive, accesses: int, items: int) -> None:
    """Store accesses of ten years, spread over the items."""
    served = archive.served().id
    dialect = archive.database.engine.dialect.name
    statement = text(FILL.format(**DIALECTS[dialect]))
    with archive.database.reading() as connection:
        first = connection.execute(
            text("SELECT min(id) FROM ibi_item WHERE archive_id = :id AND NOT is_service"),
            {"id": served},
        ).scalar()
    values = {"archive": served, "first": first, "items": items, "total": accesses}
    values |= {"begin": start_of_day(FIRST), "seconds": DAYS * 86_400}
    for block in range(1, accesses + 1, BLOCK):
        with archive.database.writing() as connection:
            last = min(block + BLOCK - 1, accesses)
            connection.execute(statement, {**values, "start": block, "end": last})


def count(archive: Archive) -> None:
    """Count the stored accesses."""
    day = DIALECTS[archive.database.engine.dialect.name]["day"]
    with archive.database.writing() as connection:
        connection.exec_driver_sql(COUNT.format(day=day))
        connection.exec_driver_sql(SUM)


@contextmanager
def large_cache(archive: Archive) -> Iterator[None]:
    """Let SQLite use half a gigabyte of memory for the duration."""

    def enlarge(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA cache_size = -500000")

    engine = archive.database.engine
    is_sqlite = engine.dialect.name == "sqlite"
    if is_sqlite:
        engine.dispose()
        event.listen(engine, "connect", enlarge)
    yield
    if is_sqlite:
        event.remove(engine, "connect", enlarge)
        engine.dispose()


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Print how long a block takes."""
    start = time.perf_counter()
    yield
    print(f"{time.perf_counter() - start:8.1f} s   {what}", flush=True)


def time_page(get: Callable[[], int], what: str) -> None:
    """Print how long a page takes at first, the median of ten times, and the CPU time."""
    times = []
    for _ in range(11):
        start, cpu = time.perf_counter(), time.process_time()
        assert get() == 200
        times.append((time.perf_counter() - start, time.process_time() - cpu))
    median, cpu = (1000 * statistics.median(column) for column in zip(*times[1:], strict=True))
    print(
        f"{1000 * times[0][0]:8.1f} ms  {what}, then {median:.1f} ms ({cpu:.1f} ms CPU)", flush=True
    )


def main() -> None:
    """Measure on SQLite, or on the database of ``--postgresql``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database to measure on")
    parser.add_argument("--accesses", type=int, default=10_000_000)
    parser.add_argument("--items", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = make_app(given.postgresql or f"sqlite:///{folder / 'ibi.sqlite'}", folder)
        archive = archive_of(app)
        archive.init()
        import_records(archive, [{"rep": rep(number)} for number in range(given.items)])
        with large_cache(archive):
            with measured(f"{given.accesses} accesses stored"):
                fill(archive, given.accesses, given.items)
            with measured("daily counts"):
                count(archive)
        if given.postgresql:  # as autovacuum does
            with archive.database.reading() as connection:
                connection.exec_driver_sql("ANALYZE")
        found = archive.statistics()
        assert found.views + found.downloads + found.double_clicks + found.robots == given.accesses
        print(f"            {found.double_clicks} double clicks, {found.robots} by robots")
        client = app.test_client()
        for target in ("/ibi/statistics", f"/col/{rep(0)}/statistics", f"/col/{rep(1)}/statistics"):
            for by in ("day", "month", "year"):
                path = f"{target}?by={by}"
                time_page(lambda path=path: client.get(path).status_code, path)  # type: ignore[misc]
        close(app)


if __name__ == "__main__":
    main()
