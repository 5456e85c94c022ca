"""The check of actors: an actor none of whose URLs works for two years is cancelled ([P] 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from support.commands import command
from support.document_registries import (
    Entry,
    Place,
    a_document_registry,
    actor_of,
    describe,
    store,
)
from support.far import Far, Reply
from support.loopback import HERE
from support.registries import NOON, a_config
from support.resolving import app_over, resolver_of

from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.registry_2008 import operations
from flask_ibi_archive.resolver.registry_2008.tables import Actor, find_registrations
from flask_ibi_archive.server.database.database import Database

DOCUMENT, OTHER = "inpe.br/a/2001/01.01.00.00", "inpe.br/b/2001/01.01.00.00"


@pytest.fixture
def far(far: Far) -> Far:
    """The server of all actors. The URL ``works`` works, and all others answer 404."""
    far.replies["works"] = Reply()
    return far


def run(database: Database, day: int = 0, dry_run: bool = False) -> list[tuple[str, str]]:
    """Run a check on a day, and return the numbers of the actors that changed, and their states."""
    now = NOON + timedelta(days=day)
    found = operations.check_actors(database, a_config(), dry_run, now=lambda: now)
    return [(change.actor_id[-1], change.state) for change in found]


def read_dates(database: Database) -> Sequence[Any]:
    """Return failing_since of all actors."""
    return [row[0] for row in database.read_rows(select(Actor.failing_since).order_by(Actor.id))]


@pytest.mark.rule("P4-05")
def test_an_actor_is_cancelled_after_two_years_without_a_working_url(
    database: Database, far: Far
) -> None:
    store(database, {DOCUMENT: Entry([Place(1, far.url("a"))])})
    assert run(database, 0) == [("1", "failing")]
    assert run(database, 729) == []
    far.replies["a"] = Reply()
    assert run(database, 729) == [("1", "works again")]
    assert run(database, 2000) == []
    far.replies["a"] = Reply(404)
    assert run(database, 2000) == [("1", "failing")]
    assert run(database, 2729) == []
    assert run(database, 2730, dry_run=True) == [("1", "cancelled")]
    assert run(database, 2730) == [("1", "cancelled")]
    assert run(database, 2731) == []
    assert database.read_rows(select(Actor.password_hash)) == [(None,)]
    assert describe(a_document_registry(database), DOCUMENT) == []


@pytest.mark.rule("P4-05")
def test_the_documents_of_a_cancelled_actor_go_to_the_oldest_copy(
    database: Database, far: Far
) -> None:
    works, gone = far.url("works"), far.url("gone")
    entries = {
        DOCUMENT: Entry([Place(1, gone), Place(3, works), Place(2, works)]),
        OTHER: Entry([Place(2, works), Place(1, gone)]),
        f"{OTHER}.01": Entry([Place(1, gone)]),
    }
    store(database, entries, failing_since=NOON)
    assert run(database, 730) == [("1", "cancelled"), ("2", "works again"), ("3", "works again")]
    registry = a_document_registry(database)
    # the new actor does not get the copyright
    assert describe(registry, DOCUMENT) == ["registry@2008 document", "registry@2008 copy"]
    with database.reading() as connection:
        assert find_registrations(connection, DOCUMENT)[0].actor_id == actor_of(3)
    assert describe(registry, OTHER) == ["registry@2008 original"]
    assert describe(registry, f"{OTHER}.01") == []


@pytest.mark.rule("P4-05")
def test_one_working_url_is_enough(database: Database, far: Far) -> None:
    metadata = [(far.url(name), None, None) for name in ("gone", "works")]
    store(
        database,
        {
            DOCUMENT: Entry([Place(1, far.url("a")), Place(2, None, metadata)]),
            OTHER: Entry([Place(1, far.url("works"))]),
        },
    )
    assert run(database) == []
    assert far.lines.count("HEAD works") == 2


def test_a_host_that_is_down_gets_one_request_for_an_actor(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    find = operations.find_link_error
    monkeypatch.setattr(
        operations, "find_link_error", lambda url, *words: asked.append(url) or find(url, *words)
    )
    places = [Place(1, f"http://127.0.0.1:1/{name}") for name in "ab"]
    store(database, {DOCUMENT: Entry(places[:1]), OTHER: Entry(places[1:])})
    assert run(database) == [("1", "failing")]
    assert len(asked) == 1


def test_if_no_url_works_the_network_may_be_down(database: Database, far: Far) -> None:
    store(database, {DOCUMENT: Entry([Place(1, far.url("a")), Place(2, far.url("b"))])})
    with pytest.raises(ConnectionError, match="no URL of 2 actors works"):
        run(database)
    assert read_dates(database) == [None, None]


def test_a_new_registration_during_the_check_prevents_the_cancellation(
    database: Database, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {DOCUMENT: Entry([Place(1, far.url("a"))])}
    store(database, entries, failing_since=NOON)

    def change(*values: Any) -> str:
        store(database, entries)  # a registration ends the time without a working URL
        return "answers 404"

    monkeypatch.setattr(operations, "_find_error", change)
    assert run(database, 730) == []
    assert len(describe(a_document_registry(database), DOCUMENT)) == 1


def test_the_command(far: Far, tmp_path: Path) -> None:
    settings = {"SERVER_NAME": "urlib.net", "IBI_INNER_HOSTS": HERE}
    with app_over([], tmp_path, **settings, IBI_RESOLVER_REGISTRY=True) as app:
        database = resolver_of(app).database
        store(database, {DOCUMENT: Entry([Place(1, far.url("a"))])})
        line = f"{actor_of(1)}\tbanon@dpi.inpe.br\tfailing\tanswers 404 (Not Found)\n"
        for options, out in ((["--dry-run"], line), ([], line), ([], "")):
            assert command(app, "check-actors", *options, group=ibi_resolver).out == out
        store(database, {DOCUMENT: Entry([Place(1, far.url("a")), Place(2, far.url("b"))])})
        shown = command(app, "check-actors", group=ibi_resolver)
        assert shown.status == 1
        assert "so the network of the resolver is probably down; nothing was stored" in shown.err
    (tmp_path / "other").mkdir()
    with app_over([], tmp_path / "other") as app:
        shown = command(app, "check-actors", group=ibi_resolver)
        assert (shown.status, "IBI_RESOLVER_REGISTRY = True" in shown.err) == (1, True)
