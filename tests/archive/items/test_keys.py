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
from support.commands import command, show
from support.operations import record_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import StorageError

KEY = "package:1a68"


def owner(archive: Archive, key: str) -> ItemView:
    """Return the item that has a key."""
    found = archive.find_key(key)
    assert found is not None
    return found


def test_the_same_key_is_the_same_item(archive: Archive, tmp_path: Path) -> None:
    assert archive.find_key(KEY) is None
    first = archive.deposit(key=KEY, title="Rain gauges")
    (tmp_path / "snow.csv").write_text("snow")
    again = archive.deposit(key=KEY, title="Snow", files=[tmp_path / "snow.csv"])
    assert (again.rep, again.ibip) == (first.rep, first.ibip)
    item = owner(archive, KEY)
    assert (item.ibi, item.title, item.record.files) == (first.ibi, "Rain gauges", ())
    assert list(archive.files_folder.walk()) == []
    assert archive.deposit(title="Rain gauges").ibi != first.ibi
    for _ in range(2):
        assert archive.new_edition(first, key="package:2", title="Second").ibi != first.ibi


def test_edits_and_deletions_take_keys_away(archive: Archive) -> None:
    item, other = archive.deposit(title="Rain"), archive.deposit(key=KEY, title="Snow")
    with pytest.raises(StorageError, match="key: another item of this Archive already has"):
        archive.edit(item, key=KEY)
    archive.edit(other, key=None)
    archive.edit(item, key=KEY)
    assert owner(archive, KEY).ibi == item.ibi
    archive.delete(item, "withdrawn")
    assert owner(archive, KEY).record.state == "Deleted"
    # a new item gets the key of a deleted item, also with a reserved identifier
    draft, unused = archive.reserve(), archive.reserve()
    for _ in range(2):
        assert archive.deposit(reserved=draft, key=KEY, title="Rain").ibi == draft.ibi
    assert owner(archive, KEY).ibi == draft.ibi
    assert record_of(archive, item.rep).key is None
    with pytest.raises(StorageError, match=f"already has the key {KEY}; its identifier can't"):
        archive.deposit(reserved=unused, key=KEY, title="Rain")


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
        minted = threads.map(lambda title: archive.deposit(key=KEY, title=title), "ABCDEFGHIJKL")
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
    archive, path = archive_of(app), tmp_path / "items.jsonl"
    minted = archive.deposit(key=KEY, title="Rain")
    assert show(app, minted.ibi)["key"] == KEY
    record = json.loads(command(app, "export", "-").data)
    assert record["key"] == KEY
    archive.edit(minted, key=None)
    # an older record without a key does not take the key
    for key in (KEY, None):
        path.write_text(json.dumps({**record, "key": key}) + "\n")
        command(app, "import", str(path), "--on-conflict", "update")
        assert owner(archive, KEY).ibi == minted.ibi
    lines = [{"rep": f"sid.inpe.br/a/2024/01.0{day}.00.00"} for day in (1, 2)]
    for key, ibi in ((KEY, minted.ibi), ("package:2", lines[0]["rep"])):
        path.write_text("".join(json.dumps({**line, "key": key}) + "\n" for line in lines))
        error = command(app, "import", str(path)).error
        assert f"key: the item {ibi} of the Archive already has the key" in error
