"""The history of the tables with something in every one of them: step by step down, and up again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.full import SECOND, fill

from flask_ibi_archive.service.archive import ArchiveService
from flask_ibi_archive.storage.tables import dump_rows, reflect_tables

pytestmark = pytest.mark.no_tables

#: The tables that each revision brings, but for the salts, which nobody is to copy.
BROUGHT = {
    "0006": {"ibi_link"},
    "0005": {"ibi_access", "ibi_access_count"},
    "0004": {"ibi_registration"},
    "0003": {"ibi_import", "ibi_import_line"},
    "0002": {"ibi_tombstone", "ibi_reservation"},
}

Rows = dict[str, list[dict[str, Any]]]


def rows_of(archive: ArchiveService) -> Rows:
    with archive.database.snapshot() as connection:
        return {
            name: list(dump_rows(connection, table))
            for name, table in reflect_tables(connection).items()
        }


def test_each_step_down_takes_its_own_tables_and_each_step_up_brings_them_empty(
    new_app: Callable[..., Flask], tmp_path: Path
) -> None:
    archive = archive_of(new_app(IBI_MINT_HOST="sid.inpe.br"))
    fill(archive, archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND)), tmp_path)
    before = rows_of(archive)
    assert all(before.values()), "a table is empty"
    left = dict(before)
    for tables in BROUGHT.values():
        archive.downgrade("-1")
        left = {name: rows for name, rows in left.items() if name not in tables}
        assert rows_of(archive) == left
    for tables in reversed(BROUGHT.values()):
        archive.upgrade("+1")
        left = {**left, **{name: [] for name in tables}}
        assert rows_of(archive) == left
    archive.database.check()
    assert set(left) == set(before)
    archive.downgrade("base")
    assert rows_of(archive) == {}
