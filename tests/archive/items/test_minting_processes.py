"""Several processes mint at once, and are killed: no identifier is ever issued twice."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import text
from support.commands import ROOT

from flask_ibi_archive.core.identifiers.dates import parse_decimal
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.server.database.database import Database

#: Two Archives on one IP: they share the prefix of their IBIps.
HOSTS = ("mtc-m18.sid.inpe.br", "mtc-m19.sid.inpe.br")
PROGRAM = Path(__file__).with_name("minting_process.py")


def mint_and_die(uri: str, processes: int, lines: int) -> list[str]:
    """Return the labels that processes report until they are killed."""
    running = [
        subprocess.Popen(
            [sys.executable, PROGRAM, uri, HOSTS[number % 2], str(1 + number % 3)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        for number in range(processes)
    ]
    reported: list[str] = []
    for process in running:
        assert process.stdout is not None
        reported += [process.stdout.readline() for _ in range(lines)]
    for process in running:
        process.kill()
        with process:
            assert process.stdout is not None
            reported += process.stdout.readlines()
    # a killed process may leave a part of a line
    return [label for line in reported if line.endswith("\n") for label in line.split()]


@pytest.mark.slow
@pytest.mark.rule("G4-01", "G5-03", "G6-21")
@pytest.mark.postgresql
@pytest.mark.parametrize("processes", [2, 8])
def test_no_identifier_is_issued_twice_if_processes_are_killed(uri: str, processes: int) -> None:
    labels = [label for _ in range(3) for label in mint_and_die(uri, processes, 20)]
    assert len(labels) >= 2 * 3 * processes * 20
    assert len(set(labels)) == len(labels)
    database = Database(uri)
    stored = last_dates(database)
    database.close()
    for rep, ibip in zip(labels[::2], labels[1::2], strict=True):
        found = [decode_identifier(parse_identifier(label)).date for label in (rep, ibip)]
        assert found[0] == found[1]
        assert found[0] is not None
        assert found[0] <= min(stored[parse_identifier(label).prefix] for label in (rep, ibip))


def last_dates(database: Database) -> dict[str, Fraction]:
    with database.reading() as connection:
        rows = connection.execute(text("SELECT prefix, last_date FROM ibi_prefix"))
        return {row.prefix: parse_decimal(row.last_date) for row in rows}
