"""Keys of hosts: the same key leads to the same item."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from support.archives import archive_of
from support.commands import command

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import StorageError

KEY = "package:1a68"


def test_the_same_key_is_the_same_item(archive: Archive, tmp_path: Path) -> None:
    assert archive.find_key(KEY) is None
    first = archive.deposit(key=KEY, title="Rain gauges")
    (tmp_path / "snow.csv").write_text("snow")
    again = archive.deposit(key=KEY, title="Snow", files=[tmp_path / "snow.csv"])
    assert (again.rep, again.ibip) == (first.rep, first.ibip)
    item = archive.find_key(KEY)
    assert item is not None
    assert (item.ibi, item.title, item.record.files) == (first.ibi, "Rain gauges", ())
    assert list(archive.files_folder.walk()) == []
    assert archive.deposit(title="Rain gauges").ibi != first.ibi
    assert archive.new_edition(first, key="package:2", title="Second").ibi != first.ibi
    assert archive.new_edition(first, key="package:2", title="Second").ibi != first.ibi


def test_an_edit_gives_and_takes_keys(archive: Archive) -> None:
    item, other = archive.deposit(title="Rain"), archive.deposit(key=KEY, title="Snow")
    with pytest.raises(StorageError, match="key: another item of this Archive already has"):
        archive.edit(item, key=KEY)
    archive.edit(other, key=None)
    archive.edit(item, key=KEY)
    found = archive.find_key(KEY)
    assert found is not None
    assert found.ibi == item.ibi


def test_a_new_item_gets_the_key_of_a_deleted_item(archive: Archive) -> None:
    first = archive.deposit(key=KEY, title="Rain")
    archive.delete(first, "withdrawn")
    tombstone = archive.find_key(KEY)
    assert tombstone is not None
    assert tombstone.record.state == "Deleted"
    second = archive.deposit(key=KEY, title="Rain")
    assert second.ibi != first.ibi
    found = archive.find_key(KEY)
    assert found is not None
    assert found.ibi == second.ibi
    assert archive.get(first).record.key is None  # type: ignore[union-attr]


def test_a_reserved_identifier_may_have_a_key(archive: Archive) -> None:
    draft, other = archive.reserve(), archive.reserve()
    assert archive.deposit(reserved=draft, key=KEY, title="Rain").ibi == draft.ibi
    assert archive.deposit(reserved=draft, key=KEY, title="Rain").ibi == draft.ibi
    with pytest.raises(StorageError, match=f"already has the key {KEY}; its identifier can't"):
        archive.deposit(reserved=other, key=KEY, title="Rain")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "the text is empty"),
        (7, "7 is not a text"),
        ("a\nb", "contains a control character"),
        ("é" * 513, "the key is longer than 1024 bytes"),
    ],
)
def test_wrong_keys_are_refused(archive: Archive, key: Any, reason: str) -> None:
    for operation in (lambda: archive.deposit(key=key, title="x"), lambda: archive.find_key(key)):
        with pytest.raises(StorageError, match=f"key: .*{reason}"):
            operation()


@pytest.mark.postgresql
def test_processes_that_deposit_the_same_key_get_the_same_item(archive: Archive) -> None:
    with ThreadPoolExecutor(6) as threads:
        minted = list(
            threads.map(lambda number: archive.deposit(key=KEY, title=str(number)), range(12))
        )
    assert len({one.ibi for one in minted}) == 1
    assert len(list(archive.find())) == 1


@pytest.mark.postgresql
def test_the_database_refuses_wrong_keys(archive: Archive) -> None:
    archive.deposit(key=KEY, title="a")
    other = archive.deposit(title="b").rep
    service = archive.served().rep
    for key, rep in ((KEY, other), ("", other), ("x", service)):
        statement = text("UPDATE ibi_item SET host_key = :key WHERE rep = :rep")
        with pytest.raises(IntegrityError), archive.database.writing() as connection:
            connection.execute(statement, {"key": key, "rep": rep})


def test_exports_imports_and_show_contain_the_key(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    minted = archive.deposit(key=KEY, title="Rain")
    assert json.loads(command(app, "show", minted.ibi, "--json").data)["key"] == KEY
    record = json.loads(command(app, "export", "-").data)
    assert record["key"] == KEY
    archive.edit(minted, key=None)
    path = tmp_path / "items.jsonl"
    path.write_text(json.dumps(record) + "\n")
    command(app, "import", str(path), "--on-conflict", "update")
    found = archive.find_key(KEY)
    assert found is not None
    assert found.ibi == minted.ibi
    # an older record without a key does not take the key
    path.write_text(json.dumps({**record, "key": None}) + "\n")
    command(app, "import", str(path), "--on-conflict", "update")
    assert archive.find_key(KEY) is not None
    lines = [{"rep": f"sid.inpe.br/a/2024/01.0{day}.00.00"} for day in (1, 2)]
    for key, owner in ((KEY, minted.ibi), ("package:2", lines[0]["rep"])):
        path.write_text("".join(json.dumps({**line, "key": key}) + "\n" for line in lines))
        error = command(app, "import", str(path)).error
        assert f"key: the item {owner} of the Archive already has the key" in error
