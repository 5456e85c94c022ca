"""What a resolver remembers: prefixes, the metrics of Archives, failed URLs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import patch

import pytest
from flask import Flask
from sqlalchemy import insert, select, text
from support.archive_servers import servers
from support.commands import command
from support.registries import NOON, SERVICE, a_registry, included
from support.resolving import ORIGINAL, Table, X, app_over, archives_of, leads, resolver_of
from support.statements import statements_of

from flask_ibi_archive.resolver import failures
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.failures import (
    OTHERS,
    FailedName,
    MetricsWriter,
    delete_old_counts,
    store_counts,
)
from flask_ibi_archive.resolver.tables import FailedUrl, PrefixHolder
from flask_ibi_archive.server.database.database import Database

IBI, OTHER = "8JMKD3MGP8W/35MMLL8", "sid.inpe.br/mtc-m18/2012/07.12.18.08.49"
PREFIX = "sid.inpe.br/mtc-m18"


@pytest.fixture
def database(database: Database) -> Database:
    """A database with two Archives, whose ids are 1 and 2."""
    included(a_registry(database), 2)
    return database


class Clock:
    """The time of a writer."""

    def __init__(self, database: Database) -> None:
        self.seconds = 0.0
        self.writer = MetricsWriter(
            database, lambda: self.seconds, lambda: NOON + timedelta(seconds=self.seconds)
        )


def prefixes(database: Database) -> set[tuple[str, int]]:
    return {*map(tuple, database.read_rows(select(PrefixHolder.prefix, PrefixHolder.archive_id)))}


def counts(database: Database) -> list[tuple[int, int, int, str | None]]:
    return [
        (one.answers, one.failures, one.milliseconds, one.last_failure)
        for one in a_registry(database).list()
    ]


# --- Archives ------------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_results_add_up_and_the_last_failure_is_stored(database: Database) -> None:
    clock = Clock(database)
    said = "answers \0 \udcf3 \x1b[2J" + "x" * 1000
    results = [(1, 0.03), (1, 0.03), (99, 1.0), (2, 1.0, said), (1, 0.002, "took too long")]
    for result in results:
        clock.writer.add_result(*result)
    clock.writer.flush()
    clock.seconds += 60
    for archive_id in (1, 1, 99):  # 99 was removed
        clock.writer.add_result(archive_id, 0.002)
        clock.writer.add_prefixes(archive_id, [PREFIX])
    with statements_of(database) as statements:
        clock.writer.flush()
        clock.writer.add_prefixes(1, [PREFIX])
        clock.writer.flush()
    assert sum("ibi_resolver_prefix" in statement for statement in statements) == 1
    assert prefixes(database) == {(PREFIX, 1)}
    one, other = a_registry(database).list()
    assert (one.answers, one.failures, one.milliseconds) == (4, 1, 64)
    assert (one.last_failure, one.last_failure_at) == ("took too long", NOON)
    assert one.last_answer_at == NOON + timedelta(minutes=1)
    assert (other.answers, other.failures, other.last_answer_at) == (0, 1, None)
    assert str(other.last_failure).startswith("answers \N{REPLACEMENT CHARACTER} [2Jxxx")
    assert len(str(other.last_failure)) == failures.MAX_FAILURE + len("...")
    a_registry(database).remove(SERVICE)
    assert prefixes(database) == set()


def test_a_process_knows_a_limited_number_of_prefixes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_KNOWN", 2)
    writer = Clock(database).writer
    names = [f"a{number}.br" for number in range(5)]
    writer.add_prefixes(1, names)
    writer.flush()
    assert prefixes(database) == {(name, 1) for name in names}


def test_results_are_written_from_time_to_time_and_kept_meanwhile(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(database)
    for seconds, expected in ((0, 1), (failures.PAUSE - 1, 1), (1, 3)):
        clock.seconds += seconds
        clock.writer.add_result(1, 0)
        clock.writer.flush_if_due()
        assert counts(database)[0][0] == expected
    for before, after in (("", "gone_"), ("gone_", "")):
        name = "ibi_resolver_archive"
        with database.writing() as connection:
            connection.execute(text(f"ALTER TABLE {before}{name} RENAME TO {after}{name}"))
        clock.writer.add_result(1, 0)
        clock.writer.flush()
    assert "flask ibi-resolver init" in caplog.text
    assert counts(database)[0][0] == 5


DAY = date(2026, 3, 1)


# --- failed URLs ---------------------------------------------------------------------------------


def failed(database: Database) -> dict[tuple[date, str, str], int]:
    rows = database.read_rows(
        select(FailedUrl.day, FailedUrl.ibi, FailedUrl.reason, FailedUrl.count)
    )
    return {tuple(row[:3]): row[3] for row in rows}


def make_writer(database: Database, moment: list[datetime]) -> MetricsWriter:
    return MetricsWriter(database, now=lambda: moment[0])


def test_failures_are_added_up_by_day_identifier_and_reason(database: Database) -> None:
    moment = [datetime(2026, 3, 1, 23, 59, tzinfo=timezone.utc)]
    writer = make_writer(database, moment)
    for _ in range(3):
        writer.add_failed_url(IBI, "unknown")
    writer.add_failed_url(IBI, "silent")
    assert failed(database) == {}
    writer.flush()
    writer.add_failed_url(IBI, "unknown")
    moment[0] += timedelta(minutes=1)
    writer.add_failed_url(IBI, "unknown")
    writer.flush()
    assert failed(database) == {
        (DAY, IBI, "unknown"): 4,
        (DAY, IBI, "silent"): 1,
        (DAY + timedelta(days=1), IBI, "unknown"): 1,
    }


def test_any_text_can_be_stored(database: Database) -> None:
    writer = make_writer(database, [NOON])
    for text_ in ("a\0b\r\nc", "caf\xe9/\u65e5", "\N{GRINNING FACE}" * 400):
        writer.add_failed_url(text_, "malformed")
    writer.flush()
    stored = {ibi for _, ibi, _ in failed(database)}
    assert stored == {"a\ufffdb\ufffd\ufffdc", "caf\xe9/\u65e5", "\N{GRINNING FACE}" * 255}


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
    rows = failed(database)
    of_day = {ibi: count for (day, ibi, _), count in rows.items() if day == DAY}
    assert len(of_day) == 11
    assert of_day.pop(OTHERS) == expected.total() - sum(of_day.values())
    assert of_day[IBI] == 10
    assert all(expected[ibi] == count for ibi, count in of_day.items())
    assert rows[DAY + timedelta(days=1), OTHER, "unknown"] == 1


def test_memory_is_limited_too(database: Database) -> None:
    with patch.object(failures, "MAX_WAITING", 3):
        writer = make_writer(database, [datetime(2026, 3, 1, tzinfo=timezone.utc)])
    for number in range(10):
        writer.add_failed_url(str(number), "unknown")
    writer.flush()
    assert {ibi for _, ibi, _ in failed(database)} == {"7", "8", "9"}


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
    assert {day for day, _, _ in failed(database)} == {today, kept}


def test_the_command_lists_the_failures_of_a_month_the_most_frequent_first(tmp_path: Path) -> None:
    with app_over([], tmp_path) as app:
        resolver = resolver_of(app)
        with resolver.database.writing() as connection:
            counted = {
                FailedName(DAY, IBI, "unknown"): 1,
                FailedName(DAY.replace(day=31), IBI, "unknown"): 4,
                FailedName(DAY, OTHER, "silent"): 7,
                FailedName(DAY - timedelta(days=1), IBI, "unknown"): 100,
                FailedName(DAY + timedelta(days=31), IBI, "unknown"): 100,
            }
            store_counts(connection, counted)
        words = "failures", "--month=2026-03"
        listed = command(app, *words, group=ibi_resolver)
        lines = ["count\treason\tidentifier", f"7\tsilent\t{OTHER}", f"5\tunknown\t{IBI}"]
        assert listed.lines == lines
        rows = json.loads(command(app, *words, "--json", group=ibi_resolver).data)
        assert rows[1] == {"count": 5, "reason": "unknown", "identifier": IBI}
        assert "'2026'" in command(app, "failures", "--month", "2026", group=ibi_resolver).usage


UNKNOWN = "a.br/unknown/2001/01.01.00.00"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """A resolver with an Archive."""
    with servers() as hosts:
        table: Table = {X: leads("http://here.br/a.pdf")}
        with app_over(archives_of(hosts, table), tmp_path_factory.mktemp("app")) as app:
            yield app


def failures_of(app: Flask, *targets: str, method: str = "GET") -> dict[tuple[str, str], int]:
    """Return the rows about these requests, after deleting those of earlier requests."""
    resolver = resolver_of(app)
    resolver.metrics.flush()
    with resolver.database.writing() as connection:
        connection.execute(FailedUrl.__table__.delete())  # type: ignore[attr-defined]
    for target in targets:
        app.test_client().open(target, method=method)
    resolver.metrics.flush()
    rows = resolver.database.read_rows(select(FailedUrl.ibi, FailedUrl.reason, FailedUrl.count))
    return {(row[0], row[1]): row[2] for row in rows}


@pytest.mark.parametrize(
    ("target", "ibi", "reason"),
    [
        (f"/{UNKNOWN.upper()}!:(oai_dc)/a.txt?x=secret", UNKNOWN, "unknown"),
        ("/8JMKD3MGP8W/35MMLLO?x=secret", "8JMKD3MGP8W/35MMLLO", "malformed"),
        # an identifier of another system, without the modifier and the query
        ("/ark:/12345/x5-4+(pt)/a.txt?x=secret", "ark:12345/x5-4", "unknown"),
        # addresses whose query says what they mean, unless they were meant as persistent URLs
        ("/http://old.br/handle/1/2?x=y", "http://old.br/handle/1/2?x=y", "malformed"),
        ("/http://old.br/8JMKD3MGP8W/35MMLLO?x=secret", "8JMKD3MGP8W/35MMLLO", "malformed"),
    ],
)
def test_each_failure_is_counted(site: Flask, target: str, ibi: str, reason: str) -> None:
    assert failures_of(site, target, target) == {(ibi, reason): 2}
    assert failures_of(site, target, method="HEAD") == {(ibi, reason): 1}
    assert failures_of(site, target, method="POST") == {}


@pytest.mark.parametrize(
    "target",
    [
        f"/{X}{ORIGINAL}&x=y",
        f"/{X}+!+",  # the identifier is right: there is nothing to compare
        "/wp-login.php",  # a request of a robot that searches for weak servers
    ],
)
def test_other_requests_are_not_counted(site: Flask, target: str) -> None:
    assert failures_of(site, target) == {}
