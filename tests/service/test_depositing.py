"""Depositing: files are taken in first, then there is an identifier, then the item; or nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import archive_of

from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.records.record import ItemRecord


def test_the_first_file_is_the_target(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    minted = archive.deposit(ItemRecord(), [tmp_path / "b.txt", tmp_path / "a.txt"])
    with archive.database.reading() as connection:
        files = connection.execute(
            text(
                "SELECT path, sha256, size, target_path FROM ibi_file JOIN ibi_item ON id = item_id"
                " WHERE rep = :rep ORDER BY position"
            ),
            {"rep": minted.rep},
        ).all()
    assert [tuple(row) for row in files] == [
        (name, hashlib.sha256(name.encode()).hexdigest(), 5, "b.txt") for name in ("b.txt", "a.txt")
    ]
    for row in files:
        assert archive.files_folder.path(row.sha256).read_text() == row.path


@pytest.mark.parametrize("fault", ["missing", "folder", "twice"])
def test_a_file_that_can_not_be_taken_in_costs_no_identifier(
    app: Flask, tmp_path: Path, fault: str
) -> None:
    archive = archive_of(app)
    good = tmp_path / "good.txt"
    good.write_text("good")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "good.txt").write_text("other")
    files = {
        "missing": [good, tmp_path / "no.txt"],
        "folder": [good, tmp_path / "x"],
        "twice": [good, tmp_path / "x" / "good.txt"],
    }[fault]
    with pytest.raises(StorageError) as refusal:
        archive.deposit(ItemRecord(), files)
    assert "\n" not in str(refusal.value)
    with archive.database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM ibi_item")).scalar_one() == 1
        assert connection.execute(text("SELECT count(*) FROM ibi_prefix")).scalar_one() == 0


def test_a_rule_that_refuses_names_itself_and_the_item(app: Flask) -> None:
    archive = archive_of(app)
    other = archive.deposit(ItemRecord(language="pt"))
    with pytest.raises(RuleBroken) as refusal:
        archive.deposit(ItemRecord(language="en", translations={"en": other.rep}))
    assert refusal.value.rule == 8
    with archive.database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM ibi_item")).scalar_one() == 2
