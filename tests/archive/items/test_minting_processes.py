"""Several processes mint at once, and some are killed: no identifier is ever issued twice."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import text
from support.workers import Workers, count_issued

from flask_ibi_archive.core.identifiers.dates import parse_decimal
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.server.database.database import Database

#: Two Archives on one IP: they share the prefix of their IBIps.
HOSTS = ("mtc-m18.sid.inpe.br", "mtc-m19.sid.inpe.br")
MANY = pytest.mark.slow


@pytest.mark.rule("G4-01", "G5-03", "G6-21")
@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("processes", "rounds", "kills"),
    [(2, 4, 1), pytest.param(6, 40, 4, marks=MANY), pytest.param(16, 60, 12, marks=MANY)],
    ids=["few", "many", "sixteen"],
)
def test_no_identifier_is_issued_twice_if_processes_are_killed(
    uri: str, processes: int, rounds: int, kills: int
) -> None:
    workers = Workers(Path(__file__).with_name("minting_process.py"))
    dice = random.Random()
    try:
        for number in range(processes):
            workers.start(uri, HOSTS[number % 2], 1 + number % 3)
        killing = dice.sample(range(rounds - 1), kills)
        for number in range(rounds):
            workers.run_round(kill_after=dice.randint(1, 5) if number in killing else None)
            if len(workers.running) < processes:
                workers.start(uri, HOSTS[number % 2], 1 + number % 3)
        workers.stop()
    finally:
        workers.close()
    pairs = [line.split() for line in workers.lines]
    assert len(pairs) >= 5 * (processes - 1) * rounds
    issued = Counter(label for pair in pairs for label in pair)
    assert [label for label, times in issued.items() if times > 1] == []
    database = Database(uri)
    stored = last_dates(database)
    database.close()
    # a process may be killed before its first report
    assert {parse_identifier(label).prefix for label in issued} <= set(stored)
    for pair in pairs:
        found = [decode_identifier(parse_identifier(label)).date for label in pair]
        assert found[0] == found[1]
        for label in pair:
            assert found[0] is not None
            assert found[0] <= stored[parse_identifier(label).prefix]


def last_dates(database: Database) -> dict[str, Fraction]:
    with database.reading() as connection:
        rows = connection.execute(text("SELECT prefix, last_date FROM ibi_prefix"))
        return {row.prefix: parse_decimal(row.last_date) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "rounds", "kills"),
    [(2, 8, 1), pytest.param(4, 200, 4, marks=MANY)],
    ids=["few", "many"],
)
def test_no_identifier_is_issued_twice_if_hosts_roll_back_and_clocks_are_set_back(
    uri: str, tmp_path: Path, processes: int, rounds: int, kills: int
) -> None:
    count, twice = count_issued(uri, tmp_path, processes, rounds, kills)
    assert count >= rounds
    assert twice == []
