"""The commands adopt and compare: rows without identifiers, and rows and items that differ."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, ClassVar

import pytest
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from support.archives import paths_in_store
from support.commands import Outcome, command
from support.host_app import Host, Thesis
from support.moves import Killed
from support.operations import dump

from flask_ibi_archive import IdentifiedItem, ItemRecord
from flask_ibi_archive.archive.hosts import models, sync
from flask_ibi_archive.errors import RowError

MODEL = "support.host_app:Thesis"


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    return new_host()


def rows_of(host: Host) -> list[Any]:
    host.session.rollback()
    host.session.expire_all()
    return list(host.session.scalars(select(Thesis).order_by(Thesis.id)))


def identifiers_of(host: Host) -> dict[int, str]:
    found = {row.id: row.ibi for row in rows_of(host)}
    host.session.rollback()  # on SQLite, an open transaction blocks writers
    return found


def run(host: Host, *statements: Any) -> None:
    host.session.rollback()
    with host.engine.begin() as connection:
        for statement in statements:
            connection.execute(statement)


def insert_rows(host: Host, *rows: dict[str, Any]) -> None:
    """Insert rows without identifiers, as they were before the mixin."""
    for row in rows:
        run(host, insert(Thesis).values({"state": "Original", **row}))


def lose_columns(host: Host) -> None:
    """Remove the identifier columns and add them again, as a downgrade and an upgrade do."""
    run(host, update(Thesis).values(ibi_rep=None, ibi_ibip=None, changes=Thesis.changes))


def compare(host: Host, *words: str) -> Outcome:
    host.session.rollback()
    return command(host.app, "compare", MODEL, *words)


def find_kinds(host: Host, *words: str) -> list[tuple[str, str, bool]]:
    found = json.loads(compare(host, "--json", *words).out)
    return [(one["kind"], one["row"], one["repaired"]) for one in found]


def adopt(host: Host, *words: str, model: str = MODEL) -> Outcome:
    host.session.rollback()
    return command(host.app, "adopt", model, *words)


def assert_agree(host: Host) -> None:
    """No difference is left, and each row has the title of its public item."""
    assert compare(host).out.endswith("differences 0\n")
    titles = {item.ibi: item.title for item in host.archive.find(state="Original")}
    host.session.rollback()
    assert titles == {row.ibi: row.title for row in rows_of(host) if row.state == "Original"}


# --- rows that are older than the identifiers ----------------------------------------------------


def test_rows_are_adopted_in_batches(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "BATCH", 3)
    known = host.add("known").ibi
    insert_rows(host, *[{"title": f"thesis {number}"} for number in range(7)])
    result = adopt(host)
    assert (result.status, result.out) == (0, "adopted 7, refused 0\n")
    assert rows_of(host)[0].ibi == known
    assert {row.changes for row in rows_of(host)} == {0}  # adoption is no change of the content
    assert_agree(host)
    insert_rows(host, {"title": "100% rain: on :snow"}, {"title": "ice"}, {"title": "hail"})
    adopt(host, "--where", "title LIKE '100%: on :sn%' OR title = 'ice'")
    assert [row.ibi is None for row in rows_of(host)[-3:]] == [False, False, True]


def test_editions_and_translations_are_adopted_in_any_order(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that do not fulfil the condition."""
    monkeypatch.setattr(sync, "BATCH", 2)
    languages = ["fr", "pt", "en", "es", "en"]
    insert_rows(host, *[{"title": language, "language": language} for language in languages])
    for key, column, other in (
        (1, "translated_id", 2),
        (2, "translated_id", 5),
        (3, "previous_id", 5),
    ):
        run(host, update(Thesis).where(Thesis.id == key).values({column: other}))
    assert adopt(host, "--where", "id < 5").out == "adopted 5, refused 0\n"
    first, second, third, _, fifth = rows_of(host)
    item = host.archive.get(fifth.ibi)
    assert item is not None
    assert item.record.next_edition == third.ibi_rep
    assert item.record.translations == {"pt": second.ibi_rep, "fr": first.ibi_rep}
    host.session.rollback()
    assert_agree(host)


