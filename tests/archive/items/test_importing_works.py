"""``flask ibi import --mint``: each work of a file becomes one item with both identifiers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.commands import Outcome, command
from support.works import make_rows, write_table

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.exporting import export_records
from flask_ibi_archive.archive.items.importing import works
from flask_ibi_archive.core.records.fields import format_record


def export(archive: Archive) -> list[dict[str, Any]]:
    """Return the records of the items as JSON objects."""
    found = export_records(archive.database, archive.served().id, archive.files_folder)
    return [format_record(record) for record in found]


def mint(app: Flask, path: Path, *words: object) -> Outcome:
    """Run ``flask ibi import PATH --mint``."""
    return command(app, "import", path, "--mint", *words)


def read_table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def test_a_spreadsheet_of_1000_works_is_imported_in_one_go(app: Flask, tmp_path: Path) -> None:
    rows = make_rows(1000)
    path, out = tmp_path / "works.csv", tmp_path / "new.csv"
    path.write_bytes(write_table(rows))
    assert mint(app, path, "--identifiers", out).data == "added 1000, updated 0, skipped 0\n"
    items = export(archive_of(app))
    assert [item["key"] for item in items] == [row["Código"] for row in rows]
    assert all(item["rep"] and item["ibip"] for item in items)
    assert len({item["ibip"] for item in items}) == 1000
    table = read_table(out)
    assert [(one["rep"], one["ibip"], one["key"]) for one in table] == [
        (item["rep"], item["ibip"], item["key"]) for item in items
    ]
    assert [one["title"] for one in table] == [row["Título"] for row in rows]
    assert table[0]["url"] == f"http://urlib.net/{items[0]['ibip']}"
    assert table[0]["place"] == "row 2"
    # again: nothing is added
    again = tmp_path / "again.csv"
    assert mint(app, path, "--identifiers", again).data == "added 0, updated 0, skipped 1000\n"
    assert again.read_bytes() == out.read_bytes()
