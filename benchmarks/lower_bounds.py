"""What any system costs: Flask alone, one statement, and a database's driver alone."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import sqlite3
import time
from collections.abc import Callable
from typing import Any

import psycopg
from flask import Flask
from sqlalchemy import (
    ForeignKey,
    bindparam,
    column,
    create_engine,
    make_url,
    select,
    table,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from support.stores import rep_of

from .ours import GROUP, ITEMS, MEASURED
from .worker import Work, repeated, requests_to

# --- Flask ---------------------------------------------------------------------------------------


def bare_view() -> Work:
    """Prepare requests to a view that returns a constant, in an app without a SECRET_KEY."""
    return requests_to(app_with(lambda: "constant"), "/")


def bare_view_with_key() -> Work:
    """Prepare requests to a view that returns a constant, in an app with a SECRET_KEY."""
    return requests_to(app_with(lambda: "constant", SECRET_KEY="a secret for tests"), "/")


def one_select(uri: str) -> Work:
    """Prepare requests to a view that executes one SELECT on the table of identifiers."""
    engine = create_engine(uri)
    identifiers = table("ibi_identifier", column("item_id"), column("archive_id"), column("text"))
    columns = identifiers.c
    wanted = columns.text == bindparam("ibi")
    statement = select(columns.item_id, columns.archive_id).where(wanted)
    values = {"ibi": rep_of(GROUP * MEASURED)}

    def view() -> str:
        with engine.connect() as connection:
            [row] = connection.execute(statement, values).all()
        return "constant" if row else ""

    return requests_to(app_with(view), "/")


def app_with(view: Callable[[], str], **config: str) -> Any:
    """Return an app with one view."""
    app = Flask("bare")
    app.config.from_mapping(config)
    app.add_url_rule("/", view_func=view)
    return app.wsgi_app


# --- an object-relational mapper -----------------------------------------------------------------


class Base(DeclarativeBase):
    """The tables of :func:`lazy_objects`."""


class Item(Base):
    """An item, whose related items are loaded when they are used."""

    __tablename__ = "lazy_item"
    id: Mapped[int] = mapped_column(primary_key=True)
    rep: Mapped[str] = mapped_column(unique=True)
    translation_id: Mapped[int | None] = mapped_column(ForeignKey("lazy_item.id"))
    metadata_id: Mapped[int | None] = mapped_column(ForeignKey("lazy_item.id"))
    next_id: Mapped[int | None] = mapped_column(ForeignKey("lazy_item.id"))
    translation: Mapped[Item | None] = relationship(foreign_keys=translation_id, remote_side=id)
    description: Mapped[Item | None] = relationship(foreign_keys=metadata_id, remote_side=id)
    following: Mapped[Item | None] = relationship(foreign_keys=next_id, remote_side=id)
    files: Mapped[list[File]] = relationship()


class File(Base):
    """A file of an item."""

    __tablename__ = "lazy_file"
    id: Mapped[int] = mapped_column(primary_key=True)
    item_id: Mapped[int] = mapped_column(ForeignKey(Item.id), index=True)
    path: Mapped[str]


def prepare_lazy_objects(uri: str) -> None:
    """Store as many items as the Archive has, in the same groups."""
    engine = create_engine(uri)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        for first in range(1, ITEMS + 1, GROUP):
            described = {"translation_id": first + 1, "metadata_id": first + 2}
            translated = {"translation_id": first, "metadata_id": first + 3}
            more: list[dict[str, int]] = [described, translated, {}, {}, {"next_id": first}]
            # items refer to those after them
            for place in (2, 3, 1, 0, 4):
                number = first + place
                session.add(Item(id=number, rep=rep_of(number - 1)))
                session.add(File(item_id=number, path="report.pdf"))
            session.flush()
            for place, values in enumerate(more):
                item = session.get_one(Item, first + place)
                for name, value in values.items():
                    setattr(item, name, value)
        session.commit()
    engine.dispose()


def lazy_objects(uri: str) -> Work:
    """Prepare requests to a view that lists 49 pairs: eight for each of six related items."""
    engine = create_engine(uri)
    rep = rep_of(GROUP * MEASURED)

    def view() -> str:
        with Session(engine) as session:
            return list_pairs(session.scalars(select(Item).where(Item.rep == rep)).one())

    answer = Flask("test").response_class(view()).get_data(as_text=True)
    assert answer.count("\r\n") == 48, answer
    return requests_to(app_with(view), "/")


def list_pairs(item: Item) -> str:
    """Return the pairs of an item and of its related items."""
    last = item
    while last.following is not None:
        last = last.following
    targets = {"": item, ".lastedition": last}
    for name, target in list(targets.items()):
        if target.description is not None:
            targets[f"{name}.metadata"] = target.description
        if target.translation is not None:
            targets[f"{name}.translation(pt)"] = target.translation
    pairs = ["archiveaddress mtc-m16c.sid.inpe.br"]
    for name, target in targets.items():
        url = f"http://mtc-m16c.sid.inpe.br/col/{target.rep}/doc/{target.files[0].path}"
        signed = f"{int(time.time())}-{target.id}".encode()
        signature = hmac.new(b"a secret for tests", signed, hashlib.sha256).hexdigest()
        values = {
            "contenttype": "Data",
            "ibi": f"{{rep {target.rep}}}",
            "ibi.archiveservice": "{rep sid.inpe.br/mtc-m18@80/2008/03.17.15.17}",
            "ibi.platformsoftware": "{rep dpi.inpe.br/banon/1998/08.02.08.56}",
            "state": "Original",
            "timestamp": "2009-02-16T17:46:00Z",
            "url": url,
            "urlkey": signature,
        }
        pairs += [f"{key}{name} {value}" for key, value in values.items()]
    return "\r\n".join(sorted(pairs))


# --- drivers -------------------------------------------------------------------------------------


def connect(uri: str) -> Any:
    """Return a connection of the driver; an answered commit is durable."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(url.database), isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection
    return psycopg.connect(
        url.set(drivername="postgresql").render_as_string(False), autocommit=True
    )