def test_rows_that_cannot_be_adopted_are_reported_and_the_others_are_adopted(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_rows(
        host,
        {"title": "right"},
        {"title": "wrong", "language": "xx"},
        {"title": "without file", "pdf": "/nowhere/a.pdf"},
        {"title": "draft", "state": "Draft"},
        {"title": "withdrawn", "state": "Deleted"},
        {"title": "broken"},
    )
    describe = Thesis.ibi_record
    monkeypatch.setattr(
        Thesis, "ibi_record", lambda row: describe(row) if row.title != "broken" else {}["key"]
    )
    result = adopt(host)
    lines = result.out.splitlines()
    assert lines[0].startswith("Thesis 2: language: 'xx' is not a language; write")
    assert lines[1:] == [
        "Thesis 3: /nowhere/a.pdf can't be read: No such file or directory",
        "Thesis 6: ibi_record() raised KeyError: 'key'",
        "adopted 3, refused 3",
    ]
    advice = "Error: 3 rows could not be adopted; correct them and run adopt again\n"
    assert (result.status, result.err) == (1, advice)
    right, wrong, _, draft, withdrawn, _ = rows_of(host)
    assert (wrong.ibi, host.archive.get(draft.ibi)) == (None, None)
    assert host.archive.reservations()[0].ibip == draft.ibi
    states = {item.ibi: item.record.state for item in host.archive.find()}
    assert states == {right.ibi: "Original", withdrawn.ibi: "Deleted"}


def test_a_dry_run_reports_all_problems_and_changes_nothing(host: Host) -> None:
    insert_rows(
        host,
        {"title": "first", "language": "en", "pdf": host.write("a.pdf", "rain")},
        {"title": "wrong", "language": "xx"},
        {"title": "second", "previous_id": 1},
        {"title": "third", "previous_id": 1},
    )
    tables = ("ibi_prefix", "ibi_item", "ibi_reservation", "host_thesis")
    before = dump(host.archive.database, tables)
    result = adopt(host, "--dry-run")
    assert result.status == 1
    assert "Thesis 2: language: 'xx'" in result.out
    assert "Thesis 4: " in result.out
    assert "already has a next edition" in result.out
    assert result.out.endswith("would be adopted 2, would be refused 2\n")
    assert dump(host.archive.database, tables) == before
    assert paths_in_store(host.archive) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["adopt", "Thesis"], "'Thesis' should be MODULE:MODEL, such as myapp.models:Thesis"),
        (["adopt", "nowhere:Thesis"], "the module nowhere can't be imported: ModuleNotFoundError"),
        (["adopt", f"{MODEL}s"], "the models with IdentifiedItem in support.host_app are: Thesis"),
        (["adopt", MODEL, "--where", "titel = 1"], "titel"),
        (["compare", MODEL, "--repair", "--reason", ""], "--reason: the text is empty"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    host: Host, words: list[str], message: str
) -> None:
    outcome = command(host.app, *words)
    assert outcome.status in (1, 2)
    [line] = [line for line in outcome.err.splitlines() if line.startswith("Error: ")]
    assert message in line


def test_an_adoption_that_is_killed_can_be_continued(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "BATCH", 4)
    insert_rows(
        host,
        *[
            {"title": f"{number}", "pdf": host.write(f"{number}.pdf", str(number))}
            for number in range(30)
        ],
    )
    run(host, update(Thesis).where(Thesis.id > 1).values(previous_id=Thesis.id - 1))
    known: dict[int, str] = {}
    for statement in (60, 110, 170):
        numbers = count(1)

        def kill(*values: Any, numbers: Iterator[int] = numbers, last: int = statement) -> None:
            if next(numbers) == last:
                raise Killed

        sa.event.listen(host.engine, "before_cursor_execute", kill)
        with pytest.raises(Killed):
            list(sync.Sync(host.archive, Thesis, adopt=True).run())
        sa.event.remove(host.engine, "before_cursor_execute", kill)
        now = {key: ibi for key, ibi in identifiers_of(host).items() if ibi is not None}
        assert known.items() <= now.items()
        known = now
    assert adopt(host).out == f"adopted {30 - len(known)}, refused 0\n"
    assert known.items() <= identifiers_of(host).items()
    assert_agree(host)


