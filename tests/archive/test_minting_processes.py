"""Many processes mint at once, and some are killed at any moment: no label is ever given twice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from itertools import count
from pathlib import Path
from time import monotonic

from sqlalchemy import text
from support.rolled_back import issued_twice

from flask_ibi_archive.archive.minting import Subsystem
from flask_ibi_archive.identifiers import decode_identifier, parse_decimal, parse_identifier
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.database import Database

PROCESSES = 6
KILLS = 4
LABELS = 800
DEADLINE = 60
#: Two Archives on one IP: they share the prefix of their IBIps.
HOSTS = ("mtc-m18.sid.inpe.br", "mtc-m19.sid.inpe.br")
PROGRAM = Path(__file__).with_name("minting_process.py")


class Workshop:
    """The processes, and the file of each."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri
        self.folder = folder
        self.numbers = count()
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        number = next(self.numbers)
        command = [sys.executable, str(PROGRAM), self.uri, str(self.folder / f"{number}.labels")]
        self.running.append(
            subprocess.Popen(
                [*command, HOSTS[number % 2], str(1 + number % 3)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )

    def kill(self, place: int) -> None:
        victim = self.running.pop(place)
        victim.kill()
        victim.communicate()

    def stop(self) -> list[tuple[int, bytes, bytes]]:
        """Let those that run come to their end; give their exit status and output."""
        for process in self.running:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None
        ends = []
        for process in self.running:
            out, err = process.communicate(timeout=DEADLINE)
            ends.append((process.returncode, out, err))
        self.running = []
        return ends

    def all_have_begun(self) -> bool:
        """Tell whether each that runs has given labels: one that starts early must not do all the
        work.
        """
        files = [self.file_of(process) for process in self.running]
        return all(path.exists() and path.stat().st_size for path in files)

    @staticmethod
    def file_of(process: subprocess.Popen[bytes]) -> Path:
        assert isinstance(process.args, list)
        return Path(process.args[3])

    def labels(self) -> list[str]:
        """Return the lines that are complete: a killed process may leave half a one."""
        return [
            line
            for path in self.folder.glob("*.labels")
            for line in path.read_text(encoding="ascii").splitlines(keepends=True)
            if line.endswith("\n")
        ]


def test_no_label_is_given_twice_whoever_is_killed(uri: str, tmp_path: Path) -> None:
    database = Database.at(uri)
    with database.writing() as connection:
        migrate.upgrade(connection)
    folder = tmp_path / "labels"
    folder.mkdir()
    workshop = Workshop(uri, folder)
    dice = random.Random()
    end = monotonic() + DEADLINE
    try:
        for _ in range(PROCESSES):
            workshop.start()
        # a kill each time that so many more labels are there
        marks = sorted(dice.sample(range(PROCESSES, LABELS), KILLS))
        while (done := len(workshop.labels())) < LABELS or marks or not workshop.all_have_begun():
            assert monotonic() < end, f"{done} labels only"
            if marks and done >= marks[0]:
                marks.pop(0)
                workshop.kill(dice.randrange(PROCESSES))
                workshop.start()
        ends = workshop.stop()
    finally:
        for process in workshop.running:
            process.kill()
            process.communicate()
    assert marks == []
    assert ends == [(0, b"stopped\n", b"")] * PROCESSES
    pairs = [line.rstrip("\n").split("\t") for line in workshop.labels()]
    assert len(pairs) >= LABELS
    given = Counter(label for pair in pairs for label in pair)
    assert [label for label, times in given.items() if times > 1] == []
    remembered = last_dates(database)
    database.close()
    rep_prefixes = {Subsystem(host, "150.163.34.243").prefixes[0] for host in HOSTS}
    assert rep_prefixes < set(remembered)
    for rep, ibip in pairs:
        dates = [decode_identifier(parse_identifier(label)).date for label in (rep, ibip)]
        assert dates[0] == dates[1]
        for label in (rep, ibip):
            assert dates[0] is not None
            assert dates[0] <= remembered[parse_identifier(label).prefix]


def last_dates(database: Database) -> dict[str, Fraction]:
    with database.reading() as connection:
        rows = connection.execute(text("SELECT prefix, last_date FROM ibi_prefix"))
        return {row.prefix: parse_decimal(row.last_date) for row in rows}


def test_no_label_is_issued_twice_although_hosts_roll_back_and_clocks_are_set_back(
    uri: str, tmp_path: Path
) -> None:
    count, twice = issued_twice(uri, tmp_path, processes=2, rounds=25, kills=1, deadline=300)
    assert count >= 50
    assert twice == []
