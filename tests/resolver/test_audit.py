"""The audit: answers that contradict the claims of their Archive (federation CL-11)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from support.archive_servers import Servers, http
from support.cases import for_each
from support.clocks import Clock
from support.registries import NOON
from support.resolving import TableArchive, X, archives_of, leads, resolver_over, wants
from support.smtp import post_office
from support.stored_claims import log_of, set_log, set_read, store_claims

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.pairs import parse_pairs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.audit import (
    HIDDEN,
    MAX_CONTRADICTIONS,
    UNKNOWN,
    Auditor,
    differs,
    read_state,
)
from flask_ibi_archive.resolver.claims.tables import CONTRADICTED, CURRENT, FORKED
from flask_ibi_archive.resolver.service import ResolverService

IBI = parse_identifier(X)
ORIG, COPY, GONE = State.ORIGINAL, State.COPY, State.DELETED
URL = "http://here.br/a.pdf"


@for_each(
    ("text", "held"),
    [
        ("", UNKNOWN),
        ("state Deleted", "Deleted"),
        (leads(URL), "Original"),
        (leads(URL, "Copy"), "Copy"),
        (f"ibi {{rep {X}}}", HIDDEN),
        ("state {a b}", HIDDEN),
    ],
)
def test_what_an_answer_says(text: str, held: str) -> None:
    assert read_state(parse_pairs(text)) == held


def test_which_answers_differ_from_a_claim() -> None:
    says = ("Original", "Copy", "Deleted", UNKNOWN, HIDDEN)
    agree = {
        (claimed, held)
        for claimed in (None, ORIG, COPY, GONE)
        for held in says
        if not differs(claimed, held)
    }
    assert agree == {
        (ORIG, "Original"),
        (COPY, "Copy"),
        (GONE, "Deleted"),
        (None, UNKNOWN),
        # shown to nobody
        (ORIG, HIDDEN),
        (COPY, HIDDEN),
        (None, HIDDEN),
    }


@pytest.fixture
def archives(hosts: Servers) -> list[TableArchive]:
    """Two Archives; only the first knows the item."""
    return archives_of(hosts, {X: leads(URL)}, {})


@pytest.fixture
def make(
    archives: list[TableArchive], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """Create a resolver and an auditor with a clock."""
    with ExitStack() as stack:

        def make(**config: Any) -> tuple[ResolverService, Auditor]:
            resolver = stack.enter_context(resolver_over(archives, **config))
            auditor = Auditor(
                resolver.database,
                resolver.archive_list,
                resolver.fan_out,
                resolver.circuit_breaker,
                resolver.config,
                Clock(NOON, step=1),
            )
            stack.callback(auditor.close)
            monkeypatch.setattr(auditor, "_run", lambda: None)  # the test runs the audit
            return resolver, auditor

        yield make


def audit(resolver: ResolverService, auditor: Auditor, reads: bool = True) -> None:
    """Audit the item, and audit it again after the logs were read."""
    auditor.consider(IBI, None)
    auditor.run_once()
    if reads:
        for archive_id in (1, 2):
            set_read(resolver.database, archive_id, NOON + timedelta(days=1))
    auditor.run_once()


CLAIMS = {
    "not claimed": ({}, {}, 1),
    "another state": ({X: COPY}, {}, 1),
    "removed": ({X: GONE}, {}, 1),
    "not known": ({X: ORIG}, {X: COPY}, 2),
}


@for_each("case", CLAIMS.values())
def test_a_contradiction_is_counted(case: Any, make: Callable[..., Any]) -> None:
    first, second, liar = case
    resolver, auditor = make(IBI_RESOLVER_AUDIT=1)
    store_claims(resolver.database, {1: first, 2: second})
    set_read(resolver.database, 1, NOON)
    set_read(resolver.database, 2, NOON)
    audit(resolver, auditor)
    counts = [log_of(resolver.database, number)[1] for number in (1, 2)]
    assert counts == [int(liar == 1), int(liar == 2)]


def test_right_claims_are_not_contradicted(make: Callable[..., Any]) -> None:
    resolver, auditor = make(IBI_RESOLVER_AUDIT=1)
    store_claims(resolver.database, {1: {X: ORIG}, 2: {}})
    audit(resolver, auditor)
    assert [log_of(resolver.database, number)[1] for number in (1, 2)] == [0, 0]


def test_a_change_that_was_not_read_yet_is_no_contradiction(
    make: Callable[..., Any], archives: list[TableArchive]
) -> None:
    resolver, auditor = make(IBI_RESOLVER_AUDIT=1)
    store_claims(resolver.database, {1: {X: COPY}, 2: {}})
    for archive_id in (1, 2):
        set_read(resolver.database, archive_id, NOON)
    audit(resolver, auditor, reads=False)
    assert len(archives[0].questions) == 1  # asked again only after the log was read
    archives[0].table[X] = leads(URL, "Copy")
    set_read(resolver.database, 1, NOON + timedelta(days=1))
    auditor.run_once()
    assert len(archives[0].questions) == 2
    assert log_of(resolver.database, 1) == (CURRENT, 0)


def test_an_archive_that_does_not_answer_contradicts_nothing(
    make: Callable[..., Any], archives: list[TableArchive]
) -> None:
    archives[0].table[X] = http("", "500 No")
    resolver, auditor = make(IBI_RESOLVER_AUDIT=1)
    store_claims(resolver.database, {1: {}, 2: {}})
    audit(resolver, auditor)
    assert log_of(resolver.database, 1) == (CURRENT, 0)


def test_after_three_contradictions_the_archive_is_always_asked(
    make: Callable[..., Any], archives: list[TableArchive], caplog: pytest.LogCaptureFixture
) -> None:
    with post_office() as post:
        resolver, auditor = make(
            IBI_RESOLVER_AUDIT=1,
            IBI_RESOLVER_EMAIL="operator@urlib.net",
            MAIL_SERVER="127.0.0.1",
            MAIL_PORT=post.address[1],
        )
        store_claims(resolver.database, {1: {}, 2: {}})
        set_read(resolver.database, 1, NOON)
        assert resolver.resolve(wants(X)).kind.value == "unknown"
        for _ in range(MAX_CONTRADICTIONS + 1):
            audit(resolver, auditor)
            set_read(resolver.database, 1, NOON)
    assert log_of(resolver.database, 1) == (CONTRADICTED, MAX_CONTRADICTIONS)
    assert resolver.resolve(wants(X)).url == URL
    said = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == MAX_CONTRADICTIONS
    sender, recipients, data = post.accepted.get_nowait()
    assert (sender, recipients) == ("operator@urlib.net", ["operator@urlib.net"])
    assert X.encode() in data.replace(b"=\r\n", b"")
    assert post.accepted.empty()  # one e-mail


def test_suspicions_of_logs_that_are_no_longer_read_are_forgotten(make: Callable[..., Any]) -> None:
    resolver, auditor = make(IBI_RESOLVER_AUDIT=1)
    store_claims(resolver.database, {1: {X: COPY}, 2: {}})
    set_read(resolver.database, 1, NOON)
    audit(resolver, auditor, reads=False)
    assert [one.archive_id for one in auditor._suspicions] == [1]
    set_log(resolver.database, 1, FORKED)
    auditor.run_once()
    assert auditor._suspicions == []


def test_chance_decides_what_is_audited(make: Callable[..., Any]) -> None:
    resolver, auditor = make(IBI_RESOLVER_AUDIT=0.5)
    store_claims(resolver.database, {1: {X: ORIG}, 2: {}})
    chances = iter([0.5, 0.9, 0.4, 0.0])
    auditor._chance = lambda: next(chances)
    for _ in range(4):
        auditor.consider(IBI, None)
    assert len(auditor._waiting) == 2
