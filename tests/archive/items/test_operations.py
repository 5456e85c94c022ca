"""Operations on items, one by one: the state of the database after each, and refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from msgspec.structs import replace
from support.archives import SERVICE, import_records
from support.operations import (
    DUBLIN_CORE,
    SECOND,
    dump,
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
from flask_ibi_archive.errors import IBIError, RecordError, RuleBroken, StorageError, UnknownItem

OUTSIDE = "a.br/x/2000/01.01.00.00"
DESCRIPTION, NEXT = f"{OUTSIDE}.07", f"{OUTSIDE}.08"
ALIAS = "kLwpN6zZ/kfnE"


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


@pytest.mark.postgresql
def test_a_group_of_translations_has_the_members_that_are_not_deleted(archive: Archive) -> None:
    english = archive.deposit(ItemRecord(language="en"))
    portuguese = archive.add_translation(english.rep, ItemRecord(language="pt"))
    french = archive.add_translation(portuguese.ibip, ItemRecord(language="fr"))
    everybody = {("en", english.rep), ("pt", portuguese.rep), ("fr", french.rep)}
    assert group_of(archive, portuguese.rep) == everybody
    with pytest.raises(RuleBroken, match="each language") as refusal:
        archive.add_translation(french.rep, ItemRecord(language="pt"))
    assert refusal.value.rule == 8
    # an edit of any member preserves the group
    unstated = "b.br/x/2001/01.01.00.00"
    import_records(archive, [{"rep": unstated, "translations": {"en": english.rep}}])
    everybody.add((None, unstated))
    for ibi in (english.rep, portuguese.rep, unstated):
        archive.edit(ibi, list_files=False)
        assert group_of(archive, french.rep) == everybody
    archive.edit(portuguese.rep, language="pt-BR")
    everybody = {(None, unstated), ("pt-BR", portuguese.rep), ("fr", french.rep)}
    assert group_of(archive, portuguese.rep) == {("en", english.rep), *everybody}
    # the other members remain after a deletion
    archive.delete(english.rep, "gone")
    assert group_of(archive, french.rep) == everybody
    archive.delete(unstated, "gone")
    assert {"fr": french.rep} in [item.record.translations for item in archive.find()]
    archive.delete(portuguese.rep, "gone")
    assert group_of(archive, french.rep) == set()


def test_an_edit_changes_only_the_named_fields(archive: Archive, tmp_path: Path) -> None:
    files = [write(tmp_path, name, name) for name in ("a.txt", "b.txt")]
    changes: dict[str, Any]
    for number, changes in enumerate(
        [
            {"transferable": False},
            {"metadata": MetadataAddress("https://a.br/m")},
            {"content_type": "Metadata", "formats": {"oai_dc": "https://a.br/dc"}},
            {"aliases": (ALIAS,)},
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


# --- copies, transfers and reservations ----------------------------------------------------------


@pytest.mark.rule("R3-10")
def test_a_copy_says_all_that_its_original_says(archives: list[Archive], tmp_path: Path) -> None:
    first, second, _ = archives

    def check() -> None:
        original, copy = record_of(first, item.rep), record_of(second, item.ibip)
        translations = {"en": head.rep} if original.language == "pt" else copy.translations
        changed = {"original_archive": SERVICE, "translations": translations}
        assert copy == replace(original, state="Copy", **changed)

    head = first.deposit(language="en")
    item = first.add_translation(
        head.rep,
        language="pt",
        aliases=(ALIAS,),
        metadata=DUBLIN_CORE,
        next_edition=OUTSIDE,
        access=AccessRule(("10.0.0.0/8",)),
        target_file="b.txt",
        files=[write(tmp_path, name, name) for name in ("a.txt", "b.txt")],
    )
    age(first)
    first.make_copy(item.ibip, SECOND.upper())
    check()
    assert group_of(second, item.rep) == group_of(first, item.rep)
    # an update makes it equal again, and a translation that was added to the Copy stays
    here = second.add_translation(item.rep, language="fr")
    first.edit(item.rep, next_edition=None, metadata=None, language="pt-BR", target_file=None)
    first.edit(item.rep, files=[write(tmp_path, "b.txt", "new")])
    second.make_copy(item.rep)
    check()
    [file] = record_of(second, item.rep).files
    assert (file.path, file.sha256) == ("b.txt", sha256("new"))
    group = {("en", head.rep), ("pt-BR", item.rep)}
    assert (group_of(first, item.rep), group_of(second, item.rep)) == (
        group,
        group | {("fr", here.rep)},
    )
    # the tombstone of a copy names the Archive of the Original
    second.delete(item.rep, "no room")
    assert record_of(second, item.rep).tombstone == Tombstone("no room", original_archive=SERVICE)
    first.make_copy(item.rep, SECOND)
    assert record_of(second, item.rep).tombstone is None


# --- refusals ------------------------------------------------------------------------------------

NEW = ItemRecord()
UNCHOSEN = {"next_edition": SERVICE}, {"translations": {"ko": SERVICE}}


def portuguese(items: dict[str, str]) -> ItemRecord:
    """Return an item that has the same language as the translation that it names."""
    return ItemRecord(language="pt", translations={"en": items["pt"]})


#: The number of the broken rule or the type of the error, and an operation that is refused.
REFUSALS: list[tuple[int | type[StorageError], Callable[[Archive, dict[str, str]], object]]] = [
    (StorageError, lambda one, i: one.deposit(ItemRecord(rep=OUTSIDE))),
    (StorageError, lambda one, i: one.deposit(ItemRecord(language="xxx"))),
    (8, lambda one, i: one.deposit(portuguese(i), reserved=i["held"])),
    *((6, lambda one, i, wrong=wrong: one.deposit(ItemRecord(**wrong))) for wrong in UNCHOSEN),
    *((6, lambda one, i, wrong=wrong: one.edit(i["pt"], **wrong)) for wrong in UNCHOSEN),
    (RecordError, lambda one, i: import_records(one, [{"rep": NEXT, **UNCHOSEN[0]}])),
    (RecordError, lambda one, i: import_records(one, [{"rep": NEXT, **UNCHOSEN[1]}])),
    (6, lambda one, i: one.new_edition(SERVICE, NEW)),
    (6, lambda one, i: one.edit(SERVICE, language="fr")),
    (UnknownItem, lambda one, i: one.edit(DESCRIPTION, language="fr")),
    # a member of a group has a language, and identifiers are permanent
    (8, lambda one, i: one.edit(i["pt"], language=None)),
    (1, lambda one, i: one.edit(i["item"], aliases=())),
    (1, lambda one, i: one.edit(i["item"], aliases=(ALIAS, i["held"]))),
    (StorageError, lambda one, i: one.edit(i["pt"], translations={"pt": "x"})),
    (4, lambda one, i: one.make_copy(i["item"], SERVICE)),
    (4, lambda one, i: one.make_copy(i["gone"])),
    (6, lambda one, i: one.make_copy(SERVICE, SECOND)),
    (6, lambda one, i: one.transfer(SERVICE, SECOND)),
    (StorageError, lambda one, i: one.transfer(i["item"], OUTSIDE)),
    # it has the same next edition as an item there
    (7, lambda one, i: one.transfer(i["before"], SECOND)),
    (StorageError, lambda one, i: one.transfer(i["fixed"], SECOND)),
    (6, lambda one, i: one.delete(SERVICE, "x")),
    (StorageError, lambda one, i: one.delete(i["pt"], "")),
    (StorageError, lambda one, i: one.delete(i["pt"], "x", successor=i["pt"])),
    *((UnknownItem, lambda one, i, t=t: one.delete(t, "x")) for t in ("a\nb", "a\0b", "\x1b[31m")),
    (UnknownItem, lambda one, i: one.delete("8" * 5000, "x")),
]


@pytest.mark.postgresql
def test_a_refused_operation_changes_nothing(archives: list[Archive]) -> None:
    first, second, _ = archives
    record = ItemRecord(language="en", aliases=(ALIAS,), metadata=MetadataItem(DESCRIPTION))
    item = first.deposit(record)
    gone = first.deposit(NEW)
    first.delete(gone.rep, "gone")
    second.make_copy(item.rep)
    second.deposit(ItemRecord(next_edition=NEXT))
    items = {
        "item": item.rep,
        "pt": first.add_translation(item.rep, ItemRecord(language="pt")).rep,
        "gone": gone.rep,
        "before": first.deposit(ItemRecord(next_edition=NEXT)).rep,
        "held": first.reserve().rep,
        "fixed": first.deposit(ItemRecord(transferable=False)).rep,
    }
    before = dump(first.database)
    for number, (kind, operation) in enumerate(REFUSALS):
        with pytest.raises(StorageError) as refusal:
            operation(first, items)
        error = refusal.value
        found = error.rule if isinstance(error, RuleBroken) else type(error)
        assert found == kind, (number, error)
        assert str(error).isprintable(), number
        assert len(str(error)) < 500, number
        assert dump(first.database) == before, number


def test_a_field_that_can_not_be_edited_is_a_programming_error(archive: Archive) -> None:
    item = archive.deposit(ItemRecord())
    with pytest.raises(TypeError, match="state"):
        archive.edit(item.rep, state="Copy")


# --- references name items, whether they are here, elsewhere or not yet imported -----------------

REP, IBIP, LEGACY = "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "8JMKD3MGP8W/35MME4E", "abZc/1"


def bring(archive: Archive, **fields: Any) -> None:
    """Import the item to which others refer."""
    record = {"rep": REP, "ibip": IBIP, "aliases": [LEGACY], **fields}
    import_records(archive, [record], on_conflict="update")


@pytest.mark.parametrize("name", [REP, IBIP, LEGACY])
@pytest.mark.postgresql
def test_references_are_rewritten_when_their_item_arrives(archive: Archive, name: str) -> None:
    if name == IBIP:
        import_records(archive, [{"ibip": IBIP}])
    earlier = archive.deposit(next_edition=name).rep
    english = archive.deposit(language="en", translations={"pt": name}).rep
    described = archive.deposit(metadata={"ibi": name}).rep
    bring(archive)
    assert record_of(archive, earlier).next_edition == REP
    assert record_of(archive, english).translations == {"pt": REP}
    assert record_of(archive, described).metadata == MetadataItem(REP)
    assert record_of(archive, REP).language == "pt"
    assert group_of(archive, REP) == {("en", english), ("pt", REP)}


@pytest.mark.postgresql
def test_two_items_with_one_next_edition_are_refused_when_it_arrives(archive: Archive) -> None:
    first, second = archive.deposit(next_edition=REP).rep, archive.deposit(next_edition=IBIP).rep
    with pytest.raises(RecordError) as refused:
        bring(archive)
    assert (refused.value.line, refused.value.field) == (1, "next_edition")
    archive.edit(second, next_edition=None)
    bring(archive)
    assert record_of(archive, first).next_edition == REP


@pytest.mark.postgresql
def test_groups_with_the_same_item_are_merged_when_it_arrives(archive: Archive) -> None:
    english = archive.deposit(language="en", translations={"pt": REP}).rep
    other = archive.deposit(language="en", translations={"pt": IBIP}).rep
    with pytest.raises(RecordError, match="each language must occur only once"):
        bring(archive)
    assert archive.get(REP) is None
    archive.edit(other, language="fr")
    bring(archive)
    assert group_of(archive, REP) == {("en", english), ("fr", other), ("pt", REP)}


# --- two operations at the same time run one after the other, without a deadlock ------------------

ROUNDS = 2


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Call functions at the same time and return their results or exceptions."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        barrier.wait(30)
        try:
            return work()
        except IBIError as error:
            return error

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


@pytest.mark.postgresql
def test_one_of_two_next_editions_wins(archives: list[Archive]) -> None:
    first, *_ = archives
    for _ in range(ROUNDS):
        item = first.deposit(ItemRecord())
        found = at_once(*[lambda ibi=item.rep: first.new_edition(ibi, ItemRecord())] * 3)
        [won] = [one for one in found if not isinstance(one, Exception)]
        lost = [one for one in found if isinstance(one, Exception)]
        assert [(type(one), one.rule) for one in lost] == [(RuleBroken, 7)] * 2
        assert all(won.rep in str(one) for one in lost)
        assert record_of(first, item.rep).next_edition == won.rep


@pytest.mark.postgresql
def test_one_of_two_who_use_a_reservation_wins(archives: list[Archive]) -> None:
    first, *_ = archives
    for _ in range(ROUNDS):
        held = first.reserve()
        found = at_once(
            lambda ibi=held.rep: first.deposit(ItemRecord(), reserved=ibi),
            lambda ibi=held.ibip: first.deposit(ItemRecord(), reserved=ibi),
            lambda ibi=held.ibip: first.release(ibi),
        )
        assert len([one for one in found if isinstance(one, StorageError)]) == 2


@pytest.mark.postgresql
def test_opposite_transfers_do_not_cause_a_deadlock(archives: list[Archive]) -> None:
    first, second, third = archives
    ours = [first.deposit(ItemRecord()).rep for _ in range(ROUNDS)]
    theirs = [second.deposit(ItemRecord()).rep for _ in range(ROUNDS)]
    for ibi in ours + theirs:
        third.make_copy(ibi)
    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        found = at_once(
            lambda ibi=ours_one: first.transfer(ibi, SECOND, keep_copy=True),
            lambda ibi=theirs_one: second.transfer(ibi, SERVICE),
            lambda ibi=ours_one: third.delete(ibi, "no room"),
            lambda ibi=theirs_one: third.make_copy(ibi),
        )
        assert found[:3] == [None, None, None]
        # an update after the transfer finds the Original in the new Archive, or misses it in the
        # old one
        assert found[3] is None or isinstance(found[3], StorageError)
        assert record_of(second, ours_one).state == record_of(first, theirs_one).state == "Original"
        assert record_of(third, theirs_one).original_archive == SERVICE


@pytest.mark.only_on("postgresql")  # on SQLite, writers never run at the same time
def test_a_deposit_without_relations_does_not_wait_for_the_lock(archives: list[Archive]) -> None:
    first, *_ = archives
    with first.context.transaction() as store:
        store.lock_relations()
        with ThreadPoolExecutor(1) as threads:
            item = threads.submit(first.deposit, ItemRecord(language="en")).result(30)
    assert record_of(first, item.rep).language == "en"
