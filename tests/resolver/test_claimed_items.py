"""Resolutions with claims: whom a resolver asks, and what it says if Archives are silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import insert, select
from support.archive_servers import Servers, http
from support.document_registries import Entry, Place, store
from support.loopback import PATIENCE
from support.registries import a_registry, a_request
from support.resolving import (
    ORIGINAL,
    Table,
    TableArchive,
    X,
    Y,
    archives_of,
    goes_on,
    include,
    leads,
    resolver_over,
    statements_of,
    wants,
)
from support.stored_claims import set_followed, set_log, store_claims

from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolver import resolving
from flask_ibi_archive.resolver.old_claims.tables import FORKED, SILENT, STALE, PrefixHolder
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.resolver.tables import Hint

HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"
ORIG, COPY, GONE = State.ORIGINAL, State.COPY, State.DELETED

Run = Callable[..., tuple[ResolverService, list[TableArchive]]]


@pytest.fixture(autouse=True)
def waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all periods be longer than a test on a slow machine."""
    monkeypatch.setattr(resolving, "HEAD_START", PATIENCE)
    monkeypatch.setattr(resolving, "GRACE", PATIENCE)


@pytest.fixture
def run(hosts: Servers) -> Iterator[Run]:
    """Create Archives that answer from tables, and a resolver that has included them."""
    with ExitStack() as stack:

        def make(*tables: Table, **config: Any) -> tuple[ResolverService, list[TableArchive]]:
            archives = archives_of(hosts, *tables)
            return stack.enter_context(resolver_over(archives, **config)), archives

        yield make


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


def test_an_unclaimed_identifier_is_unknown_without_a_question(run: Run) -> None:
    resolver, archives = run({}, {})
    store_claims(resolver.database, {1: {Y: ORIG}, 2: {}})
    outcome = resolver.resolve(wants(X))
    assert isinstance(outcome, Alert)
    assert (outcome.kind, outcome.silent, outcome.asked) == (AlertKind.UNKNOWN, 0, 0)
    set_log(resolver.database, 1, SILENT)  # truthful, even if an Archive is down
    assert told(resolver.resolve(wants(X))) is AlertKind.UNKNOWN
    assert asked(archives) == [[], []]


def test_an_archive_without_valid_claims_is_always_asked(run: Run) -> None:
    resolver, archives = run({}, {}, {})
    store_claims(resolver.database, {1: {}, 2: {}})
    for number, state in enumerate((FORKED, STALE), 1):
        set_log(resolver.database, 1, state)
        assert told(resolver.resolve(wants(X))) is AlertKind.UNKNOWN
        assert [len(questions) for questions in asked(archives)] == [number, 0, number]


def test_hidden_items_are_found_although_others_have_a_tombstone(run: Run) -> None:
    resolver, archives = run({X: "state Deleted"}, {X: leads(HERE)}, {})
    store_claims(resolver.database, {1: {X: GONE}, 2: {}, 3: {}}, {"a.br/x": 2})
    assert told(resolver.resolve(wants(X))) == HERE
    assert told(resolver.resolve(wants(f"{X}{ORIGINAL}"))) == HERE
    assert asked(archives)[1:] == [[X, X], []]


def test_an_old_claim_does_not_hide_a_registered_document(run: Run) -> None:
    resolver, _ = run({}, {}, IBI_RESOLVER_REGISTRY=True, SERVER_NAME="urlib.net")
    store(resolver.database, {X: Entry([Place(1, THERE)])})
    store_claims(resolver.database, {1: {X: ORIG}, 2: {}})
    set_log(resolver.database, 1, STALE)
    assert told(resolver.resolve(wants(X))) == THERE


def test_if_nobody_reads_the_logs_all_archives_are_asked(run: Run) -> None:
    resolver, archives = run({}, {}, IBI_RESOLVER_CLAIMS_MAX_AGE=60)
    store_claims(resolver.database, {1: {}, 2: {}})
    now = datetime.now(timezone.utc)
    for moment in (None, now - timedelta(seconds=100), now):
        set_followed(resolver.database, moment)
        assert told(resolver.resolve(wants(X))) is AlertKind.UNKNOWN
    assert asked(archives) == [[X, X], [X, X]]


def test_other_claimants_are_asked_if_the_first_has_no_url(run: Run) -> None:
    resolver, archives = run(
        {X: "state Deleted"}, {X: f"ibi {{rep {X}}}"}, {X: leads(HERE, "Copy")}
    )
    store_claims(resolver.database, {1: {X: GONE}, 2: {X: ORIG}, 3: {X: COPY}})
    assert told(resolver.resolve(wants(X))) == HERE
    assert asked(archives)[1:] == [[X], [X]]  # the request to the first may be still on its way


