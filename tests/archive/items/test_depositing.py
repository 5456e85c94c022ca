"""Deposits: the files are stored first, then an identifier is minted, then the item is stored."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from flask import Flask
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from support.archives import SERVICE, archive_of, import_records
from werkzeug.datastructures import FileStorage

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.minting import Minted, Minter
from flask_ibi_archive.core.records.record import DublinCoreMetadata, Record
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.server.database.database import Database


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
def test_a_file_that_cannot_be_read_uses_up_no_identifier(
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


# --- the arguments of a host ----------------------------------------------------------------------


def names_of(archive: Archive, ibi: str) -> list[str]:
    """Return the names of an item's files."""
    view = archive.get(ibi)
    assert view is not None
    return [file.path for file in view.record.files]


@pytest.mark.parametrize("form", ["alone", "open alone", "iterator"])
def test_a_file_need_not_be_in_a_list(app: Flask, tmp_path: Path, form: str) -> None:
    archive = archive_of(app)
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF")
    with path.open("rb") as opened:
        files: Any = {
            "alone": str(path),
            "open alone": opened,
            "iterator": iter([str(path)]),
        }[form]
        minted = archive.deposit(ItemRecord(), files)
    assert names_of(archive, minted.rep) == ["report.pdf"]
    digest = hashlib.sha256(b"%PDF").hexdigest()
    assert archive.files_folder.path(digest).read_bytes() == b"%PDF"
    edition = archive.new_edition(minted.rep, ItemRecord(language="en"), str(path))
    archive.add_translation(edition.rep, ItemRecord(language="pt"), [str(path)])
    (tmp_path / "other.pdf").write_bytes(b"other")
    with (tmp_path / "other.pdf").open("rb") as opened:
        archive.edit(minted.rep, files=opened)
    assert names_of(archive, minted.rep) == ["other.pdf"]
    archive.edit(minted.rep, files=str(path), metadata={"dc": {"title": "A report"}})
    view = archive.get(minted.rep)
    assert view is not None
    assert view.record.metadata == DublinCoreMetadata({"title": (("A report", None),)})
    assert names_of(archive, minted.rep) == ["report.pdf"]


#: Values that are not files, and the error message (a pattern).
NO_FILES: list[tuple[Any, str]] = [
    (7, "files: 7 is not a list of files; each file must be a path"),
    (["report.pdf", 7], r"files\[1\]: 7 is not a path"),
    ([io.StringIO("x")], "is open in text mode; open it in binary mode"),
    ([("../x", io.BytesIO(b"x"))], r"files\[0\]: '../x'"),
    ([FileStorage(io.BytesIO(), "")], r"files\[0\]: the upload is empty, because the user chose"),
    (["a\0b/c"], "contains a NUL character"),
]


def test_a_value_that_is_not_a_file_is_refused_before_minting(app: Flask) -> None:
    archive = archive_of(app)
    for files, reason in NO_FILES:
        with pytest.raises(StorageError) as refused:
            archive.deposit(ItemRecord(), files)
        assert re.search(reason, str(refused.value)), (files, refused.value)
        assert "\n" not in str(refused.value), files
    assert dates(archive) == 0


@pytest.mark.parametrize("mode", ["wb", "closed"])
def test_an_open_file_that_cannot_be_read_is_refused(app: Flask, tmp_path: Path, mode: str) -> None:
    archive = archive_of(app)
    with (tmp_path / "new").open("wb") as file:
        if mode == "closed":
            file.close()
        with pytest.raises(StorageError, match=r"files\[0\]: .*can't be read"):
            archive.deposit(ItemRecord(), file)
    assert dates(archive) == 0


#: Wrong records, and the error message (a pattern).
WRONG_RECORDS: list[tuple[Any, str]] = [
    ({"metadata": "A title"}, "the new item: metadata: 'A title' is not an object such as"),
    ({"language": 7}, "language: 7 is not a text"),
    ({"titel": "A"}, "^titel: this field is unknown; did you mean title\\?$"),
    ({"rep": "farZ/1"}, "^rep: this field is unknown; the known fields are title, creators, "),
    ({"state": "Copy"}, "^state: 'Copy' is not Original, the state of a new item"),
    ({"title": 7}, "^title: 7 is not a text or a list of texts$"),
    (Record(), "is not an ItemRecord, such as ItemRecord"),
]


