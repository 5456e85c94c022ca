"""The command ``ibi-resolver check``, with a real server on the loopback interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from flask import Flask, Response
from sqlalchemy import insert, update
from support.commands import Outcome, command
from support.loopback import nobody, serving
from support.registries import KEY, NOON, SERVICE, a_registry, a_request, included

from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.metrics import Result, store_results
from flask_ibi_archive.resolver.tables import (
    Conflict,
    FollowedArchive,
    RefusedClaim,
    RegisteredArchive,
    ResolverState,
)

pytestmark = pytest.mark.no_tables

NewResolver = Callable[..., Flask]
NAMES = [
    *("configuration", "mail", "pycurl", "database", "archives", "claims", "conflicts", "address"),
]


@pytest.fixture
def new_resolver(uri: str) -> Iterator[NewResolver]:
    """Create apps with a resolver on the database."""
    made: list[Flask] = []

    def make(**settings: Any) -> Flask:
        app = Flask("resolver")
        app.config.from_mapping({"IBI_RESOLVER_DATABASE_URI": uri, **settings})
        IBIResolver(app)
        made.append(app)
        return app

    yield make
    for app in made:
        app.extensions["ibi_resolver"].resolver.close()


def run(app: Flask, *words: str, stdin: bytes | None = None) -> Outcome:
    return command(app, *words, stdin=stdin, group=ibi_resolver)


def findings(outcome: Outcome) -> dict[str, tuple[bool, str]]:
    """Return the printed results: whether no check failed, and its text."""
    assert outcome.err == ""
    found = {}
    for line in outcome.out.splitlines():
        name, text = line[5:].split(": ", 1)
        found[name] = (line[:5] != "FAIL ", text)
    assert outcome.status == (0 if all(ok for ok, _ in found.values()) else 1)
    assert list(found) == [name for name in NAMES if found["database"][0] or name in found]
    return found


def test_check_of_a_running_resolver(new_resolver: NewResolver) -> None:
    apps: list[Flask] = []
    with serving(lambda environ, start: apps[0](environ, start)) as address:
        app = new_resolver(SERVER_NAME=address)
        apps.append(app)
        run(app, "init")
        found = findings(run(app, "check"))
        assert found["archives"][1].startswith("no Archive is registered yet")
        run(app, "register", SERVICE, "--key-file", "-", stdin=f"{KEY}\n".encode())
        found = findings(run(app, "check"))
        as_json = json.loads(run(app, "check", "--json").data)
    assert found["pycurl"][0]
    assert "libcurl" in found.pop("pycurl")[1]
    assert found == {
        "configuration": (True, f"the service is http://{address}/J8LNKB5R7W/3FUQHC5"),
        "database": (True, "the tables are up to date"),
        "archives": (True, "1 registered"),
        "claims": (
            True,
            "no included Archive publishes claims; each Archive is asked about each item",
        ),
        "conflicts": (True, "no conflict is open"),
        "mail": (
            True,
            "MAIL_SERVER is not set, so no administrator is told of conflicts and clashes",
        ),
        "address": (True, f"http://{address}/ibi-resolver/health/live answers"),
    }
    assert [(one["name"], one["ok"]) for one in as_json] == [(name, True) for name in NAMES]


def test_check_before_init_says_to_run_it(new_resolver: NewResolver) -> None:
    found = findings(run(new_resolver(), "check"))
    assert not found["database"][0]
    assert found["database"][1].endswith("run: flask ibi-resolver init")
    assert "archives" not in found


def test_check_reports_failing_archives(new_resolver: NewResolver) -> None:
    app = new_resolver()
    run(app, "init")
    services = (SERVICE, "8JMKD3MGP7W/3EPGUE5")
    for service in services:
        run(app, "register", service, "--key-file", "-", stdin=f"{KEY}\n".encode())
    resolver = app.extensions["ibi_resolver"].resolver
    table = RegisteredArchive

    def happen(archive: int, failure: str | None, minute: int) -> None:
        with resolver.database.writing() as connection:
            results = [Result(archive, 0.1, failure)]
            store_results(connection, results, (), NOON + timedelta(minutes=minute))

    with resolver.database.writing() as connection:
        facts = {"address": "dpi.example", "ip": "150.163.2.166", "platform_version": "1"}
        facts["admin_email"] = "admin@dpi.example"
        connection.execute(update(table).values(included_at=NOON, **facts))
    first, second = (record.id for record in resolver.registry.list())
    happen(first, None, 1)
    happen(first, "is away", 2)
    ok, text = findings(run(app, "check"))["archives"]
    assert ok
    assert text.endswith(
        "; 1 of the included Archives did not answer the last request: dpi.example is away"
    )
    happen(second, "is away", 3)
    ok, text = findings(run(app, "check"))["archives"]
    assert not ok
    assert text.endswith("; no included Archive answered the last request: dpi.example is away")
    for archive in (first, second):
        happen(archive, None, 4)
    ok, text = findings(run(app, "check"))["archives"]
    assert ok
    assert "last request" not in text


def test_check_says_whose_claims_do_not_count_and_why(new_resolver: NewResolver) -> None:
    app = new_resolver()
    run(app, "init")
    database = app.extensions["ibi_resolver"].resolver.database
    now = datetime.now(timezone.utc)
    included(a_registry(database), 4)
    services = [archive.service_ibi for archive in a_registry(database).list()]
    same = {"key": "", "pinned_at": now, "epoch": "e"}
    rows: list[dict[str, Any]] = [
        {"read_at": now},
        {"read_at": now, "contradictions": 3, "reason": "contradicted its claims"},
        {"read_at": now},
        {"failures": 1, "reason": "took too long"},
    ]
    with database.writing() as connection:
        for number, row in enumerate(rows, 1):
            connection.execute(insert(FollowedArchive).values(**same, archive_id=number, **row))
        refused = {"archive_id": 3, "item": "1", "reason": "state: wrong", "refused_at": now}
        connection.execute(insert(RefusedClaim).values(refused))
    [line] = [line for line in run(app, "check").out.splitlines() if " claims: " in line]
    # a new resolver without a follower works
    assert line.startswith("WARN claims: 1 contradicted, 1 current, 1 refused, 1 stale; the claims")
    assert "read never, so each Archive is asked about each item; run: flask ibi" in line
    assert run(app, "check").status == 0
    with database.writing() as connection:
        connection.execute(update(ResolverState).values(followed_at=NOON))
    assert "FAIL claims: 1 contradicted" in run(app, "check").out
    with database.writing() as connection:
        connection.execute(update(ResolverState).values(followed_at=now))
    because = "is asked about each item, because it"
    assert [line for line in run(app, "check").out.splitlines() if " claims: " in line] == [
        "ok   claims: 1 contradicted, 1 current, 1 refused, 1 stale",
        f"FAIL claims: {services[1]} {because} contradicted its claims; when it is repaired, run: "
        f"flask ibi-resolver follow --again {services[1]}",
        f"FAIL claims: {services[2]} {because} sent claims that are refused (1): state: wrong; to "
        "list all, run: flask ibi-resolver claims --refused",
        f"FAIL claims: {services[3]} {because} took too long",
    ]


def test_check_reports_mail_conflicts_and_clashes(
    new_resolver: NewResolver,
) -> None:
    app = new_resolver(MAIL_SERVER="smtp.example.org")
    run(app, "init")
    database = app.extensions["ibi_resolver"].resolver.database
    included(a_registry(database), 2)
    pair = {"first_archive_id": 1, "second_archive_id": 2, "found_at": NOON}
    with database.writing() as connection:
        connection.execute(insert(Conflict).values(name="8JMKD3MGP8W/34PGRBS", **pair))
    found = findings(run(app, "check"))
    assert not found["mail"][0]
    assert "MAIL_DEFAULT_SENDER" in found["mail"][1]
    text = "1 open; to list them, run: flask ibi-resolver conflicts"
    assert found["conflicts"] == (False, text)
    registry = a_registry(database)
    services = [archive.service_ibi for archive in registry.list()]
    for service in services:
        registry.process(a_request(service_ibi=service, mints="8JMKD3MGP8W"))
    line = f"identifiers with the prefix 8JMKD3MGP8W are minted by {' and '.join(services)}"
    assert f"FAIL prefixes: {line}; one must change its IBI_MINT_PORT" in run(app, "check").out


def test_check_without_server_name_skips_the_address(new_resolver: NewResolver) -> None:
    app = new_resolver()
    run(app, "init")
    found = findings(run(app, "check"))
    assert "set SERVER_NAME" in found["configuration"][1]
    assert found["address"] == (True, "the address is not checked, because SERVER_NAME is not set")


def test_check_reports_an_address_without_a_resolver(new_resolver: NewResolver) -> None:
    with nobody() as address:
        app = new_resolver(SERVER_NAME=address)
        run(app, "init")
        ok, text = findings(run(app, "check"))["address"]
    assert not ok
    assert "check that SERVER_NAME is correct" in text
    with serving(Response("another", 404)) as address:
        ok, text = findings(run(new_resolver(SERVER_NAME=address), "check"))["address"]
    assert not ok
    assert "answers with status 404 instead of 200" in text
