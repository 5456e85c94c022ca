"""Failed persistent URLs are counted by day, identifier and reason, in a limited number of rows."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import insert, select
from support.commands import command
from support.resolving import app_over, resolver_of

from flask_ibi_archive.resolver import failures, hints
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.failures import (
    OTHERS,
    FailedName,
    delete_old_counts,
    list_counts,
    store_counts,
)
from flask_ibi_archive.resolver.hints import HintWriter
from flask_ibi_archive.resolver.tables import FailedUrl
from flask_ibi_archive.server.database.database import Database

DAY = date(2026, 3, 1)
IBI, OTHER = "a.br/x/2001/01.01.00.00", "8JMKD3MGP8W/35MMLL8"


def stored(database: Database) -> dict[tuple[date, str, str], int]:
    rows = database.read_rows(
        select(FailedUrl.day, FailedUrl.ibi, FailedUrl.reason, FailedUrl.count)
    )
    return {tuple(row[:3]): row[3] for row in rows}


def make_writer(database: Database, moment: list[datetime]) -> HintWriter:
    return HintWriter(database, now=lambda: moment[0])


def test_failures_are_added_up_by_day_identifier_and_reason(database: Database) -> None:
    moment = [datetime(2026, 3, 1, 23, 59, tzinfo=timezone.utc)]
    writer = make_writer(database, moment)
    for _ in range(3):
        writer.add_failed_url(IBI, "unknown")
    writer.add_failed_url(IBI, "silent")
    assert stored(database) == {}
    writer.flush()
    writer.add_failed_url(IBI, "unknown")
    moment[0] += timedelta(minutes=1)
    writer.add_failed_url(IBI, "unknown")
    writer.flush()
    assert stored(database) == {
        (DAY, IBI, "unknown"): 4,
        (DAY, IBI, "silent"): 1,
        (DAY + timedelta(days=1), IBI, "unknown"): 1,
    }


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ("a\0b\r\nc", "a\ufffdb\ufffd\ufffdc"),
        ("caf\xe9/\u65e5", "caf\xe9/\u65e5"),
        ("\udcff/x", "\ufffd/x"),
        ("x" * 400, "x" * 255),
        ("\N{GRINNING FACE}" * 400, "\N{GRINNING FACE}" * 255),
    ],
)
def test_any_text_can_be_stored(database: Database, requested: str, expected: str) -> None:
    writer = make_writer(database, [datetime(2026, 3, 1, tzinfo=timezone.utc)])
    writer.add_failed_url(requested, "malformed")
    writer.flush()
    assert stored(database) == {(DAY, expected, "malformed"): 1}


def test_random_identifiers_do_not_fill_the_database(database: Database) -> None:
    expected: Counter[str] = Counter()
    with patch.object(failures, "MAX_ROWS", 10):
        for first in range(0, 30, 6):  # the rows of the first two calls are not all new
            names = {f"{number:02}": 1 for number in range(first, first + 9)} | {IBI: 2}
            with database.writing() as connection:
                store_counts(
                    connection, {FailedName(DAY, ibi, "unknown"): names[ibi] for ibi in names}
                )
            expected.update(names)
        with database.writing() as connection:
            store_counts(connection, {FailedName(DAY + timedelta(days=1), OTHER, "unknown"): 1})
    rows = stored(database)
    of_day = {ibi: count for (day, ibi, _), count in rows.items() if day == DAY}
    assert len(of_day) == 11
    assert of_day.pop(OTHERS) == expected.total() - sum(of_day.values())
    assert of_day[IBI] == 10
    assert all(expected[ibi] == count for ibi, count in of_day.items())
    assert rows[DAY + timedelta(days=1), OTHER, "unknown"] == 1


def test_memory_is_limited_too(database: Database) -> None:
    with patch.object(hints, "MAX_WAITING", 3):
        writer = make_writer(database, [datetime(2026, 3, 1, tzinfo=timezone.utc)])
    for number in range(10):
        writer.add_failed_url(str(number), "unknown")
    writer.flush()
    assert {ibi for _, ibi, _ in stored(database)} == {"7", "8", "9"}


@pytest.mark.parametrize(
    ("today", "kept", "deleted"),
    [
        (date(2026, 11, 26), date(2025, 10, 1), date(2025, 9, 30)),
        (date(2027, 1, 31), date(2025, 12, 1), date(2025, 11, 30)),
    ],
)
def test_counts_are_kept_for_thirteen_months(
    database: Database, today: date, kept: date, deleted: date
) -> None:
    with database.writing() as connection:
        for day in (today, kept, deleted):
            values = {"day": day, "ibi": IBI, "reason": "unknown", "count": 1}
            connection.execute(insert(FailedUrl).values(values))
        assert delete_old_counts(connection, today) == 1
    assert {day for day, _, _ in stored(database)} == {today, kept}


def test_the_counts_of_a_month_are_listed_the_most_frequent_first(database: Database) -> None:
    counted = {
        FailedName(DAY, IBI, "unknown"): 1,
        FailedName(DAY.replace(day=31), IBI, "unknown"): 4,
        FailedName(DAY, OTHER, "silent"): 7,
        FailedName(DAY - timedelta(days=1), IBI, "unknown"): 100,
        FailedName(DAY + timedelta(days=31), IBI, "unknown"): 100,
    }
    with database.writing() as connection:
        store_counts(connection, counted)
        listed = list_counts(connection, DAY.replace(day=15))
    assert listed == [(7, "silent", OTHER), (5, "unknown", IBI)]


def test_the_command_lists_the_failures_of_a_month(tmp_path: Path) -> None:
    with app_over([], tmp_path) as app:
        resolver = resolver_of(app)
        with resolver.database.writing() as connection:
            store_counts(connection, {FailedName(DAY, IBI, "unknown"): 3})
        listed = command(app, "failures", "--month", "2026-03", group=ibi_resolver)
        assert listed.lines == ["count\treason\tidentifier", f"3\tunknown\t{IBI}"]
        [row] = json.loads(
            command(app, "failures", "--month=2026-03", "--json", group=ibi_resolver).data
        )
        assert row == {"count": 3, "reason": "unknown", "identifier": IBI}
        assert "'2026'" in command(app, "failures", "--month", "2026", group=ibi_resolver).usage