def two_statements(uri: str) -> Work:
    """Prepare transactions of two statements: move a date, and store an identifier."""
    connection = connect(uri)
    connection.execute("CREATE TABLE IF NOT EXISTS bare_prefix (id INTEGER, last BIGINT)")
    connection.execute("CREATE TABLE IF NOT EXISTS bare_minted (text VARCHAR PRIMARY KEY)")
    connection.execute("INSERT INTO bare_prefix VALUES (1, 0)")
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    move = f"UPDATE bare_prefix SET last = {mark} WHERE id = 1"
    store = f"INSERT INTO bare_minted VALUES ({mark})"
    numbers = itertools.count()

    def mint() -> None:
        number = next(numbers)
        connection.execute("BEGIN")
        connection.execute(move, (number,))
        connection.execute(store, (f"8JMKD3MGP8W/{number}",))
        connection.execute("COMMIT")

    return repeated(mint)


TABLES = {
    "bare_item": "id BIGINT PRIMARY KEY, moment VARCHAR",
    "bare_identifier": "text VARCHAR PRIMARY KEY, item_id BIGINT",
    "bare_file": "item_id BIGINT, path VARCHAR, PRIMARY KEY (item_id, path)",
}
BATCH = 1000


def five_rows(uri: str) -> Work:
    """Prepare to store items: a row, two identifiers and two files for each item."""
    connection = connect(uri)
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
    numbers = itertools.count()

    def work(count: int) -> None:
        for begin in range(0, count, BATCH):
            batch = [next(numbers) for _ in range(min(BATCH, count - begin))]
            names = [(rep_of(number), number) for number in batch]
            names += [(f"8JMKD3MGP8W/{number}", number) for number in batch]
            files = [(number, path) for number in batch for path in ("report.pdf", "table.csv")]
            rows = ([(number, "2010-01-01T00:00:00Z") for number in batch], names, files)
            connection.execute("BEGIN")
            for name, values in zip(TABLES, rows, strict=True):
                insert(connection, name, values)
            connection.execute("COMMIT")

    return work


def insert(connection: Any, table: str, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows of two columns in the fastest way of a driver."""
    if isinstance(connection, sqlite3.Connection):
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        return
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
