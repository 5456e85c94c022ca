"""Migrations with data in every table: a downgrade, and an upgrade."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import archive_of
from support.tables import SECOND, fill

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.table_rows import dump_rows, reflect_tables

pytestmark = pytest.mark.no_tables


def count_rows(archive: Archive) -> dict[str, int]:
    with archive.database.snapshot() as connection:
        return {
            name: len(list(dump_rows(connection, table)))
            for name, table in reflect_tables(connection).items()
        }


def test_a_downgrade_removes_the_tables_and_an_upgrade_creates_them_empty(
    new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_MINT_HOST="sid.inpe.br"))
    fill(archive, archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND)), tmp_path)
    before = count_rows(archive)
    assert all(before.values()), "a table is empty"
    archive.downgrade("-1")
    assert count_rows(archive) == {}
    archive.upgrade("+1")
    assert count_rows(archive) == dict.fromkeys(before, 0)
    archive.database.check()
    fill(archive, archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND)), tmp_path)
    archive.downgrade("base")
    assert count_rows(archive) == {}
