"""Models with IdentifiedItem: what a host does with its rows, and what happens to their items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
from flask import Flask
from sqlalchemy import ForeignKey, MetaData, create_engine, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from support.archives import import_records
from support.host_models import Host
from support.operations import dump, group_of

from flask_ibi_archive import IBIArchive, IdentifiedItem, ItemRecord, ItemView, Tombstone
from flask_ibi_archive.archive.items import minting, read
from flask_ibi_archive.archive.items.tables import Item
from flask_ibi_archive.core.identifiers.grammar import build_ibip_suffix
from flask_ibi_archive.errors import ConfigError, MintingError, RowError, StorageError


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    """A host with a plain model."""
    return new_host()


def item_of(host: Host, row: Any) -> ItemView:
    item = host.archive.get(row.ibi)
    assert item is not None
    return item


def age(host: Host, row: Any) -> None:
    """Make the timestamp of an item old."""
    old = datetime(2001, 1, 1, tzinfo=timezone.utc)
    host.session.execute(update(Item).where(Item.ibip == row.ibi).values(timestamp=old))
    host.session.commit()


def is_old(host: Host, row: Any) -> bool:
    timestamp = item_of(host, row).record.timestamp
    return timestamp is not None and timestamp.year == 2001


# --- new rows ------------------------------------------------------------------------------------


def test_a_new_row_gets_an_identifier_and_its_item_is_deposited(any_host: Host) -> None:
    host = any_host
    row = host.add(language="pt", pdf=host.write("a.pdf", "rain"))
    assert row.ibi == row.ibi_ibip
    assert row.persistent_url == f"http://urlib.net/{row.ibi}"
    item = item_of(host, row)
    assert (item.title, item.record.language, item.record.rep) == ("On rain", "pt", row.ibi_rep)
    assert [file.path for file in item.record.files] == ["a.pdf"]
    assert host.stored() == ["rain"]


def test_the_identifier_is_known_after_the_flush_and_the_item_after_the_commit(host: Host) -> None:
    row = host.Thesis(title="On rain")
    assert (row.ibi, row.persistent_url) == (None, None)
    host.session.add(row)
    host.session.flush()
    assert row.ibi is not None
    assert host.archive.get(row.ibi) is None
    host.session.commit()
    assert item_of(host, row).title == "On rain"


def test_the_identifiers_of_many_rows_are_minted_together(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    dates = []
    store = minting.store_last_date
    monkeypatch.setattr(
        minting, "store_last_date", lambda *parts: dates.append(parts[2]) or store(*parts)
    )
    host.session.add_all([host.Thesis(title=str(number)) for number in range(50)])
    host.session.commit()
    assert len(dates) == 1
    assert len(list(host.archive.find())) == 50


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


def test_a_row_may_refer_to_new_rows_in_any_order(any_host: Host) -> None:
    host = any_host
    first = host.Thesis(title="first", language="en")
    second = host.Thesis(title="second", language="en", previous=first)
    portuguese = host.Thesis(title="segunda", language="pt", translated=second)
    french = host.Thesis(title="la seconde", language="fr", translated=portuguese)
    host.session.add_all([french, portuguese, second, first])
    host.session.commit()
    assert item_of(host, first).record.next_edition == second.ibi_rep
    members = {ibi for _, ibi in group_of(host.archive, str(second.ibi))}
    assert members == {second.ibi_rep, portuguese.ibi_rep, french.ibi_rep}


def test_a_row_may_refer_to_an_older_row_without_identifier_which_gets_one(host: Host) -> None:
    host.session.execute(insert(host.Thesis).values(title="older"))
    host.session.commit()
    older = host.session.scalars(select(host.Thesis)).one()
    newer = host.add("newer", previous=older)
    assert item_of(host, older).record.next_edition == newer.ibi_rep
    assert older.changes == 0  # the content of the row is the same as before


# --- changes -------------------------------------------------------------------------------------


def test_a_change_of_the_record_edits_the_item(any_host: Host) -> None:
    host = any_host
    row = host.add(language="en", pdf=host.write("a.pdf", "rain"))
    age(host, row)
    row.title = "On snow"
    host.session.commit()
    item = item_of(host, row)
    assert (item.title, item.record.language) == ("On snow", "en")
    assert not is_old(host, row)
    assert [file.path for file in item.record.files] == ["a.pdf"]


def test_a_change_of_another_column_does_not_change_the_timestamp(host: Host) -> None:
    pdf = host.write("a.pdf", "rain")
    os.utime(pdf, (0, 0))  # the time of a file that was just written is stored later
    row = host.add(language="en", pdf=pdf)
    other = host.add("On snow", previous=row, language="en")
    for one in (row, other):
        age(host, one)
    before = dump(host.archive.database)
    row.views = other.views = 5
    host.session.commit()
    assert is_old(host, row)
    assert is_old(host, other)
    assert dump(host.archive.database) == before


def test_a_file_is_stored_again_only_if_its_content_differs(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = host.add(pdf=host.write("a.pdf", "rain"))
    age(host, row)
    row.views = 1
    with monkeypatch.context() as patch:
        patch.setattr("flask_ibi_archive.archive.items.files.Staging.add_stream", None)
        host.session.commit()
    assert is_old(host, row)
    host.write("a.pdf", "snow")
    row.views = 2
    host.session.commit()
    assert not is_old(host, row)
    assert "snow" in host.stored()


def test_a_field_that_the_record_omits_keeps_its_value(host: Host) -> None:
    row = host.add()
    host.archive.edit(row.ibi, access={"networks": ["150.163.0.0/16"]})
    row.title = "On snow"
    host.session.commit()
    assert item_of(host, row).record.access is not None


def test_a_row_can_get_another_previous_edition_and_lose_it(host: Host) -> None:
    first, second, third = host.add("1"), host.add("2"), host.add("3")
    third.previous = first
    host.session.commit()
    assert item_of(host, first).record.next_edition == third.ibi_rep
    third.previous = second
    host.session.commit()
    assert item_of(host, first).record.next_edition is None
    assert item_of(host, second).record.next_edition == third.ibi_rep
    third.previous = None
    host.session.commit()
    assert item_of(host, second).record.next_edition is None


def test_a_translation_leaves_its_group_if_the_first_item_is_edited(host: Host) -> None:
    first = host.add("Rain", language="en")
    portuguese = host.add("Chuva", language="pt", translated=first)
    french = host.add("Pluie", language="fr", translated=first)
    assert set(item_of(host, first).record.translations) == {"pt", "fr"}
    french.translated = None
    host.session.commit()
    assert set(item_of(host, first).record.translations) == {"pt", "fr"}
    host.archive.edit(first, translations={"pt": portuguese.ibi})
    host.session.commit()
    french.title = "La pluie"
    host.session.commit()
    assert set(item_of(host, first).record.translations) == {"pt"}


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


def test_a_reserved_identifier_is_released_if_the_row_is_deleted(host: Host) -> None:
    row = host.add(state="Draft")
    host.session.delete(row)
    host.session.commit()
    [reservation] = host.archive.reservations()
    assert reservation.status == "released"


def test_a_row_can_be_withdrawn_and_remain(host: Host) -> None:
    row = host.add()
    row.state = "Deleted"
    host.session.commit()
    tombstone = item_of(host, row).record.tombstone
    assert tombstone is not None
    assert tombstone.reason == "withdrawn by the author"
    row.views = 1
    host.session.commit()
    host.session.delete(row)
    host.session.commit()


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


def test_a_deleted_row_leaves_a_tombstone(any_host: Host) -> None:
    host = any_host
    row = host.add()
    ibi = row.ibi
    host.session.delete(row)
    host.session.commit()
    item = host.archive.get(ibi)
    assert item is not None
    assert item.record.tombstone is not None
    assert item.record.tombstone.reason == "removed by the repository"


def test_the_host_states_reason_and_successor_of_a_removal(host: Host) -> None:
    row = host.add()
    ibi = row.ibi
    corrected = host.Thesis(title="corrected")
    host.session.add(corrected)
    host.ibi.removing(row, reason="retracted", successor=corrected, citation="Silva, 2020")
    host.session.delete(row)
    host.session.commit()
    item = host.archive.get(ibi)
    assert item is not None
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
    withdrawn.title = "changed"
    host.session.commit()
    for ibi in ibis:
        item = host.archive.get(ibi)
        assert item is not None
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
        item = host.archive.get(ibi)
        assert item is not None
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
        title: Mapped[str]

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
    item = host.archive.get(str(old))
    assert item is not None
    assert item.record.state == "Deleted"
    host.session.remove()
    base.metadata.drop_all(host.engine)


# --- rollbacks -----------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_after_a_rollback_nothing_remains_and_the_label_is_never_issued_again(
    any_host: Host,
) -> None:
    host = any_host
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


@pytest.mark.filterwarnings("ignore:Identity map already had an identity")
def test_a_row_that_sqlalchemy_replaces_after_a_rollback_does_no_harm(host: Host) -> None:
    outer = host.session.begin_nested()
    host.session.begin_nested()
    lost = host.Thesis(title="A")
    host.session.add(lost)
    host.session.flush()
    outer.rollback()  # SQLAlchemy keeps the row, because the inner savepoint is open
    savepoint = host.session.begin_nested()
    host.session.add(host.Thesis(title="B"))
    host.session.flush()
    savepoint.rollback()
    host.add("C")
    assert [item.title for item in host.archive.find()] == ["C"]


@pytest.mark.postgresql
def test_after_a_rollback_to_a_savepoint_only_the_earlier_rows_remain(any_host: Host) -> None:
    host = any_host
    first = host.Thesis(title="first", pdf=host.write("a.pdf", "rain"))
    host.session.add(first)
    savepoint = host.session.begin_nested()
    first.title = "changed"
    host.session.add(host.Thesis(title="second", pdf=host.write("b.pdf", "snow")))
    host.session.flush()
    savepoint.rollback()
    host.session.commit()
    assert item_of(host, first).title == "first"
    assert [item.title for item in host.archive.find()] == ["first"]
    assert host.stored() == ["rain"]


def test_a_session_that_is_closed_without_a_commit_leaves_no_file(host: Host) -> None:
    host.session.add(host.Thesis(title="On rain", pdf=host.write("a.pdf", "rain")))
    host.session.flush()
    assert host.stored() == ["rain"]
    host.session.remove()
    assert host.stored() == []


def test_a_rollback_keeps_a_file_that_another_item_needs(host: Host) -> None:
    host.add(pdf=host.write("a.pdf", "rain"))
    host.session.add(host.Thesis(title="second", pdf=host.write("b.pdf", "rain")))
    host.session.flush()
    host.session.rollback()
    assert host.stored() == ["rain"]


def test_files_that_cannot_be_deleted_now_are_deleted_after_the_next_rollback(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*parts: object) -> None:
        raise StorageError("the database is locked")

    host.session.add(host.Thesis(title="On rain", pdf=host.write("a.pdf", "rain")))
    host.session.flush()
    with monkeypatch.context() as patch:
        patch.setattr(read, "remove_unneeded", fail)
        host.session.rollback()
    assert host.stored() == ["rain"]
    host.session.add(host.Thesis(title="On snow", pdf=host.write("b.pdf", "snow")))
    host.session.flush()
    host.session.rollback()
    assert host.stored() == []


@pytest.mark.postgresql
def test_a_rollback_never_deletes_a_file_of_an_open_transaction(uri: str, host: Host) -> None:
    if host.engine.dialect.name == "sqlite":
        return  # a database with one writer at a time
    with Session(host.engine) as other:
        for session in (other, host.session):
            session.add(host.Thesis(title="On rain", pdf=host.write("a.pdf", "rain")))
            session.flush()
        host.session.rollback()
        assert host.stored() == ["rain"]
        other.commit()
    assert host.stored() == ["rain"]


def test_an_error_of_the_host_leaves_no_item(host: Host) -> None:
    before = dump(host.archive.database)
    host.session.add_all([host.Thesis(title="On rain"), host.Thesis(title=None)])
    with pytest.raises(IntegrityError):
        host.session.commit()
    host.session.rollback()
    assert dump(host.archive.database) == before


# --- refusals ------------------------------------------------------------------------------------


def test_a_wrong_record_makes_the_flush_fail_with_the_row_the_field_and_the_expected_value(
    any_host: Host,
) -> None:
    host = any_host
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


def test_a_missing_file_names_the_row_and_the_path(host: Host) -> None:
    with pytest.raises(RowError, match=r"^Thesis 1: .*missing\.pdf can't be read: No such file"):
        host.add(pdf="/nowhere/missing.pdf")


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


def test_a_coarse_granularity_does_not_delay_a_flush(new_host: Callable[..., Host]) -> None:
    host = new_host(IBI_GRANULARITY="60")
    host.session.add_all([host.Thesis(title=str(number)) for number in range(20)])
    host.session.commit()
    assert len(list(host.archive.find())) == 20


def test_a_flush_outside_of_an_app_context_is_refused_with_advice(host: Host) -> None:
    host.context.pop()
    try:
        with pytest.raises(RuntimeError, match=r"with app\.app_context\(\)"):
            host.add()
        host.session.rollback()
    finally:
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
        metadata = MetaData(
            naming_convention={
                "ix": "idx_%(table_name)s_%(column_0_name)s",
                "pk": "pk_%(table_name)s",
            }
        )

    yield Base
    Base.registry.dispose()


def test_a_model_without_ibi_record_is_refused_with_advice(
    host: Host, base: type[DeclarativeBase]
) -> None:
    class Report(IdentifiedItem, base):  # type: ignore[valid-type, misc]
        __tablename__ = "host_report"
        id: Mapped[int] = mapped_column(primary_key=True)

    base.metadata.create_all(host.engine)
    host.session.add(Report())
    with pytest.raises(
        TypeError, match=r"Report has no method ibi_record; define ibi_record\(self"
    ):
        host.session.commit()
    host.session.rollback()
    base.metadata.drop_all(host.engine)


def test_the_names_of_the_indexes_follow_the_hosts_naming_convention(
    base: type[DeclarativeBase],
) -> None:
    class Report(IdentifiedItem, base):  # type: ignore[valid-type, misc]
        __tablename__ = "report"
        id: Mapped[int] = mapped_column(primary_key=True)

    indexes = Report.__table__.indexes
    assert {(index.name, index.unique) for index in indexes} == {
        ("idx_report_ibi_rep", True),
        ("idx_report_ibi_ibip", True),
    }
    assert Report.__table__.c.ibi_rep.nullable


def test_a_model_may_inherit_its_identifiers_from_a_joined_table(
    host: Host, base: type[DeclarativeBase]
) -> None:
    class Publication(IdentifiedItem, base):  # type: ignore[valid-type, misc]
        __tablename__ = "host_publication"
        id: Mapped[int] = mapped_column(primary_key=True)
        kind: Mapped[str]
        __mapper_args__: ClassVar[dict[str, str]] = {
            "polymorphic_on": "kind",
            "polymorphic_identity": "publication",
        }

        def ibi_record(self) -> ItemRecord:
            return ItemRecord(title=f"{self.kind} {self.id}")

    class Report(Publication):
        __tablename__ = "host_report"
        id: Mapped[int] = mapped_column(ForeignKey("host_publication.id"), primary_key=True)
        pages: Mapped[int]
        __mapper_args__: ClassVar[dict[str, str]] = {"polymorphic_identity": "report"}

    base.metadata.create_all(host.engine)
    row = Report(pages=3)
    host.session.add(row)
    host.session.commit()
    assert item_of(host, row).title == f"report {row.id}"
    assert "ibi_rep" not in Report.__table__.c
    host.session.remove()
    base.metadata.drop_all(host.engine)


def test_several_classes_of_one_table_may_have_identifiers(
    host: Host, base: type[DeclarativeBase]
) -> None:
    def describe_kind(row: Any) -> ItemRecord:
        return ItemRecord(title=row.kind)

    class Page(base):  # type: ignore[valid-type, misc]
        __tablename__ = "host_page"
        id: Mapped[int] = mapped_column(primary_key=True)
        kind: Mapped[str]
        __mapper_args__: ClassVar[dict[str, str]] = {
            "polymorphic_on": "kind",
            "polymorphic_identity": "page",
        }

    class Report(IdentifiedItem, Page):
        __mapper_args__: ClassVar[dict[str, str]] = {"polymorphic_identity": "report"}
        ibi_record = describe_kind

    class Poster(IdentifiedItem, Page):
        __mapper_args__: ClassVar[dict[str, str]] = {"polymorphic_identity": "poster"}
        ibi_record = describe_kind

    base.metadata.create_all(host.engine)
    report, poster = Report(), Poster()
    host.session.add_all([report, poster, Page()])
    host.session.commit()
    assert [item_of(host, row).title for row in (report, poster)] == ["report", "poster"]
    poster.ibi_ibip = "733NF838W/2"
    with pytest.raises(RowError, match="identifiers are permanent"):
        host.session.commit()
    host.session.remove()
    base.metadata.drop_all(host.engine)


# --- identifiers in other systems ----------------------------------------------------------------


def test_a_row_states_the_identifiers_of_its_item_in_other_systems(
    new_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = new_host()
    describe = host.Thesis.ibi_record
    links: dict[str, list[str]] = {}

    def ibi_record(row: Any) -> ItemRecord:
        record: ItemRecord = describe(row)
        if row.title in links:
            record["same_as"] = links[row.title]
        return record

    monkeypatch.setattr(host.Thesis, "ibi_record", ibi_record)
    links["a"] = ["https://doi.org/10.5281/zenodo.12", "http://old.example.org/1"]
    row = host.add("a")
    assert item_of(host, row).record.same_as == ("doi:10.5281/zenodo.12", links["a"][1])
    age(host, row)
    row.views = 7
    host.session.commit()
    assert is_old(host, row)
    row.title = "b"  # a record without the field keeps them
    host.session.commit()
    assert item_of(host, row).record.same_as == ("doi:10.5281/zenodo.12", links["a"][1])
    links["c"] = ["doi:10.5281/zenodo.12"]
    with pytest.raises(StorageError, match="already has one of the aliases") as refused:
        host.add("c")
    assert "\n" not in str(refused.value)
    host.session.rollback()
    links["b"] = []
    row.title, row.views = "b", 8
    host.session.commit()
    host.session.execute(update(host.Thesis).values(views=9))
    row.language = "pt"
    host.session.commit()
    assert item_of(host, row).record.same_as == ()
    assert host.add("c").ibi
