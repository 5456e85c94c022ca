"""Rows that two sessions change at the same time: the rows and their items agree afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Column,
    ForeignKey,
    Table,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.orm.attributes import flag_modified
from support.host_models import MODELS, Host

from flask_ibi_archive import IdentifiedItem, ItemRecord
from flask_ibi_archive.archive.hosts import adopting
from flask_ibi_archive.core.records.record import DublinCoreMetadata
from flask_ibi_archive.errors import IBIError

# On SQLite, two sessions can change a row one after the other only if reading begins no
# transaction. This is so with the transactions of the driver.


@pytest.fixture
def host(new_host: Callable[..., Host], uri: str) -> Host:
    """A host with a plain model."""
    return new_host(engine=create_engine(uri))


@pytest.fixture(params=MODELS)
def any_host(request: pytest.FixtureRequest, new_host: Callable[..., Host], uri: str) -> Host:
    """A host with each kind of model in turn."""
    return new_host(request.param, engine=create_engine(uri))


def insert_row(host: Host, title: str = "On rain") -> None:
    """Insert a row without identifiers, as it was before the mixin."""
    host.session.execute(insert(host.Thesis).values(title=title, state="Original"))
    host.session.commit()


def assert_agree(host: Host) -> None:
    """Each row has a public item with the same title, and each public item has its row."""
    host.session.commit()
    rows = host.session.scalars(select(host.Thesis)).all()
    items = {item.ibi: item.title for item in host.archive.find(state="Original")}
    assert items == {row.ibi: row.title for row in rows}


def change_elsewhere(host: Host, change: Callable[[Any], object]) -> str:
    """Change the first row in another session, and return its identifier."""
    with Session(host.session.get_bind()) as other:
        row = other.scalars(select(host.Thesis).order_by(host.Thesis.id).limit(1)).one()
        change(row)
        other.commit()
        return str(row.ibi)


# --- rows without identifiers --------------------------------------------------------------------


@pytest.mark.postgresql
@pytest.mark.parametrize("work", ["change", "refresh", "reference", "delete"])
def test_an_identifier_that_another_session_has_assigned_is_never_replaced(
    host: Host, work: str
) -> None:
    insert_row(host)
    row = host.session.scalars(select(host.Thesis)).one()
    assert row.ibi is None
    ibi = change_elsewhere(host, lambda row: setattr(row, "views", 1))
    if work == "change":
        row.title = "On snow"
    elif work == "refresh":
        host.ibi.refresh(row)
    elif work == "reference":
        host.session.add(host.Thesis(title="next", previous=row))
    else:
        host.session.delete(row)
    assert_agree(host)
    item = host.archive.get(ibi)
    assert item is not None
    assert (item.record.state == "Deleted") == (work == "delete")
    assert (item.record.next_edition is not None) == (work == "reference")


@pytest.mark.postgresql
def test_a_row_that_another_session_has_deleted_gets_no_item(host: Host) -> None:
    insert_row(host)
    row = host.session.scalars(select(host.Thesis)).one()
    with Session(host.engine) as other:
        other.execute(delete(host.Thesis))
        other.commit()
    with pytest.raises(IBIError, match="Thesis 1: another transaction has deleted the row"):
        host.ibi.refresh(row)
    host.session.rollback()
    assert_agree(host)


CHANGES: dict[str, Callable[[Host, Session], object]] = {
    "flush": lambda host, other: setattr(other.get(host.Thesis, 1), "title", "On snow"),
    "update": lambda host, other: other.execute(update(host.Thesis).values(title="On snow")),
    "delete": lambda host, other: other.execute(delete(host.Thesis).where(host.Thesis.id == 1)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("after", ["before the rows are read", "after the rows were read"])
def test_rows_that_others_change_during_an_adoption_agree_with_their_items(
    host: Host, change: str, after: str
) -> None:
    for title in ("On rain", "On ice"):
        insert_row(host, title)
    done: list[bool] = []

    def run(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "LIMIT" not in statement or done:
            return
        done.append(True)
        # the adoption may have locked the rows, and waits for this function
        with Session(host.engine) as other, suppress(DBAPIError):
            waiting = (
                "SET LOCAL lock_timeout = 100"
                if host.engine.dialect.name == "postgresql"
                else "PRAGMA busy_timeout = 100"
            )
            other.execute(text(waiting))
            CHANGES[change](host, other)
            other.commit()

    name = f"{after.partition(' ')[0]}_cursor_execute"
    event.listen(host.engine, name, run)
    result = adopting.Adopter(host.archive, host.session(), host.Thesis).run()
    event.remove(host.engine, name, run)
    assert done
    assert result.adopted > 0
    assert_agree(host)


# --- changed rows --------------------------------------------------------------------------------


class Base(DeclarativeBase):
    """The base class of the models below."""


authorship = Table(
    "host_authorship",
    Base.metadata,
    Column("book_id", ForeignKey("host_book.id"), primary_key=True),
    Column("author_id", ForeignKey("host_author.id"), primary_key=True),
)


class Author(Base):
    __tablename__ = "host_author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Book(IdentifiedItem, Base):
    __tablename__ = "host_book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    pages: Mapped[int | None]
    tags: Mapped[list[str]] = mapped_column(JSON, default=list)
    abstract: Mapped[str | None] = mapped_column(deferred=True)
    editor_id: Mapped[int | None] = mapped_column(ForeignKey("host_author.id"))
    editor: Mapped[Author | None] = relationship()
    authors: Mapped[list[Author]] = relationship(secondary=authorship, order_by=Author.id)

    def ibi_record(self) -> ItemRecord:
        names = [author.name for author in self.authors]
        edited = [] if self.editor is None else [f"{self.editor.name} (ed.)"]
        return ItemRecord(title=self.title, creators=[*names, *edited])


@pytest.fixture
def book(host: Host) -> Iterator[Book]:
    """A book with one of two authors, in the session of a host."""
    Base.metadata.create_all(host.engine)
    host.session.add_all([Author(name="Silva"), Author(name="Souza")])
    host.session.flush()
    author = host.session.get(Author, 1)
    book = Book(title="On rain", pages=1, tags=["rain"], authors=[author])
    host.session.add(book)
    host.session.commit()
    assert book.authors == [author]
    assert (book.title, book.editor) == ("On rain", None)
    yield book
    host.session.remove()
    Base.metadata.drop_all(host.engine)


@pytest.mark.postgresql
def test_an_item_never_returns_to_old_values_of_its_row(any_host: Host) -> None:
    host = any_host
    row = host.add(language="en")
    assert row.title == "On rain"
    change_elsewhere(host, lambda row: setattr(row, "title", "On snow"))
    row.views = 5
    assert_agree(host)
    assert (row.title, row.views) == ("On snow", 5)


@pytest.mark.postgresql
@pytest.mark.parametrize("own", ["pages", "authors", "editor_id"])
@pytest.mark.parametrize("other", ["title", "authors", "editor"])
def test_an_item_contains_what_two_sessions_have_changed_in_its_row(
    host: Host, book: Book, own: str, other: str
) -> None:
    def change(session: Session, book: Book, name: str) -> None:
        if name == "authors":
            third = Author(name=f"Costa {own == other} {session is host.session()}")
            book.authors.append(third)
        elif name == "editor":
            book.editor = session.get(Author, 2)
        else:
            setattr(book, name, {"pages": 2, "title": "On snow", "editor_id": 1}[name])

    with Session(host.engine) as session:
        change(session, session.get_one(Book, book.id), other)
        session.commit()
    change(host.session(), book, own)
    host.session.commit()
    host.session.expire_all()
    item = host.archive.get(str(book.ibi))
    assert item is not None
    assert item.title == book.title
    assert isinstance(item.record.metadata, DublinCoreMetadata)
    names = [name for name, _ in item.record.metadata.elements["creator"]]
    assert names == book.ibi_record()["creators"]


def test_the_session_of_the_host_is_not_changed_if_nobody_else_changes_the_row(
    host: Host, book: Book
) -> None:
    host.session.refresh(book)
    assert book.editor is None
    authors, tags, author = book.authors, book.tags, book.authors[0]
    before = dict(inspect(book).dict)
    received: list[str] = []
    for name in ("refresh", "expire"):
        event.listen(Book, name, lambda *arguments, name=name: received.append(name))
    book.pages = "7"  # type: ignore[assignment]
    host.session.flush()
    assert inspect(book).dict == {**before, "pages": "7"}
    assert (book.authors is authors, book.tags is tags) == (True, True)
    assert "abstract" in inspect(book).unloaded
    assert not inspect(author).expired_attributes
    assert received == []
    authors.append(host.session.get_one(Author, 2))
    host.session.commit()
    assert len(book.authors) == 2


def test_a_value_that_the_host_has_changed_in_place_is_not_lost(host: Host, book: Book) -> None:
    book.tags.append("snow")
    book.pages = 2
    host.session.flush()
    flag_modified(book, "tags")
    host.session.commit()
    assert book.tags == ["rain", "snow"]


def test_a_change_that_a_listener_of_the_host_makes_after_the_flush_is_kept(
    host: Host, book: Book
) -> None:
    def change(session: Session, *rest: Any) -> None:
        if not book.title.endswith("!"):
            book.title += "!"

    event.listen(Session, "after_flush_postexec", change, insert=True)
    book.pages = 2
    host.session.commit()
    event.remove(Session, "after_flush_postexec", change)
    assert book.title == "On rain!"
    item = host.archive.get(str(book.ibi))
    assert item is not None
    assert item.title == "On rain!"
