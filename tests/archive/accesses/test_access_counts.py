"""Daily counts: written with the accesses, and exact if several processes store them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from support.accesses import check_counts, count_naively, insert_accesses, store_accesses, stored
from support.archives import SERVICE, archive_of, import_records
from support.commands import command, start_together
from support.resolving import statements_of
from support.tables import SECOND
from support.web import ask, rep

from flask_ibi_archive.archive.accesses.rows import Access, start_of_day
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.tables import AccessCount, ArchiveAccessCount

A, B = "a.br/x/2001/01.01.00.00", "a.br/x/2002/01.01.00.00"
NOON = start_of_day(date(2026, 3, 1)) + 43_200
TABLES = (Access, AccessCount, ArchiveAccessCount)


@pytest.fixture
def archive(app: Flask) -> Archive:
    """An Archive with two items."""
    archive = archive_of(app)
    import_records(archive, [{"rep": A}, {"rep": B}])
    return archive


def rows_of(archive: Archive) -> list[list[Any]]:
    with archive.database.reading() as connection:
        return [
            sorted(map(tuple, connection.execute(select(model.__table__)).all()))
            for model in TABLES
        ]


def test_reading_statistics_writes_nothing(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [{"rep": A}])
    insert_accesses(archive, [{"ibi": A, "second": NOON}])
    before = rows_of(archive)
    for target in ("/ibi/statistics", f"/col/{A}/statistics"):
        for format in ("html", "csv", "json"):
            with statements_of(archive.database) as executed:
                answer = ask(app, f"{target}?format={format}&by=day")
            assert answer.status == 200, (target, format)
            assert "2026-03-01" in answer.text, (target, format)
            words = {statement.split()[0].upper() for statement in executed}
            assert words <= {"BEGIN", "PRAGMA", "SELECT", "WITH"}, (target, format)
            assert rows_of(archive) == before, (target, format)


@pytest.mark.postgresql
def test_reading_does_not_wait_for_a_writer(archive: Archive) -> None:
    insert_accesses(archive, [{"ibi": A, "second": NOON}])
    with archive.database.writing():
        assert archive.statistics(A).downloads == 1
        assert archive.statistics().downloads == 1


@pytest.mark.postgresql
def test_the_counts_of_an_item_are_those_of_all_its_identifiers(app: Flask) -> None:
    archive = archive_of(app)
    ibip = "8JMKD3MGP8W/35MME4E"
    import_records(archive, [{"rep": A, "ibip": ibip}])
    insert_accesses(archive, [{"ibi": ibi, "second": NOON} for ibi in (A, ibip)])
    assert archive.statistics(A).downloads == archive.statistics(ibip).downloads == 2
    exported = json.loads(command(app, "export", "--with-counts").data)
    assert exported["counts"] == [["2026-03-01", "Data", 2, 0, 0]]


def test_archives_of_one_database_have_separate_counts(new_app: Callable[..., Flask]) -> None:
    archives = [archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=ibi)) for ibi in (SERVICE, SECOND)]
    for number, archive in enumerate(archives, 1):
        archive.init()
        import_records(archive, [{"rep": rep(number)}])
        insert_accesses(
            archive, [{"ibi": rep(number), "second": NOON + 60 * place} for place in range(number)]
        )
    assert [archive.statistics().downloads for archive in archives] == [1, 2]
    assert archives[1].statistics(rep(2)).downloads == 2


@pytest.mark.slow
def test_counts_are_exact_if_several_processes_store_accesses(
    archive: Archive, tmp_path: Path
) -> None:
    start_together(
        Path(__file__).with_name("access_process.py"),
        (archive.config.database_uri, tmp_path, 0),
        here=lambda: store_accesses(archive, 1),
    )
    accesses = stored(archive)
    assert len(accesses) == 2 * 40
    check_counts(archive, count_naively(accesses))
