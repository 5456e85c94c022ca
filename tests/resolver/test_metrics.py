"""What a resolver remembers: prefixes and the metrics of Archives."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select, text
from support.registries import NOON, SERVICE, a_registry, included
from support.statements import statements_of

from flask_ibi_archive.resolver import metrics
from flask_ibi_archive.resolver.metrics import MetricsWriter
from flask_ibi_archive.resolver.tables import PrefixHolder
from flask_ibi_archive.server.database.database import Database

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
    assert len(str(other.last_failure)) == metrics.MAX_FAILURE + len("...")
    a_registry(database).remove(SERVICE)
    assert prefixes(database) == set()


def test_a_process_knows_a_limited_number_of_prefixes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MAX_KNOWN", 2)
    writer = Clock(database).writer
    names = [f"a{number}.br" for number in range(5)]
    writer.add_prefixes(1, names)
    writer.flush()
    assert prefixes(database) == {(name, 1) for name in names}


def test_results_are_written_from_time_to_time_and_kept_meanwhile(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(database)
    for seconds, expected in ((0, 1), (metrics.PAUSE - 1, 1), (1, 3)):
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
