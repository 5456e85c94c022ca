"""The audit: answers that contradict the claims of their Archive (federation CL-11)."""

from __future__ import annotations

import pytest
from support.archive_servers import Servers, http
from support.cases import for_each
from support.loopback import PATIENCE
from support.resolving import TableArchive, X, archives_of, leads, resolver_over, url_of, wants
from support.stored_claims import log_of, store_claims

from flask_ibi_archive.core.protocol.pairs import parse_pairs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver import audit
from flask_ibi_archive.resolver.audit import MAX_CONTRADICTIONS, contradicts
from flask_ibi_archive.resolver.old_claims.tables import CONTRADICTED, CURRENT

ORIG, COPY = State.ORIGINAL, State.COPY
HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"
SINCE, LATER = "2026-11-26T22:00:00Z", "2026-11-26T22:00:01Z"
CHANGED = f"\r\ntimestamp {LATER}"


@for_each(
    ("text", "contradicted"),
    [
        ("", {ORIG, COPY}),
        (leads(HERE), {None, COPY}),
        ("state Deleted", {None, ORIG, COPY}),
        (leads(HERE) + CHANGED, set()),  # the change was perhaps not read yet
        (f"ibi {{rep {X}}}", set()),  # shown to nobody
    ],
)
def test_which_answers_contradict_a_claim(text: str, contradicted: set[State | None]) -> None:
    pairs = parse_pairs(text)
    assert {one for one in (None, ORIG, COPY) if contradicts(one, pairs, SINCE)} == contradicted


@pytest.fixture
def archives(hosts: Servers, monkeypatch: pytest.MonkeyPatch) -> list[TableArchive]:
    """Three Archives; two know the item; each resolution is audited."""
    monkeypatch.setattr(audit, "SHARE", 1.0)
    monkeypatch.setattr(audit, "WAIT", PATIENCE)
    return archives_of(hosts, {X: leads(HERE)}, {X: leads(THERE, "Copy")}, {})


def test_all_archives_are_asked_and_the_reader_gets_the_same_outcome(
    archives: list[TableArchive],
) -> None:
    archives[2].table[X] = http("", "500 No")
    with resolver_over(archives) as resolver:
        store_claims(resolver.database, {1: {X: ORIG}, 2: {}, 3: {X: COPY}})
        assert url_of(resolver.resolve(wants(X))) == HERE
        assert [one.questions for one in archives] == [[X, X], [X], [X]]
        assert audit.NOBODY in archives[1].asked[0]
        logs = [log_of(resolver.database, number) for number in (1, 2, 3)]
        assert logs == [(CURRENT, 0), (CURRENT, 1), (CURRENT, 0)]


def test_after_three_contradictions_the_archive_is_always_asked(
    archives: list[TableArchive], caplog: pytest.LogCaptureFixture
) -> None:
    with resolver_over(archives[:1]) as resolver:
        store_claims(resolver.database, {1: {}})
        for _ in range(MAX_CONTRADICTIONS):
            assert resolver.resolve(wants(X)).kind.value == "unknown"
        assert log_of(resolver.database, 1) == (CONTRADICTED, MAX_CONTRADICTIONS)
        assert caplog.text.count("contradicts its claims") == MAX_CONTRADICTIONS
        assert url_of(resolver.resolve(wants(X))) == HERE
