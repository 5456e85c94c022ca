"""Purging: old accesses are deleted, their counts are not, and no key can be used again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest
from flask import Flask
from support.accesses import acknowledge, insert_accesses, set_time, stored
from support.archives import archive_of, import_records

from flask_ibi_archive.archive.accesses import rows as access_rows
from flask_ibi_archive.archive.accesses.rows import start_of_day
from flask_ibi_archive.archive.archive import Archive

A = "a.br/x/2001/01.01.00.00"
TODAY = date(2026, 6, 1)
NOW = start_of_day(TODAY) + 50_000


@pytest.fixture
def archive(app: Flask) -> Archive:
    """An Archive with an item that has two accesses on each of the last 12 days."""
    archive = archive_of(app)
    import_records(archive, [{"rep": A}])
    set_time(archive, NOW)
    begin = start_of_day(TODAY)
    insert_accesses(
        archive,
        [
            {"ibi": A, "second": begin - day * 86_400 + second}
            for day in range(12)
            for second in (10, 20)
        ],
    )
    return archive


@pytest.mark.parametrize(("days", "first"), [(None, 11), (8, 8), (0, 0)])
def test_old_accesses_are_purged_and_their_counts_are_not(
    archive: Archive, days: int | None, first: int
) -> None:
    before = archive.statistics(A, "day"), archive.statistics()
    planned = archive.purge(days, dry_run=True)
    assert len(stored(archive)) == 24
    done = archive.purge(days)
    assert done == planned
    assert done.before == TODAY - timedelta(days=90 if days is None else days)
    assert done.purged == 2 * (11 - first)
    assert min(row["second"] for row in stored(archive)) >= start_of_day(done.before)
    assert (archive.statistics(A, "day"), archive.statistics()) == before
    assert archive.purge(days).purged == 0


def test_an_access_is_not_purged_while_its_key_is_valid(new_app: Callable[..., Flask]) -> None:
    age = 200_000
    archive = archive_of(new_app(IBI_URL_KEY_MAX_AGE=age))
    archive.init()
    import_records(archive, [{"rep": A}])
    begin = start_of_day(TODAY) - 10
    set_time(archive, begin)
    acknowledgment = acknowledge(archive, A)
    assert archive.take_acknowledgment(acknowledgment)
    for later in (60, age // 2, age, age + 60, 2 * age + 200_000):
        set_time(archive, begin + later)
        archive.purge(0)
        assert not archive.take_acknowledgment(acknowledgment)
        assert archive.statistics().downloads == 1
    assert stored(archive) == []


@pytest.mark.postgresql
def test_a_killed_purge_has_deleted_no_day_partly(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = archive.statistics(A, "day")
    delete_day, deleted = access_rows.delete_day, []

    def killed(connection: object, archive_id: int, day: date) -> int:
        count = delete_day(connection, archive_id, day)  # type: ignore[arg-type]
        deleted.append(day)
        if len(deleted) == 3:
            raise KeyboardInterrupt
        return count

    with monkeypatch.context() as patch:
        patch.setattr(access_rows, "delete_day", killed)
        with pytest.raises(KeyboardInterrupt):
            archive.purge(5)
    assert len(stored(archive)) == 24 - 2 * 2
    assert archive.statistics(A, "day") == before
    assert archive.purge(5).purged == 2 * 4
    assert archive.statistics(A, "day") == before


@pytest.mark.postgresql
def test_simultaneous_purges_count_each_access_once(archive: Archive) -> None:
    before = archive.statistics(A, "day")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: archive.purge(5).purged, range(4)))
    assert sum(results) == 2 * 6
    assert archive.statistics(A, "day") == before
