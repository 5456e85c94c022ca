"""backup, restore."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of
from support.commands import command

WORDS = f"1 Archives ({SERVICE}), "


@pytest.fixture
def backup(filled: Flask, tmp_path: Path) -> Path:
    """A backup of the shelf."""
    path = tmp_path / "archive.zip"
    assert command(filled, "backup", path).data == ""
    return path


def delete_tables(app: Flask) -> None:
    """Delete all tables."""
    archive_of(app).downgrade("base")


def test_a_restore_brings_everything_back(filled: Flask, backup: Path) -> None:
    before = command(filled, "export").data
    delete_tables(filled)
    assert command(filled, "restore", backup).data == ""
    assert command(filled, "export").data == before
    assert command(filled, "verify").data == ""


def test_backup_and_restore_write_json(filled: Flask, tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    written = json.loads(command(filled, "backup", path, "--json").data)
    assert written["archives"] == [SERVICE]
    assert written["items"] == len(command(filled, "list").lines) + count_hidden(filled)
    assert written["faults"] == 0
    said = command(filled, "restore", path, "--replace", "--json").data
    assert json.loads(said) == written


def count_hidden(app: Flask) -> int:
    """Return the number of items that list does not show: the service, and stubs."""
    with archive_of(app).database.reading() as connection:
        rows = connection.exec_driver_sql(
            "SELECT count(*) FROM ibi_item WHERE is_service OR state = 'Elsewhere'"
        )
        return int(rows.scalar() or 0)


def test_restore_changes_no_existing_archive_without_replace(filled: Flask, backup: Path) -> None:
    command(
        filled, "delete", command(filled, "list").lines[0].split("\t")[0], "--yes", "--reason", "x"
    )
    before = command(filled, "export").data
    assert "already contains an Archive" in command(filled, "restore", backup).error
    [said] = command(filled, "restore", backup, "--replace", "--dry-run").lines
    assert said.startswith(f"would be restored: {WORDS}")
    assert command(filled, "export").data == before
    assert command(filled, "restore", backup, "--replace").data == ""
    assert command(filled, "export").data != before


@pytest.mark.parametrize(
    ("words", "answer", "done"), [([], b"n\n", False), ([], b"y\n", True), (["--yes"], b"", True)]
)
def test_restore_asks_on_a_terminal_before_it_replaces(
    filled: Flask,
    backup: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    answer: bytes,
    done: bool,
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    outcome = command(filled, "restore", backup, "--replace", *words, stdin=answer)
    assert (outcome.status, outcome.out) == (0 if done else 1, "")
    assert ("Delete the contents of the database?" in outcome.err) is not bool(words)
    assert (f"restored: {WORDS}" in outcome.err) is done
    assert ("Restoring tables" in outcome.err) is done


def test_backup_writes_a_summary_to_a_terminal(
    filled: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True)
    outcome = command(filled, "backup", tmp_path / "x.zip")
    assert (outcome.status, outcome.out) == (0, "")
    for said in ("Writing tables", "Writing files", f"written: {WORDS}"):
        assert said in outcome.err


def test_a_missing_stored_file_is_reported_and_the_rest_is_backed_up(
    filled: Flask, tmp_path: Path
) -> None:
    folder = archive_of(filled).files_folder
    place = folder.path(next(folder.walk()).sha256)
    place.unlink()
    path = tmp_path / "x.zip"
    outcome = command(filled, "backup", path)
    assert (outcome.status, outcome.out) == (1, "")
    first, second = outcome.err.splitlines()
    assert first == f"missing: the file {place} does not exist"
    assert second.startswith(f"Error: 1 stored files are missing or damaged in {path}; ")
    outcome = command(filled, "restore", path, "--replace")
    assert outcome.status == 0
    assert "1 stored files were missing or damaged" in outcome.err


def test_a_file_that_is_not_a_backup_or_cannot_be_written_is_an_error(
    new_app: Callable[..., Flask], filled: Flask, tmp_path: Path
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK")
    assert (
        "can't be restored: the file is not a backup"
        in command(filled, "restore", path, "--replace").error
    )
    missing = tmp_path / "none" / "x.zip"
    assert command(filled, "restore", missing, "--replace").error == (
        f"{missing} can't be restored: the file can't be read: No such file or directory"
    )
    assert command(filled, "backup", missing).error == (
        f"{missing} can't be written: No such file or directory"
    )
    assert command(filled, "list").lines
