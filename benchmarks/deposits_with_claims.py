"""Measure what claims cost: deposits and urlRequests of Archives with and without them.

    python -m benchmarks.deposits_with_claims [--postgresql URL] [--rounds 15] [--requests 200]

Both Archives are the same, but the triggers that note changes of items are dropped in the database
of one of them. Two processes work in turn, so that the load of the computer changes their ratio
little. CPU time is that of the process; the time of a PostgreSQL server is only in the clock.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine, text
from support.archives import archive_of, make_app

from . import ours
from .measurements import Bench, Scope
from .processes import (
    System,
    count_instructions,
    median,
    median_ratio,
    running,
)
from .worker import Work, repeated

_TRIGGERS = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'"
    " AND name LIKE 'tr_ibi_claim%'",
    "postgresql": "SELECT DISTINCT trigger_name, event_object_table"
    " FROM information_schema.triggers WHERE trigger_name LIKE 'tr_ibi_claim%'",
}


def drop_triggers(uri: str) -> int:
    """Drop the triggers of claims, and return their number."""
    engine = create_engine(uri)
    name = engine.dialect.name
    with engine.begin() as connection:
        triggers = connection.execute(text(_TRIGGERS[name])).all()
        for trigger, table in triggers:
            where = f" ON {table}" if name == "postgresql" else ""
            connection.execute(text(f"DROP TRIGGER {trigger}{where}"))
    engine.dispose()
    return len(triggers)


def deposits_with_file(uri: str, folder: str) -> Work:
    """Prepare deposits, each with a small file."""
    archive = archive_of(make_app(uri, Path(folder), IBI_GRANULARITY=ours.GRANULARITY))
    path = Path(folder) / "report.txt"
    path.write_text("content")
    return repeated(
        lambda: archive.deposit(title="Annual report", creators=["Silva, Ana"], files=[path])
    )


WORKS = {
    "deposit": "ours:deposits",
    "deposit with a file": "deposits_with_claims:deposits_with_file",
    "urlRequest": "ours:url_request",
}


def measure(bench: Bench, rounds: int, requests: int, counts: bool = False) -> None:
    """Add the figures of one kind of database.

    :param counts: whether instructions are counted, too, which takes minutes.
    """
    folders = [bench.folder / name for name in ("without", "with")]
    with bench.database() as without, bench.database() as with_claims:
        for folder, uri in zip(folders, (without, with_claims), strict=True):
            folder.mkdir()
            ours.prepare(uri, str(folder))
        bench.say(f"{drop_triggers(without)} triggers are dropped")
        for row, function in WORKS.items():
            systems = [
                System(folder.name, function, (uri, str(folder)))
                for folder, uri in zip(folders, (without, with_claims), strict=True)
            ]
            with running(systems) as processes:
                for process in processes:
                    process.run(requests)
                found = [[one.run(requests) for one in processes] for _ in range(rounds)]
            values = {
                "cpu_us": median(found, 1, "cpu") / requests * 1e6,
                "cpu_ratio": median_ratio(found, 1, "cpu"),
                "clock_ratio": median_ratio(found, 1, "clock"),
            }
            if counts:
                counted = [count_instructions(system, 50, 5) for system in systems]
                values["instruction_ratio"] = counted[1] / counted[0]
            bench.add(row, "with claims", **values)


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--postgresql", metavar="URL", help="a server to create databases on")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--count", action="store_true", help="count instructions with callgrind")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.postgresql, Scope(), {}, "", print)
        measure(bench, options.rounds, options.requests, options.count)


if __name__ == "__main__":
    main()
