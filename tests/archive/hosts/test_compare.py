"""The command compare, lost identifiers, and copied identifiers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from sqlalchemy import (
    ForeignKey,
    delete,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from support.commands import Outcome, command
from support.host_models import Host

from flask_ibi_archive import IdentifiedItem, ItemRecord
from flask_ibi_archive.archive.hosts import adopting, comparing, model_checks
from flask_ibi_archive.archive.hosts.row_keys import find_row_key
from flask_ibi_archive.errors import RowError
from flask_ibi_archive.server.database import dialects

MODEL = "support.host_models:Thesis"


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    """A host with a plain model."""
    return new_host()


def rows_of(host: Host) -> list[Any]:
    host.session.rollback()
    host.session.expire_all()
    return list(host.session.scalars(select(host.Thesis).order_by(host.Thesis.id)))


def identifiers_of(host: Host) -> dict[int, str]:
    return {row.id: row.ibi for row in rows_of(host)}


def run(host: Host, statement: Any) -> None:
    """Run a statement that the session does not see."""
    host.session.remove()
    with host.engine.begin() as connection:
        connection.execute(statement)


def lose_columns(host: Host) -> None:
    """Remove the identifier columns and add them again, as a downgrade and an upgrade do."""
    run(host, text("UPDATE host_thesis SET ibi_rep = NULL, ibi_ibip = NULL"))


def compare(host: Host, *words: str) -> Outcome:
    return command(host.app, "compare", MODEL, *words)


def compare_json(host: Host, *words: str) -> list[tuple[str, str, bool]]:
    found = json.loads(compare(host, "--json", *words).out)
    return [(one["kind"], one["row"], one["repaired"]) for one in found]


def adopt(host: Host, *words: str) -> Outcome:
    return command(host.app, "adopt", MODEL, *words)


def assert_agree(host: Host) -> None:
    """No difference is left, and each row has the title of its public item."""
    assert compare(host).out.endswith("differences 0\n")
    titles = {item.ibi: item.title for item in host.archive.find(state="Original")}
    assert titles == {row.ibi: row.title for row in rows_of(host) if row.state == "Original"}


# --- lost identifiers ----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--resume",)])
def test_adopt_gives_lost_identifiers_back(
    host: Host, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(adopting, "BATCH", 3)
    for number in range(7):
        host.add(f"thesis {number}", previous_id=number or None)
    host.add("draft", state="Draft")
    host.add("withdrawn", state="Original").state = "Deleted"
    host.session.commit()
    before = identifiers_of(host)
    lose_columns(host)
    run(host, update(host.Thesis).where(host.Thesis.id == 2).values(title="changed"))
    run(host, insert(host.Thesis).values(title="new", state="Original"))
    result = adopt(host, "--dry-run")
    assert result.out == "would be adopted 1, would be reconnected 9, would be refused 0\n"
    assert set(identifiers_of(host).values()) == {None}
    assert adopt(host, *words).out == "adopted 1, reconnected 9, refused 0\n"
    assert {key: ibi for key, ibi in identifiers_of(host).items() if key in before} == before
    assert_agree(host)
    assert [one.ibip for one in host.archive.reservations()] == [before[8]]


def test_a_change_of_a_lost_row_changes_no_item(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """Another work may be in the row since a restore. Only a command gives the identifier back."""
    before = host.add("old").ibi
    lose_columns(host)
    [row] = rows_of(host)
    row.title = "new"
    host.session.commit()
    assert caplog.messages == [
        "Thesis 1 has lost its identifier, and its item stays as it is; to give it back, run: "
        f"flask ibi compare {MODEL} --repair"
    ]
    refused = f"the row has lost its identifier {before}; to give it back, run: flask ibi adopt"
    with pytest.raises(RowError, match=f"Thesis 1: {refused} {MODEL}"):
        host.add("next", previous=row)
    host.session.rollback()
    with pytest.raises(RowError, match=refused):
        host.ibi.refresh(row)
    host.session.rollback()
    assert [item.title for item in host.archive.find(state="Original")] == ["old"]
    assert compare_json(host) == [("lost identifier", "Thesis 1", False)]
    assert adopt(host).out == "adopted 0, reconnected 1, refused 0\n"
    assert identifiers_of(host) == {1: before}
    assert_agree(host)


@pytest.mark.parametrize("title", ["old", "new"])
def test_a_new_row_with_the_key_of_an_item_gets_a_new_identifier(host: Host, title: str) -> None:
    """A bulk statement has deleted the row of the item, which stays as it is."""
    old = host.add("old").ibi
    before = host.archive.get(old)
    host.session.execute(delete(host.Thesis))
    new = host.add(title, id=1).ibi
    assert new != old
    assert host.archive.find_key("host_thesis:1").ibi == new  # type: ignore[union-attr]
    item = host.archive.get(old)
    assert item is not None
    assert before is not None
    key = f"host_thesis:1,{old}"
    assert item.record == replace(before.record, key=key)
    assert b"old" in host.app.test_client().get(f"/col/{old}/").data
    missing = f"{key}: the row of the item {old} is missing"
    total = "compared 1 rows and 2 items: differences 1"
    assert compare(host).out.splitlines() == [missing, total]
    repaired = [f"{missing} (repaired)", f"{total}, repaired 1"]
    assert compare(host, "--repair").out.splitlines() == repaired
    assert identifiers_of(host) == {1: new}
    assert_agree(host)


def test_each_new_row_with_the_same_key_gets_a_new_identifier(host: Host) -> None:
    identifiers = []
    for title in ("first", "second", "third"):
        host.session.execute(delete(host.Thesis))
        identifiers.append(host.add(title, id=1).ibi)
    titles = {item.ibi: item.title for item in host.archive.find(state="Original")}
    assert list(map(titles.get, identifiers)) == ["first", "second", "third"]
    rows = [f"host_thesis:1,{ibi}" for ibi in identifiers[:2]]
    assert compare_json(host) == [("no row", row, False) for row in sorted(rows)]
    lose_columns(host)
    assert adopt(host).out == "adopted 0, reconnected 1, refused 0\n"
    assert identifiers_of(host) == {1: identifiers[2]}


@pytest.mark.parametrize("state", ["Draft", "Original"])
def test_a_new_row_with_the_key_of_a_draft_releases_nothing(host: Host, state: str) -> None:
    draft = host.add("draft", state="Draft").ibi
    host.session.execute(delete(host.Thesis))
    new = host.add("new", id=1, state=state).ibi
    assert new != draft
    assert {one.ibip: one.status for one in host.archive.reservations()}[draft] == "held"
    key = f"host_thesis:1,{draft}" if state == "Draft" else "host_thesis:1"
    assert compare(host).out.splitlines()[0] == (
        f"{key}: the row of the reserved identifier {draft} is missing"
    )
    assert compare_json(host, "--repair") == [("no row", key, True)]
    assert {one.ibip: one.status for one in host.archive.reservations()}[draft] == "released"
    assert_agree(host)


def test_a_new_row_may_have_the_key_that_a_bulk_statement_has_changed(host: Host) -> None:
    ibi = host.add("old").ibi
    run(host, update(host.Thesis).values(id=50))
    new = host.add("new", id=1).ibi
    assert compare(host).out.splitlines()[0] == f"Thesis 50: the item {ibi} differs in: key"
    assert compare_json(host, "--repair") == [("record", "Thesis 50", True)]
    assert identifiers_of(host) == {1: new, 50: ibi}
    assert_agree(host)


def test_a_new_row_with_the_key_of_a_deleted_row_is_another_item(host: Host) -> None:
    old = host.add("old")
    ibi = old.ibi
    host.session.delete(old)
    host.session.commit()
    assert host.add("new", id=1).ibi != ibi
    tombstone = host.archive.get(ibi)
    assert tombstone is not None
    assert tombstone.record.tombstone is not None
    assert tombstone.record.tombstone.reason == "removed by the repository"
    assert_agree(host)


def test_adopt_refuses_rows_that_may_be_those_of_items_without_rows(host: Host) -> None:
    first = host.add("first").ibi
    lose_columns(host)
    run(host, update(host.Thesis).values(id=107))
    error = adopt(host).error
    assert error.startswith(
        f"the Archive has items whose rows are missing, such as {first} of the row host_thesis:1, "
        "and Thesis 107 has no item; if this is the same row with another primary key, write"
    )
    assert error.endswith(f"run: flask ibi compare {MODEL} --repair")
    assert identifiers_of(host) == {107: None}
    rep = host.archive.get(first).rep  # type: ignore[union-attr]
    run(host, update(host.Thesis).values(ibi_rep=rep, ibi_ibip=first))
    assert compare_json(host, "--repair") == [("record", "Thesis 107", True)]
    assert host.archive.find_key("host_thesis:107").ibi == first  # type: ignore[union-attr]
    assert adopt(host).out == "adopted 0, refused 0\n"


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


@contextmanager
def tables(host: Host, base: Any) -> Iterator[Session]:
    """Create the tables of more models."""
    base.metadata.create_all(host.engine)
    try:
        yield host.session()
    finally:
        host.session.remove()
        base.metadata.drop_all(host.engine)


class Base(DeclarativeBase):
    """The base class of further models."""


class Described(IdentifiedItem):
    """A model with a title."""

    title: Mapped[str] = mapped_column(default="title")

    def ibi_record(self) -> ItemRecord:
        return ItemRecord(title=self.title)


class Report(Described, Base):
    __tablename__ = "host_report"
    id: Mapped[int] = mapped_column(primary_key=True)


class Part(Described, Base):
    __tablename__ = "host:part"
    code: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


class Note(Described, Base):
    __tablename__ = "host_note"
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
    id: Mapped[int] = mapped_column(ForeignKey("host_product.id"), primary_key=True)
    __mapper_args__: ClassVar[dict[str, str]] = {"polymorphic_identity": "dataset"}


@pytest.mark.postgresql
def test_each_kind_of_primary_key_is_a_key(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "PAGE", 1)
    note = uuid.UUID(int=7)
    expected = {
        Report(id=1): "host_report:1",
        Part(code="a,b%\n", number=2): "host%3Apart:a%2Cb%25%0A,2",
        Note(id=note): f"host_note:{note}",
        Book(id=3): "host_work:3",
        Map(id=4): "host_work:4",
        Dataset(id=5): "host_dataset:5",
    }
    others = [Report(id=2), Part(code="c", number=1), Note(id=uuid.UUID(int=8))]
    others += [Book(id=13), Map(id=14), Dataset(id=15)]
    with tables(host, Base) as session:
        session.add_all([*expected, *others, Work(id=9)])
        session.commit()
        before = {row: row.ibi for row in expected}
        for row, key in expected.items():
            assert find_row_key(row) == key
            assert host.archive.find_key(key).ibi == row.ibi  # type: ignore[union-attr]
        for table in ("host_report", '"host:part"', "host_note", "host_work", "host_dataset"):
            session.execute(text(f"UPDATE {table} SET ibi_rep = NULL, ibi_ibip = NULL"))
        session.commit()
        for model in (Report, Part, Note, Book, Map, Dataset):
            found = list(comparing.Comparer(host.archive, session, model).run())
            assert [one.kind for one in found] == ["lost identifier"] * 2
            result = adopting.Adopter(host.archive, session, model).run()
            assert (result.adopted, result.reconnected, result.refused) == (0, 2, 0)
            assert list(comparing.Comparer(host.archive, session, model).run()) == []
        for row, ibi in before.items():
            session.add(row)
            assert row.ibi == ibi


def test_a_row_has_its_key_by_itself(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.Thesis, "ibi_record", lambda row: {"title": "x", "key": "package:1"})
    with pytest.raises(RowError, match="key: a row has its key by itself; omit this field"):
        host.add("x")


def test_a_changed_primary_key_changes_the_key_but_not_the_timestamp(host: Host) -> None:
    row = host.add("first")
    ibi, item = row.ibi, host.archive.get(row.ibi)
    row.id = 50
    host.session.commit()
    assert host.archive.find_key("host_thesis:1") is None
    found = host.archive.find_key("host_thesis:50")
    assert found is not None
    assert found.ibi == ibi
    assert item is not None
    assert found.record.timestamp == item.record.timestamp


def test_a_changed_primary_key_changes_the_key_of_a_reservation(host: Host) -> None:
    row = host.add("draft", state="Draft")
    ibi = row.ibi
    row.id = 50
    host.session.commit()
    lose_columns(host)
    assert adopt(host).out == "adopted 0, reconnected 1, refused 0\n"
    assert identifiers_of(host) == {50: ibi}


def test_a_draft_keeps_its_identifier_after_another_row_has_got_its_old_key(host: Host) -> None:
    """All columns are lost after a bulk statement has changed a primary key."""
    ibi = host.add("draft", state="Draft").ibi
    run(host, update(host.Thesis).values(id=50))
    found = f"Thesis 50: the reserved identifier {ibi} differs in: key"
    assert compare(host).out.splitlines()[0] == found
    assert compare(host, "--repair").out.splitlines()[0] == f"{found} (repaired)"
    run(host, insert(host.Thesis).values(id=1, title="another draft", state="Draft"))
    lose_columns(host)
    kinds = [("no item", "Thesis 1"), ("lost identifier", "Thesis 50")]
    assert compare_json(host, "--repair") == [(*one, True) for one in kinds]
    identifiers = identifiers_of(host)
    assert identifiers[50] == ibi
    assert {one.ibip for one in host.archive.reservations()} == set(identifiers.values())
    assert_agree(host)


@pytest.mark.parametrize("batch", [2, 500])
def test_shifted_primary_keys_keep_the_identifiers_of_drafts(
    host: Host, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """The key of each row was the key of another row before, also if that row is public."""
    monkeypatch.setattr(comparing, "BATCH", batch)
    states = ["Draft", "Original", "Draft", "Draft", "Original", "Draft"]
    for state in states:
        host.add(state, state=state)
    before = identifiers_of(host)
    run(host, update(host.Thesis).values(id=-host.Thesis.id))
    run(host, update(host.Thesis).values(id=host.Thesis.id + 7))
    kinds = [("record", f"Thesis {key}") for key in before]
    assert sorted(compare_json(host)) == [(*one, False) for one in kinds]
    assert sorted(compare_json(host, "--repair")) == [(*one, True) for one in kinds]
    assert_agree(host)
    lose_columns(host)
    assert adopt(host).out == "adopted 0, reconnected 6, refused 0\n"
    assert identifiers_of(host) == {7 - key: ibi for key, ibi in before.items()}


def test_shifted_primary_keys_keep_their_identifiers(host: Host) -> None:
    first, second = host.add("first").ibi, host.add("second").ibi
    third = host.add("third").ibi
    run(host, delete(host.Thesis).where(host.Thesis.id == 3))
    run(host, update(host.Thesis).values(id=host.Thesis.id + 10))
    run(host, update(host.Thesis).values(id=host.Thesis.id - 9))
    kinds = [("record", "Thesis 2"), ("record", "Thesis 3")]
    assert compare_json(host) == [(*one, False) for one in [*kinds, ("no row", "host_thesis:3")]]
    # another row takes the key of the deleted row first
    kinds.append(("no row", f"host_thesis:3,{third}"))
    assert compare_json(host, "--repair") == [(*one, True) for one in kinds]
    assert identifiers_of(host) == {2: first, 3: second}
    assert host.archive.get(third).record.state == "Deleted"  # type: ignore[union-attr]
    assert_agree(host)


# --- copied identifiers --------------------------------------------------------------------------


def test_a_copied_row_with_the_identifier_of_another_row_is_refused(host: Host) -> None:
    row = host.add("first")
    host.session.add(host.Thesis(title="copy", ibi_rep=row.ibi_rep, ibi_ibip=row.ibi_ibip))
    with pytest.raises(
        RowError,
        match=f"^Thesis new: the identifier {row.ibi} belongs to the row host_thesis:1; "
        "set ibi_rep and ibi_ibip to None, so that this row gets an identifier of its own$",
    ):
        host.session.commit()
    host.session.rollback()
    assert_agree(host)


def test_a_row_of_another_model_with_the_same_identifier_is_refused(host: Host) -> None:
    with tables(host, Base) as session:
        for row in (host.add("first"), host.add("draft", state="Draft")):
            forms = {"ibi_rep": row.ibi_rep, "ibi_ibip": row.ibi_ibip}
            session.add(Report(**forms))
            with pytest.raises(RowError, match=f"belongs to the row host_thesis:{row.id}; set"):
                session.commit()
            session.rollback()
            session.execute(insert(Report), {"id": row.id, "title": "copy", **forms})
            session.commit()
        differences = list(comparing.Comparer(host.archive, session, Report, True).run())
        assert [(one.kind, one.repaired) for one in differences] == [
            ("identifier of another row", True)
        ] * 2
        titles = {item.ibi: item.title for item in host.archive.find(state="Original")}
        assert set(titles.values()) == {"first", "copy"}
        assert len({*identifiers_of(host).values(), *session.scalars(select(Report.ibi_ibip))}) == 4


# --- compare -------------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_compare_finds_and_repairs_what_bulk_statements_did(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "BATCH", 2)
    assert_agree(host)
    pdf = host.write("rain.pdf", "rain")
    rows = [host.add(f"thesis {number}", pdf=pdf) for number in range(8)]
    rows.append(host.add("draft", state="Draft"))
    before = identifiers_of(host)
    assert_agree(host)
    thesis = host.Thesis
    run(host, update(thesis).where(thesis.id == 1).values(title="changed", previous_id=5))
    run(host, update(thesis).where(thesis.id == 2).values(views=5))
    run(host, delete(thesis).where(thesis.id.in_([3, 9])))
    run(host, insert(thesis).values(id=20, title="bulk", state="Original"))
    run(host, update(thesis).where(thesis.id == 4).values(ibi_rep=None, ibi_ibip=None))
    run(host, update(thesis).where(thesis.id == 6).values(state="Deleted"))
    run(host, update(thesis).where(thesis.id == 7).values(language="xx"))
    host.write("rain.pdf", "more rain")
    run(host, update(thesis).where(thesis.id == 5).values(pdf=host.write("b.pdf", "snow")))
    result = compare(host)
    assert result.status == 1
    lines = result.out.splitlines()
    assert lines[0] == f"Thesis 1: the item {before[1]} differs in: relations, metadata, files"
    assert f"Thesis 4: the row has lost its identifier {before[4]}" in lines
    assert "Thesis 20: the row has no identifier and no item" in lines
    assert f"host_thesis:3: the row of the item {before[3]} is missing" in lines
    assert f"host_thesis:9: the row of the reserved identifier {before[9]} is missing" in lines
    assert lines[-1] == "compared 8 rows and 9 items: differences 10"
    assert {row.id: row.ibi for row in rows_of(host)}[4] is None  # nothing was changed
    result = compare(host, "--repair", "--reason", "deleted in bulk")
    assert result.status == 1
    lines = result.out.splitlines()
    assert lines[0].endswith(" (repaired)")
    assert [line for line in lines[:-1] if not line.endswith(" (repaired)")] == [
        line for line in lines if line.startswith("Thesis 7: language: 'xx' is not a language")
    ]
    assert lines[-1] == "compared 8 rows and 9 items: differences 10, repaired 9"
    run(host, update(thesis).where(thesis.id == 7).values(language="pt"))
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


def test_a_lost_row_that_cannot_be_described_keeps_its_item(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    ibi = host.add("thesis").ibi
    lose_columns(host)
    describe = host.Thesis.ibi_record
    monkeypatch.setattr(host.Thesis, "ibi_record", lambda row: 1 / 0)
    result = compare(host, "--repair")
    assert "not repaired: ibi_record() raised ZeroDivisionError: division by zero" in result.out
    monkeypatch.setattr(host.Thesis, "ibi_record", describe)
    assert host.archive.get(ibi).record.state == "Original"  # type: ignore[union-attr]
    assert compare_json(host, "--repair") == [("lost identifier", "Thesis 1", True)]
    assert identifiers_of(host) == {1: ibi}


def test_a_missing_item_is_deposited_with_the_identifier_of_its_row(host: Host) -> None:
    """The tables of the Archive were restored from an older backup."""
    row = host.add("thesis")
    ibi, key = row.ibi, row.id
    run(host, text("DELETE FROM ibi_item WHERE host_key IS NOT NULL"))
    assert compare_json(host, "--repair") == [("no item", f"Thesis {key}", True)]
    assert identifiers_of(host) == {key: ibi}
    assert_agree(host)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([MODEL, "--reason", "x"], "--reason can't be used without --repair"),
        ([MODEL, "--repair", "--reason", ""], "--reason: the text is empty"),
    ],
)
def test_wrong_arguments_are_refused(host: Host, words: list[str], message: str) -> None:
    outcome = command(host.app, "compare", *words)
    assert outcome.status == 2
    assert message in outcome.err


@pytest.mark.postgresql
def test_check_compares_counts_and_some_rows(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    # the tests have several models of the same table
    monkeypatch.setattr(model_checks, "identified_models", {inspect(host.Thesis)})

    def check() -> str:
        [line] = [line for line in command(host.app, "check").out.splitlines() if " rows: " in line]
        return line

    assert check() == f"ok   rows: {MODEL} has 0 rows and items; last rows that were compared: 0"
    host.add("first", pdf=host.write("a.pdf", "rain"))
    host.add("second")
    assert check() == f"ok   rows: {MODEL} has 2 rows and items; last rows that were compared: 2"
    run(host, update(host.Thesis).where(host.Thesis.id == 2).values(title="changed"))
    assert check().startswith(f"FAIL rows: Thesis 2 of {MODEL}: the item ")
    run(host, delete(host.Thesis).where(host.Thesis.id == 2))
    advice = f"run: flask ibi compare {MODEL}"
    assert check() == f"FAIL rows: {MODEL} has 1 rows, but 2 items; {advice}"
    run(host, insert(host.Thesis).values(title="bulk", state="Original"))
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
    run(host, text("ALTER TABLE host_thesis RENAME COLUMN was_rep TO ibi_rep"))


def test_rows_of_bulk_methods_of_the_session_are_found_by_compare(host: Host) -> None:
    host.session.bulk_insert_mappings(host.Thesis, [{"title": "a", "state": "Original"}])
    host.session.bulk_save_objects([host.Thesis(title="b")])
    host.session.commit()
    assert compare_json(host) == [("no item", f"Thesis {number}", False) for number in (1, 2)]
    assert [one[2] for one in compare_json(host, "--repair")] == [True, True]
    assert_agree(host)
