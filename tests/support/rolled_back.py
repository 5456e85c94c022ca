"""Processes that deposit items and roll them back, and are killed meanwhile."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from sqlalchemy import create_engine, text

PROGRAM = Path(__file__).parent.parent / "service" / "rolled_back_process.py"


def issued_twice(
    uri: str, folder: Path, processes: int, rounds: int, kills: int, deadline: float
) -> tuple[int, list[str]]:
    """Run processes that roll back what they deposit, and kill some of them.

    :returns: how many identifiers were issued in all, and the labels that were issued more than
        once.
    """
    key = (
        "INTEGER PRIMARY KEY" if uri.startswith("sqlite") else "BIGINT GENERATED ALWAYS AS IDENTITY"
    )
    engine = create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE host_report (id {key}, name TEXT)"))
    engine.dispose()
    running: list[subprocess.Popen[bytes]] = []

    def start(number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(PROGRAM), uri, str(folder), str(folder / f"{number}.labels")]
        return subprocess.Popen([*command, str(rounds)], stdout=subprocess.PIPE)

    end = time.monotonic() + deadline
    try:
        running = [start(number) for number in range(processes)]
        marks = sorted(random.sample(range(processes, processes * rounds // 2), kills))
        for number, mark in enumerate(marks, processes):
            while len(labels(folder)) < mark:
                assert time.monotonic() < end, f"{len(labels(folder))} labels only"
                time.sleep(0.01)
            victim = running.pop(random.randrange(len(running)))
            victim.kill()
            victim.communicate()
            running.append(start(number))
        for process in running:
            output, _ = process.communicate(timeout=max(1, end - time.monotonic()))
            assert (process.returncode, output) == (0, b"done\n")
    finally:
        for process in running:
            process.kill()
            process.communicate()
    pairs = labels(folder)
    times = Counter(label for pair in pairs for label in pair)
    return len(pairs), [label for label, count in times.items() if count > 1]


def labels(folder: Path) -> list[list[str]]:
    """Return the pairs of labels that were written down; a killed process may leave half a line."""
    return [
        line.split()
        for path in folder.glob("*.labels")
        for line in path.read_text(encoding="ascii").splitlines(keepends=True)
        if line.endswith("\n")
    ]