# --- lost identifiers ----------------------------------------------------------------------------


def test_adopt_gives_lost_identifiers_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "BATCH", 3)
    for number in range(7):
        host.add(f"thesis {number}", previous_id=number or None)
    host.add("draft", state="Draft")
    host.add("withdrawn", state="Original").state = "Deleted"
    host.session.commit()
    before = identifiers_of(host)
    lose_columns(host)
    run(host, update(Thesis).where(Thesis.id == 2).values(title="changed"))
    insert_rows(host, {"title": "new"})
    result = adopt(host, "--dry-run")
    assert result.out == "would be adopted 1, would be reconnected 9, would be refused 0\n"
    assert set(identifiers_of(host).values()) == {None}
    assert adopt(host).out == "adopted 1, reconnected 9, refused 0\n"
    assert {key: ibi for key, ibi in identifiers_of(host).items() if key in before} == before
    assert_agree(host)
    assert [one.ibip for one in host.archive.reservations()] == [before[8]]


def test_a_change_of_a_lost_row_changes_no_item(host: Host) -> None:
    """Another work may be in the row since a restore. Only a command gives the identifier back."""
    before = host.add("old").ibi
    lose_columns(host)
    [row] = rows_of(host)
    row.title = "new"
    host.session.commit()
    refused = f"Thesis 1: the row has lost its identifier {before}; .* run: flask ibi adopt {MODEL}"
    with pytest.raises(RowError, match=refused):
        host.ibi.refresh(row)
    host.session.rollback()
    assert [item.title for item in host.archive.find(state="Original")] == ["old"]
    assert find_kinds(host) == [("lost identifier", "Thesis 1", False)]
    assert adopt(host).out == "adopted 0, reconnected 1, refused 0\n"
    assert identifiers_of(host) == {1: before}
    assert_agree(host)


def test_a_new_row_with_the_key_of_an_item_gets_a_new_identifier(host: Host) -> None:
    """A bulk statement has deleted the row of the item, which stays as it is."""
    old = host.add("same title").ibi
    before = host.archive.get(old)
    host.session.execute(delete(Thesis))
    new = host.add("same title", id=1).ibi
    assert new != old
    assert host.archive.find_key("host_thesis:1").ibi == new  # type: ignore[union-attr]
    item = host.archive.get(old)
    assert item is not None
    assert before is not None
    key = f"host_thesis:1,{old}"
    assert item.record == replace(before.record, key=key)
    missing = f"{key}: the row of the item {old} is missing"
    total = "compared 1 rows and 2 items: differences 1"
    assert compare(host).out.splitlines() == [missing, total]
    repaired = [f"{missing} (repaired)", f"{total}, repaired 1"]
    assert compare(host, "--repair").out.splitlines() == repaired
    assert identifiers_of(host) == {1: new}
    assert_agree(host)


