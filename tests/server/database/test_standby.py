"""A streaming standby of PostgreSQL answers urlRequests, follows the database, and is promoted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, text
from support.accesses import acknowledgment_query, request_query
from support.archives import SERVICE, archive_of, close, make_app
from support.database_servers import Server, needs_server, running_primary, running_standby
from werkzeug.test import TestResponse

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.checking import check_ready
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import NotReady

pytestmark = [needs_server, pytest.mark.slow]


@dataclass
class Replicated:
    """An Archive whose database has a standby."""

    primary: Server
    standby: Server
    database: str
    app: Flask

    @property
    def archive(self) -> Archive:
        return archive_of(self.app)

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    def deposit(self) -> str:
        """Add an item to the database, and return its identifier."""
        return str(self.archive.deposit(language="en").ibip)

    def follow(self) -> None:
        """Wait until the standby has replayed all changes."""
        self.standby.follow(self.primary)

    def request(self, ibi: str, client: FlaskClient | None = None) -> TestResponse:
        """Return the response to a urlRequest."""
        return (client or self.client).get(f"/{SERVICE}", query_string=request_query(ibi))

    def page(self, ibi: str) -> int:
        """Return the status of the page of an item."""
        return self.client.get(f"/col/{ibi}/").status_code


@pytest.fixture(scope="module")
def primary() -> Iterator[Server]:
    with running_primary() as server:
        yield server


@pytest.fixture
def replicated(primary: Server, tmp_path: Path) -> Iterator[Replicated]:
    name = f"ibi_{uuid.uuid4().hex}"
    primary.query(f"CREATE DATABASE {name}")
    with running_standby(primary) as standby:
        app = make_app(primary.uri(name), tmp_path, IBI_READ_DATABASE_URI=standby.uri(name))
        archive_of(app).init()
        standby.follow(primary)
        try:
            yield Replicated(primary, standby, name, app)
        finally:
            close(app)
    primary.query(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_standby_answers_and_the_primary_is_written(replicated: Replicated) -> None:
    item = replicated.deposit()
    replicated.follow()
    check_ready(replicated.archive)
    replica = replicated.archive.replica
    assert replica is not None
    assert replica.read(lambda connection: connection.scalar(text("SELECT pg_is_in_recovery()")))
    with pytest.raises(NotReady, match="not writable"), replica.writing() as connection:
        connection.execute(text("DELETE FROM ibi_item"))
    answer = replicated.request(item).text
    assert item in answer
    found = replicated.client.get(
        f"/{SERVICE}", query_string=acknowledgment_query("ibip", item, answer)
    )
    assert found.text == "notice {acknowledgment received}"
    count = "SELECT count(*) FROM ibi_access"
    assert replicated.primary.query(count, replicated.database) == 1
    replicated.follow()
    assert replicated.standby.query(count, replicated.database) == 1


def test_the_standby_is_stopped_and_started_again(replicated: Replicated) -> None:
    item = replicated.deposit()
    replicated.follow()
    assert item in replicated.request(item).text
    replicated.standby.stop()
    refused = replicated.request(item)
    assert refused.status_code == 503
    assert "Retry-After" in refused.headers
    assert replicated.page(item) == 200
    assert replicated.client.get("/ibi/health/ready").status_code == 503
    later = replicated.deposit()
    replicated.standby.start()
    replicated.follow()
    assert later in replicated.request(later).text
    assert replicated.client.get("/ibi/health/ready").status_code == 200


def deposit_soon(archive: Archive) -> ItemView:
    """Add an item after the connections were cut.

    Reading connections are replaced at once. Of the pools for reading and for writing, which both
    serve a deposit, each finds in a write that its connections are cut; it then replaces them all.
    """
    for _ in range(2):
        with suppress(NotReady):
            return archive.deposit(language="en")
    return archive.deposit(language="en")


def test_with_both_servers_in_the_urls_another_server_takes_over(
    replicated: Replicated, tmp_path: Path
) -> None:
    """First the standby is away, then the primary, whose work the standby continues."""
    both = (
        f"postgresql+psycopg://postgres@/{replicated.database}?host=127.0.0.1,127.0.0.1"
        f"&port={replicated.standby.port},{replicated.primary.port}&target_session_attrs="
    )
    app = make_app(both + "read-write", tmp_path, IBI_READ_DATABASE_URI=both + "prefer-standby")
    archive, client = archive_of(app), app.test_client()
    replica = archive.replica
    assert replica is not None

    def is_standby(connection: Connection) -> bool:
        return bool(connection.scalar(text("SELECT pg_is_in_recovery()")))

    item = archive.deposit(language="en")
    replicated.follow()
    assert item.rep in replicated.request(item.rep, client).text
    assert [replica.read(is_standby), archive.database.read(is_standby)] == [True, False]

    replicated.standby.stop()
    assert item.rep in replicated.request(item.rep, client).text
    replicated.standby.start()
    # an open connection is not replaced
    assert not replica.read(is_standby)

    replicated.follow()
    replicated.primary.stop()
    try:
        replicated.standby.promote()
        assert item.rep in replicated.request(item.rep, client).text
        later = deposit_soon(archive)
        assert later.rep in replicated.request(later.rep, client).text
        assert client.get("/ibi/health/ready").status_code == 200
    finally:
        close(app)
        replicated.primary.start()
