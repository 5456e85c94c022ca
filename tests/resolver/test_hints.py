"""What a resolver remembers: hints and prefixes, the metrics of Archives, failed URLs."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from flask import Flask
from sqlalchemy import insert, select, text
from support.archive_servers import servers
from support.commands import command
from support.registries import NOON, SERVICE, a_registry, included
from support.resolving import (
    ORIGINAL,
    Table,
    X,
    app_over,
    archives_of,
    leads,
    resolver_of,
    statements_of,
)

from flask_ibi_archive.resolver import hints
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.hints import (
    OTHERS,
    FailedName,
    HintWriter,
    add_metrics,
    delete_old_counts,
    list_counts,
    store_counts,
    store_hints,
)
from flask_ibi_archive.resolver.tables import FailedUrl, Hint, PrefixHolder
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
        self.writer = HintWriter(
            database, lambda: self.seconds, lambda: NOON + timedelta(seconds=self.seconds)
        )


def stored(database: Database, *columns: Any) -> dict[str, int]:
    rows = database.read_rows(select(*(columns or (Hint.ibi, Hint.archive_id))))
    return dict(map(tuple, rows))


def counts(database: Database) -> list[tuple[int, int, int, str | None]]:
    return [
        (one.answers, one.failures, one.milliseconds, one.last_failure)
        for one in a_registry(database).list()
    ]


@contextmanager
def away(database: Database) -> Iterator[None]:
    """Rename the tables within the context."""
    names = ("ibi_resolver_archive", "ibi_resolver_hint")
    for before, after in (("", "gone_"), ("gone_", "")):
        with database.writing() as connection:
            for name in names:
                connection.execute(text(f"ALTER TABLE {before}{name} RENAME TO {after}{name}"))
        if after:
            yield


# --- hints ---------------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_a_hint_is_written_only_if_it_is_new(database: Database) -> None:
    clock = Clock(database)
    clock.writer.add_hints(1, [IBI, OTHER], [PREFIX])
    assert stored(database) == {IBI: 1, OTHER: 1}
    assert stored(database, PrefixHolder.prefix, PrefixHolder.archive_id) == {PREFIX: 1}

    def writes(archive_id: int, *ibis: str) -> bool:
        with statements_of(database) as statements:
            clock.writer.add_hints(archive_id, ibis, [PREFIX] if archive_id == 1 else [])
        return any("INSERT" in statement for statement in statements)

    assert not writes(1, IBI, OTHER)
    assert writes(2, IBI)
    assert not writes(2, IBI)
    assert stored(database) == {IBI: 2, OTHER: 1}
    clock.writer.add_hints(99, [IBI])  # this Archive was removed
    assert stored(database) == {IBI: 2, OTHER: 1}
    a_registry(database).remove(SERVICE)
    assert stored(database) == {IBI: 2}


def test_a_resolution_does_not_fail_if_its_hint_cannot_be_written(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(database)
    with away(database):
        for _ in range(2):  # the second one does not try
            clock.writer.add_hints(1, [IBI])
    [record] = caplog.records
    assert record.levelname == "WARNING"
    clock.writer.add_hints(1, [IBI])
    assert stored(database) == {}
    clock.seconds += hints.RETRY_PAUSE
    clock.writer.add_hints(1, [IBI])
    assert stored(database) == {IBI: 1}


def test_surplus_hints_are_deleted_regularly(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "MAX_HINTS", 2)
    clock = Clock(database)
    for pause in (hints.FIRST_CLEANUP, hints.CLEANUP_PAUSE):
        with database.writing() as connection:
            for day in range(5):
                store_hints(connection, {f"ibi{day}": 1}, NOON + timedelta(days=day))
        for seconds, expected in ((pause - 1, 5), (1, 2)):
            clock.seconds += seconds
            clock.writer.add_result(1, 0)
            clock.writer.flush()
            assert len(stored(database)) == expected
    assert set(stored(database)) == {"ibi3", "ibi4"}


# --- metrics -------------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_metrics_add_up_and_the_last_failure_is_stored(database: Database) -> None:
    said = "answers \0 \udcf3 \x1b[2J" + "x" * 1000
    late = "took too long"
    for results in ([(1, 0.03, None)] * 4 + [(99, 1.0, None)], [(2, 1.0, said), (1, 0.03, None)]):
        with database.writing() as connection:
            add_metrics(connection, results, NOON)
    for failure in (late, None):
        with database.writing() as connection:
            now = NOON + timedelta(minutes=1 if failure else 2)
            add_metrics(connection, [(1, 0.002, failure)], now)
    one, other = a_registry(database).list()
    assert (one.answers, one.failures, one.milliseconds) == (6, 1, 152)
    assert (one.last_failure, one.last_failure_at) == (late, NOON + timedelta(minutes=1))
    assert one.last_answer_at == NOON + timedelta(minutes=2)
    assert (other.answers, other.failures, other.last_answer_at) == (0, 1, None)
    assert str(other.last_failure).startswith("answers \N{REPLACEMENT CHARACTER} [2Jxxx")
    assert len(str(other.last_failure)) == hints.MAX_FAILURE + len("...")


def test_metrics_are_written_from_time_to_time(database: Database) -> None:
    clock = Clock(database)
    for seconds, expected in ((0, 1), (hints.PAUSE - 1, 1), (1, 3)):
        clock.seconds += seconds
        clock.writer.add_result(1, 0)
        clock.writer.flush_if_due()
        assert counts(database)[0][0] == expected


def test_a_request_writes_what_waits(tmp_path: Path) -> None:
    with app_over([], tmp_path) as app:
        app.test_client().get(f"/{IBI}")
        rows = resolver_of(app).database.read_rows(select(FailedUrl.ibi, FailedUrl.count))
    assert list(map(tuple, rows)) == [(IBI, 1)]


def test_metrics_are_kept_while_the_database_is_not_available(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    writer = HintWriter(database)
    writer.add_result(1, 0.5)
    writer.add_result(2, 0, "took too long")
    with away(database):
        writer.flush()
    assert "flask ibi-resolver init" in caplog.text
    writer.add_result(2, 0, "redirects (status 301)")
    writer.flush()
    writer.flush()
    assert counts(database) == [(1, 0, 500, None), (0, 2, 0, "redirects (status 301)")]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_write_metrics_of_its_parent(database: Database) -> None:
    if database.engine.dialect.name != "sqlite":
        return
    writer = HintWriter(database)
    writer.add_result(1, 0)
    process = os.fork()
    if process == 0:
        status = 1
        with suppress(BaseException):
            writer.add_result(2, 0)
            assert [pid for pid, _ in writer._waiting] == [os.getppid(), os.getpid()]
            status = 0
        os._exit(status)
    assert os.waitpid(process, 0)[1] == 0
    writer._waiting.append((process, (2, 0.0, None)))
    writer.flush()
    assert [one[0] for one in counts(database)] == [1, 0]


DAY = date(2026, 3, 1)


# --- failed URLs ---------------------------------------------------------------------------------


def failed(database: Database) -> dict[tuple[date, str, str], int]:
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


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ("a\0b\r\nc", "a\ufffdb\ufffd\ufffdc"),
        ("caf\xe9/\u65e5", "caf\xe9/\u65e5"),
        ("\N{GRINNING FACE}" * 400, "\N{GRINNING FACE}" * 255),
    ],
)
def test_any_text_can_be_stored(database: Database, requested: str, expected: str) -> None:
    writer = make_writer(database, [datetime(2026, 3, 1, tzinfo=timezone.utc)])
    writer.add_failed_url(requested, "malformed")
    writer.flush()
    assert failed(database) == {(DAY, expected, "malformed"): 1}


def test_random_identifiers_do_not_fill_the_database(database: Database) -> None:
    expected: Counter[str] = Counter()
    with patch.object(hints, "MAX_ROWS", 10):
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
    with patch.object(hints, "MAX_WAITING", 3):
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
    resolver.hint_writer.flush()
    with resolver.database.writing() as connection:
        connection.execute(FailedUrl.__table__.delete())  # type: ignore[attr-defined]
    for target in targets:
        app.test_client().open(target, method=method)
    resolver.hint_writer.flush()
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