def test_changed_primary_keys_keep_the_identifiers_and_timestamps(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the key of each row was the key of another row before, public or not."""
    monkeypatch.setattr(sync, "BATCH", 2)
    rows = [host.add(state, state=state) for state in ("Draft", "Original", "Draft", "Original")]
    before = identifiers_of(host)
    timestamps = {item.ibi: item.record.timestamp for item in host.archive.find()}
    run(host, update(Thesis).values(id=-Thesis.id), update(Thesis).values(id=Thesis.id + 5))
    kinds = [("record", f"Thesis {key}") for key in before]
    assert sorted(find_kinds(host)) == [(*one, False) for one in kinds]
    assert sorted(find_kinds(host, "--repair")) == [(*one, True) for one in kinds]
    assert_agree(host)
    rows = rows_of(host)
    rows[0].id, rows[1].id = 51, 50  # a session does the same at once
    host.session.commit()
    assert host.archive.find_key("host_thesis:1") is None
    assert host.archive.find_key("host_thesis:51").ibi == before[4]  # type: ignore[union-attr]
    assert {item.ibi: item.record.timestamp for item in host.archive.find()} == timestamps
    lose_columns(host)
    assert adopt(host).out == "adopted 0, reconnected 4, refused 0\n"
    keys = {51: 4, 50: 3, 3: 2, 4: 1}
    assert identifiers_of(host) == {key: before[old] for key, old in keys.items()}


def test_a_withdrawn_item_is_not_replaced_if_its_row_has_lost_its_identifier(host: Host) -> None:
    ibi = host.add("thesis").ibi
    host.archive.delete(ibi, "retracted")
    host.session.commit()
    lose_columns(host)
    result = adopt(host)
    assert "Thesis 1: state: a withdrawn item can't be published again" in result.out
    assert "adopted 0, refused 1" in result.out
    assert identifiers_of(host) == {1: None}


# --- keys of rows --------------------------------------------------------------------------------


class Base(DeclarativeBase):
    """The base class of further models."""


class Described(IdentifiedItem):
    title: Mapped[str] = mapped_column(default="title")

    def ibi_record(self) -> ItemRecord:
        return ItemRecord(title=self.title)


class Part(Described, Base):
    __tablename__ = "host:part"
    code: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


class Negated(sa.TypeDecorator[int]):
    """A number that the database stores with the opposite sign, thus in the opposite order."""

    impl = sa.Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> int | None:
        return None if value is None else -value

    process_result_value = process_bind_param


class Note(Described, Base):
    __tablename__ = "host_note"
    number: Mapped[int] = mapped_column(Negated, primary_key=True)
    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)


class Work(Base):
    """A table of which only some rows are items."""

    __tablename__ = "host_work"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    __mapper_args__: ClassVar[dict[str, str]] = {
        "polymorphic_on": "kind",
        "polymorphic_identity": "work",
    }


class Book(Described, Work):
    __mapper_args__: ClassVar[dict[str, str]] = {"polymorphic_identity": "book"}
    title: Mapped[str | None] = mapped_column("name", default="title", use_existing_column=True)


class Map(Described, Work):
    __mapper_args__: ClassVar[dict[str, str]] = {"polymorphic_identity": "map"}
    title: Mapped[str | None] = mapped_column("name", default="title", use_existing_column=True)


class Product(Base):
    """A table whose rows are items if they also have a row in another table."""

    __tablename__ = "host_product"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    __mapper_args__: ClassVar[dict[str, str]] = {
        "polymorphic_on": "kind",
        "polymorphic_identity": "product",
    }


class Dataset(Described, Product):
    __tablename__ = "host_dataset"
    id: Mapped[int] = mapped_column(sa.ForeignKey("host_product.id"), primary_key=True)
    __mapper_args__: ClassVar[dict[str, str]] = {"polymorphic_identity": "dataset"}


@pytest.mark.postgresql
def test_each_kind_of_primary_key_is_a_key(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "BATCH", 1)
    note = uuid.UUID(int=7)
    expected = {
        Part(code="a,b%\n", number=2): "host%3Apart:a%2Cb%25%0A,2",
        Note(number=1, id=note): f"host_note:1,{note}",
        Book(id=3): "host_work:3",
        Map(id=4): "host_work:4",
        Dataset(id=5): "host_dataset:5",
    }
    others = [Part(code="c", number=1), Note(number=2, id=uuid.UUID(int=8)), Book(id=13)]
    others += [Map(id=14), Dataset(id=15)]
    Base.metadata.create_all(host.engine)
    try:
        host.session.add_all([*expected, *others, Work(id=9)])
        host.session.commit()
        before = {row: row.ibi for row in expected}
        for row, key in expected.items():
            assert models.find_row_key(row) == key
            assert host.archive.find_key(key).ibi == row.ibi  # type: ignore[union-attr]
        tables = ("host:part", "host_note", "host_work", "host_dataset")
        run(
            host,
            *[text(f'UPDATE "{table}" SET ibi_rep = NULL, ibi_ibip = NULL') for table in tables],
        )
        for model in (Part, Note, Book, Map, Dataset):
            found = list(sync.Sync(host.archive, model).run())
            assert [one.kind for one in found] == ["lost identifier"] * 2
            found = list(sync.Sync(host.archive, model, adopt=True).run())
            assert [(one.kind, one.repaired) for one in found] == [("lost identifier", True)] * 2
            assert list(sync.Sync(host.archive, model).run()) == []
        for row, ibi in before.items():
            assert row.ibi == ibi
    finally:
        host.session.remove()
        Base.metadata.drop_all(host.engine)


def test_a_row_has_its_key_by_itself(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thesis, "ibi_record", lambda row: {"title": "x", "key": "package:1"})
    with pytest.raises(RowError, match="key: a row has its key by itself; omit this field"):
        host.add("x")


# --- compare -------------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_compare_finds_and_repairs_what_bulk_statements_did(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "BATCH", 2)
    pdf = host.write("rain.pdf", "rain")
    for number in range(8):
        host.add(f"thesis {number}", pdf=pdf)
    host.add("draft", state="Draft")
    before = identifiers_of(host)
    assert_agree(host)
    for where, values in (
        (Thesis.id == 1, {"title": "changed", "previous_id": 5}),
        (Thesis.id == 2, {"views": 5}),
        (Thesis.id == 4, {"ibi_rep": None, "ibi_ibip": None}),
        (Thesis.id == 6, {"state": "Deleted"}),
        (Thesis.id == 7, {"language": "xx"}),
        (Thesis.id == 5, {"pdf": host.write("b.pdf", "snow")}),
    ):
        run(host, update(Thesis).where(where).values(values))
    run(host, delete(Thesis).where(Thesis.id.in_([3, 9])))
    insert_rows(host, {"id": 20, "title": "bulk"})
    host.write("rain.pdf", "more rain")
    result = compare(host)
    assert result.status == 1
    lines = result.out.splitlines()
    assert lines[0] == f"Thesis 1: the item {before[1]} differs in: relations, metadata, files"
    assert f"Thesis 4: the row has lost its identifier {before[4]}" in lines
    assert "Thesis 20: the row has no identifier and no item" in lines
    assert f"host_thesis:3: the row of the item {before[3]} is missing" in lines
    assert f"host_thesis:9: the row of the reserved identifier {before[9]} is missing" in lines
    assert lines[-1] == "compared 8 rows and 9 items: differences 10"
    assert identifiers_of(host)[4] is None  # nothing was changed
    result = compare(host, "--repair", "--reason", "deleted in bulk")
    assert result.status == 1
    lines = result.out.splitlines()
    [remaining] = [line for line in lines[:-1] if not line.endswith(" (repaired)")]
    assert remaining.startswith("Thesis 7: language: 'xx' is not a language")
    assert lines[-1] == "compared 8 rows and 9 items: differences 10, repaired 9"
    run(host, update(Thesis).where(Thesis.id == 7).values(language="pt"))
    assert compare(host, "--repair").status == 0
    assert_agree(host)
    after = identifiers_of(host)
    assert {key: ibi for key, ibi in after.items() if key != 20} == {
        key: ibi for key, ibi in before.items() if key not in (3, 9)
    }
    tombstone = host.archive.get(before[3]).record.tombstone  # type: ignore[union-attr]
    assert tombstone is not None
    assert tombstone.reason == "deleted in bulk"
    assert {one.status for one in host.archive.reservations()} == {"released"}


def test_a_missing_item_is_deposited_with_the_identifier_of_its_row(host: Host) -> None:
    """The tables of the Archive were restored from an older backup."""
    host.add("thesis")
    host.add("draft", state="Draft")
    before = identifiers_of(host)
    run(
        host,
        text("DELETE FROM ibi_item WHERE host_key IS NOT NULL"),
        text("UPDATE ibi_reservation SET status = 'released', host_key = NULL"),
    )
    kinds = [("no item", "Thesis 1", True), ("no item", "Thesis 2", True)]
    assert find_kinds(host, "--repair") == kinds
    assert identifiers_of(host) == before
    assert_agree(host)


@pytest.mark.postgresql
def test_check_compares_counts_and_some_rows(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "identified_models", {sa.inspect(Thesis)})

    def check() -> str:
        host.session.rollback()
        lines = command(host.app, "check").out.splitlines()
        assert [line for line in lines if "session: " in line] == [
            "ok   session: operations on items can write with the session of the app"
        ]
        [line] = [line for line in lines if " rows: " in line]
        return line

    assert check() == f"ok   rows: {MODEL} has 0 rows and items; last rows that were compared: 0"
    host.add("first", pdf=host.write("a.pdf", "rain"))
    host.add("second")
    assert check() == f"ok   rows: {MODEL} has 2 rows and items; last rows that were compared: 2"
    run(host, update(Thesis).where(Thesis.id == 2).values(title="changed"))
    assert check().startswith(f"FAIL rows: Thesis 2 of {MODEL}: the item ")
    run(host, delete(Thesis).where(Thesis.id == 2))
    advice = f"run: flask ibi compare {MODEL}"
    assert check() == f"FAIL rows: {MODEL} has 1 rows, but 2 items; {advice}"
    insert_rows(host, {"title": "bulk"})
    assert check().startswith(f"FAIL rows: 1 rows of {MODEL} have lost their identifiers; {advice}")
    assert compare(host, "--repair").status == 0
    insert_rows(host, {"title": "bulk"})
    advice = f"run: flask ibi adopt {MODEL}"
    assert check() == f"FAIL rows: 1 rows of {MODEL} have no identifiers; {advice}"


@pytest.mark.parametrize("name", ["compare", "adopt"])
def test_missing_columns_are_named_in_one_line(host: Host, name: str) -> None:
    run(host, text("ALTER TABLE host_thesis RENAME COLUMN ibi_rep TO was_rep"))
    outcome = command(host.app, name, MODEL)
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.startswith("Error: the rows of Thesis can't be selected: ")
    assert "that the table has the columns ibi_rep and ibi_ibip" in outcome.err
    [line] = [one for one in command(host.app, "check").out.splitlines() if "rows" in one[:10]]
    assert "can't be read" in line
    assert "SELECT" not in line


# --- other sessions ------------------------------------------------------------------------------


@pytest.mark.postgresql
@pytest.mark.parametrize("change", ["flush", "delete"])
def test_a_row_that_another_session_changes_during_an_adoption_agrees(
    new_host: Callable[..., Host], change: str
) -> None:
    """The adoption locks the rows before it reads what it stores."""
    host = new_host(savepoints=False)  # SQLite: a session that reads blocks no other
    insert_rows(host, {"title": "On rain"}, {"title": "On ice"})
    done: list[bool] = []

    def interfere(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "LIMIT" in statement and not done:
            done.append(True)
            with Session(host.engine) as other:
                row = other.get(Thesis, 1)
                if change == "flush":
                    row.title = "On snow"
                else:
                    other.delete(row)
                other.commit()

    sa.event.listen(host.engine, "after_cursor_execute", interfere)
    found = list(sync.Sync(host.archive, Thesis, adopt=True).run())
    sa.event.remove(host.engine, "after_cursor_execute", interfere)
    assert [one.repaired for one in found] == [True] * (1 if change == "delete" else 2)
    assert host.session.scalar(select(func.count()).where(Thesis.ibi_rep.is_(None))) == 0
    assert_agree(host)


@pytest.mark.postgresql
def test_a_session_never_replaces_an_identifier_that_another_has_assigned(
    new_host: Callable[..., Host],
) -> None:
    """It may leave the item behind, until the next change or comparison."""
    host = new_host(savepoints=False)
    insert_rows(host, {"title": "On rain"})
    with Session(host.engine) as old:
        row = old.get(Thesis, 1)
        assert adopt(host).out == "adopted 1, refused 0\n"
        ibi = identifiers_of(host)[1]
        host.session.rollback()
        row.title = "On snow"
        old.commit()
    assert identifiers_of(host) == {1: ibi}
    assert find_kinds(host, "--repair") == [("record", "Thesis 1", True)]
    assert_agree(host)
