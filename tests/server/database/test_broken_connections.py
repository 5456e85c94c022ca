"""A urlRequest is answered after the connection to the database was cut."""

from __future__ import annotations

import sqlite3

import pytest
from flask import Flask
from sqlalchemy import Connection, func, select
from support.archives import archive_of, import_records

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import UrlRequest

pytestmark = pytest.mark.postgresql

ITEM = "a.br/x/2001/01.01.00.00"
REQUEST = UrlRequest(parse_identifier(ITEM), ("150.163.2.175",))


@pytest.fixture
def archive(app: Flask) -> Archive:
    """An Archive with one item."""
    import_records(archive_of(app), [{"rep": ITEM}])
    return archive_of(app)


def cut(archive: Archive, connection: Connection) -> None:
    """Cut a connection without telling SQLAlchemy."""
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        driver.close()
        return
    with archive.database.engine.connect() as other:
        pid = driver.info.backend_pid  # type: ignore[union-attr]
        assert other.execute(select(func.pg_terminate_backend(pid, 5000))).scalar_one()


def test_a_urlrequest_gets_a_new_connection(archive: Archive) -> None:
    before = dict(archive.list_urls(REQUEST))
    # all connections are cut, as when the server is restarted
    with archive.database.reading() as connection, archive.database.reading() as other:
        cut(archive, connection)
        cut(archive, other)
    after = dict(archive.list_urls(REQUEST))
    assert before.pop("urlkey") != after.pop("urlkey")
    assert before == after
