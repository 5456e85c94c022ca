"""Statements on a resolver's tables, and their constraints."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, event, insert, select, update
from sqlalchemy.exc import IntegrityError
from support.cases import for_each
from support.registries import NOON, SERVICE, a_registry, a_request, included

from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.resolver.archive_rows import (
    ArchiveMetrics,
    IncludedArchive,
    add_metrics,
    list_included,
)
from flask_ibi_archive.resolver.hints import delete_old_hints, store_hints
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.server.database.database import Database

IBI, OTHER = "8JMKD3MGP8W/35MMLL8", "sid.inpe.br/mtc-m18/2012/07.12.18.08.49"


def remember(database: Database, found: dict[str, int], days: int = 0) -> None:
    with database.writing() as connection:
        store_hints(connection, found, NOON + timedelta(days=days))


def directory(database: Database, ibi: str | None) -> tuple[list[IncludedArchive], int | None]:
    return database.read(lambda connection: list_included(connection, ibi))


def hints(database: Database) -> dict[str, int]:
    statement = select(Hint.ibi, Hint.archive_id)
    with database.reading() as connection:
        return {row.ibi: row.archive_id for row in connection.execute(statement)}


# --- whom it asks --------------------------------------------------------------------------------


def test_included_archives_are_listed_confirmed_or_not(database: Database) -> None:
    registry = a_registry(database)
    first, second, third = included(registry, 3)
    registry.register("a.br/never/2001/01.01.00.00", "1234567890")
    registry.process(a_request(EXCLUSION_REQUEST, service_ibi="a.br/archive1/2001/01.01.00.00"))
    with database.writing() as connection:
        unconfirmed = update(RegisteredArchive).where(RegisteredArchive.id == third)
        connection.execute(unconfirmed.values(confirmed_at=None))
    ip = "150.163.2.166"
    archives = [
        IncludedArchive(first, SERVICE, "a0.example.org:80", ip),
        IncludedArchive(third, "a.br/archive2/2001/01.01.00.00", "a2.example.org:80", ip),
    ]
    assert directory(database, None) == (archives, None)
    assert directory(database, IBI) == (archives, None)
    remember(database, {IBI: third, OTHER: second})
    assert directory(database, IBI) == (archives, third)
    # a hint for an Archive that is not included is ignored
    assert directory(database, OTHER) == (archives, None)
    assert directory(database, None) == (archives, None)


def test_included_archives_are_read_with_one_statement(database: Database) -> None:
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


@pytest.mark.postgresql
def test_a_newer_hint_replaces_an_older_one(database: Database) -> None:
    first, second = included(a_registry(database), 2)
    remember(database, {IBI: first, OTHER: first})
    remember(database, {IBI: second, "x" * 300: first, "gone": 99}, days=1)
    remember(database, {})
    remember(database, {"gone": 99})
    assert hints(database) == {IBI: second, OTHER: first}
    a_registry(database).remove(SERVICE)
    assert hints(database) == {IBI: second}


def test_old_and_surplus_hints_are_deleted(database: Database) -> None:
    [first] = included(a_registry(database))
    for day in range(6):
        remember(database, {f"ibi{day}": first}, days=day)

    def forget(**options: Any) -> int:
        with database.writing() as connection:
            return delete_old_hints(connection, NOON + timedelta(days=2), **options)

    assert forget() == 2
    assert set(hints(database)) == {"ibi2", "ibi3", "ibi4", "ibi5"}
    assert forget(maximum=4) == 0
    assert forget(maximum=3) == 1
    assert set(hints(database)) == {"ibi3", "ibi4", "ibi5"}


# --- metrics -------------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_metrics_add_up_and_the_last_failure_is_stored(database: Database) -> None:
    registry = a_registry(database)
    first, second = included(registry, 2)

    def add(minutes: int, counts: dict[int, ArchiveMetrics]) -> None:
        with database.writing() as connection:
            add_metrics(connection, counts, NOON + timedelta(minutes=minutes))

    add(1, {first: ArchiveMetrics(answers=3, milliseconds=120), 99: ArchiveMetrics(answers=1)})
    add(2, {first: ArchiveMetrics(1, 2, 30, "took too long"), second: ArchiveMetrics()})
    add(3, {first: ArchiveMetrics(answers=1, milliseconds=2)})
    one, other = registry.list()
    assert (one.answers, one.failures, one.milliseconds) == (5, 2, 152)
    assert (one.last_failure, one.last_failure_at) == ("took too long", NOON + timedelta(minutes=2))
    assert one.last_answer_at == NOON + timedelta(minutes=3)
    assert (other.answers, other.failures, other.last_failure_at) == (0, 0, None)


def test_unprintable_characters_in_a_failure_are_replaced(database: Database) -> None:
    registry = a_registry(database)
    [first] = included(registry)
    said = "answers \0 \udcf3 \x1b[2J" + "x" * 1000
    with database.writing() as connection:
        add_metrics(connection, {first: ArchiveMetrics(failures=1, last_failure=said)}, NOON)
    kept = registry.list()[0].last_failure
    assert kept is not None
    assert kept.startswith("answers      [2Jxxx")
    assert len(kept) == 300


# --- what the database refuses -------------------------------------------------------------------


@pytest.mark.postgresql
@for_each(
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
def test_constraints_reject_inconsistent_rows(
    database: Database, values: dict[str, Any], constraint: str
) -> None:
    registry = a_registry(database)
    registry.register(SERVICE, "1234567890")
    row = {"service_ibi": "a.br/x/2001/01.01.00.00", "key_hash": "x", "registered_at": NOON}
    with database.writing() as connection:  # a row without these values is accepted
        connection.execute(insert(RegisteredArchive).values(**row))
        connection.execute(delete(RegisteredArchive).where(RegisteredArchive.key_hash == "x"))
    with pytest.raises(IntegrityError, match=constraint), database.writing() as connection:
        connection.execute(insert(RegisteredArchive).values(**{**row, **values}))


@pytest.mark.postgresql
def test_an_id_is_not_used_again(database: Database) -> None:
    registry = a_registry(database)
    [first] = included(registry)
    registry.remove(SERVICE)
    [second] = included(registry)
    assert second > first
