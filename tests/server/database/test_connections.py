"""Connections: broken, interrupted and forked ones; a statement returns its rows nevertheless."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import Connection, String, bindparam, func, select
from support.archives import archive_of, import_records

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.server.database.database import Database

ITEM = "a.br/x/2001/01.01.00.00"
REQUEST = UrlRequest(parse_identifier(ITEM), ("150.163.2.175",))
VALUE = "ação 汉字 %s $1"
CHILDREN, MINTED = 3, 4


def cut(archive: Archive, connection: Connection) -> None:
    """Cut a connection without telling SQLAlchemy."""
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        driver.close()
        return
    with archive.database.engine.connect() as other:
        pid = driver.info.backend_pid  # type: ignore[union-attr]
        assert other.execute(select(func.pg_terminate_backend(pid, 5000))).scalar_one()


@pytest.mark.postgresql
def test_a_urlrequest_gets_a_new_connection(archive: Archive) -> None:
    import_records(archive, [{"rep": ITEM}])
    before = dict(archive.list_urls(REQUEST))
    # all connections are cut, as when the server is restarted
    with archive.database.reading() as connection, archive.database.reading() as other:
        cut(archive, connection)
        cut(archive, other)
    after = dict(archive.list_urls(REQUEST))
    assert before.pop("urlkey") != after.pop("urlkey")
    assert before == after


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


@pytest.mark.postgresql
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_processes_mint_and_answer_like_their_parent(app: Flask) -> None:
    archive = archive_of(app)
    parents = [one.rep for one in archive.mint(2)]
    assert archive.get("sid.inpe.br/nothing/2001/01.01.00.00") is None

    def work() -> bytes:
        assert archive.get("sid.inpe.br/nothing/2001/01.01.00.00") is None
        return "\n".join(archive.mint()[0].rep for _ in range(MINTED)).encode()

    children = [fork(work) for _ in range(CHILDREN)]
    parents += [archive.mint()[0].rep for _ in range(MINTED)]
    labels = [label for read in children for label in read().decode().split("\n")]
    assert len({*labels, *parents}) == CHILDREN * MINTED + 2 + MINTED


def fork(work: Callable[[], bytes]) -> Callable[[], bytes]:
    """Run a function in a forked process; return a function that waits for its result."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.write(writer, work())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)

    def wait() -> bytes:
        with os.fdopen(reader, "rb") as result:
            found = result.read()
        assert os.waitpid(process, 0)[1] == 0
        return found

    return wait
