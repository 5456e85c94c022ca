"""Deposits: the files are stored first, then an identifier is minted, then the item is stored."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text
from support.archives import SERVICE, import_records
from support.operations import record_of, view_of
from werkzeug.datastructures import FileStorage

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import StorageError


def no_date_is_used(archive: Archive) -> bool:
    """Return whether no identifier was minted."""
    with archive.database.reading() as connection:
        return connection.scalar(text("SELECT count(*) FROM ibi_prefix")) == 0


def names_of(archive: Archive, ibi: str) -> list[str]:
    """Return the names of an item's files."""
    return [file.path for file in record_of(archive, ibi).files]


def test_the_first_file_is_the_target(archive: Archive, tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    item = archive.deposit(ItemRecord(), [tmp_path / "b.txt", tmp_path / "a.txt"])
    view = view_of(archive, item.rep)
    assert (names_of(archive, item.rep), view.record.target_path) == (["b.txt", "a.txt"], "b.txt")
    assert view.sizes == {"b.txt": 5, "a.txt": 5}
    for file in view.record.files:
        assert file.sha256 == hashlib.sha256(file.path.encode()).hexdigest()
        assert archive.files_folder.path(file.sha256).read_text() == file.path


@pytest.mark.only_on("postgresql")
def test_dates_do_not_depend_on_the_style_of_the_database(uri: str, archive: Archive) -> None:
    name = make_url(uri).database
    with archive.database.writing() as connection:
        connection.execute(text(f"ALTER DATABASE \"{name}\" SET DateStyle = 'German, DMY'"))
    archive.database.close()  # the setting is for new sessions
    record = record_of(archive, archive.deposit(embargo="2030-02-01").rep)
    assert record.embargo == date(2030, 2, 1)
    assert record.timestamp is not None


#: Values that are not files, and the error message (a pattern).
NO_FILES: list[tuple[Any, str]] = [
    (7, "files: 7 is not a list of files; each file must be a path"),
    (["report.pdf", 7], r"files\[1\]: 7 is not a path"),
    ([io.StringIO("x")], "must be open in binary mode"),
    ([("../x", io.BytesIO(b"x"))], r"files\[0\]: '../x'"),
    ([FileStorage(io.BytesIO(), "")], r"files\[0\]: the upload is empty, because the user chose"),
    (["a\0b/c"], "can't be read: embedded null byte"),
]


def test_a_file_that_cannot_be_read_mints_nothing(archive: Archive, tmp_path: Path) -> None:
    good, folder = tmp_path / "good.txt", tmp_path / "x"
    good.write_text("good")
    folder.mkdir()
    (folder / "good.txt").write_text("other")
    written = (tmp_path / "new").open("wb")
    closed = (tmp_path / "closed").open("wb")
    closed.close()
    with written:
        for files, reason in (
            *NO_FILES,
            ([good, tmp_path / "no.txt"], "No such file"),
            ([good, folder], "a directory"),
            ([good, folder / "good.txt"], "two files are named good.txt"),
            (written, r"files\[0\]: .*must be open in binary mode"),
            (closed, r"files\[0\]: .*must be open in binary mode"),
        ):
            with pytest.raises(StorageError) as refused:
                archive.deposit(ItemRecord(), files)
            assert re.search(reason, str(refused.value)), (files, refused.value)
            assert "\n" not in str(refused.value), files
    assert no_date_is_used(archive)
    assert list(archive.find()) == []


#: Wrong records, and the error message (a pattern).
WRONG_RECORDS: list[tuple[Any, str]] = [
    ({"metadata": "A title"}, "the new item: metadata: 'A title' is not an object such as"),
    ({"language": 7}, "language: 7 is not a text"),
    ({"titel": "A"}, "^titel: this field is unknown; did you mean title\\?$"),
    ({"rep": "farZ/1"}, "^rep: this field is unknown; the known fields are title, creators, "),
    ({"state": "Copy"}, "^state: 'Copy' is not Original, the state of a new item"),
    ({"title": 7}, "^title: 7 is not a text or a list of texts$"),
    ({"creators": ["Silva, Ana", 1]}, r"creators\[1\]: 1 is not a text"),
    ({"title": "A", "metadata": {"subject": "ice"}}, "no key dc, work, ibi or url; write "),
    ({"metadata": {"dc": {"title": ["a"]}}, "type": "tese"}, "metadata: .* have the field type"),
    ({"metadata": {"work": "x"}, "title": "a"}, "metadata.work: 'x' is not an object"),
    ({"title": "a", "titles": ["b"]}, "title: the field titles contains the title too"),
    ({"type": "tese"}, "titles: the field is missing"),
    ({"title": "a", "contributors": [{"name": "x", "role": "boss"}]}, r"\[0\].role: "),
    ({"key": "é" * 513}, "key: the key is longer than 1024 bytes"),
    ({"same_as": ["doi:10.5281/zenodo.12", ""]}, r"same_as\[1\]: "),
    (Record(), "is not an ItemRecord, such as ItemRecord"),
]


def test_a_record_that_is_wrong_is_refused_before_an_identifier_is_minted(archive: Archive) -> None:
    for record, reason in WRONG_RECORDS:
        for attempt in (archive.deposit, partial(archive.new_edition, SERVICE)):
            with pytest.raises(StorageError) as refused:
                attempt(record)
            assert re.search(reason, str(refused.value)), (record, refused.value)
            assert "\n" not in str(refused.value), record
        with pytest.raises(StorageError):
            archive.add_translation(SERVICE, record)
    assert no_date_is_used(archive)


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


@pytest.mark.postgresql
def test_a_new_item_replaces_a_stub_that_another_process_has_just_stored(archive: Archive) -> None:
    expected = archive.minter.build(Fraction(1_790_000_100))
    earlier = {"rep": "a.br/b/2001/01.01.00.00", "next_edition": expected.rep}
    # the item is stored when the date of its identifier has come
    wait_with(archive, lambda: import_records(archive, [earlier]))
    assert expected.rep.endswith("/2026/09.21.14.15")
    assert archive.deposit(ItemRecord(title="The next edition")) == expected
    assert view_of(archive, expected.ibip).title == "The next edition"
    assert record_of(archive, earlier["rep"]).next_edition == expected.rep
