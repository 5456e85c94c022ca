"""A statement returns its rows, whatever happened before on the connection."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, String, bindparam, select

from flask_ibi_archive.server.database.database import Database

VALUE = "ação 汉字 %s $1"


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
