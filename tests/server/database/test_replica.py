"""A read replica answers urlRequests (IBI_READ_DATABASE_URI); the database does everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event
from support.accesses import acknowledge
from support.archives import SERVICE, archive_of, close, import_records, initialise, make_app
from support.databases import new_database
from support.web import SERVICE_PATH, ask, ask_urls

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.checking import check_replica
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.errors import ConfigError, NotReady

BOTH, NEW, OLD = (f"a.br/{name}/2001/01.01.00.00" for name in ("both", "new", "old"))
EARLIER, NOW = "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"
#: The service of another Archive.
OTHER = "sid.inpe.br/mtc-m99/2008/03.17.15.17"


@dataclass
class Pair:
    """An app whose database and replica have different content, as if the replica lagged.

    Both have the item BOTH, in two versions. Only the database has NEW; only the replica has OLD,
    which the database does not have any more.
    """

    app: Flask
    replica_uri: str

    @property
    def archive(self) -> Archive:
        return archive_of(self.app)

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    def ask(self, ibi: str) -> dict[str, tuple[str, ...]]:
        """Return the answer to a urlRequest."""
        return ask_urls(self.app, ibi)


def fill(uri: str, folder: Path, *records: dict[str, Any]) -> None:
    app = make_app(uri, folder)
    initialise(app, uri)
    import_records(archive_of(app), list(records))
    close(app)


@pytest.fixture
def pair(backend: str, tmp_path: Path) -> Iterator[Pair]:
    with (
        new_database(backend, tmp_path, ready=True) as uri,
        new_database(backend, tmp_path, ready=True) as replica_uri,
    ):
        fill(uri, tmp_path, {"rep": BOTH, "timestamp": NOW}, {"rep": NEW})
        fill(replica_uri, tmp_path, {"rep": BOTH, "timestamp": EARLIER}, {"rep": OLD})
        app = make_app(uri, tmp_path, IBI_READ_DATABASE_URI=replica_uri)
        try:
            yield Pair(app, replica_uri)
        finally:
            close(app)


@pytest.mark.postgresql
def test_the_replica_answers_urlrequests_and_the_database_pages(pair: Pair) -> None:
    assert pair.ask(BOTH)["timestamp"] == (EARLIER,)
    assert pair.ask(OLD)["ibi"] == ("rep", OLD)
    assert pair.ask(NEW) == {}
    statuses = {ibi: pair.client.get(f"/col/{ibi}/").status_code for ibi in (BOTH, NEW, OLD)}
    assert statuses == {BOTH: 200, NEW: 200, OLD: 404}


def test_a_urlrequest_is_one_statement_at_the_replica(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.ask(BOTH)  # finds the Archive, and opens the connection
    seen: dict[str, list[str]] = {"replica": [], "database": []}

    def store(name: str) -> Callable[..., None]:
        return lambda connection, cursor, statement, *rest: seen[name].append(statement)

    replica = pair.archive.replica
    assert replica is not None
    for name, database in (("replica", replica), ("database", pair.archive.database)):
        for engine in (database.engine, database.reader):
            event.listen(engine, "before_cursor_execute", store(name))
    pair.ask(BOTH)
    assert [len(seen["replica"]), len(seen["database"])] == [1, 0]
    pair.archive.deposit(language="en")
    assert len(seen["replica"]) == 1
    assert seen["database"]


def test_accesses_with_url_keys_of_the_replica_are_counted_in_the_database(pair: Pair) -> None:
    query = format_request(acknowledge(pair.archive, BOTH))
    assert ask(pair.app, f"{SERVICE_PATH}?{query}").text == "notice {acknowledgment received}"
    found = pair.archive.statistics()
    assert found.downloads + found.views == 1


def test_only_the_replica_is_away(pair: Pair, tmp_path: Path) -> None:
    away = f"sqlite:///{tmp_path}/away.sqlite"
    app = make_app(pair.archive.config.database_uri, tmp_path, IBI_READ_DATABASE_URI=away)
    client = app.test_client()
    query = "servicesubject=urlRequest&clientinformation.ipaddress=1.1.1.1"
    answer = client.get(f"/{SERVICE}?{query}&parsedibiurl.ibi={BOTH}")
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    assert client.get(f"/col/{BOTH}/").status_code == 200
    [reason] = client.get("/ibi/health/ready").get_json()["not_ready"]
    assert reason.startswith("replica: ")
    close(app)


@pytest.mark.only_on("sqlite")
def test_the_health_check_examines_the_replica(pair: Pair, tmp_path: Path) -> None:
    check_replica(pair.archive)
    app = make_app(pair.replica_uri, tmp_path, IBI_ARCHIVE_SERVICE_IBI=OTHER)
    archive_of(app).init()
    close(app)
    other = make_app(
        pair.replica_uri,
        tmp_path,
        IBI_ARCHIVE_SERVICE_IBI=OTHER,
        IBI_READ_DATABASE_URI=pair.archive.config.database_uri,
    )
    with pytest.raises(NotReady, match="the replica does not contain the Archive of the database"):
        check_replica(archive_of(other))
    close(other)


def test_a_wrong_url_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="IBI_READ_DATABASE_URI") as caught:
        make_app("sqlite://", tmp_path, IBI_READ_DATABASE_URI="postgres//user:secret@host/database")
    assert "secret" not in str(caught.value)
