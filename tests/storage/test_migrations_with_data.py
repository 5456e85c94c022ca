"""Migrations with data in every table: downgrades step by step, and upgrades."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, delete, insert, inspect, select
from support.accesses import insert_accesses, item_id
from support.archives import SERVICE, archive_of, import_records
from support.full import MOMENT, SECOND, fill
from support.web import rep

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.storage.accesses import start_of_day
from flask_ibi_archive.storage.models import Link
from flask_ibi_archive.storage.table_rows import dump_rows, reflect_tables

pytestmark = pytest.mark.no_tables

#: The tables that each revision creates, without the salts, which are never dumped.
CREATED: dict[str, set[str]] = {
    "0014": set(),
    "0013": {"ibi_harvest_end"},
    "0012": {"ibi_harvest", "ibi_harvest_set"},
    "0011": set(),
    "0010": set(),
    "0009": {"ibi_archive_access_count", "ibi_counted_accesses"},
    "0008": set(),
    "0007": set(),
    "0006": {"ibi_link"},
    "0005": {"ibi_access", "ibi_access_count"},
    "0004": {"ibi_registration"},
    "0003": {"ibi_import", "ibi_import_line"},
    "0002": {"ibi_tombstone", "ibi_reservation"},
}

#: The columns that revisions add to existing tables.
COLUMNS = {
    ("ibi_tombstone", "original_archive"),
    ("ibi_link", "host"),
    ("ibi_link", "found_at"),
    ("ibi_item", "embargo"),
}

Rows = dict[str, list[dict[str, Any]]]


def rows_of(archive: Archive) -> Rows:
    with archive.database.snapshot() as connection:
        return {
            name: list(dump_rows(connection, table))
            for name, table in reflect_tables(connection).items()
        }


def without_columns(rows: Rows) -> Rows:
    """Return the rows without the columns that later revisions add."""
    return {
        name: [
            {key: value for key, value in row.items() if (name, key) not in COLUMNS} for row in rows
        ]
        for name, rows in rows.items()
    }


@pytest.mark.slow_on_postgresql
def test_each_downgrade_removes_its_tables_and_each_upgrade_creates_them_empty(
    new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_MINT_HOST="sid.inpe.br"))
    fill(archive, archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND)), tmp_path)
    newest = rows_of(archive)
    assert all(newest.values()), "a table is empty"
    archive.downgrade("0014")  # creates a table
    with archive.database.writing() as connection:  # the counts include none of the accesses
        connection.exec_driver_sql("UPDATE ibi_counted_accesses SET newest = 0")
    before = rows_of(archive)
    left = without_columns(before)
    for tables in CREATED.values():
        archive.downgrade("-1")
        left = {name: rows for name, rows in left.items() if name not in tables}
        assert without_columns(rows_of(archive)) == left
    for tables in reversed(CREATED.values()):
        archive.upgrade("+1")
        left = {**left, **{name: [] for name in tables}}
        assert without_columns(rows_of(archive)) == left
    assert set(left) == set(before)
    archive.upgrade()
    archive.database.check()
    assert set(rows_of(archive)) == set(newest)
    archive.downgrade("base")
    assert rows_of(archive) == {}


def test_a_harvest_log_that_exists_ends_at_its_last_change(
    new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_MINT_HOST="sid.inpe.br"))
    fill(archive, archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND)), tmp_path)
    before = rows_of(archive)
    archive.downgrade("0012")
    archive.upgrade()
    assert rows_of(archive)["ibi_harvest_end"] == before["ibi_harvest_end"]


def test_a_transferred_item_is_recognised_by_its_reason(new_app: Callable[..., Flask]) -> None:
    first, second = (archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=ibi)) for ibi in (SERVICE, SECOND))
    first.init()
    second.init()
    moved, gone, said, shouted = (first.deposit(ItemRecord()).rep for _ in range(4))
    first.transfer(moved, SECOND)
    first.delete(gone, "withdrawn")
    first.delete(said, "transferred to the attic")
    first.delete(shouted, f"Transferred to {SECOND}")
    with first.database.reading() as connection:
        checks = inspect(connection).get_check_constraints("ibi_tombstone")
        keys = inspect(connection).get_foreign_keys("ibi_tombstone")
    first.downgrade("0006")
    with first.database.reading() as connection:
        inspector = inspect(connection)
        assert "original_archive" not in {c["name"] for c in inspector.get_columns("ibi_tombstone")}
        assert inspector.get_check_constraints("ibi_tombstone") == checks
        assert inspector.get_foreign_keys("ibi_tombstone") == keys
    first.upgrade()
    archives = {}
    for ibi in (moved, gone, said, shouted):
        item = first.get(ibi)
        assert item is not None
        assert item.record.tombstone is not None
        archives[ibi] = item.record.tombstone.original_archive
    assert archives == {moved: SECOND, gone: None, said: None, shouted: None}


def test_counts_of_purged_accesses_survive_a_downgrade_and_an_upgrade(
    new_app: Callable[..., Flask],
) -> None:
    archive = archive_of(new_app())
    archive.init()
    import_records(archive, [{"rep": rep(number)} for number in (1, 2)])
    first, second = (item_id(archive, rep(number)) for number in (1, 2))
    midnight = start_of_day(date(2026, 3, 2))
    archive.accesses.clock = lambda: midnight + 3 * 86_400
    insert_accesses(
        archive, [{"item_id": first, "second": midnight - 86_400 + n * 20} for n in range(5)]
    )
    assert archive.purge(3).purged == 5
    insert_accesses(
        archive,
        [
            {"item_id": first, "second": midnight + shift, "robot": robot, "visitor": visitor}
            for shift in (-60, -20, -15, 5, 30, 40)
            for robot, visitor in ((False, "a"), (True, "a"), (False, "b"))
        ],
    )
    insert_accesses(
        archive,
        [
            {
                "item_id": second,
                "delivered_item_id": first,
                "second": midnight + shift,
                "content_type": "Metadata",
            }
            for shift in (-20, 5, 50)
        ],
    )
    before = [archive.statistics(ibi, "day") for ibi in (rep(1), rep(2), None)]
    archive.downgrade("0007")
    with archive.database.reading() as connection:
        counts = connection.exec_driver_sql(
            "SELECT item_id, role, accesses, double_clicks, robots FROM ibi_access_count"
        ).all()
    assert [tuple(row) for row in counts] == [(first, "asked", 1, 4, 0)]
    archive.upgrade()
    assert [archive.statistics(ibi, "day") for ibi in (rep(1), rep(2), None)] == before


def test_an_upgrade_adds_hosts_and_deletes_links_that_were_never_checked(
    new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_MINT_HOST="sid.inpe.br"))
    fill(archive, archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND)), tmp_path)
    hosts = {
        "http://x.org/a": "x.org",
        "https://X.org.:8080/b": "x.org",
        "http://[2001:db8::1]/": "2001:db8::1",
        f"http://{'x' * 300}/": "x" * 255,
    }
    checked = dict.fromkeys(("found_at", "checked_at"), MOMENT)
    row = {"archive_id": 1, "host": "", **checked}
    with archive.database.writing() as connection:
        connection.execute(delete(Link))
        for number, url in enumerate(hosts):
            connection.execute(insert(Link).values(url=url, digest=f"{number}", **row))
        new = {**row, "checked_at": None, "digest": "new", "url": "http://x.org/new"}
        connection.execute(insert(Link).values(**new))
        constraints = link_constraints(connection)
    archive.downgrade("0009")
    with archive.database.reading() as connection:
        columns = {column["name"]: column for column in inspect(connection).get_columns("ibi_link")}
        assert not columns["checked_at"]["nullable"]
        assert not {"host", "found_at"} & set(columns)
        assert link_constraints(connection) == constraints
    archive.upgrade()
    with archive.database.reading() as connection:
        rows = connection.execute(select(Link.url, Link.host, Link.found_at, Link.checked_at))
        assert {url: host for url, host, *_ in rows.all()} == hosts
        assert link_constraints(connection) == constraints
        rows = connection.execute(select(Link.found_at, Link.checked_at).distinct())
        assert rows.all() == [(MOMENT, MOMENT)]


def link_constraints(connection: Connection) -> list[Any]:
    """Return the constraints of the table of links that all revisions have."""
    inspector = inspect(connection)
    return [
        inspector.get_pk_constraint("ibi_link")["constrained_columns"],
        inspector.get_foreign_keys("ibi_link"),
        sorted(inspector.get_check_constraints("ibi_link"), key=lambda check: str(check["name"])),
    ]
