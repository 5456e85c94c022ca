"""Runs processes that deposit items, roll deposits back, and are killed at random."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from sqlalchemy import create_engine, text

from support.workers import Workers

PROGRAM = Path(__file__).parent.parent / "archive/items/rolled_back_process.py"


def count_issued(
    uri: str, folder: Path, processes: int, rounds: int, kills: int
) -> tuple[int, list[str]]:
    """Run processes that deposit items and roll some deposits back; kill some processes.

    :param rounds: the number of rounds; in each round, a process deposits up to three items.
    :returns: the number of issued identifiers, and the labels that were issued more than once.
    """
    key = (
        "INTEGER PRIMARY KEY" if uri.startswith("sqlite") else "BIGINT GENERATED ALWAYS AS IDENTITY"
    )
    engine = create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE host_report (id {key}, name TEXT)"))
    engine.dispose()
    workers = Workers(PROGRAM)
    try:
        for _ in range(processes):
            workers.start(uri, folder)
        killing = random.sample(range(rounds - 1), kills)
        for number in range(rounds):
            workers.run_round(kill_after=1 if number in killing else None)
            if len(workers.running) < processes:
                workers.start(uri, folder)
        workers.stop()
    finally:
        workers.close()
    times = Counter(label for line in workers.lines for label in line.split())
    return len(workers.lines), [label for label, count in times.items() if count > 1]
