"""A resolver's tables: whom it asks, hints, metrics, and what the database alone refuses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, event, insert, select, update
from sqlalchemy.exc import IntegrityError
from support.registries import (
    NOON,
    SERVICE,
    a_registry,
    a_request,
    included,
    resolver_database,
)

from flask_ibi_archive.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.resolver.directory import IncludedArchive, read_directory
from flask_ibi_archive.resolver.hints import forget_old_hints, remember_hints
from flask_ibi_archive.resolver.metrics import ArchiveCounts, add_metrics
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.storage.database import Database

pytestmark = pytest.mark.no_tables

IBI, OTHER = "8JMKD3MGP8W/35MMLL8", "sid.inpe.br/mtc-m18/2012/07.12.18.08.49"


@pytest.fixture
def database(uri: str) -> Iterator[Database]:
    with resolver_database(uri) as database:
        yield database


def remember(database: Database, found: dict[str, int], days: int = 0) -> None:
    with database.writing() as connection:
        remember_hints(connection, found, NOON + timedelta(days=days))


def directory(database: Database, ibi: str | None) -> tuple[list[IncludedArchive], int | None]:
    return database.read(lambda connection: read_directory(connection, ibi))


def hints(database: Database) -> dict[str, int]:
    statement = select(Hint.ibi, Hint.archive_id)
    with database.reading() as connection:
        return {row.ibi: row.archive_id for row in connection.execute(statement)}


# --- whom it asks --------------------------------------------------------------------------------


def test_those_included_are_asked_confirmed_or_not_and_nobody_else(database: Database) -> None:
    registry = a_registry(database)
    first, second, third = included(registry, 3)
    registry.register("a.br/never/2001/01.01.00.00", "1234567890")
    registry.take(a_request(EXCLUSION_REQUEST, service_ibi="a.br/archive1/2001/01.01.00.00"))
    with database.writing() as connection:
        unconfirmed = update(RegisteredArchive).where(RegisteredArchive.id == third)
        connection.execute(unconfirmed.values(confirmed_at=None))
    archives = [
        IncludedArchive(first, SERVICE, "a0.example.org:80"),
        IncludedArchive(third, "a.br/archive2/2001/01.01.00.00", "a2.example.org:80"),
    ]
    assert directory(database, None) == (archives, None)
    assert directory(database, IBI) == (archives, None)
    remember(database, {IBI: third, OTHER: second})
    assert directory(database, IBI) == (archives, third)
    # one that is not asked is not hinted at
    assert directory(database, OTHER) == (archives, None)
    assert directory(database, None) == (archives, None)


def test_they_are_read_in_one_statement_and_one_row_each(database: Database) -> None:
    ids = included(a_registry(database), 3)
    remember(database, {IBI: ids[1], OTHER: ids[1]})
    told: list[str] = []
    event.listen(
        database.reader,
        "before_cursor_execute",
        lambda c, cursor, statement, *a: told.append(statement),
    )
    archives, hinted = directory(database, IBI)
    assert [archive.id for archive in archives] == ids
    assert hinted == ids[1]
    assert len(told) == 1
    assert directory(database, "nobody.br/knows/2001/01.01.00.00") == (archives, None)


# --- hints ---------------------------------------------------------------------------------------


def test_the_newest_hint_counts_and_removed_archives_are_passed_over(database: Database) -> None:
    first, second = included(a_registry(database), 2)
    remember(database, {IBI: first, OTHER: first})
    remember(database, {IBI: second, "x" * 300: first, "gone": 99}, days=1)
    remember(database, {})
    remember(database, {"gone": 99})
    assert hints(database) == {IBI: second, OTHER: first}
    a_registry(database).remove(SERVICE)
    assert hints(database) == {IBI: second}


def test_hints_that_are_old_or_too_many_are_forgotten(database: Database) -> None:
    [first] = included(a_registry(database))
    for day in range(6):
        remember(database, {f"ibi{day}": first}, days=day)

    def forget(**options: Any) -> int:
        with database.writing() as connection:
            return forget_old_hints(connection, NOON + timedelta(days=2), **options)

    assert forget() == 2
    assert set(hints(database)) == {"ibi2", "ibi3", "ibi4", "ibi5"}
    assert forget(most=4) == 0
    assert forget(most=3) == 1
    assert set(hints(database)) == {"ibi3", "ibi4", "ibi5"}


# --- metrics -------------------------------------------------------------------------------------


def test_counts_add_up_and_the_last_failure_is_kept(database: Database) -> None:
    registry = a_registry(database)
    first, second = included(registry, 2)

    def add(minutes: int, counts: dict[int, ArchiveCounts]) -> None:
        with database.writing() as connection:
            add_metrics(connection, counts, NOON + timedelta(minutes=minutes))

    add(1, {first: ArchiveCounts(answers=3, milliseconds=120), 99: ArchiveCounts(answers=1)})
    add(2, {first: ArchiveCounts(1, 2, 30, "took too long"), second: ArchiveCounts()})
    add(3, {first: ArchiveCounts(answers=1, milliseconds=2)})
    one, other = registry.list()
    assert (one.answers, one.failures, one.milliseconds) == (5, 2, 152)
    assert (one.last_failure, one.last_failure_at) == ("took too long", NOON + timedelta(minutes=2))
    assert one.last_answer_at == NOON + timedelta(minutes=3)
    assert (other.answers, other.failures, other.last_failure_at) == (0, 0, None)


def test_what_an_archive_says_is_kept_as_any_database_takes_it(database: Database) -> None:
    registry = a_registry(database)
    [first] = included(registry)
    said = "answers \0 \udcf3 \x1b[2J" + "x" * 1000
    with database.writing() as connection:
        add_metrics(connection, {first: ArchiveCounts(failures=1, last_failure=said)}, NOON)
    kept = registry.list()[0].last_failure
    assert kept is not None
    assert kept.startswith("answers      [2Jxxx")
    assert len(kept) == 300


# --- what the database refuses -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"service_ibi": SERVICE}, "service_ibi"),
        ({"included_at": NOON}, "included"),
        ({"confirmed_at": NOON}, "confirmed"),
        (
            {
                "included_at": NOON,
                "excluded_at": NOON,
                "address": "a.br",
                "ip": "::1",
                "platform_version": "1",
                "admin_email": "a@b",
            },
            "excluded",
        ),
        ({"written": 1}, "requests"),
        ({"written": -1}, "requests"),
        ({"answers": -1}, "counts"),
        ({"failures": -1}, "counts"),
        ({"milliseconds": -1}, "counts"),
        ({"last_failure": "took too long"}, "failure"),
        ({"last_failure_at": NOON}, "failure"),
    ],
)
def test_the_database_alone_refuses(
    database: Database, values: dict[str, Any], constraint: str
) -> None:
    registry = a_registry(database)
    registry.register(SERVICE, "1234567890")
    row = {"service_ibi": "a.br/x/2001/01.01.00.00", "key_hash": "x", "registered_at": NOON}
    with database.writing() as connection:  # without it the row is taken
        connection.execute(insert(RegisteredArchive).values(**row))
        connection.execute(delete(RegisteredArchive).where(RegisteredArchive.key_hash == "x"))
    with pytest.raises(IntegrityError, match=constraint), database.writing() as connection:
        connection.execute(insert(RegisteredArchive).values(**{**row, **values}))


def test_a_number_of_an_archive_is_not_given_again(database: Database) -> None:
    registry = a_registry(database)
    [first] = included(registry)
    registry.remove(SERVICE)
    [second] = included(registry)
    assert second > first
