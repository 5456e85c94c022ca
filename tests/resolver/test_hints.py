"""Hints are written if they are new; metrics and failed URLs wait in memory for a short time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from support.registries import NOON, SERVICE, a_registry, included
from support.resolving import app_over, resolver_of, statements_of

from flask_ibi_archive.resolver import hints
from flask_ibi_archive.resolver.hints import HintWriter, add_metrics, store_hints
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
    assert str(other.last_failure).startswith("answers      [2Jxxx")
    assert len(str(other.last_failure)) == hints.MAX_FAILURE


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
