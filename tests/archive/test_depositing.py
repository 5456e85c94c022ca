"""Deposits: the files are stored first, then an identifier is minted, then the item is stored."""

from __future__ import annotations

import hashlib
import io
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import SERVICE, archive_of
from werkzeug.datastructures import FileStorage

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.records.record import DublinCoreMetadata, Record


@pytest.mark.slow_on_postgresql
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


@pytest.mark.slow_on_postgresql
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


def test_a_rule_that_refuses_names_itself_and_the_item(app: Flask) -> None:
    archive = archive_of(app)
    other = archive.deposit(ItemRecord(language="pt"))
    with pytest.raises(RuleBroken) as refusal:
        archive.deposit(ItemRecord(language="en", translations={"en": other.rep}))
    assert refusal.value.rule == 8
    with archive.database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM ibi_item")).scalar_one() == 2


# --- the arguments of a host ----------------------------------------------------------------------


def names_of(archive: Archive, ibi: str) -> list[str]:
    """Return the names of an item's files."""
    view = archive.get(ibi)
    assert view is not None
    return [file.path for file in view.record.files]


@pytest.mark.one_database
@pytest.mark.parametrize("form", ["text", "path", "open", "alone", "open alone", "iterator"])
def test_a_file_is_a_path_as_text_or_an_open_file_in_a_list_or_alone(
    app: Flask, tmp_path: Path, form: str
) -> None:
    archive = archive_of(app)
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF")
    with path.open("rb") as opened:
        files: Any = {
            "text": [str(path)],
            "path": (path,),
            "open": [opened],
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
        archive.replace_files(minted.rep, opened)
    assert names_of(archive, minted.rep) == ["other.pdf"]
    archive.edit(minted.rep, files=str(path), metadata={"dc": {"title": "A report"}})
    view = archive.get(minted.rep)
    assert view is not None
    assert view.record.metadata == DublinCoreMetadata({"title": (("A report", None),)})
    assert names_of(archive, minted.rep) == ["report.pdf"]


#: Values that are not files, and the error message (a pattern).
NO_FILES: list[tuple[Any, str]] = [
    (7, "files: 7 is not a list of files; each file must be a path"),
    (b"report.pdf", "files: b'report.pdf' is not a list of files; each file must be a path"),
    ({"report.pdf": "x"}, "is not a list of files; each file must be a path"),
    (["report.pdf", 7], r"files\[1\]: 7 is not a path"),
    ([b"report.pdf"], r"files\[0\]: b'report.pdf' is not a path"),
    ([None], r"files\[0\]: None is not a path"),
    ([io.StringIO("x")], "is open in text mode; open it in binary mode"),
    ([("", io.BytesIO(b"x"), 7)], r"files\[0\]: .* is not a path"),
    ([("../x", io.BytesIO(b"x"))], r"files\[0\]: '../x'"),
    ([(7, io.BytesIO(b"x"))], r"files\[0\]: 7 is not a text"),
    ([""], "is empty"),
    ([FileStorage(io.BytesIO(), "")], r"files\[0\]: the upload is empty, because the user chose"),
    (["a\0b/c"], "contains a NUL character"),
]


@pytest.mark.one_database
def test_a_value_that_is_not_a_file_is_refused_before_minting(app: Flask) -> None:
    archive = archive_of(app)
    for files, reason in NO_FILES:
        with pytest.raises(StorageError) as refused:
            archive.deposit(ItemRecord(), files)
        assert re.search(reason, str(refused.value)), (files, refused.value)
        assert "\n" not in str(refused.value), files
    assert dates(archive) == 0


@pytest.mark.one_database
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
    ({"metadata": {"title": "x"}}, "metadata.title: this field is unknown"),
    ({"language": 7}, "language: 7 is not a text"),
    ({"language": [], "translations": {"pt": "farZ/1"}}, "language"),
    ({"translations": ["pt"], "language": "pt"}, "translations"),
    ({"titel": "A"}, "^titel: this field is unknown; did you mean title\\?$"),
    ({"rep": "farZ/1"}, "^rep: this field is unknown; the known fields are title, creators, "),
    ({"state": "Copy"}, "^state: 'Copy' is not Original, the state of a new item"),
    ({"title": 7}, "^title: 7 is not a text or a list of texts$"),
    (Record(), "is not an ItemRecord, such as ItemRecord"),
    (7, "record: 7 is not an ItemRecord, such as ItemRecord"),
]


@pytest.mark.one_database
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


def test_metadata_as_json_has_them_are_kept(app: Flask) -> None:
    archive = archive_of(app)
    record = ItemRecord(metadata={"dc": {"title": ["A report"]}})
    view = archive.get(archive.deposit(record).rep)
    assert view is not None
    assert view.record.metadata == DublinCoreMetadata({"title": (("A report", None),)})
    archive.attach_metadata(view.record.rep or "", {"dc": {"title": "Another"}})


def dates(archive: Archive) -> int:
    """Return the number of prefixes with which identifiers were minted."""
    with archive.database.reading() as connection:
        return int(connection.execute(text("SELECT count(*) FROM ibi_prefix")).scalar_one())
