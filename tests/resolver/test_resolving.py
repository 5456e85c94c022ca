"""The resolution of persistent URLs with servers: rounds, hints, failures, acknowledgments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.archive_servers import Servers, http
from support.loopback import PATIENCE
from support.registries import a_registry, a_request
from support.resolving import (
    Run,
    TableArchive,
    X,
    Z,
    archives_of,
    include,
    leads,
    resolver_over,
    wants,
)
from support.statements import statements_of

from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, MissingPart, Redirect
from flask_ibi_archive.core.resolution.persistent_url import format_persistent_target
from flask_ibi_archive.resolver import asking, resolving
from flask_ibi_archive.resolver.resolving import (
    Asked,
    ResolverService,
    TraceEvent,
)

HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"


def led_to(resolver: ResolverService, text: str, language: str | None = None) -> str:
    """Return the URL that a persistent URL is redirected to."""
    outcome = resolver.resolve(wants(text, language))
    assert isinstance(outcome, Redirect), outcome
    return outcome.url


def alerted(resolver: ResolverService, text: str) -> Alert:
    """Return the alert for a persistent URL."""
    outcome = resolver.resolve(wants(text))
    assert isinstance(outcome, Alert), outcome
    return outcome


def traced(
    resolver: ResolverService, text: str, **options: Any
) -> tuple[Redirect | Alert, list[TraceEvent]]:
    """Return the outcome for a persistent URL and its trace events."""
    events: list[TraceEvent] = []
    return resolver.resolve(wants(text), events.append, **options), events


def of_kind(events: list[TraceEvent], kind: type[Any]) -> list[Any]:
    """Return the events of a kind."""
    return [event for event in events if isinstance(event, kind)]


# --- rounds --------------------------------------------------------------------------------------


# --- where items were found -----------------------------------------------------------------------


def asked_first(resolver: ResolverService, ibi: str) -> list[bool]:
    """Return for each question that is sent about an item whether others wait for its answer."""
    return [event.is_first for event in of_kind(traced(resolver, ibi)[1], Asked)]


@pytest.mark.rule("R3-02", "R62-05")
def test_the_archive_that_gave_an_item_with_the_prefix_is_asked_first_and_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "HEAD_START", PATIENCE)
    other = X.replace("2001", "2002")
    resolver, [one, two] = run({other: ""}, {X: leads(HERE), other: leads(THERE)})
    assert led_to(resolver, X.upper()) == HERE
    assert asked_first(resolver, other) == [False, False]  # not written yet
    resolver.metrics.flush()
    assert asked_first(resolver, other) == [True]
    # an excluded Archive is not asked
    registry = a_registry(resolver.database)
    registry.process(a_request(EXCLUSION_REQUEST, service_ibi=two.service, address=two.address))
    assert alerted(resolver, X).kind is AlertKind.UNKNOWN
    assert (len(one.questions), len(two.questions)) == (3, 3)
    include(registry, [two])
    assert led_to(resolver, X) == HERE


# --- Archives that fail --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "is_skipped"),
    [("400 Bad", False), ("404 Not Found", False), ("408 Late", True), ("429 Too Many", True)],
)
def test_an_archive_that_is_overloaded_is_skipped_but_not_one_that_refuses_a_question(
    run: Run, status: str, is_skipped: bool
) -> None:
    resolver, [archive] = run({X: http("", status)})
    for _ in range(asking.MAX_FAILURES + 1):
        assert alerted(resolver, X).silent == 1
    assert len(archive.questions) == asking.MAX_FAILURES + (not is_skipped)


# --- acknowledgments -----------------------------------------------------------------------------


def test_an_acknowledgment_is_shortened_to_the_maximum_length(run: Run) -> None:
    resolver, [archive] = run({X: leads(HERE)})
    asked = wants(f"{X}?{'q' * 8000}")
    assert isinstance(resolver.resolve(asked), Redirect)
    assert len(asked.persistent_url) > 8000
    assert archive.was_thanked().persistent_url == asked.persistent_url.partition("?")[0]


def test_an_answer_without_a_url_key_is_not_acknowledged(run: Run) -> None:
    resolver, [archive] = run({X: leads(HERE, key="")})
    assert led_to(resolver, X) == HERE
    resolver.close()
    assert archive.thanks.empty()


def test_a_redirect_to_the_same_url_is_not_acknowledged(run: Run) -> None:
    resolver, [archive] = run({X: leads(f"http://URLib.net/{X}?x")})
    assert alerted(resolver, X).kind is AlertKind.LOOP
    resolver.close(PATIENCE)
    assert archive.thanks.empty()


def test_an_acknowledgment_goes_to_the_registered_address(run: Run, hosts: Servers) -> None:
    trap = hosts.add(lambda target, head: http(""))
    claims = f"\r\narchiveaddress {trap.address}\r\nibi.archiveservice {{rep {Z}}}"
    resolver, [archive] = run({X: leads(HERE) + claims})
    assert led_to(resolver, X) == HERE
    archive.was_thanked()
    assert trap.accepted == 0


# --- the database --------------------------------------------------------------------------------


@pytest.mark.postgresql
def test_a_resolution_reads_once_and_writes_later(uri: str, hosts: Servers) -> None:
    archives = archives_of(hosts, {X: leads(HERE)})
    with resolver_over(archives, uri) as resolver:
        assert led_to(resolver, X) == HERE
        with statements_of(resolver.database) as told:
            assert led_to(resolver, X) == HERE
        assert [statement.split()[0] for statement in told] == ["SELECT"]


def test_no_database_connection_is_held_while_archives_are_asked(
    hosts: Servers, tmp_path: Path
) -> None:
    in_use: list[int] = []

    class Watching(TableArchive):
        def __call__(self, target: str, head: str) -> bytes | None:
            pools: list[Any] = [resolver.database.engine.pool, resolver.database.reader.pool]
            in_use.append(sum(pool.checkedout() for pool in pools))
            return super().__call__(target, head)

    archives = [Watching(hosts, 1, {X: leads(HERE)})]
    with resolver_over(archives, f"sqlite:///{tmp_path / 'resolver.sqlite'}") as resolver:
        assert led_to(resolver, X) == HERE
    assert in_use[0] == 0


@pytest.mark.slow
def test_metrics_are_written_when_the_process_ends(hosts: Servers, tmp_path: Path) -> None:
    archives = archives_of(hosts, {X: leads(HERE)})
    uri = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
    with resolver_over(archives, uri) as resolver:
        done = subprocess.run(
            [sys.executable, "-c", ENDS, uri, X], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, HERE, "")
        assert archives[0].was_thanked().url == HERE
        [one] = resolver.registry.list()
        assert one.answers == 1


ENDS = """
import sys
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.core.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.core.resolution.persistent_url import ResolutionRequest
from flask_ibi_archive.resolver.resolving import ResolverService
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
resolver = ResolverService(
    ResolverConfig.from_mapping({"IBI_INNER_HOSTS": "127.0.0.1"}, "/nowhere"),
    Database(sys.argv[1], RESOLVER),
)
request = ResolutionRequest(read_persistent_url(sys.argv[2]), "http://urlib.net:80/", ("::1",))
print(resolver.resolve(request).url, end="")
"""


def test_alternatives_are_asked_of_archives_that_know_the_item(run: Run) -> None:
    table = {f"{X}+(fr)": f"ibi {{rep {X}}}", f"{X}+": f"url.translation(en) {HERE}", f"{X}:": ""}
    resolver, archives = run(table, {})
    alert = alerted(resolver, f"{X}+(fr)")
    assert (alert.kind, alert.missing_part) == (AlertKind.MISSING, MissingPart.TRANSLATION)
    assert [format_persistent_target(url) for url in alert.alternatives] == [f"/{X}+(en)"]
    assert archives[0].questions[0] == f"{X}+(fr)"
    assert {f"{X}+", f"{X}:", f"{X}:(oai_dc)"} < set(archives[0].questions[1:])
    assert archives[1].questions == [f"{X}+(fr)"]
