"""Runs processes that work in rounds and report their work, and kills some of them."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from time import sleep

from sqlalchemy import create_engine, text

from support.commands import ROOT

#: The maximum number of seconds between two reports; afterwards the processes count as stuck.
STUCK = 300
#: The line that a process writes at the end of a round.
DONE = "."


class Workers:
    """Processes that run one program in rounds.

    A process begins a round when it reads a line. It writes a line for each piece of work, and
    :data:`DONE` at the end of the round. It ends when its standard input is closed. Lines that it
    has written count, even if it is killed directly afterwards.
    """

    def __init__(self, program: Path) -> None:
        self.program = program
        self.running: list[subprocess.Popen[str]] = []
        #: the lines of all processes, except DONE
        self.lines: list[str] = []
        self._reports: queue.Queue[tuple[int, str | None]] = queue.Queue()
        self._readers: list[threading.Thread] = []

    def start(self, *arguments: object) -> None:
        """Start a process, which begins with the next round."""
        process = subprocess.Popen(
            [sys.executable, str(self.program), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
            text=True,
        )
        self.running.append(process)
        self._readers.append(threading.Thread(target=self._read, args=(process,), daemon=True))
        self._readers[-1].start()

    def run_round(self, kill_after: int | None = None) -> None:
        """Let all processes do one round at the same time.

        :param kill_after: kill a random process after this number of reports.
        :raises AssertionError: if a process fails.
        """
        for process in self.running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        waiting = {process.pid for process in self.running}
        reports = 0
        while waiting:
            number, line = self._reports.get(timeout=STUCK)
            if line == DONE:
                waiting.discard(number)
            elif line is not None:
                self.lines.append(line)
                reports += 1
                if reports == kill_after:
                    waiting.discard(self._kill(random.randrange(len(self.running))))
            else:
                assert number not in waiting, "a process has ended"

    def stop(self) -> None:
        """Let the processes end, and read all reports of those that were killed.

        :raises AssertionError: if a process fails.
        """
        for process in self.running:
            assert process.stdin is not None
            process.stdin.close()
        assert [process.wait(STUCK) for process in self.running] == [0] * len(self.running)
        self.close()
        while not self._reports.empty():
            line = self._reports.get()[1]
            self.lines += [line] if line not in (None, DONE) else []

    def close(self) -> None:
        """Kill the processes that still run."""
        while self.running:
            self._kill(0)
        for reader in self._readers:
            reader.join(STUCK)

    def _kill(self, place: int) -> int:
        process = self.running.pop(place)
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
        return process.pid

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # a killed process may leave a part of a line
                    self._reports.put((process.pid, line.removesuffix("\n")))
        self._reports.put((process.pid, None))


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


def kill_while_changing(uri: str, folder: Path, ibi: str | None, changes: int) -> int:
    """Kill a process that edits an item again and again, and return the number of its last edit.

    :param changes: the number of edits after which it is killed, a moment later.
    """
    script = Path(__file__).parents[1] / "archive" / "items" / "changing_process.py"
    with subprocess.Popen(
        [sys.executable, script, uri, folder, str(ibi)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    ) as process:
        assert process.stdout is not None
        numbers = [process.stdout.readline() for _ in range(changes)]
        sleep(random.random() / 50)
        process.kill()
        numbers += process.stdout.read().split()
    return int(numbers[-1])