def test_another_claimant_is_asked_if_the_first_is_slow(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "HEAD_START", 0.01)
    resolver, archives = run({X: None}, {X: leads(HERE, "Copy")}, {})
    store_claims(resolver.database, {1: {X: ORIG}, 2: {X: COPY}, 3: {}})
    assert told(resolver.resolve(wants(X))) == HERE
    archives[0].server.wait()
    assert asked(archives) == [[X], [X], []]


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


def test_the_archive_with_the_prefix_is_asked_for_what_nobody_claims_yet(run: Run) -> None:
    resolver, archives = run({X: leads(HERE)}, {Y: http("", "500 No")}, {})
    store_claims(resolver.database, {1: {}, 2: {}, 3: {}}, {"a.br/x": 1, "a.br/y": 2})
    assert told(resolver.resolve(wants(X))) == HERE
    # the silence of such an Archive means nothing
    assert told(resolver.resolve(wants(Y))) is AlertKind.UNKNOWN
    assert asked(archives) == [[X], [Y], []]


def test_prefixes_are_learned_from_answers_and_hints_only_without_claims(run: Run) -> None:
    resolver, _ = run({X: leads(HERE)}, {Y: leads(THERE)})
    store_claims(resolver.database, {1: {X: ORIG}})
    for ibi in (X, Y):
        resolver.resolve(wants(ibi))
    prefixes = select(PrefixHolder.prefix, PrefixHolder.archive_id).order_by(PrefixHolder.prefix)
    assert list(map(tuple, resolver.database.read_rows(prefixes))) == [("a.br/x", 1), ("a.br/y", 2)]
    assert list(map(tuple, resolver.database.read_rows(select(Hint.ibi, Hint.archive_id)))) == [
        (Y, 2)
    ]


def test_a_hidden_original_that_is_not_claimed_is_found_if_the_copy_has_no_url(run: Run) -> None:
    resolver, archives = run({X: leads(HERE)}, {X: leads(THERE, "Copy")}, {})
    store_claims(resolver.database, {1: {}, 2: {X: COPY}, 3: {}})
    with resolver.database.writing() as connection:  # Archive 1 claims other Originals
        row = {"prefix": "a.br/x", "archive_id": 1, "seen_at": datetime.now(timezone.utc)}
        connection.execute(insert(PrefixHolder).values(row))
    assert told(resolver.resolve(wants(X))) == THERE
    assert asked(archives) == [[], [X], []]
    archives[1].table[X] = f"ibi {{rep {X}}} state Copy"
    assert told(resolver.resolve(wants(X))) == HERE
    set_log(resolver.database, 2, SILENT)
    archives[1].table[X] = http("", "500 No")
    assert told(resolver.resolve(wants(X))) == HERE
    assert asked(archives)[2] == []


# --- what it says about silence ------------------------------------------------------------------


def test_a_silent_claimant_is_asked_and_named(run: Run) -> None:
    failure = http("", "500 No")
    resolver, archives = run({}, {X: failure, f"{X}!": failure})
    store_claims(resolver.database, {1: {}, 2: {X: ORIG}})
    set_log(resolver.database, 2, SILENT)
    for text in (X, f"{X}{ORIGINAL}", f"{X}!"):
        outcome = resolver.resolve(wants(text))
        assert isinstance(outcome, Alert)
        assert (outcome.kind, outcome.silent, outcome.asked) == (AlertKind.SILENT, 1, 1)
        assert [source.address for source in outcome.claimants] == [archives[1].address]
        assert f"{archives[1].service} at {archives[1].address} has {X}" in outcome.summary
    assert asked(archives) == [[], [X, X, f"{X}!"]]


def test_a_silent_claimant_may_answer_again(run: Run) -> None:
    resolver, _ = run({X: "not here"}, {X: leads(HERE)})
    store_claims(resolver.database, {1: {}, 2: {X: ORIG}})
    set_log(resolver.database, 2, SILENT)
    assert told(resolver.resolve(wants(X))) == HERE
    assert told(resolver.resolve(wants(f"{X}{ORIGINAL}"))) == HERE


def test_a_claimant_that_fails_is_named(run: Run) -> None:
    resolver, archives = run({X: http("", "500 No")}, {})
    store_claims(resolver.database, {1: {X: ORIG}, 2: {}})
    outcome = resolver.resolve(wants(X))
    assert isinstance(outcome, Alert)
    assert outcome.kind is AlertKind.SILENT
    assert [source.address for source in outcome.claimants] == [archives[0].address]