def test_a_record_that_is_wrong_is_refused_before_an_identifier_is_minted(app: Flask) -> None:
    archive = archive_of(app)
    for record, reason in WRONG_RECORDS:
        for attempt in (archive.deposit, partial(archive.new_edition, SERVICE)):
            with pytest.raises(StorageError) as refused:
                attempt(record)
            assert re.search(reason, str(refused.value)), (record, refused.value)
            assert "\n" not in str(refused.value), record
        with pytest.raises(StorageError):
            archive.add_translation(SERVICE, record)
    assert dates(archive) == 0


def dates(archive: Archive) -> int:
    """Return the number of prefixes with which identifiers were minted."""
    with archive.database.reading() as connection:
        return int(connection.execute(text("SELECT count(*) FROM ibi_prefix")).scalar_one())


# --- the date of the identifier ------------------------------------------------------------------


def wait_with(archive: Archive, meanwhile: Callable[[], object]) -> None:
    """Use up the dates of the present minute, and call a function while the next deposit waits."""
    now = [Fraction(1_790_000_040)]

    def wait(seconds: float) -> None:
        meanwhile()
        now[0] += Fraction(seconds)

    minter = archive.minter
    minter.granularity, minter.clock, minter.wait = Fraction(60), lambda: now[0], wait
    minter.max_wait = 100
    archive.deposit(ItemRecord())


def test_an_item_is_stored_when_the_date_of_its_identifier_has_come(app: Flask, uri: str) -> None:
    archive = archive_of(app)
    others: list[Minted] = []

    def meanwhile() -> None:
        assert len(list(archive.find())) == 1
        other = Database.at(uri)  # another process, which is not blocked
        others.extend(Minter(other, archive.minter.prefixes, Fraction(1), 100).mint())
        other.close()

    wait_with(archive, meanwhile)
    minted = archive.deposit(ItemRecord())
    assert len(others) == 1
    assert minted.rep.endswith("/2026/09.21.14.15")
    assert archive.get(minted.rep) is not None


@pytest.mark.postgresql
def test_a_new_item_replaces_a_stub_that_another_process_has_just_stored(app: Flask) -> None:
    archive = archive_of(app)
    expected = archive.minter.build(Fraction(1_790_000_100))
    earlier = {"rep": "a.br/b/2001/01.01.00.00", "next_edition": expected.rep}
    wait_with(archive, lambda: import_records(archive, [earlier]))
    minted = archive.deposit(ItemRecord(title="The next edition"))
    assert minted == expected
    view, before = archive.get(minted.ibip), archive.get(earlier["rep"])
    assert view is not None
    assert before is not None
    assert before.record.next_edition == minted.rep


@pytest.mark.postgresql
def test_an_identifier_that_another_process_has_just_given_to_an_item_is_refused(
    app: Flask,
) -> None:
    archive = archive_of(app)
    expected = archive.minter.build(Fraction(1_790_000_100))
    wait_with(archive, lambda: import_records(archive, [{"rep": expected.rep}]))
    with pytest.raises(StorageError, match=expected.rep):
        archive.deposit(ItemRecord(title="Another item"))
    assert len(list(archive.find())) == 2


@pytest.mark.postgresql
def test_a_transaction_that_cannot_begin_names_the_broken_rule(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraint = "UNIQUE constraint failed: ibi_identifier.text, ibi_identifier.archive_id"
    failing = MagicMock()
    failing.__enter__.side_effect = IntegrityError("SAVEPOINT", None, Exception(constraint))
    archive = archive_of(app)
    minted = archive.mint()
    monkeypatch.setattr(Minter, "mint", lambda *arguments: minted)
    # the savepoint of a host also writes the host's pending changes
    monkeypatch.setattr(Database, "writing", lambda database: failing)
    with pytest.raises(RuleBroken) as refused:
        archive.deposit(ItemRecord())
    assert refused.value.rule == 1
