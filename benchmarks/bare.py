"""What any system costs: Flask, Jinja or a driver of a database alone."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
from flask import Flask, render_template
from jinja2 import DictLoader
from sqlalchemy import Column, MetaData, String, Table, bindparam, create_engine, make_url, select

from .ours import ITEMS, MEASURED, ibip_of, rep_of, request_of_page
from .worker import Work, batched, get, repeated

# --- Flask ----------------------------------------------------------------------------------------


def requests_to(view: Callable[[], str]) -> Work:
    """Return the work that consists of requests to an app with one view."""
    app = Flask("bare")
    app.add_url_rule("/", view_func=view)
    return repeated(partial(get, app.wsgi_app, "/"))


def view(uri: str, folder: str) -> Work:
    """Prepare requests to a view that returns a constant."""
    return requests_to(lambda: "constant")


def select_view(uri: str, folder: str) -> Work:
    """Prepare requests to a view that executes one SELECT by a key."""
    engine = create_engine(uri)
    metadata = MetaData()
    table = Table("bare", metadata, Column("rep", String, primary_key=True), Column("ibip", String))
    metadata.create_all(engine)
    rows = [{"rep": rep_of(number), "ibip": ibip_of(number)} for number in range(ITEMS)]
    with engine.begin() as connection:
        connection.execute(table.insert(), rows)
    statement = select(table.c.ibip).where(table.c.rep == bindparam("rep"))

    def read() -> str:
        with engine.connect() as connection:
            return str(connection.scalar(statement, {"rep": rep_of(MEASURED)}))

    return requests_to(read)


def template(uri: str, folder: str) -> Work:
    """Prepare requests to a template without logic, in which each word of a page is a variable."""
    words = request_of_page(uri, folder)().split(" ")
    app = Flask("bare")
    app.jinja_loader = DictLoader(
        {"page.html": "{% for word in words %}{{ word | safe }} {% endfor %}"}
    )
    app.add_url_rule("/", view_func=lambda: render_template("page.html", words=words))
    return repeated(partial(get, app.wsgi_app, "/"))


# --- drivers --------------------------------------------------------------------------------------


def connect(uri: str) -> Any:
    """Return a connection of the driver; a commit that is answered is durable."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(url.database), isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection
    return psycopg.connect(
        url.set(drivername="postgresql").render_as_string(False), autocommit=True
    )


def two_statements(uri: str, folder: str) -> Work:
    """Prepare transactions of two statements: move a date, and store an identifier."""
    connection = connect(uri)
    connection.execute("CREATE TABLE bare_prefix (id INTEGER, last BIGINT)")
    connection.execute("CREATE TABLE bare_minted (text VARCHAR PRIMARY KEY)")
    connection.execute("INSERT INTO bare_prefix VALUES (1, 0)")
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    numbers = itertools.count()

    def mint() -> None:
        number = next(numbers)
        connection.execute("BEGIN")
        connection.execute(f"UPDATE bare_prefix SET last = {mark} WHERE id = 1", (number,))
        connection.execute(f"INSERT INTO bare_minted VALUES ({mark})", (ibip_of(number),))
        connection.execute("COMMIT")

    return repeated(mint)


TABLES = {
    "bare_item": "id BIGINT PRIMARY KEY, moment VARCHAR",
    "bare_identifier": "text VARCHAR PRIMARY KEY, item_id BIGINT",
    "bare_file": "item_id BIGINT, path VARCHAR, PRIMARY KEY (item_id, path)",
}
BATCH = 1000


def five_rows(uri: str, folder: str) -> Work:
    """Prepare to store a row, two identifiers and two files for each item."""
    connection = connect(uri)
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
    numbers = itertools.count()

    def store(count: int) -> None:
        batch = list(itertools.islice(numbers, count))
        names = [(name(number), number) for number in batch for name in (rep_of, ibip_of)]
        files = [(number, path) for number in batch for path in ("report.pdf", "table.csv")]
        items = [(number, "2010-01-01T00:00:00Z") for number in batch]
        connection.execute("BEGIN")
        for table, rows in zip(TABLES, (items, names, files), strict=True):
            insert_rows(connection, table, rows)
        connection.execute("COMMIT")

    return batched(store, BATCH)


def insert_rows(connection: Any, table: str, rows: list[tuple[Any, Any]]) -> None:
    """Insert rows of two columns in the fastest way of a driver."""
    if isinstance(connection, sqlite3.Connection):
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        return
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
