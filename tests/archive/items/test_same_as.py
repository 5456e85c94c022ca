"""Identifiers of other systems, former addresses and keys of hosts: each leads to one item."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, update
from support.archives import archive_of, import_records
from support.commands import command, show
from support.operations import SECOND, make_archives, record_of
from support.stores import rep_of
from support.web import ask

from flask_ibi_archive import signals
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import RecordError, StorageError

A, B, C = (rep_of(number) for number in range(3))
DOI, HANDLE, ARK = "doi:10.5281/Zenodo.12", "hdl:20.500.12345/678", "ark:12345/x54xz321"
URN, ADDRESS = "urn:nbn:br:bn-1", "http://old.example.org/handle/1/2?x=y"
ALL = (DOI, HANDLE, ARK, URN, ADDRESS)
#: Other spellings of the same.
SPELLINGS = (
    "https://doi.org/10.5281/zenodo.12",
    "http://hdl.handle.net/20.500.12345/678",
    "https://n2t.net/ark:/12345/x5-4xz-321",
    "URN:NBN:BR:bn-1",
    "https://OLD.example.org:443/handle/1/2?x=y",
)
TAKEN = "another item of this Archive already has one of the aliases"
OLD = datetime(2001, 1, 1, tzinfo=timezone.utc)


def item(rep: str, *same_as: str, **fields: Any) -> dict[str, Any]:
    """Return a record."""
    return {"rep": rep, "same_as": [*same_as], "timestamp": "2001-01-01T00:00:00Z", **fields}


def find(archive: Archive, *texts: str) -> str | None:
    """Return the identifier of the item that has one of the aliases."""
    with archive.database.reading() as connection:
        found = archive.items.find_by_alias(connection, [*map(parse_foreign, texts)])
    return None if found is None else found[1]


# --- an alias belongs to one item ----------------------------------------------------------------


def test_an_item_is_found_by_every_spelling(archive: Archive) -> None:
    first = archive.deposit(title="A", same_as=[*ALL])
    assert record_of(archive, first.rep).same_as == ALL
    for text in (*ALL, *SPELLINGS):
        assert find(archive, text) == first.ibip
    assert find(archive, "doi:10.5281/zenodo.13", "ark:12345/X54xz321") is None
    # the first of several counts
    second = archive.deposit(same_as=["hdl:1/2"])
    assert find(archive, "hdl:1/3", "hdl:1/2", DOI) == second.ibip
    assert find(archive, DOI, "hdl:1/2") == first.ibip


@pytest.mark.rule("FI-2")
@pytest.mark.postgresql
def test_an_alias_belongs_to_one_item(archive: Archive) -> None:
    first, second = archive.deposit(same_as=[DOI]), archive.deposit()
    for change in (
        lambda: archive.deposit(same_as=[SPELLINGS[0]]),
        lambda: archive.edit(second.ibi, same_as=[HANDLE, SPELLINGS[0]]),
    ):
        with pytest.raises(StorageError) as refused:
            change()
        assert str(refused.value) == f"same_as: {TAKEN}"
    assert record_of(archive, second.ibi).same_as == ()
    archive.edit(first.ibi, same_as=[])
    archive.edit(second.ibi, same_as=[DOI])
    assert find(archive, DOI) == second.ibip
    # it goes with the row of its item
    with archive.database.writing() as connection:
        connection.execute(delete(Item).where(Item.rep == second.rep))
    assert find(archive, DOI) is None
    assert archive.deposit(same_as=[DOI])


@pytest.mark.parametrize("keep_copy", [True, False])
def test_aliases_move_with_the_item(new_app: Callable[..., Flask], keep_copy: bool) -> None:
    first, second, *_ = make_archives(new_app, 3)
    minted = first.deposit(same_as=[DOI, HANDLE])
    first.make_copy(minted.ibi, SECOND)
    assert record_of(second, minted.ibi).same_as == (DOI, HANDLE)
    first.edit(minted.ibi, same_as=[HANDLE])
    first.make_copy(minted.ibi, SECOND)  # an alias that the Original has lost is lost
    assert record_of(second, minted.ibi).same_as == (HANDLE,)
    first.transfer(minted.ibi, SECOND, keep_copy=keep_copy)
    second.edit(minted.ibi, same_as=[HANDLE, ARK])
    assert find(first, HANDLE) == find(second, HANDLE) == find(second, ARK) == minted.ibip
    assert find(first, ARK) is None
    # a copy can't take an alias of another item
    other = first.deposit(same_as=[ARK])
    for move in (first.make_copy, first.transfer):
        with pytest.raises(StorageError, match=TAKEN):
            move(other.ibi, SECOND)
    assert second.get(other.ibi) is None
    assert find(first, ARK) == other.ibip


# --- import and export ---------------------------------------------------------------------------


def test_an_import_names_line_and_field(archive: Archive) -> None:
    for records, line, message in [
        # of an earlier line, of an item of the Archive, twice, and none
        ([item(B, ARK), item(C, URN, ARK)], 2, f"same_as: {TAKEN}"),
        ([item(B), item(C, DOI)], 2, f"same_as: {TAKEN}"),
        ([item(B, HANDLE, HANDLE)], 1, f"same_as[1]: '{HANDLE}' is already"),
        ([item(B), item(C, "rain")], 2, "same_as[0]: 'rain' is not a foreign identifier"),
    ]:
        import_records(archive, [item(A, DOI)], on_conflict="skip")
        for on_conflict in ("error", "skip", "update"):
            with pytest.raises(RecordError) as refused:
                import_records(archive, records, on_conflict=on_conflict)
            assert refused.value.line == line
            assert f"line {line}, {message}" in str(refused.value)
        assert archive.get(B) is None


def test_an_update_keeps_the_aliases_that_the_item_has(archive: Archive) -> None:
    """A file of another system does not know which old links the Archive keeps."""
    import_records(archive, [item(A, DOI, HANDLE), item(B, ARK)])
    import_records(archive, [item(A, URN, SPELLINGS[1]), item(B)], on_conflict="update")
    assert record_of(archive, A).same_as == (URN, HANDLE, DOI)
    assert record_of(archive, B).same_as == (ARK,)
    with pytest.raises(RecordError, match=f"line 1, same_as: {TAKEN}"):
        import_records(archive, [item(A, ARK)], on_conflict="update")


# --- the commands --------------------------------------------------------------------------------


def run(app: Flask, *words: Any) -> Any:
    return command(app, "alias", *words)


@pytest.mark.rule("FI-6")
def test_the_commands_add_list_and_remove(app: Flask) -> None:
    archive = archive_of(app)
    import_records(archive, [item(A), item(B)])
    with archive.database.writing() as connection:
        connection.execute(update(Item).values(timestamp=OLD))
    changed: list[Any] = []

    def receive(sender: object, **values: Any) -> None:
        is_later = record_of(archive, values["rep"]).timestamp > OLD  # type: ignore[operator]
        changed.append((values["rep"], values["fields"], is_later))

    signals.item_changed.connect(receive)  # until the end of the function
    assert run(app, "add", A, DOI, SPELLINGS[1]).lines == ["added 2, unchanged 0"]
    words = (f"http://urlib.net/{A}", HANDLE, ADDRESS)
    assert run(app, "add", *words).lines == ["added 1, unchanged 1"]
    run(app, "add", B, "http://old.example.org/a,b")
    listed = ["identifier\talias", *(f"{A}\t{text}" for text in (DOI, HANDLE, ADDRESS))]
    assert run(app, "list", A).lines == listed
    assert run(app, "list").lines == [*listed, f"{B}\thttp://old.example.org/a,b"]
    assert json.loads(run(app, "list", B, "--json").data) == [
        {"identifier": B, "alias": "http://old.example.org/a,b"}
    ]
    assert run(app, "remove", A.upper(), SPELLINGS[0], HANDLE).lines == ["removed 2"]
    assert record_of(archive, A).same_as == (ADDRESS,)
    assert run(app, "add", B, DOI).lines == ["added 1, unchanged 0"]
    # a change of the aliases is a change of the item
    assert changed == [(ibi, ("same_as",), True) for ibi in (A, A, B, A, B)]


@pytest.mark.rule("FI-5")
def test_the_pages_of_an_item_show_them(app: Flask) -> None:
    import_records(archive_of(app), [item(A, *ALL, metadata={"dc": {"title": ["x"]}})])

    def check(status: int) -> None:
        page = ask(app, f"/col/{A}/")
        assert page.status == status
        assert "The same item in other systems" in page.text
        # the landing page calls the first DOI that of the work
        doi = DOI.removeprefix("doi:") if status == 200 else DOI
        for text, shown in ((DOI, doi), (HANDLE, HANDLE), (ARK, ARK)):
            assert f'<a href="{parse_foreign(text).url}">{shown}</a>' in page.text
        for text in (URN, ADDRESS):
            assert f"<code>{text}</code>" in page.text

    check(200)
    archive_of(app).delete(A, "wrong")
    check(410)


# --- keys of hosts: the same key leads to the same item ------------------------------------------

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


@pytest.mark.postgresql
def test_processes_that_deposit_the_same_key_get_the_same_item(archive: Archive) -> None:
    with ThreadPoolExecutor(6) as threads:
        minted = threads.map(lambda title: archive.deposit(key=KEY, title=title), "ABCDEFGHIJKL")
    assert len({one.ibi for one in minted}) == 1
    assert len(list(archive.find())) == 1


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
    line = {"rep": "sid.inpe.br/a/2024/01.01.00.00", "key": KEY}
    path.write_text(json.dumps(line))
    error = command(app, "import", str(path)).error
    assert "line 1, key: another item of this Archive already has this key" in error
