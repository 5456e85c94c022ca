"""A statement returns its rows, whatever happened before on the connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, String, bindparam, select

from flask_ibi_archive.server.database.database import Database

VALUE = "ação 汉字 %s $1"


@pytest.fixture
def database(uri: str) -> Iterator[Database]:
    """A database."""
    database = Database(uri)
    yield database
    database.close()


def repeat(connection: Connection, value: str = VALUE) -> str:
    """Return a text that the database returns."""
    return str(
        connection.execute(select(bindparam("value", type_=String())), {"value": value}).scalar()
    )


@pytest.mark.postgresql
def test_texts_are_sent_and_read_in_utf_8(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    database = Database(uri)
    with database.reading() as connection:
        assert repeat(connection) == VALUE
    database.close()


@pytest.mark.postgresql
def test_a_statement_runs_in_transactions_and_after_them(database: Database) -> None:
    with database.engine.connect() as connection:
        # psycopg prepares a statement when it is repeated, and forgets all at a rollback
        for end in (*["commit"] * 8, "rollback"):
            transaction = connection.begin()
            assert repeat(connection) == VALUE
            getattr(transaction, end)()
    with database.reading() as connection:
        assert repeat(connection) == VALUE


@pytest.mark.only_on("postgresql")
def test_an_interrupted_connection_is_not_used_again(uri: str) -> None:
    interrupts = False

    def find_limit() -> float | None:
        if interrupts:
            raise SystemExit
        return None

    database = Database(uri, find_limit=find_limit)
    with database.reader.connect() as connection:
        assert repeat(connection) == VALUE
        interrupts = True  # the answer arrives, but nobody reads it
        with pytest.raises(SystemExit):
            repeat(connection, "unread")
        interrupts = False
        assert connection.invalidated
    with database.reader.connect() as connection:
        assert repeat(connection) == VALUE
    database.close()