def test_the_claim_of_a_removal_counts_if_its_archive_is_silent(run: Run) -> None:
    failure = http("", "500 No")
    resolver, archives = run({}, {X: failure, f"{X}!": failure})
    store_claims(resolver.database, {1: {}, 2: {X: GONE}})
    for state in (None, SILENT):
        if state is not None:
            set_log(resolver.database, 2, state)
        outcome = resolver.resolve(wants(X))
        assert isinstance(outcome, Alert)
        assert (outcome.kind, outcome.silent) == (AlertKind.REMOVED, 0)
        assert [source.address for source in outcome.sources] == [archives[1].address]
    # whether a later edition exists, only the Archive knows
    assert told(resolver.resolve(wants(f"{X}!"))) is AlertKind.SILENT


def test_a_translation_whose_archive_is_silent_is_not_replaced(run: Run) -> None:
    offered = leads(HERE, relation=".translation(en)") + f"\r\nibi.translation(pt) {{rep {Y}}}"
    verbs = f"{X}?ibiurl.verblist=GetTranslation&ibiurl.requireditemstatus=Original"
    resolver, archives = run({f"{X}+": offered}, {})
    store_claims(resolver.database, {1: {X: ORIG}, 2: {Y: ORIG}})
    for answer, expected in (
        (http("", "500 No"), AlertKind.SILENT),
        (leads(THERE), THERE),
        ("", HERE),
    ):
        archives[1].table[Y] = answer
        for text in (f"{X}+", verbs):
            outcome = resolver.resolve(wants(text, "pt, en"))
            assert told(outcome) == expected
            if isinstance(outcome, Alert):
                assert [source.address for source in outcome.claimants] == [archives[1].address]


# --- required Originals --------------------------------------------------------------------------


@pytest.mark.parametrize("rival", ["answers", "fails", "is silent", "is hanging"])
def test_the_claim_of_a_rival_counts_without_its_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    if rival == "is hanging":
        monkeypatch.setattr(resolving, "GRACE", 0.05)
    answers: dict[str, str | bytes | None] = {
        "answers": leads(THERE),
        "fails": http("", "500 No"),
        "is hanging": None,
    }
    resolver, archives = run({X: leads(HERE)}, {X: answers.get(rival)}, {})
    store_claims(resolver.database, {1: {X: ORIG}, 2: {X: ORIG}, 3: {X: COPY}})
    if rival == "is silent":
        set_log(resolver.database, 2, SILENT)
    outcome = resolver.resolve(wants(f"{X}{ORIGINAL}"))
    for archive in archives[:1] if rival == "is silent" else archives[:2]:
        archive.server.wait()
    assert isinstance(outcome, Alert)
    assert (outcome.kind, outcome.is_conflict) == (AlertKind.SUSPECTS, True)
    assert {one.address for one in outcome.sources} == {one.address for one in archives[:2]}
    assert asked(archives) == [[X], [] if rival == "is silent" else [X], []]
    # a reader who does not require the Original is served
    assert told(resolver.resolve(wants(X))) == HERE


def test_two_claims_without_an_answer_are_a_suspicion(run: Run) -> None:
    resolver, _ = run({}, {})
    store_claims(resolver.database, {1: {X: ORIG}, 2: {X: ORIG}})
    for number in (1, 2):
        set_log(resolver.database, number, SILENT)
    assert told(resolver.resolve(wants(f"{X}{ORIGINAL}"))) is AlertKind.SUSPECTS


def test_a_suspicion_of_an_archive_without_claims_is_no_recorded_conflict(run: Run) -> None:
    resolver, archives = run({X: leads(HERE)}, {X: leads(THERE)})
    store_claims(resolver.database, {1: {X: ORIG}})
    outcome = resolver.resolve(wants(f"{X}{ORIGINAL}"))
    assert isinstance(outcome, Alert)
    assert (outcome.kind, outcome.is_conflict) == (AlertKind.SUSPECTS, False)
    assert asked(archives) == [[X], [X]]


def test_copies_are_asked_if_nobody_has_the_original(run: Run) -> None:
    known = f"ibi {{rep {X}}}"
    resolver, archives = run({X: known}, {X: leads(HERE, "Copy")}, {})
    store_claims(resolver.database, {1: {X: ORIG}, 2: {X: COPY}, 3: {}})
    assert told(resolver.resolve(wants(f"{X}{ORIGINAL}"))) is AlertKind.MISSING
    assert archives[1].questions[0] == X
    assert archives[2].questions == []


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
