"""Resolutions with claims: whom a resolver asks, and what it says if Archives are silent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import update
from support.archive_servers import Servers, http
from support.claiming import FIRST, store_claims
from support.registries import NOON, a_registry, a_request
from support.resolving import (
    ORIGINAL,
    Run,
    TableArchive,
    X,
    Y,
    app_over,
    archives_of,
    goes_on,
    include,
    leads,
    resolver_of,
    resolver_over,
    wants,
)
from support.statements import statements_of

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolver import archives as archives_module
from flask_ibi_archive.resolver.archives import bump_version
from flask_ibi_archive.resolver.conflicts import update_conflicts
from flask_ibi_archive.resolver.tables import FollowedArchive
from flask_ibi_archive.server.database.database import Database

LATER = FIRST + timedelta(days=400)
HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"
ORIG, COPY, GONE = State.ORIGINAL, State.COPY, State.DELETED


def set_read(database: Database, archive_id: int, seconds: float | None) -> None:
    """Set how many seconds ago an Archive was read to the end; None: never."""
    moment = datetime.now(timezone.utc) - timedelta(seconds=seconds or 0)
    with database.writing() as connection:
        row = update(FollowedArchive).where(FollowedArchive.archive_id == archive_id)
        connection.execute(row.values(read_at=None if seconds is None else moment))
        bump_version(connection, [archive_id])


def asked(archives: list[TableArchive]) -> list[list[str]]:
    """Return the questions that each Archive has received."""
    return [archive.questions for archive in archives]


def told(outcome: Redirect | Alert) -> object:
    """Return the URL of a redirect, or the kind of an alert."""
    return outcome.url if isinstance(outcome, Redirect) else outcome.kind


# --- whom it asks --------------------------------------------------------------------------------


def test_only_the_claimant_is_asked(run: Run) -> None:
    resolver, archives = run({}, {X: leads(HERE)}, {})
    store_claims(resolver.database, {1: {Y: ORIG}, 2: {X: ORIG}, 3: {}})
    assert told(resolver.resolve(wants(X))) == HERE
    assert told(resolver.resolve(wants(f"{X}{ORIGINAL}"))) == HERE
    assert asked(archives) == [[], [X, X], []]


def test_claims_stop_to_count_when_they_are_too_old(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver, archives = run({}, IBI_RESOLVER_CLAIMS_MAX_AGE=3600)
    store_claims(resolver.database, {1: {}})
    set_read(resolver.database, 1, 3590)
    assert told(resolver.resolve(wants(X))) is AlertKind.UNKNOWN
    assert asked(archives) == [[]]
    with resolver.database.writing() as connection:  # time passes, nothing else changes
        connection.execute(update(FollowedArchive).values(read_at=FIRST))
    monkeypatch.setattr(archives_module, "monotonic", lambda: 1e12)
    assert told(resolver.resolve(wants(X))) is AlertKind.UNKNOWN
    assert asked(archives) == [[X]]


# --- whose answer is used ------------------------------------------------------------------------


def test_the_claim_that_was_read_first_leads_the_reader(run: Run) -> None:
    resolver, archives = run({X: leads(THERE)}, {X: leads(HERE)}, {X: leads(THERE)})
    store_claims(resolver.database, {2: {X: ORIG}}, since=FIRST + timedelta(days=1))
    store_claims(resolver.database, {1: {X: ORIG}}, since=FIRST + timedelta(days=2))
    assert told(resolver.resolve(wants(X))) == HERE
    # an Archive that claims nothing is used only if no claimant has a URL
    assert archives[2].questions == []
    archives[1].table[X] = f"ibi {{rep {X}}}"
    assert told(resolver.resolve(wants(X))) == THERE


@pytest.mark.parametrize("state", [COPY, GONE])
def test_a_claim_that_names_the_archive_of_the_original_leads_there(run: Run, state: State) -> None:
    answer = f"state {state.value}" if state is GONE else f"ibi {{rep {X}}} state Copy"
    resolver, archives = run({X: answer}, {X: leads(HERE)}, {})
    store_claims(
        resolver.database,
        {1: {X: state}, 2: {}, 3: {}},
        original_archive=archives[1].service,
    )
    for text in (X, f"{X}{ORIGINAL}"):
        assert told(resolver.resolve(wants(text))) == HERE
    # if this Archive has no URL, the result is as without
    archives[1].table.pop(X)
    expected = AlertKind.REMOVED if state is GONE else AlertKind.MISSING
    assert told(resolver.resolve(wants(X))) is expected


def test_each_further_round_reads_the_claims_once(run: Run) -> None:
    resolver, archives = run(
        {f"{X}!": goes_on(Y)}, {f"{Y}!": leads(HERE, relation=".lastedition")}, {}
    )
    store_claims(resolver.database, {1: {X: ORIG}, 2: {Y: ORIG}, 3: {}})
    for expected in (None, 2):  # the first resolution also reads the list
        with statements_of(resolver.database) as statements:
            assert told(resolver.resolve(wants(f"{X}!"))) == HERE
        assert len(statements) == (expected or len(statements))
    assert asked(archives) == [[f"{X}!"] * 2, [f"{Y}!"] * 2, []]


def test_an_item_that_is_not_claimed_yet_is_found_at_the_archive_that_mints_its_prefix(
    run: Run,
) -> None:
    resolver, archives = run({}, {})
    prefix = parse_identifier(archives[1].service).prefix
    new = f"{prefix}/2026/01.01.00.00"
    archives[1].table[new] = leads(HERE)
    store_claims(resolver.database, {1: {}, 2: {}})
    assert told(resolver.resolve(wants(new))) == HERE
    assert told(resolver.resolve(wants(X))) is AlertKind.UNKNOWN
    assert X not in archives[1].questions


def test_archives_that_lately_gave_items_with_the_prefix_are_asked_before_an_alert(
    run: Run,
) -> None:
    resolver, archives = run({X: leads(HERE)}, {Y: http("", "500 No")}, {})
    store_claims(resolver.database, {1: {}, 2: {}, 3: {}})
    for number, prefix in ((1, "a.br/x"), (2, "a.br/y")):
        resolver.metrics.add_prefixes(number, [prefix])
    resolver.metrics.flush()
    assert told(resolver.resolve(wants(X))) == HERE
    # the silence of such an Archive means nothing
    assert told(resolver.resolve(wants(Y))) is AlertKind.UNKNOWN
    assert asked(archives) == [[X], [Y], []]
    # also if another Archive claims the item, but has it no more
    store_claims(resolver.database, {2: {X: ORIG}})
    archives[1].table[X] = "state Deleted"
    assert told(resolver.resolve(wants(X))) == HERE


# --- what it says about silence ------------------------------------------------------------------


def test_the_claim_of_a_removal_counts_if_its_archive_is_silent(run: Run) -> None:
    failure = http("", "500 No")
    resolver, archives = run({}, {X: failure, f"{X}!": failure})
    store_claims(resolver.database, {1: {}, 2: {X: GONE}})
    outcome = resolver.resolve(wants(X))
    assert isinstance(outcome, Alert)
    assert (outcome.kind, outcome.silent) == (AlertKind.REMOVED, 0)
    assert [source.address for source in outcome.sources] == [archives[1].address]
    # whether a later edition exists, only the Archive knows
    assert told(resolver.resolve(wants(f"{X}!"))) is AlertKind.SILENT


# --- the list in memory --------------------------------------------------------------------------


def test_changes_of_the_list_are_read_with_the_next_resolution(uri: str, hosts: Servers) -> None:
    archives = archives_of(hosts, {X: leads(HERE)}, {X: leads(THERE, "Copy")})
    with resolver_over(archives, uri) as resolver:
        store_claims(resolver.database, {1: {X: ORIG}, 2: {X: COPY}})
        registry = a_registry(resolver.database)
        assert told(resolver.resolve(wants(X))) == HERE
        one, other = archives
        leave = a_request(EXCLUSION_REQUEST, service_ibi=one.service, address=one.address)
        registry.process(leave)
        assert told(resolver.resolve(wants(X))) == THERE
        registry.remove(other.service)
        with statements_of(resolver.database) as statements:
            assert told(resolver.resolve(wants(X))) is AlertKind.UNKNOWN
        assert len(statements) == 3  # the list is read, and then the claims again
        include(registry, [one])
        assert told(resolver.resolve(wants(X))) == HERE
        with statements_of(resolver.database) as statements:
            assert told(resolver.resolve(wants(X))) == HERE
        assert len(statements) == 1


# --- what alerts tell ----------------------------------------------------------------------------

PAGE, PAIRS = {"Accept": "text/html"}, {"Accept": "text/plain"}


@pytest.fixture
def archives(hosts: Servers) -> list[TableArchive]:
    failure = http("", "500 No")
    table = {X: failure, f"{X}!": failure}
    return archives_of(hosts, table, table)


@pytest.fixture
def app(archives: list[TableArchive], tmp_path: Path) -> Iterator[Flask]:
    """A resolver with two silent Archives that claim the same Original."""
    with app_over(archives, tmp_path) as app:
        database = resolver_of(app).database
        store_claims(database, {1: {X: State.ORIGINAL}, 2: {X: State.ORIGINAL}})
        yield app


def test_a_silent_claimant_is_named(app: Flask, archives: list[TableArchive]) -> None:
    for headers in (PAGE, PAIRS):
        response = app.test_client().get(f"/{X}", headers=headers)
        assert response.status_code == 504
        for archive in archives:
            assert archive.service in response.text


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_suspicion_links_to_the_conflict(app: Flask, is_noted: bool) -> None:
    path = "/ibi/conflicts"  # the list, if the follower has not noted the conflict
    if is_noted:
        path += "/1"
        with resolver_of(app).database.writing() as connection:
            update_conflicts(connection, 1, [X], NOON)
    client = app.test_client()
    response = client.get(f"/{X}{ORIGINAL}", headers=PAGE)
    assert response.status_code == 409
    assert f'href="{path}"' in response.text
    assert client.get(path).status_code == 200
    response = client.get(f"/{X}{ORIGINAL}", headers=PAIRS)
    assert f"conflicts {path}" in response.text.splitlines()
