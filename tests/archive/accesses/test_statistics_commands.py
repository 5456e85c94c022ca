"""The commands stats and purge."""

from __future__ import annotations

import csv
import io
import json
from datetime import date

import pytest
from flask import Flask
from support.accesses import insert_accesses
from support.archives import archive_of, import_records
from support.commands import command

from flask_ibi_archive.archive.accesses.rows import start_of_day

A, B = "a.br/x/2001/01.01.00.00", "a.br/x/2002/01.01.00.00"


@pytest.fixture
def read(app: Flask) -> Flask:
    """An app with two items and accesses of past years."""
    archive = archive_of(app)
    import_records(archive, [{"rep": A}, {"rep": B}])
    day = start_of_day(date(2024, 1, 31))
    insert_accesses(
        archive,
        [
            {"ibi": A, "second": day},
            {"ibi": A, "second": day + 9},
            {"ibi": A, "second": day + 86_400, "content_type": "Metadata"},
            {"ibi": A, "second": day + 86_400, "robot": True},
            {"ibi": B, "second": day},
        ],
    )
    return app


def test_stats_prints_a_table_json_or_csv(read: Flask) -> None:
    # stats prints a table
    assert command(read, "stats").lines == [
        "period   views  downloads  double clicks  robots",
        "2024-01      0          2              1       0",
        "2024-02      1          0              0       1",
        "total        1          2              1       1",
    ]
    assert command(read, "stats", A, "--by", "year").lines == [
        "period  views  downloads  double clicks  robots",
        "2024        1          1              1       1",
        "total       1          1              1       1",
    ]
    # stats as json and csv
    told = json.loads(command(read, "stats", A.upper(), "--by", "day", "--json").data)
    assert (told["ibi"], told["by"]) == (A, "day")
    assert [one["label"] for one in told["periods"]] == ["2024-01-31", "2024-02-01"]
    rows = list(csv.DictReader(io.StringIO(command(read, "stats", A, "--csv").data)))
    assert [(row["period"], row["downloads"]) for row in rows] == [
        ("2024-01", "1"),
        ("2024-02", "0"),
    ]
    # stats of an unknown item end with status 1
    assert command(read, "stats", "a.br/x/1999/01.01.00.00").error.startswith("no item of this")
    assert "is not an IBI" in command(read, "stats", "x").error
    assert "--csv and --json" in command(read, "stats", "--csv", "--json").usage
    assert "week" in command(read, "stats", "--by", "week").usage


def test_stats_without_accesses_are_a_header_and_zeros(app: Flask) -> None:
    assert command(app, "stats").lines == [
        "period  views  downloads  double clicks  robots",
        "total       0          0              0       0",
    ]
    assert command(app, "stats", "--csv").lines == ["period,views,downloads,double_clicks,robots"]


def test_purge_prints_nothing_without_a_terminal_and_keeps_the_counts(read: Flask) -> None:
    before = command(read, "stats", A, "--by", "day").data
    assert command(read, "purge", "--dry-run").data.startswith("would purge 5 accesses before 2")
    assert json.loads(command(read, "purge", "--dry-run", "--json").data)["purged"] == 5
    assert command(read, "purge").data == ""
    assert json.loads(command(read, "purge", "--days", "0", "--json").data)["purged"] == 0
    assert command(read, "stats", A, "--by", "day").data == before
    assert "--days" in command(read, "purge", "--days", "-1").usage
