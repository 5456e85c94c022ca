"""Operations on items, one by one: the state of the database after each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from msgspec.structs import replace
from support.archives import SERVICE, import_records
from support.operations import (
    DUBLIN_CORE,
    SECOND,
    contents_of,
    dump,
    editions_of,
    group_of,
    make_archives,
    record_of,
)

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.record import (
    AccessRule,
    MetadataAddress,
    MetadataItem,
    Tombstone,
)
from flask_ibi_archive.errors import RuleBroken, StorageError, UnknownItem

OUTSIDE = "a.br/x/2000/01.01.00.00"


@pytest.fixture
def archives(new_app: Callable[..., Flask]) -> list[Archive]:
    return make_archives(new_app, 3)


def write(folder: Path, name: str, content: str) -> Path:
    """Write a file."""
    (folder / name).write_text(content)
    return folder / name


def sha256(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def age(archive: Archive) -> None:
    """Set the timestamps of all items to an old date."""
    moment = "2001-01-01 00:00:00"
    if archive.database.engine.dialect.name == "postgresql":
        moment += "+00:00"
    with archive.database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE ibi_item SET timestamp = '{moment}'")


# --- editions ------------------------------------------------------------------------------------


def test_an_item_that_has_a_next_edition_names_the_last_one(archive: Archive) -> None:
    first = archive.deposit(ItemRecord())
    second = archive.new_edition(first.rep, ItemRecord())
    third = archive.new_edition(second.rep, ItemRecord())
    with pytest.raises(RuleBroken, match=third.rep) as refusal:
        archive.new_edition(first.rep, ItemRecord())
    assert refusal.value.rule == 7


# --- translations --------------------------------------------------------------------------------


def test_a_translation_joins_the_group_of_any_named_member(archive: Archive) -> None:
    english = archive.deposit(ItemRecord(language="en"))
    portuguese = archive.add_translation(english.rep, ItemRecord(language="pt"))
    french = archive.add_translation(portuguese.ibip, ItemRecord(language="fr"))
    everybody = {("en", english.rep), ("pt", portuguese.rep), ("fr", french.rep)}
    assert group_of(archive, portuguese.rep) == everybody
    with pytest.raises(RuleBroken, match=portuguese.rep) as refusal:
        archive.add_translation(french.rep, ItemRecord(language="pt"))
    assert refusal.value.rule == 8
    assert group_of(archive, french.rep) == everybody


# --- edits ---------------------------------------------------------------------------------------


def test_an_edit_changes_only_the_named_fields(archive: Archive, tmp_path: Path) -> None:
    files = [write(tmp_path, name, name) for name in ("a.txt", "b.txt")]
    changes: dict[str, Any]
    for number, changes in enumerate(
        [
            {"language": "pt-BR"},
            {"transferable": False},
            {"next_edition": OUTSIDE},
            {"translations": {"pt": OUTSIDE}},
            {"metadata": DUBLIN_CORE},
            {"metadata": MetadataItem(OUTSIDE)},
            {"metadata": MetadataAddress("https://a.br/m")},
            {"content_type": "Metadata", "formats": {"oai_dc": "https://a.br/dc"}},
            {"target_file": "b.txt"},
            {"list_files": False},
            {"access": AccessRule(("150.163.0.0/16",), "none")},
            {"aliases": ("kLwpN6zZ/kfnE",)},
        ]
    ):
        item = archive.deposit(ItemRecord(), files)
        age(archive)
        before = record_of(archive, item.rep)
        archive.edit(item.rep, **changes)
        after = record_of(archive, item.ibip)
        assert after == replace(before, timestamp=after.timestamp, **changes), (number, changes)
        assert after.timestamp is not None
        assert after.timestamp.year > 2001, changes


@pytest.mark.postgresql
def test_an_edit_of_any_member_preserves_the_group(archive: Archive) -> None:
    english = archive.deposit(ItemRecord(language="en"))
    portuguese = archive.add_translation(english.rep, ItemRecord(language="pt"))
    import_records(
        archive, [{"rep": "b.br/x/2001/01.01.00.00", "translations": {"en": english.rep}}]
    )
    everybody = group_of(archive, english.rep)
    assert len(everybody) == 3
    for ibi in (english.rep, portuguese.rep, "b.br/x/2001/01.01.00.00"):
        archive.edit(ibi, list_files=False)
        assert group_of(archive, english.rep) == everybody
    archive.edit(portuguese.rep, language="pt-BR")
    assert group_of(archive, english.rep) == {
        (language if language != "pt" else "pt-BR", ibi) for language, ibi in everybody
    }


def test_files_are_replaced(archive: Archive, tmp_path: Path) -> None:
    item = archive.deposit(ItemRecord(), [write(tmp_path, n, n) for n in ("a.txt", "b.txt")])
    write(tmp_path, "a.txt", "new")
    new = [write(tmp_path, "c.txt", "c"), tmp_path / "a.txt"]
    archive.edit(item.rep, files=new, target_file="a.txt")
    record = record_of(archive, item.rep)
    assert contents_of(record) == [("c.txt", sha256("c")), ("a.txt", sha256("new"))]
    assert record.target_path == "a.txt"
    assert archive.files_folder.path(sha256("new")).read_text() == "new"
    archive.edit(item.rep, metadata=DUBLIN_CORE)
    assert contents_of(record_of(archive, item.rep)) == contents_of(record)
    archive.edit(item.rep, files=[])
    assert record_of(archive, item.rep).files == ()


# --- removal -------------------------------------------------------------------------------------


def test_a_tombstone_has_reason_citation_successor_and_place(
    archive: Archive, tmp_path: Path
) -> None:
    first = archive.deposit(
        ItemRecord(language="en", metadata=DUBLIN_CORE, access=AccessRule(("10.0.0.0/8",))),
        [write(tmp_path, "a.txt", "a")],
    )
    second = archive.new_edition(first.rep, ItemRecord())
    before = record_of(archive, first.rep)
    archive.delete(
        first.ibip.lower(), "a mistake", citation="Banon, 2009", successor=second.rep.upper()
    )
    record = record_of(archive, first.rep)
    assert record.tombstone == Tombstone("a mistake", "Banon, 2009", second.rep)
    assert record.tombstone.original_archive is None
    assert (record.state, record.files, record.target_file) == ("Deleted", (), None)
    assert (record.metadata, record.access) == (before.metadata, before.access)
    assert record.next_edition == second.rep
    assert archive.files_folder.path(sha256("a")).exists()


def test_the_tombstone_of_a_copy_names_the_archive_of_the_original(
    archives: list[Archive],
) -> None:
    first, second, _ = archives
    item = first.deposit(ItemRecord())
    first.make_copy(item.rep, SECOND)
    second.delete(item.rep, "no room")
    assert record_of(second, item.rep).tombstone == Tombstone("no room", original_archive=SERVICE)
    first.make_copy(item.rep, SECOND)
    assert record_of(second, item.rep).tombstone is None


def test_the_other_members_of_a_group_remain_after_a_deletion(archive: Archive) -> None:
    english = archive.deposit(ItemRecord(language="en"))
    portuguese = archive.add_translation(english.rep, ItemRecord(language="pt"))
    french = archive.add_translation(english.rep, ItemRecord(language="fr"))
    archive.delete(english.rep, "gone")
    assert group_of(archive, french.rep) == {("pt", portuguese.rep), ("fr", french.rep)}
    exported = [item.record.translations for item in archive.find()]
    assert {"fr": french.rep} in exported
    archive.delete(portuguese.rep, "gone")
    assert group_of(archive, french.rep) == set()


# --- copies --------------------------------------------------------------------------------------


def test_a_copy_says_all_that_its_original_says(archives: list[Archive], tmp_path: Path) -> None:
    from msgspec.structs import replace

    first, second, _ = archives
    head = first.deposit(ItemRecord(language="en"))
    item = first.add_translation(
        head.rep,
        ItemRecord(
            language="pt",
            aliases=("kLwpN6zZ/kfnE",),
            metadata=DUBLIN_CORE,
            next_edition=OUTSIDE,
            access=AccessRule(("10.0.0.0/8",)),
            target_file="b.txt",
        ),
        [write(tmp_path, name, name) for name in ("a.txt", "b.txt")],
    )
    age(first)
    first.make_copy(item.ibip, SECOND.upper())
    original, copy = record_of(first, item.rep), record_of(second, item.ibip)
    assert copy == replace(
        original, state="Copy", original_archive=SERVICE, translations={"en": head.rep}
    )
    assert group_of(second, item.rep) == group_of(first, item.rep)


@pytest.mark.rule("R3-10")
def test_an_update_makes_a_copy_equal_to_its_original(
    archives: list[Archive], tmp_path: Path
) -> None:
    first, second, _ = archives
    item = first.deposit(
        ItemRecord(
            language="en",
            metadata=DUBLIN_CORE,
            next_edition=OUTSIDE,
            translations={"pt": "a.br/x/2000/01.01.00.01"},
        ),
        [write(tmp_path, "a.txt", "a")],
    )
    second.make_copy(item.rep)
    first.edit(item.rep, next_edition=None, translations={}, metadata=None, language="fr")
    first.edit(item.rep, files=[write(tmp_path, "b.txt", "b")])
    second.make_copy(item.rep)
    copy = record_of(second, item.rep)
    assert (copy.next_edition, dict(copy.translations), copy.metadata) == (None, {}, None)
    assert (copy.language, contents_of(copy)) == ("fr", [("b.txt", sha256("b"))])
    # the stubs were deleted with the items that referred to them
    assert len(dump(first.database)["ibi_item"]) == 5


def test_a_translation_added_to_a_copy_stays_when_it_is_refreshed(
    archives: list[Archive],
) -> None:
    first, second, _ = archives
    item = first.deposit(ItemRecord(language="en"))
    second.make_copy(item.rep)
    here = second.add_translation(item.rep, ItemRecord(language="pt"))
    there = first.add_translation(item.rep, ItemRecord(language="fr"))
    second.make_copy(item.rep)
    assert group_of(second, item.rep) == {
        ("en", item.rep),
        ("pt", here.rep),
        ("fr", there.rep),
    }


# --- transfers -----------------------------------------------------------------------------------


@pytest.mark.rule("R3-09")
@pytest.mark.postgresql
@pytest.mark.parametrize("there", ["nothing", "stub", "copy", "tombstone"])
def test_a_transfer_leaves_one_original_at_the_new_place(
    archives: list[Archive], tmp_path: Path, there: str
) -> None:
    check_transfer(archives, tmp_path, there, alias="kLwpN6zZ/kfnE", keep_copy=False)
    check_transfer(archives, tmp_path, there, alias="kLwpN6zZ/kfnF", keep_copy=True)


def check_transfer(
    archives: list[Archive], tmp_path: Path, there: str, alias: str, keep_copy: bool
) -> None:
    first, second, third = archives
    item = first.deposit(
        ItemRecord(language="en", metadata=DUBLIN_CORE, aliases=(alias,)),
        [write(tmp_path, "a.txt", "a")],
    )
    portuguese = first.add_translation(item.rep, ItemRecord(language="pt"))
    following = first.new_edition(item.rep, ItemRecord())
    third.make_copy(item.rep)
    if there == "stub":
        second.deposit(ItemRecord(next_edition=item.ibip))
    elif there != "nothing":
        second.make_copy(item.rep)
    if there == "tombstone":
        second.delete(item.rep, "no room")
    before = record_of(first, item.rep)
    first.transfer(item.ibip, SECOND, keep_copy=keep_copy)
    moved, left, copy = (record_of(one, item.rep) for one in (second, first, third))
    assert (moved.state, moved.rep, moved.ibip, moved.aliases) == (
        "Original",
        item.rep,
        item.ibip,
        (alias,),
    )
    assert (moved.metadata, contents_of(moved)) == (DUBLIN_CORE, [("a.txt", sha256("a"))])
    assert moved.next_edition == following.rep
    assert moved.timestamp == before.timestamp
    assert group_of(second, item.rep) == {("en", item.rep), ("pt", portuguese.rep)}
    assert (copy.state, copy.original_archive) == ("Copy", SECOND)
    if keep_copy:
        assert (left.state, left.original_archive) == ("Copy", SECOND)
        assert group_of(first, item.rep) == {("en", item.rep), ("pt", portuguese.rep)}
    else:
        assert left.tombstone is not None
        assert (left.state, left.tombstone.reason) == ("Deleted", f"transferred to {SECOND}")
        assert left.tombstone.original_archive == SECOND
    assert left.next_edition == following.rep


# --- reservations --------------------------------------------------------------------------------


def test_a_reserved_identifier_is_used_once(archive: Archive) -> None:
    held = archive.reserve("my thesis")
    assert [(one.rep, one.ibip, one.status, one.note) for one in archive.reservations()] == [
        (held.rep, held.ibip, "held", "my thesis")
    ]
    assert archive.deposit(ItemRecord(), reserved=held.ibip.lower()) == held
    assert record_of(archive, held.rep).ibip == held.ibip
    [reservation] = archive.reservations()
    assert reservation.status == "used"
    assert reservation.settled_at is not None
    with pytest.raises(StorageError, match="already used"):
        archive.deposit(ItemRecord(), reserved=held.rep)
    with pytest.raises(StorageError, match="already used"):
        archive.release(held.rep)


def test_a_deposit_with_a_reserved_identifier_replaces_its_stub(
    archive: Archive,
) -> None:
    held = archive.reserve()
    first = archive.deposit(ItemRecord(next_edition=held.ibip))
    archive.deposit(ItemRecord(), reserved=held.rep)
    assert editions_of(archive, first.rep) == [first.rep, held.rep]


def test_an_import_cannot_use_a_reserved_identifier(archive: Archive) -> None:
    held = archive.reserve()
    before = dump(archive.database)
    with pytest.raises(StorageError, match="reserved for a draft"):
        import_records(archive, [{"ibip": held.ibip}])
    assert dump(archive.database) == before


def test_a_reservation_serves_its_own_archive(archives: list[Archive]) -> None:
    held = archives[0].reserve()
    with pytest.raises(StorageError, match="another Archive"):
        archives[1].deposit(ItemRecord(), reserved=held.rep)


# --- refusals ------------------------------------------------------------------------------------

REFUSALS: dict[str, tuple[type[StorageError], Callable[[list[Archive], Any], object]]] = {
    "deposit with identifiers": (
        StorageError,
        lambda a, i: a[0].deposit(ItemRecord(rep=OUTSIDE)),
    ),
    "deposit with a wrong field": (
        StorageError,
        lambda a, i: a[0].deposit(ItemRecord(language="xxx")),
    ),
    "deposit with a held identifier and a broken rule": (
        RuleBroken,
        lambda a, i: a[0].deposit(
            ItemRecord(language="pt", translations={"en": i["pt"]}), reserved=i["held"]
        ),
    ),
    "edition of the service": (RuleBroken, lambda a, i: a[0].new_edition(SERVICE, i["new"])),
    "edit of the service": (RuleBroken, lambda a, i: a[0].edit(SERVICE, language="fr")),
    "edit of a stub": (UnknownItem, lambda a, i: a[0].edit(i["stub"], language="fr")),
    "edit of a member that would state no language": (
        RuleBroken,
        lambda a, i: a[0].edit(i["pt"], language=None),
    ),
    "edit that takes an alias away": (RuleBroken, lambda a, i: a[0].edit(i["item"], aliases=())),
    "edit that takes a held identifier": (
        RuleBroken,
        lambda a, i: a[0].edit(i["item"], aliases=("kLwpN6zZ/kfnE", i["held"])),
    ),
    "copy to the same archive": (RuleBroken, lambda a, i: a[0].make_copy(i["item"], SERVICE)),
    "copy of what is removed everywhere": (RuleBroken, lambda a, i: a[0].make_copy(i["gone"])),
    "copy of the service": (RuleBroken, lambda a, i: a[0].make_copy(SERVICE, SECOND)),
    "transfer of the service": (RuleBroken, lambda a, i: a[0].transfer(SERVICE, SECOND)),
    "transfer to an archive that is not there": (
        StorageError,
        lambda a, i: a[0].transfer(i["item"], OUTSIDE),
    ),
    "transfer that breaks a chain there": (
        RuleBroken,
        lambda a, i: a[0].transfer(i["before"], SECOND),
    ),
    "removal of the service": (RuleBroken, lambda a, i: a[0].delete(SERVICE, "x")),
    "transfer of what is not transferable": (
        StorageError,
        lambda a, i: a[0].transfer(i["fixed"], SECOND),
    ),
    "removal without a reason": (StorageError, lambda a, i: a[0].delete(i["pt"], "")),
    "removal in favour of itself": (
        StorageError,
        lambda a, i: a[0].delete(i["pt"], "x", successor=i["pt"]),
    ),
}


@pytest.fixture
def inhabited(archives: list[Archive]) -> tuple[list[Archive], dict[str, Any]]:
    """Three Archives with an item of each kind."""
    first, second, _ = archives
    item = first.deposit(
        ItemRecord(
            language="en", aliases=("kLwpN6zZ/kfnE",), metadata=MetadataItem(OUTSIDE + ".07")
        )
    )
    portuguese = first.add_translation(item.rep, ItemRecord(language="pt"))
    edition = first.new_edition(item.rep, ItemRecord())
    gone = first.deposit(ItemRecord())
    first.delete(gone.rep, "gone")
    second.make_copy(item.rep)
    before = first.deposit(ItemRecord(next_edition=edition.rep.replace("m0", "m9")))
    second.deposit(ItemRecord(next_edition=edition.rep.replace("m0", "m9")))
    return archives, {
        "item": item.rep,
        "pt": portuguese.rep,
        "second": edition.rep,
        "gone": gone.rep,
        "before": before.rep,
        "held": first.reserve().rep,
        "fixed": first.deposit(ItemRecord(transferable=False)).rep,
        "stub": OUTSIDE + ".07",
        "new": ItemRecord(),
    }


@pytest.mark.postgresql
def test_a_refused_operation_changes_nothing(
    inhabited: tuple[list[Archive], dict[str, Any]],
) -> None:
    archives, items = inhabited
    before = dump(archives[0].database)
    for name, (kind, operation) in REFUSALS.items():
        with pytest.raises(StorageError) as refusal:
            operation(archives, items)
        assert type(refusal.value) is kind, (name, refusal.value)
        assert "\n" not in str(refusal.value)
        assert dump(archives[0].database) == before, name


def test_a_field_that_can_not_be_edited_is_a_programming_error(archive: Archive) -> None:
    item = archive.deposit(ItemRecord())
    with pytest.raises(TypeError, match="state"):
        archive.edit(item.rep, state="Copy")
