"""Hints and metrics are collected in memory and written by a background thread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import select, text
from support.loopback import PATIENCE
from support.registries import NOON, a_registry, included, resolver_database

from flask_ibi_archive.resolver import hints as background
from flask_ibi_archive.resolver.hints import HintWriter
from flask_ibi_archive.resolver.tables import Hint
from flask_ibi_archive.server.database.database import Database

IBI, OTHER = "a.br/x/2001/01.01.00.00", "a.br/y/2001/01.01.00.00"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database with two Archives, whose ids are 1 and 2."""
    with resolver_database(f"sqlite:///{tmp_path / 'resolver.sqlite'}") as found:
        included(a_registry(found), 2)
        yield found


@pytest.fixture
def each_database(uri: str) -> Iterator[Database]:
    """A database with two Archives, once for each kind of database."""
    with resolver_database(uri) as found:
        included(a_registry(found), 2)
        yield found


def hints(database: Database) -> dict[str, int]:
    with database.reading() as connection:
        rows = connection.execute(select(Hint.ibi, Hint.archive_id))
        return {row.ibi: row.archive_id for row in rows}


def counts(database: Database) -> list[tuple[int, int, int, str | None]]:
    return [
        (one.answers, one.failures, one.milliseconds, one.last_failure)
        for one in a_registry(database).list()
    ]


def make_hint_writer(database: Database, **options: Any) -> HintWriter:
    """Return a writer whose thread does not write during the test."""
    return HintWriter(database, **{"pause": PATIENCE, "now": lambda: NOON, **options})


@contextmanager
def away(database: Database) -> Iterator[None]:
    """Rename a table within the context."""
    with database.writing() as connection:
        connection.execute(text("ALTER TABLE ibi_resolver_archive RENAME TO gone"))
    yield
    with database.writing() as connection:
        connection.execute(text("ALTER TABLE gone RENAME TO ibi_resolver_archive"))


@pytest.mark.postgresql
def test_hints_and_metrics_are_written_in_one_transaction(each_database: Database) -> None:
    writer = make_hint_writer(each_database)
    for number in (1, 2):
        writer.add_hint(IBI, number)
    for _ in range(1000):
        writer.add_answer(1, 0.0004)
    writer.add_failure(2, "took too long")
    writer.add_failure(2, "redirects (status 301)")
    assert hints(each_database) == {}
    writer.flush()
    assert hints(each_database) == {IBI: 2}
    assert counts(each_database) == [(1000, 0, 400, None), (0, 2, 0, "redirects (status 301)")]
    writer.flush()
    writer.add_answer(1, 1)
    writer.close(PATIENCE)
    assert counts(each_database)[0][:3] == (1001, 0, 1400)


def test_entries_are_written_by_a_background_thread(database: Database) -> None:
    begun = Event()

    def now() -> datetime:
        begun.set()
        return NOON

    writer = make_hint_writer(database, pause=0.001, now=now)
    writer.add_hint(IBI, 1)
    assert begun.wait(PATIENCE)
    thread = writer._thread
    writer.close(PATIENCE)
    assert thread is not None
    assert not thread.is_alive()
    assert hints(database) == {IBI: 1}
    # nothing is started after close()
    writer.add_hint(OTHER, 1)
    assert writer._thread is None


def test_entries_are_kept_while_the_database_is_not_available(
    each_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def now() -> datetime:
        # entries that are added during the attempt are newer
        writer.add_hint(IBI, 2)
        writer.add_answer(1, 0.25)
        writer.add_failure(1, "redirects (status 301)")
        return NOON

    writer = make_hint_writer(each_database, now=now)
    writer.add_hint(IBI, 1)
    writer.add_hint(OTHER, 1)
    writer.add_answer(1, 0.5)
    for archive_id in (1, 2):
        writer.add_failure(archive_id, "took too long")
    with away(each_database):
        writer.flush()
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "flask ibi-resolver init" in record.getMessage()
    writer._now = lambda: NOON
    writer.close(PATIENCE)
    assert hints(each_database) == {IBI: 2, OTHER: 1}
    assert counts(each_database) == [
        (2, 2, 750, "redirects (status 301)"),
        (0, 1, 0, "took too long"),
    ]


def test_the_thread_continues_after_an_error(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    failed, done = Event(), Event()

    def now() -> datetime:
        if not failed.is_set():
            failed.set()
            raise ValueError("no time")
        done.set()
        return NOON

    writer = make_hint_writer(database, pause=0.001, now=now)
    writer.add_answer(1, 0)
    assert failed.wait(PATIENCE)
    writer.add_answer(1, 0)
    assert done.wait(PATIENCE)
    writer.close(PATIENCE)
    assert "can't be stored" in caplog.text
    assert counts(database)[0][0] == 1


def test_the_number_of_waiting_hints_is_limited(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MAX_WAITING", 3)
    names = [f"{IBI}.{number:02}" for number in range(6)]

    def now() -> datetime:
        writer.add_hint(names[5], 1)
        return NOON

    writer = make_hint_writer(database, now=now)
    for name in names[:5]:
        writer.add_hint(name, 1)
    writer.add_hint(names[1], 2)  # waiting hints can be replaced
    assert len(writer._hints) == 3
    with away(database):
        writer.flush()
    writer._now = lambda: NOON
    writer.close(PATIENCE)
    assert hints(database) == {names[0]: 1, names[1]: 2, names[5]: 1}


def test_old_hints_are_deleted_regularly(database: Database) -> None:
    seconds, moment = [0.0], [NOON]
    writer = make_hint_writer(database, clock=lambda: seconds[0], now=lambda: moment[0])

    def write(ibi: str) -> None:
        writer.add_hint(ibi, 1)
        writer.flush()

    write(IBI)
    for pause in (background.FIRST_CLEANUP, background.CLEANUP_PAUSE):
        moment[0] += background.MAX_AGE + timedelta(days=1)
        seconds[0] += pause - 1
        write(OTHER)
        assert set(hints(database)) == {IBI, OTHER}
        seconds[0] += 1
        write(OTHER)
        assert set(hints(database)) == {OTHER}
        write(IBI)
    writer.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_does_not_write_entries_of_its_parent(database: Database) -> None:
    writer = make_hint_writer(database)
    writer.add_answer(1, 0)
    process = os.fork()
    if process == 0:
        status = 1
        with suppress(BaseException):
            writer.close()
            writer.add_answer(2, 0)
            writer.close()
            status = 0
        os._exit(status)
    assert os.waitpid(process, 0)[1] == 0
    writer.close(PATIENCE)
    assert [one[0] for one in counts(database)] == [1, 1]
