"""Models with IdentifiedItem: what a host does with its rows, and what happens to their items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import (
    ForeignKey,
    create_engine,
    event,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    Session,
    mapped_column,
    relationship,
)
from support.archives import import_records
from support.host_app import Host
from support.operations import dump, group_of, view_of

from flask_ibi_archive import IBIArchive, IdentifiedItem, ItemRecord, ItemView, Tombstone
from flask_ibi_archive.archive.items import minting
from flask_ibi_archive.archive.items.files import Staging
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.core.identifiers.grammar import build_ibip_suffix
from flask_ibi_archive.errors import ConfigError, MintingError, RowError, StorageError


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    return new_host()


def item_of(host: Host, row: Any) -> ItemView:
    return view_of(host.archive, row.ibi)


def age(host: Host, row: Any) -> None:
    old = datetime(2001, 1, 1, tzinfo=timezone.utc)
    host.session.execute(update(Item).where(Item.ibip == row.ibi).values(timestamp=old))
    host.session.commit()


def is_old(host: Host, row: Any) -> bool:
    timestamp = item_of(host, row).record.timestamp
    return timestamp is not None and timestamp.year == 2001


# --- new rows ------------------------------------------------------------------------------------


def test_a_new_row_has_an_identifier_after_the_flush_and_an_item_after_the_commit(
    host: Host,
) -> None:
    row = host.Thesis(title="On rain", language="pt", pdf=host.write("a.pdf", "rain"))
    assert (row.ibi, row.persistent_url) == (None, None)
    host.session.add(row)
    host.session.flush()
    assert row.ibi == row.ibi_ibip is not None
    assert host.archive.get(row.ibi) is None
    host.session.commit()
    assert row.persistent_url == f"http://mtc-m16c.sid.inpe.br/{row.ibi}"
    item = item_of(host, row)
    assert (item.title, item.record.language, item.record.rep) == ("On rain", "pt", row.ibi_rep)
    assert [file.path for file in item.record.files] == ["a.pdf"]
    assert host.stored() == ["rain"]


def test_rows_can_have_identifiers_that_the_host_already_has(host: Host) -> None:
    forms = {"rep": "dpi.inpe.br/banon/1999/01.09.22.14", "ibip": "LK47B6W/362SFKH"}
    host.session.rollback()  # SQLite: the import must not wait for readers
    import_records(host.archive.without_session(), [forms])
    row = host.add(ibi_rep=forms["rep"], ibi_ibip=forms["ibip"])
    assert (item_of(host, row).record.rep, item_of(host, row).title) == (forms["rep"], "On rain")
    host.session.rollback()
    minted = host.archive.mint()[0]
    assert host.add(ibi_rep=minted.rep, ibi_ibip=minted.ibip).ibi == minted.ibip
    with pytest.raises(RowError, match=r"Thesis 3: ibi_ibip: .* should be written LK47B6W"):
        host.add(ibi_ibip="lk47b6w/362SFKJ")
    host.session.rollback()
    # PostgreSQL does not use the number of a refused row again
    with pytest.raises(RowError, match=r"Thesis [34]: 'rain' is not an IBI"):
        host.add(ibi_ibip="rain")


FOREIGN, FUTURE = "names another server", "names a date in the future"


@pytest.mark.parametrize(
    ("column", "identifier", "reason"),
    [
        ("ibi_rep", "sid.inpe.br/mtc-m16c@81/2020/01.01.00.00", FOREIGN),  # the port differs
        ("ibi_rep", "sid.inpe.br/mtc-m16c/2999/01.01.00.00", FUTURE),
        ("ibi_ibip", "LK47B6W/362SFKH", FOREIGN),
        ("ibi_ibip", f"{{prefix}}/{build_ibip_suffix(Fraction(2**35))}", FUTURE),
        ("ibi_ibip", "83LX3pFwXQZeBBx/hwiTk", FOREIGN),
    ],
)
def test_an_identifier_that_the_archive_has_not_issued_is_refused(
    host: Host, column: str, identifier: str, reason: str
) -> None:
    """A user may have typed it into a form, for a new row or a row without an identifier."""
    identifier = identifier.format(prefix=host.archive.minter.prefixes[1])
    message = f"{column}: this Archive has not issued {identifier}, which {reason}; .*ibi import"
    with pytest.raises(RowError, match=rf"^Thesis 1: {message}"):
        host.add(**{column: identifier})
    host.session.rollback()
    host.session.execute(insert(host.Thesis).values(title="Old", state="Original"))
    row = host.session.scalars(select(host.Thesis)).one()
    setattr(row, column, identifier)
    with pytest.raises(RowError, match=rf"^Thesis [12]: {message}"):
        host.session.commit()
    host.session.rollback()
    assert list(host.archive.find()) == []


def test_a_row_may_refer_to_new_rows_in_any_order(host: Host) -> None:
    first = host.Thesis(title="first", language="en")
    second = host.Thesis(title="second", language="en", previous=first)
    portuguese = host.Thesis(title="segunda", language="pt", translated=second)
    french = host.Thesis(title="la seconde", language="fr", translated=portuguese)
    host.session.add_all([french, portuguese, second, first])
    host.session.commit()
    assert item_of(host, first).record.next_edition == second.ibi_rep
    members = {ibi for _, ibi in group_of(host.archive, str(second.ibi))}
    assert members == {second.ibi_rep, portuguese.ibi_rep, french.ibi_rep}


def test_a_stored_row_gets_an_identifier_from_adopt_alone(host: Host) -> None:
    host.session.execute(insert(host.Thesis).values(title="older"))
    host.session.commit()
    older = host.session.scalars(select(host.Thesis)).one()
    older.title = "still older"
    host.session.commit()
    assert older.ibi is None
    advice = "previous_edition: Thesis 1: the row has no identifier; run: flask ibi adopt"
    with pytest.raises(RowError, match=advice):
        host.add("newer", previous=older)
    host.session.rollback()
    host.session.delete(older)
    host.session.commit()
    assert list(host.archive.find()) == []


# --- changes -------------------------------------------------------------------------------------


def test_a_change_of_the_record_edits_the_item(host: Host) -> None:
    row = host.add(language="en", pdf=host.write("a.pdf", "rain"))
    host.archive.edit(row.ibi, access={"networks": ["150.163.0.0/16"]})
    age(host, row)
    row.title = "On snow"
    host.session.commit()
    item = item_of(host, row)
    assert (item.title, item.record.language) == ("On snow", "en")
    assert not is_old(host, row)
    assert [file.path for file in item.record.files] == ["a.pdf"]
    assert item.record.access is not None, "the record omits this field"


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_change_of_a_column_that_the_record_does_not_use_costs_no_statement(
    host: Host, is_loaded: bool
) -> None:
    rows = [host.add("first"), host.add("second", language="pt")]
    if is_loaded:
        assert [row.views for row in rows] == [0, 0]
    statements: list[str] = []
    event.listen(
        host.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    for row in rows:
        row.views = 5
    host.session.commit()
    of_host = [one for one in statements if one.startswith(("SELECT host_thesis", "UPDATE host_"))]
    assert [one for one in statements if one != "BEGIN"] == of_host
    assert len(of_host) == (1 if is_loaded else 3)  # the host updates, and the rows are loaded


CHANGED: dict[str, Callable[[Any], object]] = {
    "compared": lambda row: "few" if row.views == 0 else "many",
    "true or false": lambda row: "few" if not row.views else "many",
    "None": lambda row: "few" if row.language is None else "many",
    "formatted": lambda row: f"{row.views} {row.language}",
    "set by the database": lambda row: ["few", "many"][row.changes],
}


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_column_that_the_record_uses_in_any_way_edits_the_item(
    host: Host, monkeypatch: pytest.MonkeyPatch, is_loaded: bool
) -> None:
    for use in CHANGED.values():
        monkeypatch.setattr(
            host.Thesis, "ibi_record", lambda row, use=use: ItemRecord(title=str(use(row)))
        )
        row = host.add()
        if is_loaded:
            assert row.views == 0
        row.views, row.language = 5, "pt"
        host.session.commit()
        assert item_of(host, row).title in ("many", "5 pt")


def test_a_row_can_get_another_previous_edition_and_lose_it(host: Host) -> None:
    first, second, third = host.add("1"), host.add("2"), host.add("3")
    for previous in (first, second, None):
        third.previous = previous
        host.session.commit()
        for row in (first, second):
            following = third.ibi_rep if row is previous else None
            assert item_of(host, row).record.next_edition == following


def test_refresh_reads_a_row_again_that_a_statement_has_changed(host: Host) -> None:
    row = host.add()
    host.session.execute(update(host.Thesis).values(title="On snow"))
    host.session.commit()
    assert item_of(host, row).title == "On rain"
    host.ibi.refresh(row)
    host.session.commit()
    assert item_of(host, row).title == "On snow"
    age(host, row)
    host.ibi.refresh(row)
    host.session.commit()
    assert is_old(host, row)


def test_refresh_gives_an_identifier_to_a_row_of_a_bulk_insert(host: Host) -> None:
    host.session.execute(insert(host.Thesis), [{"title": "1"}, {"title": "2"}])
    row = host.session.scalars(select(host.Thesis).limit(1)).one()
    assert row.ibi is None
    host.ibi.refresh(row)
    host.session.rollback()
    assert host.session.scalars(select(func.count()).select_from(host.Thesis)).one() == 0
    with pytest.raises(StorageError, match="not in a session"):
        host.ibi.refresh(host.Thesis(title="new"))


def test_the_host_cannot_change_identifiers(host: Host) -> None:
    row = host.add()
    row.ibi_rep = "dpi.inpe.br/banon/1999/01.09.22.14"
    with pytest.raises(RowError, match=r"Thesis 1: ibi_rep: .* identifiers are permanent"):
        host.session.flush()


# --- rows that are not public, and withdrawn rows ------------------------------------------------


@pytest.mark.parametrize("state", ["Draft", "Reserved"])
def test_a_row_that_is_not_public_has_a_reserved_identifier(host: Host, state: str) -> None:
    row = host.add(state=state)
    ibi = row.ibi
    assert host.archive.get(ibi) is None
    [reservation] = host.archive.reservations()
    assert (reservation.ibip, reservation.status) == (ibi, "held")
    row.title = "On snow"
    host.session.commit()
    row.state = "Original"
    host.session.commit()
    assert row.ibi == ibi
    assert item_of(host, row).title == "On snow"
    assert host.archive.reservations()[0].status == "used"


@pytest.mark.parametrize(
    ("before", "after", "advice"),
    [
        ("Original", "Draft", r"ibi_record\(\) can't return None or the state Reserved any more"),
        ("Original", "Reserved", "to withdraw the item, return state='Deleted'"),
        ("Deleted", "Original", "can't be published again"),
        ("Deleted", "Draft", "can't be published again"),
        ("Original", "Gone", "'Gone' is not one of Original, Reserved, Deleted"),
    ],
)
def test_a_change_of_the_state_that_is_not_allowed_is_refused_with_advice(
    host: Host, before: str, after: str, advice: str
) -> None:
    row = host.add(state=before)
    row.state = after
    with pytest.raises(RowError, match=f"Thesis 1: state: .*{advice}"):
        host.session.commit()
    host.session.rollback()
    assert row.state == before


def test_an_item_whose_original_is_in_another_archive_is_not_changed(host: Host) -> None:
    row = host.add()
    host.session.execute(
        text(
            "UPDATE ibi_item SET state = 'Copy', original_archive = 'a.b/c/2009/01.01.00.00'"
            " WHERE ibip = :ibi"
        ),
        {"ibi": row.ibi},
    )
    host.session.commit()
    row.title = "On snow"
    host.session.commit()
    assert item_of(host, row).title == "On rain"


# --- deleted rows --------------------------------------------------------------------------------


def test_the_host_states_reason_and_successor_of_a_removal(host: Host) -> None:
    row = host.add()
    ibi = row.ibi
    corrected = host.Thesis(title="corrected")
    host.session.add(corrected)
    host.ibi.removing(row, reason="retracted", successor=corrected, citation="Silva, 2020")
    host.session.delete(row)
    host.session.commit()
    item = view_of(host.archive, ibi)
    tombstone = item.record.tombstone
    assert tombstone is not None
    assert (tombstone.reason, tombstone.citation) == ("retracted", "Silva, 2020")
    assert tombstone.successor == corrected.ibi


@pytest.mark.parametrize("discard", [False, True])
def test_the_host_chooses_whether_the_description_of_a_removed_item_remains(
    host: Host, monkeypatch: pytest.MonkeyPatch, discard: bool
) -> None:
    deleted, withdrawn = host.add(), host.add()
    ibis = [deleted.ibi, withdrawn.ibi]
    host.ibi.removing(deleted, reason="retracted", discard_description=discard)
    host.session.delete(deleted)
    tombstone = Tombstone("retracted", discard_description=discard)
    monkeypatch.setattr(
        host.Thesis, "ibi_record", lambda row: ItemRecord(state="Deleted", tombstone=tombstone)
    )
    host.ibi.refresh(withdrawn)
    host.session.commit()
    for ibi in ibis:
        item = view_of(host.archive, ibi)
        title = item.stated_title and item.stated_title[0]
        assert (item.record.state, title) == ("Deleted", None if discard else "On rain")


def test_a_rollback_undoes_what_the_host_said_about_a_removal(host: Host) -> None:
    first, second = host.add(), host.add()
    ibis = [first.ibi, second.ibi]
    with suppress(ZeroDivisionError), host.session.begin_nested():
        host.ibi.removing(first, reason="a mistake", discard_description=True)
        raise ZeroDivisionError
    host.ibi.removing(second, reason="a mistake", discard_description=True)
    host.session.rollback()
    host.session.delete(first)
    host.session.delete(second)
    host.session.commit()
    for ibi in ibis:
        item = view_of(host.archive, ibi)
        assert item.record.tombstone == Tombstone("removed by the repository")
        assert item.stated_title is not None


def test_a_wrong_reason_is_refused_at_once(host: Host) -> None:
    row = host.add()
    with pytest.raises(RowError, match="Thesis 1: reason: the text is empty"):
        host.ibi.removing(row, reason="")
    with pytest.raises(StorageError, match="not a row of a model with IdentifiedItem"):
        host.ibi.removing(object(), reason="gone")  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="not a row of a model with IdentifiedItem"):
        host.ibi.refresh(object())  # type: ignore[arg-type]


def test_a_new_row_with_the_key_of_a_deleted_row_gets_its_own_item(
    host: Host, base: type[DeclarativeBase]
) -> None:
    class Report(IdentifiedItem, base):  # type: ignore[valid-type, misc]
        __tablename__ = "host_report"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str]  # a self-referential model would lose the new row: SQLAlchemy deletes it

        def ibi_record(self) -> ItemRecord:
            return ItemRecord(title=self.title)

    base.metadata.create_all(host.engine)
    row, new = Report(id=1, title="old"), Report(id=1, title="new")
    host.session.add(row)
    host.session.commit()
    old = row.ibi
    host.session.delete(row)
    host.session.add(new)
    host.session.commit()
    assert new.ibi != old
    assert item_of(host, new).title == "new"
    item = view_of(host.archive, str(old))
    assert item.record.state == "Deleted"
    host.session.remove()
    base.metadata.drop_all(host.engine)


# --- rollbacks -----------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_after_a_rollback_nothing_remains_and_the_label_is_never_issued_again(
    host: Host,
) -> None:
    before = dump(host.archive.database)
    row = host.Thesis(title="On rain", pdf=host.write("a.pdf", "rain"))
    host.session.add(row)
    host.session.flush()
    label = row.ibi
    host.session.rollback()
    assert row.ibi is None
    assert dump(host.archive.database) == before
    assert host.stored() == []
    host.session.add(row)
    host.session.commit()
    assert row.ibi != label


@pytest.mark.only_on("postgresql")  # SQLite has one writer at a time
def test_a_rollback_never_deletes_a_file_of_an_open_transaction(host: Host) -> None:
    with Session(host.engine) as other:
        for session in (other, host.session):
            session.add(host.Thesis(title="On rain", pdf=host.write("a.pdf", "rain")))
            session.flush()
        host.session.rollback()
        assert host.stored() == ["rain"]
        other.commit()
    assert host.stored() == ["rain"]


# --- refusals ------------------------------------------------------------------------------------


def test_a_wrong_record_makes_the_flush_fail_with_the_row_the_field_and_the_expected_value(
    host: Host,
) -> None:
    before = dump(host.archive.database)
    host.session.add_all([host.Thesis(title="right"), host.Thesis(title="wrong", language="xx")])
    name = host.Thesis.__name__
    with pytest.raises(RowError, match=f"^{name} [12]: language: 'xx' is not a language; write"):
        host.session.commit()
    host.session.rollback()
    assert dump(host.archive.database) == before
    host.add("right")


@pytest.mark.postgresql
def test_a_broken_rule_names_the_row(host: Host) -> None:
    first = host.add("first", language="en")
    host.add("second", previous=first)
    with pytest.raises(RowError, match=r"^Thesis 3: .* already has a next edition"):
        host.add("third", previous=first)
    host.session.rollback()
    with pytest.raises(RowError, match=r"^Thesis [34]: .*language='pt'"):
        host.add("terceira", translated=first)


def test_a_flush_does_not_wait_for_a_date(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.add("first")
    before = dump(host.archive.database)
    minter = host.archive.minter
    monkeypatch.setattr(minter, "clock", lambda: minting.read_clock() - Fraction(5))
    monkeypatch.setattr(minter, "wait", lambda seconds: pytest.fail("the flush waits"))
    with pytest.raises(MintingError, match=r"a flush waits at most 0\.2 s; nothing was written"):
        host.add("second")
    host.session.rollback()
    assert dump(host.archive.database) == before


def test_a_flush_outside_of_an_app_context_is_refused_with_advice(host: Host) -> None:
    with Session(host.engine) as session:
        session.add(host.Thesis(title="On rain"))
        host.context.pop()
        with pytest.raises(RuntimeError, match=r"with app\.app_context\(\)"):
            session.commit()
        host.context.push()


def test_an_archive_without_the_session_of_the_host_is_refused_with_advice(
    uri: str, tmp_path: Path, host: Host
) -> None:
    app = Flask("other", instance_path=str(tmp_path / "other"))
    app.config.update(SECRET_KEY="a secret for tests", IBI_DATABASE_URI=uri)
    IBIArchive(app)
    with app.app_context():
        with pytest.raises(ConfigError, match=r"IBIArchive\(session=db\.session\)"):
            host.add()
        host.session.rollback()
    app.extensions["ibi_archive"].archive.database.close()


def test_rows_in_another_database_than_the_items_are_refused(host: Host, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/other.sqlite")
    host.Thesis.metadata.create_all(engine)
    with Session(binds={host.Thesis: engine, Item: host.engine}) as session:
        session.add(host.Thesis(title="On rain"))
        with pytest.raises(StorageError, match=r"Thesis and the items .* different databases"):
            session.commit()
    engine.dispose()


# --- the model -----------------------------------------------------------------------------------


@pytest.fixture
def base() -> Iterator[type[DeclarativeBase]]:
    class Base(DeclarativeBase):
        pass

    yield Base
    Base.registry.dispose()


def test_a_model_without_ibi_record_is_refused_with_advice() -> None:
    class Report(IdentifiedItem):
        pass

    with pytest.raises(
        TypeError, match=r"Report has no method ibi_record; define ibi_record\(self"
    ):
        Report().ibi_record()


# --- related rows --------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_related_rows_on_which_a_record_depends_edit_the_item(
    host: Host, base: type[DeclarativeBase], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Author(base):  # type: ignore[valid-type, misc]
        __tablename__ = "host_author"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str]

    class Attachment(base):  # type: ignore[valid-type, misc]
        __tablename__ = "host_attachment"
        id: Mapped[int] = mapped_column(primary_key=True)
        report_id: Mapped[int | None] = mapped_column(ForeignKey("host_report.id"))
        path: Mapped[str]

    class Report(IdentifiedItem, base):  # type: ignore[valid-type, misc]
        __tablename__ = "host_report"
        ibi_depends_on = ("attachments", "author")
        id: Mapped[int] = mapped_column(primary_key=True)
        author_id: Mapped[int] = mapped_column(ForeignKey("host_author.id"))
        author: Mapped[Author] = relationship(Author)
        attachments: Mapped[list[Attachment]] = relationship(
            Attachment, cascade="all, delete-orphan", order_by=Attachment.id
        )

        def ibi_record(self) -> ItemRecord:
            files = [attachment.path for attachment in self.attachments]
            return ItemRecord(title="Report", creators=[self.author.name], files=files)

    def files_of(report: Any) -> list[str]:
        host.session.commit()
        return [file.path for file in item_of(host, report).record.files]

    base.metadata.create_all(host.engine)
    try:
        paths = {name: host.write(f"{name}.pdf", name) for name in "abcde"}
        author, attachments = Author(name="Ana"), [Attachment(path=paths[name]) for name in "ab"]
        report = Report(author=author, attachments=attachments)
        other = Report(author=author)
        host.session.add_all([report, other])
        assert files_of(report) == ["a.pdf", "b.pdf"]
        host.session.delete(attachments[0])
        assert files_of(report) == ["b.pdf"]
        host.session.add(Attachment(path=paths["c"], report_id=report.id))
        assert files_of(report) == ["b.pdf", "c.pdf"]
        report.attachments.pop()
        report.attachments.append(Attachment(path=paths["d"]))
        assert files_of(report) == ["b.pdf", "d.pdf"]
        attachments[1].path = paths["e"]
        assert files_of(report) == ["e.pdf", "d.pdf"]
        attachments[1].report_id = other.id
        assert (files_of(report), files_of(other)) == (["d.pdf"], ["e.pdf"])
        author.name = "Davi"
        host.session.commit()
        for row in (report, other):
            assert item_of(host, row).creators == ["Davi"]
        monkeypatch.setattr(Report, "ibi_depends_on", ("author", "file"))
        author.name = "Eva"
        with pytest.raises(
            TypeError, match=r"ibi_depends_on: file is not a relationship of Report"
        ):
            host.session.commit()
        monkeypatch.undo()
    finally:
        host.session.remove()
        base.metadata.drop_all(host.engine)


def test_a_dataclass_model_has_no_parameters_for_its_identifiers(host: Host) -> None:
    class Base(MappedAsDataclass, DeclarativeBase):
        pass

    class Report(IdentifiedItem, Base):
        __tablename__ = "host_report"
        id: Mapped[int] = mapped_column(primary_key=True, init=False)
        title: Mapped[str]

        def ibi_record(self) -> ItemRecord:
            return ItemRecord(title=self.title)

    Base.metadata.create_all(host.engine)
    row = Report("On rain")
    host.session.add(row)
    host.session.commit()
    row.title = "On snow"
    host.session.commit()
    assert item_of(host, row).title == "On snow"


# --- the number of statements -------------------------------------------------------------------

EDITS: dict[str, Callable[[Host, Any], object]] = {
    "edit": lambda host, row: setattr(row, "title", f"{row.title} again"),
    "edit with a file": lambda host, row: setattr(row, "pdf", host.write(f"{row.id}.pdf", "rain")),
    "no change of the item": lambda host, row: setattr(row, "views", 7),
    "withdraw": lambda host, row: setattr(row, "state", "Deleted"),
    "delete": lambda host, row: host.session.delete(row),
}


def add_rows(host: Host, count: int) -> list[Any]:
    rows = [host.Thesis(title=f"thesis {number}", language="en") for number in range(count)]
    host.session.add_all(rows)
    host.session.commit()
    return [row for row in host.session.scalars(select(host.Thesis)) if row in rows]


@pytest.mark.parametrize("change", EDITS)
def test_many_rows_need_as_many_statements_as_few(host: Host, change: str) -> None:
    statements: list[str] = []

    def count(number: int) -> int:
        rows = add_rows(host, number)
        for row in rows:
            EDITS[change](host, row)
        statements.clear()
        host.session.commit()
        return len(statements)

    event.listen(
        host.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2])
    )
    few = count(25)
    assert count(50) == few, "\n".join(statements)


# --- files, which are read again only if they change ----------------------------------------------

#: A modification time in nanoseconds since 1970, long ago.
OLD = 1_000_000_000_123_456_789


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the uploads that were read, once for each time."""
    names: list[str] = []
    open_file = Path.open

    def note(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if path.suffix == ".pdf" and "r" in mode:
            names.append(path.name)
        return open_file(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", note)
    return names


def write(host: Host, name: str, content: str, modified: int = OLD) -> str:
    """Write an upload that was modified at a time, and return its path."""
    path = host.folder / name
    path.write_bytes(content.encode())
    os.utime(path, ns=(modified, modified))
    return str(path)


def add(host: Host, opened: list[str], name: str = "a.pdf") -> Any:
    """Add a row whose file is read once, and forget that it was read."""
    row = host.add(pdf=write(host, name, "rain"))
    assert opened == [name]
    opened.clear()
    return row


def refresh(host: Host, row: Any) -> None:
    host.ibi.refresh(row)
    host.session.commit()


def read_item(host: Host, row: Any) -> tuple[str, list[str | None]]:
    item = item_of(host, row)
    contents = [
        host.archive.files_folder.path(file.sha256 or "").read_text() for file in item.record.files
    ]
    return item.title, contents


def test_a_file_that_is_known_is_not_read_again_even_when_it_is_gone(
    host: Host, opened: list[str]
) -> None:
    row = add(host, opened)
    row.views = 1
    host.session.commit()
    refresh(host, row)
    (host.folder / "a.pdf").rename(host.folder / "moved.pdf")
    row.title = "On snow"
    host.session.commit()
    assert opened == []
    assert read_item(host, row) == ("On snow", ["rain"])
    row.pdf = str(host.folder / "missing.pdf")
    with pytest.raises(RowError, match=r"missing\.pdf can't be read: No such file"):
        host.session.commit()


def test_a_file_with_another_size_time_or_path_is_read_again(host: Host, opened: list[str]) -> None:
    row = add(host, opened)
    for content, modified in (("snow", OLD + 1), ("rain and snow", OLD + 1), ("rain", OLD + 2)):
        write(host, "a.pdf", content, modified)
        refresh(host, row)
        assert read_item(host, row) == ("On rain", [content])
        opened.clear()
        refresh(host, row)
        assert opened == []
    (host.folder / "b").mkdir()
    row.pdf = write(host, "b/a.pdf", "rain")
    host.session.commit()
    refresh(host, row)
    assert opened == ["a.pdf"]


def test_a_file_that_may_change_again_at_the_same_time_is_read_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within one step of its clock, a file system gives two changes of a file the same time."""
    monkeypatch.setattr("time.time_ns", lambda: OLD + 5_000_000)
    row = host.add(pdf=write(host, "a.pdf", "rain"))
    write(host, "a.pdf", "snow")
    refresh(host, row)
    assert read_item(host, row) == ("On rain", ["snow"])


def test_a_file_that_changes_while_it_is_read_is_read_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_stream = Staging.add_stream

    def change(staging: Staging, stream: Any) -> Any:
        content = add_stream(staging, stream)
        write(host, "a.pdf", "snow", OLD + 1)
        return content

    path = write(host, "a.pdf", "rain")
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "add_stream", change)
        row = host.add(pdf=path)
    refresh(host, row)
    assert read_item(host, row) == ("On rain", ["snow"])
